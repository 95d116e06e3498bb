/* Virtual tensors: their memory, and how devices come to hold it. */
#include "../plugins/ref/context.h"

#include "../../core/plan/plan.h"
#include "../../core/graph/tensor.h"
#include "../../tools/views/views.h"

#include <sys/mman.h>
#include <unistd.h>

static void count_release(void *ctx)
{
    ++*(int *)ctx;
}

static void test_created_memory(void **state)
{
    (void)state;
    test_context t = test_context_create("");
    const int64_t sizes[] = {1, 1000, 5 << 20};
    for (int i = 0; i < 3; i++) {
        clv_tensor *x;
        assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_I8, 1, &sizes[i], &x));
        const uint8_t *data = clv_tensor_data(x);
        assert_int_equal((uintptr_t)data % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
        assert_int_equal(clv_tensor_size(x), sizes[i]);
        assert_int_equal(clv_tensor_rank(x), 1);
        assert_int_equal(clv_tensor_dims(x)[0], sizes[i]);
        assert_int_equal(clv_tensor_dtype(x), CLV_DTYPE_I8);
        for (int64_t j = 0; j < sizes[i]; j++)
            assert_int_equal(data[j], 0);
        clv_tensor_destroy(x);
    }
    clv_tensor_destroy(NULL);
    test_context_destroy(&t);
}

static void test_bad_tensors(void **state)
{
    (void)state;
    test_context t = test_context_create("");
    clv_tensor *x = (void *)&t;
    char data[8];
    int64_t two = 2, three = 3, huge = INT64_MAX / 8, zero = 0;
    int released = 0;
#define WRAP(dims, size, access)                                               \
    clv_tensor_wrap(t.ctx, CLV_DTYPE_F32, 1, dims, data, size, access,         \
                    count_release, &released, &x)
    assert_int_equal(clv_tensor_create(t.ctx, CLV_DTYPE_F32, 1, &zero, &x),
                     CLV_ERR_INVALID);
    assert_null(x);
    assert_int_equal(clv_tensor_create(t.ctx, CLV_DTYPE_F32, 1, &huge, &x),
                     CLV_ERR_NO_MEMORY);
    assert_int_equal(clv_tensor_create(t.ctx, 99, 1, &two, &x),
                     CLV_ERR_INVALID);
    assert_int_equal(WRAP(&three, 8, 3), CLV_ERR_INVALID);
    assert_error_says("needs 12");
    assert_int_equal(WRAP(&two, 8, 0), CLV_ERR_INVALID);
    assert_int_equal(WRAP(&two, 8, CLV_ACCESS_WRITE), CLV_ERR_INVALID);
    assert_int_equal(released, 0);
    assert_ok(WRAP(&two, 8, CLV_ACCESS_READ));
    assert_ptr_equal(clv_tensor_data(x), data);
    clv_tensor_destroy(x);
    assert_int_equal(released, 1);
    test_context_destroy(&t);
}

/* An import covers whole pages, the binding begins inside. */
static void test_import_of_any_address(void **state)
{
    (void)state;
    test_context t = test_context_create("");
    clv_device *dev = clv_context_device(t.ctx, 0);
    uint8_t *pages =
        mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int64_t dims[] = {1000};
    const uint64_t offsets[] = {0, 4, 4092, 4096, 8000};
    for (int i = 0; i < 5; i++) {
        clv_tensor *x;
        const core_object *object, *again;
        uint32_t holding;
        int released = 0;
        assert_ok(clv_tensor_wrap(t.ctx, CLV_DTYPE_F32, 1, dims,
                                  pages + offsets[i], 4000, CLV_ACCESS_READ,
                                  count_release, &released, &x));
        assert_ok(core_tensor_holding(x, dev, 1, false, &holding));
        assert_int_equal(holding, CORE_HOLD_IMPORT);
        assert_ok(core_tensor_object(x, dev, 1, holding, NULL, &object));
        assert_int_equal(object->offset, offsets[i] % 4096);
        assert_int_equal(object->size, 4000);
        assert_int_equal(object->buffer->size % 4096, 0);
        assert_true(object->buffer->size >= object->offset + 4000);
        assert_int_equal(object->buffer->access, CLV_ACCESS_READ);
        assert_ok(core_tensor_object(x, dev, 1, holding, NULL, &again));
        assert_ptr_equal(object, again);
        assert_int_equal(released, 0);
        clv_tensor_destroy(x);
        assert_int_equal(released, 1);
    }
    munmap(pages, 3 * 4096);
    test_context_destroy(&t);
}

static void test_import_of_writable_only(void **state)
{
    (void)state;
    test_context t = test_context_create("ref.import_writable0=on");
    clv_device *dev = clv_context_device(t.ctx, 0);
    uint8_t *pages = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int64_t dims[] = {1000};
    const uint32_t accesses[] = {CLV_ACCESS_READ,
                                 CLV_ACCESS_READ | CLV_ACCESS_WRITE};
    for (int i = 0; i < 2; i++) {
        clv_tensor *x;
        uint32_t holding;
        assert_ok(clv_tensor_wrap(t.ctx, CLV_DTYPE_F32, 1, dims, pages, 4000,
                                  accesses[i], NULL, NULL, &x));
        assert_ok(core_tensor_holding(x, dev, 1, true, &holding));
        assert_int_equal(holding, i ? CORE_HOLD_IMPORT : CORE_HOLD_COPY);
        clv_tensor_destroy(x);
    }
    munmap(pages, 4096);
    test_context_destroy(&t);
}

/* ------------------------------------------------------------------------ */

/* y = x w, with w at an address of the caller's choice. */
typedef struct fixture {
    test_context t;
    clv_graph *g;
    clv_tensor *w;
    clv_value x, y;
    clv_plan *plan;
    clv_exec *exec;
    _Alignas(4096) float data[4096];
} fixture;

static fixture *begin(const char *settings, int offset)
{
    fixture *f = aligned_alloc(4096, sizeof *f);
    memset(f, 0, sizeof *f);
    f->t = test_context_create(settings);
    for (int i = 0; i < 4; i++)
        f->data[offset + i] = (float)(i + 1);
    assert_ok(clv_tensor_wrap(f->t.ctx, CLV_DTYPE_F32, 2,
                              (const int64_t[]){2, 2}, f->data + offset, 16,
                              CLV_ACCESS_READ, NULL, NULL, &f->w));
    assert_ok(clv_graph_create(&f->g));
    f->x = clv_graph_input(f->g, "x", CLV_DTYPE_F32, 2,
                           (clv_dim[]){clv_dim_fixed(1), clv_dim_fixed(2)});
    f->y = clv_graph_matmul(f->g, f->x, clv_graph_weight(f->g, "w", f->w),
                            CLV_NO_TENSOR);
    clv_graph_output(f->g, f->y, "y");
    return f;
}

static void finish(fixture *f)
{
    clv_exec_destroy(f->exec);
    clv_plan_destroy(f->plan);
    clv_graph_destroy(f->g);
    clv_tensor_destroy(f->w);
    test_context_destroy(&f->t);
    free(f);
}

static void check_product(fixture *f)
{
    assert_ok(clv_exec_create(f->plan, &f->exec));
    float *x = clv_tensor_data(clv_exec_tensor(f->exec, f->x));
    x[0] = 10;
    x[1] = 1;
    assert_ok(clv_exec_run(f->exec, NULL, 0));
    const float *y = clv_tensor_data(clv_exec_tensor(f->exec, f->y));
    assert_true(y[0] == 12 && y[1] == 34);
}

static void test_weight_in_place(void **state)
{
    (void)state;
    fixture *f = begin("ref.align0=16", 4);
    assert_ok(clv_plan_create(f->t.ctx, f->g, NULL, &f->plan));
    assert_int_equal(clv_plan_summarise(f->plan).n_copies, 0);
    check_product(f);
    finish(f);
}

/* A weight where the device cannot use it is copied, and the plan says so. */
static void test_misaligned_weight_is_copied(void **state)
{
    (void)state;
    char *md;
    fixture *f = begin("ref.align0=64", 3);
    assert_ok(clv_plan_create(f->t.ctx, f->g, NULL, &f->plan));
    assert_int_equal(clv_plan_summarise(f->plan).n_copies, 1);
    assert_ok(view_plan(f->plan, "md", &md));
    assert_non_null(strstr(md, "| w | ref:0 | 16 |"));
    clv_string_free(md);
    check_product(f);
    finish(f);
}

static void test_device_without_import(void **state)
{
    (void)state;
    fixture *f = begin("ref.import0=off", 0);
    assert_int_equal(clv_plan_create(f->t.ctx, f->g, NULL, &f->plan),
                     CLV_ERR_UNSUPPORTED);
    assert_error_says("device 'ref:0' imports no host memory");
    assert_error_says("leave it out");
    clv_device *other = clv_context_device(f->t.ctx, 1);
    clv_plan_params params = {.devices = &other, .n_devices = 1};
    assert_ok(clv_plan_create(f->t.ctx, f->g, &params, &f->plan));
    check_product(f);
    finish(f);
}

static void test_read_only_state(void **state)
{
    (void)state;
    fixture *f = begin("", 0);
    clv_graph *g;
    clv_plan *plan;
    clv_exec *exec;
    assert_ok(clv_graph_create(&g));
    clv_value kv =
        clv_graph_state(g, "kv", CLV_DTYPE_F32, 2, (const int64_t[]){2, 2});
    clv_value ids = clv_graph_input(g, "ids", CLV_DTYPE_I32, 1,
                                    (clv_dim[]){clv_dim_fixed(1)});
    clv_graph_output(g, clv_graph_get_rows(g, kv, ids), "y");
    assert_ok(clv_plan_create(f->t.ctx, g, NULL, &plan));
    assert_ok(clv_exec_create(plan, &exec));
    assert_int_equal(clv_exec_bind(exec, kv, f->w), CLV_ERR_INVALID);
    assert_error_says("read-only");
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    clv_graph_destroy(g);
    finish(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_created_memory),
        cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_import_of_any_address),
        cmocka_unit_test(test_import_of_writable_only),
        cmocka_unit_test(test_weight_in_place),
        cmocka_unit_test(test_misaligned_weight_is_copied),
        cmocka_unit_test(test_device_without_import),
        cmocka_unit_test(test_read_only_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
