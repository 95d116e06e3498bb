/*
 * Where a recording has the wait for other devices, by commands that are noted:
 * kernels by their digits, with r if they wait themselves and s if they signal,
 * W the wait, S signals, b a barrier between kernels, B one behind all.
 */
#include "host.h"
#include "../../plugins/vulkan/commands.h"
#include "../../plugins/vulkan/device_wait.h"
#include "../../plugins/vulkan/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SIZE 256 /* of a tensor; they lie one behind the other */
#define TENSORS 5
#define FETCHED 1 /* the tensor that comes with the wait */
#define SENT 3    /* the one that a kernel may send, of so many bytes */
#define SENT_BYTES 64
#define WORD 5

static bool gives;        /* waits and signals, to kernels that take them */
static uint64_t written;  /* where the latest kernel writes */
static uint64_t bound_at; /* where the first tensor lies (test_part) */

static char noted[64];

static void note(char c)
{
    const size_t n = strlen(noted);
    assert_true(n + 1 < sizeof noted);
    noted[n] = c;
}

/* ------------------------------------------------------------------------ */
/* The rest of the plugin                                                    */

bool vk_device_wait_writes(const clv_submit *submit, VkBuffer buffer,
                           uint64_t begin, uint64_t end)
{
    (void)submit, (void)buffer;
    return begin < (FETCHED + 1) * SIZE && FETCHED * SIZE < end;
}

void vk_device_wait_record(clv_plugin_device *dev, VkCommandBuffer cb,
                           const clv_submit *submit)
{
    (void)dev, (void)cb, (void)submit;
    note('W');
}

bool vk_device_wait_give(clv_plugin_device *dev, const clv_submit *submit,
                         uint64_t values[GPU_EXCHANGE_VALUES])
{
    (void)dev, (void)submit;
    values[GPU_RECEIVE_WORD] = WORD;
    return gives;
}

bool vk_device_signal_give(clv_plugin_device *dev, const clv_submit *submit,
                           uint32_t signals, uint64_t from, uint64_t bytes,
                           uint64_t values[GPU_EXCHANGE_VALUES])
{
    (void)dev, (void)submit, (void)signals;
    assert_int_equal(from, SENT * SIZE);
    assert_int_equal(bytes, SENT_BYTES);
    values[GPU_SEND_WORD] = 2 * WORD;
    return gives;
}

void vk_device_signal_record(clv_plugin_device *dev, VkCommandBuffer cb,
                             const clv_submit *submit, uint32_t signals)
{
    (void)dev, (void)cb, (void)submit, (void)signals;
    note('S');
}

void vk_module_launch(const clv_plugin_device *dev, VkCommandBuffer cb,
                      const vk_module *module, const vk_launch *launch)
{
    (void)dev, (void)cb, (void)module;
    note((char)('0' + launch->params[0]));
    written = launch->args[1];
    if (launch->params[1] == WORD)
        note('r');
    if (launch->params[2] == 2 * WORD)
        note('s');
}

void vk_record_kernel_barrier(clv_plugin_device *dev, VkCommandBuffer cb)
{
    (void)dev, (void)cb;
    note('b');
}

void vk_record_barrier(clv_plugin_device *dev, VkCommandBuffer cb)
{
    (void)dev, (void)cb;
    note('B');
}

VkResult vk_make_commands(clv_plugin_device *dev, VkCommandPool *pool,
                          VkCommandBuffer *cb)
{
    (void)dev, (void)pool, (void)cb;
    return VK_SUCCESS;
}

void vk_private_begin(clv_plugin_device *dev, VkCommandBuffer cb,
                      const vk_private *p)
{
    (void)dev, (void)cb, (void)p;
}

/* Tensor i lies SIZE bytes behind the one before. */
void vk_program_places(const clv_command *command, vk_place *places)
{
    for (uint32_t t = 0; t < command->program->base.n_tensors; t++)
        places[t] = (vk_place){.begin = bound_at + t * SIZE,
                               .end = bound_at + (t + 1) * SIZE,
                               .limit = 1 << 20};
}

VkResult vk_await(clv_plugin_device *dev, VkSemaphore semaphore, uint64_t value,
                  uint64_t limit_ns)
{
    (void)dev, (void)semaphore, (void)value, (void)limit_ns;
    return VK_SUCCESS;
}

VkResult vk_run_once(clv_plugin_device *dev, VkCommandBuffer cb)
{
    (void)dev, (void)cb;
    return VK_SUCCESS;
}

clv_status vk_fail(clv_plugin_device *dev, VkResult result, const char *call)
{
    (void)dev, (void)result, (void)call;
    return CLV_ERR_INTERNAL;
}

clv_status vk_explain(clv_plugin_device *dev, VkResult result, const char *call,
                      char message[CLV_MESSAGE_SIZE])
{
    (void)message;
    return vk_fail(dev, result, call);
}

VkDescriptorType vk_descriptor_type(uint32_t storage, bool is_written)
{
    (void)storage, (void)is_written;
    return VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
}

/* ------------------------------------------------------------------------ */
/* The driver, the host                                                      */

static VkResult reset(VkDevice device, VkCommandPool pool,
                      VkCommandPoolResetFlags flags)
{
    (void)device, (void)pool, (void)flags;
    return VK_SUCCESS;
}

static VkResult begin(VkCommandBuffer cb, const VkCommandBufferBeginInfo *info)
{
    (void)cb, (void)info;
    return VK_SUCCESS;
}

static VkResult end(VkCommandBuffer cb)
{
    (void)cb;
    return VK_SUCCESS;
}

static void destroy_pool(VkDevice device, VkCommandPool pool,
                         const VkAllocationCallbacks *callbacks)
{
    (void)device, (void)pool, (void)callbacks;
}

static void destroy_descriptors(VkDevice device, VkDescriptorPool pool,
                                const VkAllocationCallbacks *callbacks)
{
    (void)device, (void)pool, (void)callbacks;
}

static const clv_host_api host = {.alloc = host_alloc, .free = host_free};

/* ------------------------------------------------------------------------ */

/* What the recording of kernels is that read the one tensor and write the
 * other; with a wait, and signals. */
static const char *record_with(const uint32_t (*kernels)[2], uint32_t n,
                               bool waits, uint32_t signals)
{
    static clv_plugin_device dev;
    static vk_kernel kernel = {.n_args = 2, .n_ints = 5};
    static const clv_submit submit;
    static gpu_code code;
    vk_kernel *all = &kernel;
    vk_place places[TENSORS] = {{.begin = 0}};
    gpu_arg args[4][2];
    gpu_dispatch dispatches[4] = {{.args = NULL}};
    clv_plugin_program prog = {
        .dev = &dev, .code = &code, .kernels = &all, .base.n_tensors = TENSORS};
    vk_recording rec = {.joined = {&submit, waits, signals}};
    const gpu_expr one = {.constant = 1, .divisor = 1};
    dev.base.host = &host;
    dev.imports = true;
    dev.api.ResetCommandPool = reset;
    dev.api.BeginCommandBuffer = begin;
    dev.api.EndCommandBuffer = end;
    dev.api.DestroyCommandPool = destroy_pool;
    dev.api.DestroyDescriptorPool = destroy_descriptors;
    for (uint32_t t = 0; t < TENSORS; t++)
        places[t] = (vk_place){.buffer = (VkBuffer)&dev,
                               .begin = t * SIZE,
                               .end = (t + 1) * SIZE,
                               .limit = TENSORS * SIZE};
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t a = 0; a < 2; a++)
            args[i][a] = (gpu_arg){.memory = GPU_MEMORY_TENSOR,
                                   .index = kernels[i][a],
                                   .written = a};
        dispatches[i] =
            (gpu_dispatch){.args = args[i],
                           .params = {{.constant = i, .divisor = 1},
                                      {.given = 2 * GPU_RECEIVE_WORD + 2},
                                      {.given = 2 * GPU_SEND_WORD + 2}},
                           .groups = {one, one, one},
                           .exchanges = true,
                           .sent = kernels[i][1] == SENT ? 2 : 0,
                           .sent_bytes = SENT_BYTES};
    }
    memset(noted, 0, sizeof noted);
    assert_int_equal(vk_recording_init(&prog, &rec, dispatches, n), VK_SUCCESS);
    vk_recording_write(&prog, &rec, dispatches, n, places);
    assert_int_equal(vk_recording_record(&prog, &rec, dispatches, n, NULL),
                     VK_SUCCESS);
    vk_recording_finish(&prog, &rec);
    return noted;
}

static const char *record(const uint32_t (*kernels)[2], uint32_t n, bool waits)
{
    return record_with(kernels, n, waits, 0);
}

static void test_wait(void **state)
{
    static const uint32_t plain[][2] = {{0, 2}, {FETCHED, 3}};
    static const uint32_t chain[][2] = {{0, 2}, {2, 3}, {FETCHED, 4}};
    static const uint32_t written[][2] = {{0, FETCHED}};
    static const uint32_t others[][2] = {{0, 2}, {0, 3}};
    (void)state;
    /* Beside the wait is what does not need it. */
    assert_string_equal(record(plain, 2, true), "W0b1B");
    assert_string_equal(record(plain, 2, false), "01B");
    /* Nothing else that would have the others wait. */
    assert_string_equal(record(chain, 3, true), "W0b12B");
    assert_string_equal(record(written, 1, true), "Wb0B");
    /* What comes with the wait is there in the end. */
    assert_string_equal(record(others, 2, true), "W01B");
    assert_string_equal(record(others, 0, true), "WB");
}

static void test_signal(void **state)
{
    static const uint32_t plain[][2] = {{0, 2}, {FETCHED, 3}};
    (void)state;
    assert_string_equal(record_with(plain, 2, false, 1), "01bSB");
    assert_string_equal(record_with(plain, 2, true, 2), "W0b1bSB");
}

/* Kernels that can do so wait and signal themselves. What comes with the wait
 * is there once they have ended. */
static void test_exchange(void **state)
{
    static const uint32_t plain[][2] = {{0, 2}, {FETCHED, SENT}};
    static const uint32_t both[][2] = {{0, 2}, {FETCHED, 4}, {FETCHED, SENT}};
    static const uint32_t chain[][2] = {{0, 2}, {2, SENT}};
    (void)state;
    gives = true;
    assert_string_equal(record_with(plain, 2, true, 1), "01rsB");
    assert_string_equal(record_with(plain, 2, true, 0), "01rB");
    assert_string_equal(record_with(plain, 2, false, 1), "01sB");
    assert_string_equal(record_with(both, 3, true, 1), "01rb2sB");
    assert_string_equal(record_with(chain, 2, true, 1), "0b1rsB");
    assert_string_equal(record_with(plain, 1, true, 1), "W0bSB");
    gives = false;
    assert_string_equal(record_with(plain, 2, true, 1), "W0b1bSB");
}

/* A run as a part of another command buffer, whose tensors may lie elsewhere
 * each time. */
static void test_part(void **state)
{
    static vk_kernel kernel = {.n_args = 2, .n_ints = 2};
    static clv_plugin_device device;
    vk_kernel *kernels = &kernel;
    gpu_arg args[2] = {{.memory = GPU_MEMORY_TENSOR},
                       {.memory = GPU_MEMORY_TENSOR, .index = 1}};
    gpu_dispatch dispatch = {.args = args,
                             .groups = {{.constant = 1, .divisor = 1},
                                        {.constant = 1, .divisor = 1},
                                        {.constant = 1, .divisor = 1}}};
    gpu_code code = {.dispatches = &dispatch, .n_dispatches = 1};
    vk_place places[2];
    clv_plugin_program prog = {.dev = &device,
                               .code = &code,
                               .kernels = &kernels,
                               .places = places,
                               .base.n_tensors = 2};
    const clv_binding bindings[2] = {{.tensor = 0}, {.tensor = 1}};
    const clv_command run = {
        .program = &prog, .bindings = bindings, .n_bindings = 2};
    const clv_submit submit = {.n_commands = 0};
    const vk_joined joined = {&submit, false, 1};
    char message[CLV_MESSAGE_SIZE];
    (void)state;
    device.base.host = &host;
    device.imports = true;
    device.api.DestroyCommandPool = destroy_pool;
    device.api.DestroyDescriptorPool = destroy_descriptors;
    for (uint64_t i = 0; i < 3; i++) {
        memset(noted, 0, sizeof noted);
        bound_at = (i + 1) / 2 * 4096; /* 0, 4096, 4096 */
        assert_int_equal(vk_program_record(&run, joined, NULL, message),
                         CLV_OK);
        assert_string_equal(noted, "0bSB");
        assert_int_equal(written, bound_at + SIZE);
    }
    vk_recording_finish(&prog, &prog.part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wait), cmocka_unit_test(test_signal),
        cmocka_unit_test(test_exchange), cmocka_unit_test(test_part)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
