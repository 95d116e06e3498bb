#include "settings.h"
#include "host.h"
#include "child.h"
#include "conf.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool takes_number(const clv_option *o, const char *value, bool whole)
{
    char *end;
    errno = 0;
    double number =
        whole ? (double)strtoll(value, &end, 10) : strtod(value, &end);
    return end != value && !*end && !errno && isfinite(number) &&
           number >= o->min && number <= o->max;
}

static bool takes_word(const char *choices, const char *value)
{
    size_t n = strlen(value);
    for (const char *p = choices; p && *p;) {
        size_t length = strcspn(p, "|");
        if (length == n && !memcmp(p, value, n))
            return true;
        p += length + (p[length] == '|');
    }
    return false;
}

bool kit_option_takes(const clv_option *o, const char *value, char wanted[128])
{
    switch (o->type) {
    case CLV_OPTION_INT:
        snprintf(wanted, 128, "a whole number in %.0f..%.0f", o->min, o->max);
        return takes_number(o, value, true);
    case CLV_OPTION_FLOAT:
        snprintf(wanted, 128, "a number in %g..%g", o->min, o->max);
        return takes_number(o, value, false);
    case CLV_OPTION_BOOL:
        snprintf(wanted, 128, "on or off");
        return takes_word("on|off", value);
    case CLV_OPTION_ENUM:
        snprintf(wanted, 128, "one of %.100s", o->choices ? o->choices : "?");
        return takes_word(o->choices, value);
    }
    return true;
}

/* The keys that a section can have. */
static void list_keys(const clv_plugin_api *api, uint32_t scope, char keys[256])
{
    keys[0] = 0;
    for (uint32_t i = 0; i < api->n_options; i++) {
        clv_option option;
        kit_option(api, i, &option);
        size_t used = strlen(keys);
        if (option.scope == scope)
            snprintf(keys + used, 256 - used, "%s%s", used ? ", " : "",
                     option.key);
    }
}

static void check_value(kit *k, const clv_plugin_api *api, const char *given,
                        const char *key, uint32_t scope)
{
    int length = (int)strcspn(key, "=");
    char keys[256];
    for (uint32_t i = 0; i < api->n_options; i++) {
        clv_option option;
        char wanted[128];
        kit_option(api, i, &option);
        if (option.scope != scope || strlen(option.key) != (size_t)length ||
            memcmp(option.key, key, (size_t)length))
            continue;
        if (!kit_option_takes(&option, key + length + 1, wanted))
            kit_child_usage(k, "--set %s: '%s' is not %s", given,
                            key + length + 1, wanted);
        return;
    }
    list_keys(api, scope, keys);
    kit_child_usage(k, "--set %s: '%s' has no option '%.*s'%s; it has: %s",
                    given, api->name, length, key,
                    scope == CLV_SCOPE_DEVICE ? " for a device" : "",
                    keys[0] ? keys : "none");
}

static void check_setting(kit *k, const clv_plugin_api *api, const char *given,
                          bool filed)
{
    size_t name = strlen(api->name), section = kit_section_length(given);
    bool ours = section >= name && !strncmp(given, api->name, name);
    bool device = ours && section > name + 1 && given[name] == ':';
    if (filed && !device && (!ours || section != name))
        return;
    if (!device && (!ours || section != name))
        kit_child_usage(k,
                        "--set %s: the plugin's name is '%s', so give "
                        "%s.KEY=VALUE",
                        given, api->name, api->name);
    check_value(k, api, given, given + section + 1,
                device ? CLV_SCOPE_DEVICE : CLV_SCOPE_PLUGIN);
}

void kit_settings_check(kit *k, const clv_plugin_api *api)
{
    for (uint32_t i = 0; i < k->config->n_settings; i++)
        check_setting(k, api, k->config->settings[i], i < k->config->n_filed);
}
