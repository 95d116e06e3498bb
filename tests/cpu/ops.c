#include "ops.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

plugin *shared;

void compare(error *e, double got, double want)
{
    if (isnan(want) || isinf(want)) {
        assert_true(isnan(want) ? isnan(got) : got == want);
        return;
    }
    assert_true(isfinite(got));
    e->square += want * want;
    e->difference += (got - want) * (got - want);
}

void check_error(const error *e, uint32_t error_class, const char *what)
{
    double nmse = e->square > 0 ? e->difference / e->square : e->difference;
    if (nmse > error_bound(error_class))
        fail_msg("%s: error %g passes %g", what, nmse,
                 error_bound(error_class));
}

uint32_t run(graph *g)
{
    clv_op_caps caps = {.answer = CLV_ANSWER_NO};
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        caps = graph_caps(shared, g, i);
        if (caps.answer != CLV_ANSWER_YES)
            fail_msg("%s", caps.reason);
    }
    if (graph_run(shared, g))
        fail_msg("%s", shared->host.error);
    return caps.error_class;
}

int shared_open(void **state)
{
    static plugin p;
    (void)state;
    plugin_open(&p, getenv("CPU_TEST_THREADS"), getenv("CPU_TEST_FEATURES"));
    shared = &p;
    return 0;
}

int shared_close(void **state)
{
    (void)state;
    plugin_close(shared);
    return 0;
}

bool shared_possible(void)
{
    host h;
    void *lib;
    clv_plugin_instance *inst = NULL;
    const clv_plugin_api *api = plugin_load(&lib);
    host_init(&h);
    h.features = getenv("CPU_TEST_FEATURES");
    clv_status status = api->create(&h.api, &inst);
    if (!status)
        api->destroy(inst);
    dlclose(lib);
    return status != CLV_ERR_UNSUPPORTED;
}
