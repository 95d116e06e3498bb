/* Parts of a range make it up, and the last ones are small. */
#include "../../plugins/cpu/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* What the slowest thread does after all others have ended: a part at most. */
static void check(const cpu_parts *p)
{
    const uint32_t count = cpu_parts_count(p);
    int64_t at = 0, last = 0;
    for (uint32_t i = 0; i < count; i++) {
        const cpu_range part = cpu_parts_at(p, i);
        assert_int_equal(part.begin, at);
        assert_true(part.begin % p->step == 0 && part.end > part.begin);
        assert_true(part.end == p->n || part.end % p->step == 0);
        assert_true(part.end - part.begin <= p->most);
        assert_true(!last || part.end - part.begin <= last);
        last = part.end - part.begin;
        at = part.end;
    }
    assert_int_equal(at, p->n);
    if (count)
        assert_true(last <= p->step);
}

static void test_parts(void **state)
{
    static const uint32_t threads[] = {1, 2, 3, 16, 61};
    (void)state;
    for (int64_t n = 0; n < 20000; n = n * 5 / 4 + 1)
        for (int64_t step = 16; step <= 256; step *= 2)
            for (int t = 0; t < 5; t++)
                check(&(cpu_parts){n, step, 512, threads[t]});
}

/* As many parts as that many threads need, and no more. */
static void test_count(void **state)
{
    const cpu_parts p = {14336, 16, 512, 16};
    (void)state;
    assert_int_equal(cpu_parts_at(&p, 0).end, 448);
    assert_int_equal(cpu_parts_at(&p, 15).end, 7168);
    assert_true(cpu_parts_count(&p) <= 6 * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_count)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
