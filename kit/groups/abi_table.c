/* The table: slots, names, options, destructors. */
#include "abi.h"

#include "../plugin/host.h"
#include "../plugin/settings.h"
#include "../plugin/slots.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* As kit_plugin_load() does it, but telling the optional ones. */
static void has_slots(kit *k, const void *arg)
{
    const clv_plugin_api *api = &kit_under_test(k)->api;
    char names[400] = "";
    (void)arg;
    const char *missing = kit_missing_slot(api);
    KIT_CHECK(k, !missing, "the table lacks the mandatory %s()", missing);
    for (uint32_t i = 0; i < kit_n_slots; i++) {
        void (*fn)(void);
        memcpy(&fn, (const char *)api + kit_slots[i].offset, sizeof fn);
        size_t n = strlen(names);
        if (kit_slots[i].optional && !fn)
            snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "",
                     kit_slots[i].name);
    }
    if (names[0])
        kit_note(k, "without %s", names);
    KIT_CHECK(k, api->header.struct_size % 8 == 0,
              "the table's struct_size %u is no multiple of 8",
              api->header.struct_size);
    KIT_CHECK(k, !api->header.next,
              "the table has an extension chain; none is "
              "defined");
    KIT_CHECK(k,
              !(api->flags &
                ~(uint32_t)(CLV_PLUGIN_UNLOADABLE | CLV_PLUGIN_SPAWNS_THREADS)),
              "the table has unknown flags: %#x", api->flags);
    KIT_CHECK(k, !api->reserved, "a reserved field of the table is not zero");
}

static bool is_name(const char *text)
{
    size_t n = strlen(text);
    return *text >= 'a' && *text <= 'z' && n < 48 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

static void check_text(kit *k, const char *what, const char *text)
{
    KIT_CHECK(k, text && *text, "%s is %s", what, text ? "empty" : "NULL");
    for (const char *c = text; *c; c++)
        KIT_CHECK(k, (unsigned char)*c >= 0x20 && *c != 0x7f,
                  "%s has a control character: it is one line", what);
}

static void has_names(kit *k, const void *arg)
{
    const clv_plugin_api *api = &kit_under_test(k)->api;
    (void)arg;
    check_text(k, "the name", api->name);
    check_text(k, "the version", api->version);
    check_text(k, "the build_id", api->build_id);
    check_text(k, "the description", api->description);
    KIT_CHECK(k, is_name(api->name),
              "the name '%s' is not [a-z][a-z0-9_]*, shorter than 48",
              api->name);
}

static void check_option(kit *k, const clv_plugin_api *api, uint32_t i)
{
    const char *at = (const char *)api->options;
    clv_option o, other;
    char wanted[128], what[80];
    at += (size_t)i * api->option_stride;
    uint32_t size = ((const clv_header *)at)->struct_size;
    KIT_CHECK(k, size >= KIT_V1_OPTION && size <= api->option_stride,
              "option %u has struct_size %u; version 1 has %u, the elements "
              "are %u bytes apart",
              i, size, KIT_V1_OPTION, api->option_stride);
    kit_option(api, i, &o);
    KIT_CHECK(k, is_name(o.key),
              "option %u has the key '%s', which is not "
              "[a-z][a-z0-9_]*",
              i, o.key);
    for (uint32_t j = 0; j < i; j++) {
        kit_option(api, j, &other);
        KIT_CHECK(k, o.scope != other.scope || strcmp(o.key, other.key),
                  "two options of the same scope have the key '%s'", o.key);
    }
    KIT_CHECK(k, o.scope <= CLV_SCOPE_DEVICE,
              "option '%s' has the scope %u, which is none", o.key, o.scope);
    snprintf(what, sizeof what, "the help of option '%.48s'", o.key);
    check_text(k, what, o.help);
    KIT_CHECK(k, o.type >= CLV_OPTION_INT && o.type <= CLV_OPTION_ENUM,
              "option '%s' is of type %u, which is none", o.key, o.type);
    KIT_CHECK(k, o.default_value, "option '%s' has no default", o.key);
    KIT_CHECK(k, (o.type == CLV_OPTION_ENUM) == (o.choices != NULL),
              "option '%s' %s", o.key,
              o.choices ? "has choices and is no enum"
                        : "is an enum without choices");
    KIT_CHECK(k, isfinite(o.min) && isfinite(o.max) && o.min <= o.max,
              "option '%s' has the range %g..%g", o.key, o.min, o.max);
    KIT_CHECK(k, kit_option_takes(&o, o.default_value, wanted),
              "the default '%s' of option '%s' is not %s", o.default_value,
              o.key, wanted);
}

static void has_options(kit *k, const void *arg)
{
    const clv_plugin_api *api = &kit_under_test(k)->api;
    (void)arg;
    KIT_CHECK(k, api->n_options <= 256, "%u options; the host takes up to 256",
              api->n_options);
    KIT_CHECK(k, !api->n_options || api->option_stride % 8 == 0,
              "options are %u bytes apart, no multiple of 8",
              api->option_stride);
    for (uint32_t i = 0; i < api->n_options; i++)
        check_option(k, api, i);
    kit_note(k, "%u options", api->n_options);
}

static void destroys_nothing(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    (void)arg;
    p->api.program_destroy(NULL);
    p->api.buffer_free(NULL);
    p->api.device_close(NULL);
    p->api.destroy(NULL);
    kit_checked(k); /* it is still here */
}

void abi_list_table(kit_list *list)
{
    kit_add(list, KIT_PER_PLUGIN, 0, has_slots, NULL, "table.slots");
    kit_add(list, KIT_PER_PLUGIN, 0, has_names, NULL, "table.names");
    kit_add(list, KIT_PER_PLUGIN, 0, has_options, NULL, "table.options");
    kit_add(list, KIT_PER_PLUGIN, 0, destroys_nothing, NULL,
            "table.destroy-null");
}
