/* What a plugin does not touch, and requests that it may ignore but not refuse.
 */
#include "../plugin/child.h"
#include "lifecycle.h"

#include <string.h>

/* Other cases of this process may have loaded the plugin before: what counts is
 * how the process began. */
static void check_handlers(kit *k, const char *when)
{
    void (*now[KIT_N_SIGNALS])(int);
    kit_child_handlers(now);
    for (int i = 1; i < KIT_N_SIGNALS; i++)
        KIT_CHECK(k, now[i] == k->handlers[i],
                  "%s the handler of signal %d (%s) is another one; a plugin "
                  "installs none",
                  when, i, strsignal(i));
}

static void run_signals(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    kit_drop_under_test(k);
    lifecycle_make(k, &p);
    check_handlers(k, "after create");
    if (p.n_devices) {
        kit_plugin_open(&p, 0);
        kit_use(k, &p);
        check_handlers(k, "after work of a device");
        kit_plugin_close(&p);
    }
    lifecycle_end(&p);
    check_handlers(k, "after destroy");
}

void lifecycle_list_signals(kit_list *l)
{
    kit_add(l, KIT_PER_PLUGIN, 0, run_signals, NULL, "signals");
}
