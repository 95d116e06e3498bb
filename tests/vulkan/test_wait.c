/* Waits for a driver that is made up. */
#include "../../plugins/vulkan/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define VALUE 7u

static struct {
    /* What is to happen. */
    VkResult blocks;   /* how a wait with a limit ends */
    uint32_t looks;    /* after which the semaphore has its value; 0: never */
    VkResult answered; /* to each look */
    /* What did. */
    uint32_t n_limited, n_unlimited, n_looks;
    uint64_t limit_ns; /* of the last wait with one */
} driver;

VkResult vk_await(clv_plugin_device *dev, VkSemaphore semaphore, uint64_t value,
                  uint64_t limit_ns)
{
    (void)dev, (void)semaphore;
    assert_int_equal(value, VALUE);
    if (limit_ns == UINT64_MAX) {
        driver.n_unlimited++;
        return VK_SUCCESS;
    }
    driver.n_limited++;
    driver.limit_ns = limit_ns;
    return driver.blocks;
}

static VKAPI_ATTR VkResult VKAPI_CALL counter(VkDevice device,
                                              VkSemaphore semaphore,
                                              uint64_t *value)
{
    (void)device, (void)semaphore;
    *value = ++driver.n_looks == driver.looks ? VALUE : VALUE - 1;
    return driver.answered;
}

/* Of work that began a millisecond ago. */
static VkResult await(uint64_t run_ns, uint32_t flags)
{
    static vk_physical phys;
    static clv_queue queue;
    static clv_plugin_device dev;
    phys.info.flags = flags;
    dev.phys = &phys;
    dev.base.queue = &queue;
    dev.api.GetSemaphoreCounterValue = counter;
    queue = (clv_queue){.depth = 1};
    driver.n_limited = driver.n_unlimited = driver.n_looks = 0;
    return vk_await_due(&dev, (vk_point){VK_NULL_HANDLE, VALUE},
                        clv_queue_now() - MS, run_ns);
}

/* Where it is not known what work takes, and where a look takes a core from
 * the device, it only blocks. */
static void test_blocks(void **state)
{
    (void)state;
    assert_int_equal(await(0, 0), VK_SUCCESS);
    assert_int_equal(driver.n_unlimited, 1);
    assert_int_equal(await(2 * MS, CLV_DEVICE_SOFTWARE), VK_SUCCESS);
    assert_int_equal(driver.n_unlimited, 1);
    assert_int_equal(driver.n_limited + driver.n_looks, 0);
}

static void test_looks(void **state)
{
    (void)state;
    driver.blocks = VK_TIMEOUT;
    driver.looks = 5;
    assert_int_equal(await(17 * MS, 0), VK_SUCCESS);
    assert_int_equal(driver.n_looks, 5);
    assert_int_equal(driver.n_unlimited, 0);
    /* 17 ms from the beginning, less a sixteenth and 0.1 ms. */
    assert_in_range(driver.limit_ns, 10 * MS, 15 * MS);
    assert_int_equal(await(MS / 2, 0), VK_SUCCESS); /* it is late already */
    assert_int_equal(driver.limit_ns, 0);
    assert_int_equal(driver.n_looks, 5);
}

static void test_ends_early(void **state)
{
    (void)state;
    driver.blocks = VK_SUCCESS;
    assert_int_equal(await(17 * MS, 0), VK_SUCCESS);
    assert_int_equal(driver.n_limited, 1);
    assert_int_equal(driver.n_looks + driver.n_unlimited, 0);
}

/* Work that takes much longer than before is not looked at all the time. */
static void test_ends_late(void **state)
{
    (void)state;
    driver.blocks = VK_TIMEOUT;
    driver.looks = 0;
    assert_int_equal(await(MS, 0), VK_SUCCESS);
    assert_true(driver.n_looks > 0);
    assert_int_equal(driver.n_unlimited, 1);
}

static void test_lost(void **state)
{
    (void)state;
    driver.blocks = VK_ERROR_DEVICE_LOST;
    assert_int_equal(await(MS, 0), VK_ERROR_DEVICE_LOST);
    driver.blocks = VK_TIMEOUT;
    driver.answered = VK_ERROR_DEVICE_LOST;
    assert_int_equal(await(MS, 0), VK_ERROR_DEVICE_LOST);
    assert_int_equal(driver.n_looks, 1);
    driver.answered = VK_SUCCESS;
}

static void test_learns(void **state)
{
    (void)state;
    assert_int_equal(vk_learn_run(0, 800), 800);
    assert_int_equal(vk_learn_run(800, 700), 700);
    assert_int_equal(vk_learn_run(700, 1500), 800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),     cmocka_unit_test(test_looks),
        cmocka_unit_test(test_ends_early), cmocka_unit_test(test_ends_late),
        cmocka_unit_test(test_lost),       cmocka_unit_test(test_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
