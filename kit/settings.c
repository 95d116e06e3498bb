#include "settings.h"
#include "child.h"
#include "host.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool takes_number(const clv_option *o, const char *value, bool whole)
{
    char *end;
    errno = 0;
    double number = whole ? (double)strtoll(value, &end, 10)
                          : strtod(value, &end);
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

static void check_setting(kit *k, const clv_plugin_api *api, const char *given)
{
    size_t name = strlen(api->name);
    if (strncmp(given, api->name, name) || given[name] != '.')
        kit_child_usage(k, "--set %s: the plugin's name is '%s', so give "
                           "%s.KEY=VALUE",
                        given, api->name, api->name);
    const char *key = given + name + 1;
    int length = (int)strcspn(key, "=");
    char keys[256] = "";
    for (uint32_t i = 0; i < api->n_options; i++) {
        clv_option option;
        char wanted[128];
        kit_option(api, i, &option);
        if (strlen(option.key) == (size_t)length &&
            !memcmp(option.key, key, (size_t)length)) {
            if (!kit_option_takes(&option, key + length + 1, wanted))
                kit_child_usage(k, "--set %s: '%s' is not %s", given,
                                key + length + 1, wanted);
            return;
        }
        size_t used = strlen(keys);
        snprintf(keys + used, sizeof keys - used, "%s%s", used ? ", " : "",
                 option.key);
    }
    kit_child_usage(k, "--set %s: '%s' has no option '%.*s'; it has: %s",
                    given, api->name, length, key,
                    keys[0] ? keys : "none");
}

void kit_settings_check(kit *k, const clv_plugin_api *api)
{
    for (uint32_t i = 0; i < k->config->n_settings; i++)
        check_setting(k, api, k->config->settings[i]);
}
