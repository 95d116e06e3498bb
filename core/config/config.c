#include "config.h"
#include "../base/error.h"
#include "../base/grow.h"

#include "../base/names.h"
#include "../base/unreleased.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SECTION CORE_CONFIG_MAX_NAME

extern char **environ;

/* Text that stays until the configuration is destroyed. */
typedef struct text {
    struct text *next;
    size_t size;
    char data[];
} text;

/* A key, declared once option is set; until then its value waits. */
typedef struct entry {
    const char *section, *key;
    const clv_option *option; /* in its section's table, or NULL */
    const char *value, *origin;
    core_config_rank rank;
} entry;

typedef struct section {
    const char *name;
    clv_option *options; /* copies */
    uint32_t n_options;
    uint32_t n_users; /* declared as often */
} section;

struct clv_config {
    text *texts;
    section *sections;
    uint32_t n_sections;
    entry *entries;
    uint32_t n_entries, cap_entries;
    bool env;  /* the environment is a source */
    bool kept; /* outlives its destruction */
};

/* The same text is kept once, so that contexts which come and go with one
 * configuration do not make it grow. */
static const char *keep(clv_config *config, const char *string)
{
    size_t size = strlen(string) + 1;
    for (const text *t = config->texts; t; t = t->next)
        if (t->size == size && !memcmp(t->data, string, size))
            return t->data;
    text *t = malloc(sizeof *t + size);
    if (!t)
        return NULL;
    memcpy(t->data, string, size);
    t->size = size;
    t->next = config->texts;
    config->texts = t;
    return t->data;
}

static section *find_section(const clv_config *config, const char *name)
{
    for (uint32_t i = 0; i < config->n_sections; i++)
        if (!strcmp(config->sections[i].name, name))
            return &config->sections[i];
    return NULL;
}

/* "npu_sim" of "npu_sim:hexagon"; plain sections are their own base. */
static bool has_base(const char *sec, const char *base)
{
    return core_item_is(sec, strcspn(sec, ":"), base);
}

static bool is_device_section(const char *sec)
{
    return strchr(sec, ':') != NULL;
}

static section *find_base(const clv_config *config, const char *sec)
{
    for (uint32_t i = 0; i < config->n_sections; i++)
        if (has_base(sec, config->sections[i].name))
            return &config->sections[i];
    return NULL;
}

/* The option of s that stands under this key in the section itself or in those
 * of its devices; NULL if there is none. */
static const clv_option *find_option(const section *s, bool of_device,
                                     const char *key)
{
    for (uint32_t i = 0; i < s->n_options; i++)
        if ((s->options[i].scope == CLV_SCOPE_DEVICE) == of_device &&
            !strcmp(s->options[i].key, key))
            return &s->options[i];
    return NULL;
}

static entry *find_entry(const clv_config *config, const char *sec,
                         const char *key)
{
    for (uint32_t i = 0; i < config->n_entries; i++) {
        entry *e = &config->entries[i];
        if (!strcmp(e->section, sec) && !strcmp(e->key, key))
            return e;
    }
    return NULL;
}

static entry *find_declared(const clv_config *config, const char *name)
{
    const char *dot = name ? strchr(name, '.') : NULL;
    if (!dot)
        return NULL;
    for (uint32_t i = 0; i < config->n_entries; i++) {
        entry *e = &config->entries[i];
        if (e->option && core_item_is(name, (size_t)(dot - name), e->section) &&
            !strcmp(e->key, dot + 1))
            return e;
    }
    return NULL;
}

static entry *add_entry(clv_config *config, const char *sec, const char *key)
{
    entry e = {.section = keep(config, sec), .key = keep(config, key)};
    if (!e.section || !e.key ||
        !core_grow(&config->entries, &config->cap_entries,
                   config->n_entries + 1ull, sizeof e))
        return NULL;
    config->entries[config->n_entries] = e;
    return &config->entries[config->n_entries++];
}

/* "; the nearest key is 'core.devices'", or "" if none is near. */
static void name_nearest(const clv_config *config, const char *wanted,
                         char *out, size_t size)
{
    size_t best = 1 + strlen(wanted) / 2;
    out[0] = 0;
    for (uint32_t i = 0; i < config->n_entries; i++) {
        const entry *e = &config->entries[i];
        if (!e->option)
            continue;
        char name[2 * MAX_SECTION + 16];
        snprintf(name, sizeof name, "%s.%s", e->section, e->key);
        size_t d = core_edit_distance(name, wanted);
        if (d < best) {
            best = d;
            snprintf(out, size, "; the nearest is '%s'", name);
        }
    }
}

static clv_status unknown_key(const clv_config *config, const char *sec,
                              const char *key, const char *origin)
{
    char wanted[256], nearest[160];
    snprintf(wanted, sizeof wanted, "%s.%s", sec, key);
    name_nearest(config, wanted, nearest, sizeof nearest);
    return clv_error(CLV_ERR_NOT_FOUND, "%s: there is no key '%s'%s", origin,
                     wanted, nearest);
}

/* value is checked: the entry's, if nothing stronger is there. */
static clv_status put(clv_config *config, entry *e, const char *value,
                      const char *origin, core_config_rank rank)
{
    if (e->value && e->rank > rank)
        return CLV_OK;
    const char *v = keep(config, value), *o = keep(config, origin);
    if (!v || !o)
        return core_no_memory("for the configuration");
    e->value = v;
    e->origin = o;
    e->rank = rank;
    return CLV_OK;
}

static bool device_name_ok(const char *sec)
{
    const char *name = strchr(sec, ':') + 1;
    size_t n = strlen(name);
    return n && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

/* Every option of scope in section sec that nothing gave a value has its
 * default. */
static clv_status add_defaults(clv_config *config, const section *s,
                               const char *sec, uint32_t scope)
{
    for (uint32_t i = 0; i < s->n_options; i++) {
        const clv_option *o = &s->options[i];
        if (o->scope != scope)
            continue;
        entry *e = find_entry(config, sec, o->key);
        if (!e && !(e = add_entry(config, sec, o->key)))
            return core_no_memory("for the configuration");
        e->option = o;
        if (!e->value) {
            e->value = o->default_value;
            e->origin = "built-in";
            e->rank = CORE_RANK_BUILTIN;
        }
    }
    return CLV_OK;
}

clv_status core_config_give(clv_config *config, const char *sec,
                            const char *key, const char *value,
                            const char *origin, core_config_rank rank)
{
    const section *s = find_base(config, sec);
    bool of_device = is_device_section(sec);
    if (of_device && !device_name_ok(sec))
        return clv_error(CLV_ERR_FORMAT,
                         "%s: [%s]: the name of a device, behind the colon, "
                         "takes small letters, digits and '_'",
                         origin, sec);
    const clv_option *o = s ? find_option(s, of_device, key) : NULL;
    if (s && !o)
        return unknown_key(config, sec, key, origin);
    clv_status st = o ? core_option_check(o, value) : CLV_OK;
    if (st != CLV_OK)
        return clv_error_prefix(st, "%s: %s.%s", origin, sec, key);
    entry *e = find_entry(config, sec, key);
    if (!e && !(e = add_entry(config, sec, key)))
        return core_no_memory("for the configuration");
    if ((st = put(config, e, value, origin, rank)) != CLV_OK || !o)
        return st;
    return of_device ? add_defaults(config, s, sec, CLV_SCOPE_DEVICE) : CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Environment                                                              */

/* "CLEAVE_" and name in upper case. */
static void env_name(char *out, size_t size, const char *sec, const char *key)
{
    snprintf(out, size, "CLEAVE_%s%s%s", sec, key ? "_" : "", key ? key : "");
    for (; *out; out++)
        *out = (char)toupper((unsigned char)*out);
}

static bool env_known(const section *s, const char *variable, size_t size)
{
    char name[128];
    for (uint32_t i = 0; i < s->n_options; i++) {
        if (s->options[i].scope != CLV_SCOPE_PLUGIN)
            continue;
        env_name(name, sizeof name, s->name, s->options[i].key);
        if (core_item_is(variable, size, name))
            return true;
    }
    return false;
}

/* Variables that begin with the section's name but end in no key of it. Those
 * of a longer section name ("npu", "npu_sim") are that section's. */
static clv_status check_env(clv_config *config, const section *s)
{
    char prefix[128];
    env_name(prefix, sizeof prefix - 1, s->name, NULL);
    strcat(prefix, "_");
    for (char **v = environ; v && *v; v++) {
        size_t size = strcspn(*v, "=");
        if (strncmp(*v, prefix, strlen(prefix)))
            continue;
        bool known = false;
        for (uint32_t i = 0; i < config->n_sections && !known; i++)
            known = env_known(&config->sections[i], *v, size);
        char key[128], variable[128];
        snprintf(variable, sizeof variable, "%.*s", (int)size, *v);
        if (known || !secure_getenv(variable))
            continue;
        snprintf(key, sizeof key, "%s", variable + strlen(prefix));
        for (char *c = key; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        return unknown_key(config, s->name, key, variable);
    }
    return CLV_OK;
}

static clv_status load_env_section(clv_config *config, const section *s)
{
    for (uint32_t i = 0; i < s->n_options; i++) {
        char name[128];
        env_name(name, sizeof name, s->name, s->options[i].key);
        const char *value = s->options[i].scope == CLV_SCOPE_PLUGIN
                                ? secure_getenv(name)
                                : NULL;
        if (!value)
            continue;
        CLV_TRY(core_config_give(config, s->name, s->options[i].key, value,
                                 name, CORE_RANK_ENV));
    }
    return check_env(config, s);
}

clv_status clv_config_load_env(clv_config *config)
{
    config->env = true;
    for (uint32_t i = 0; i < config->n_sections; i++)
        CLV_TRY(load_env_section(config, &config->sections[i]));
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Declaration                                                              */

static bool copy_option(clv_config *config, clv_option *to,
                        const clv_option *from)
{
    *to = *from;
    to->key = keep(config, from->key);
    to->default_value = keep(config, from->default_value);
    to->help = keep(config, from->help);
    to->choices = from->choices ? keep(config, from->choices) : NULL;
    return to->key && to->default_value && to->help &&
           (to->choices || !from->choices);
}

static section *add_section(clv_config *config, const char *name,
                            const clv_option *options, uint32_t count)
{
    section s = {.name = keep(config, name), .n_options = count, .n_users = 1};
    section *sections = reallocarray(config->sections, config->n_sections + 1u,
                                     sizeof *sections);
    if (!sections)
        return NULL;
    config->sections = sections;
    s.options = calloc(count + 1u, sizeof *s.options);
    if (!s.options || !s.name)
        goto fail;
    for (uint32_t i = 0; i < count; i++)
        if (!copy_option(config, &s.options[i], &options[i]))
            goto fail;
    sections[config->n_sections] = s;
    return &sections[config->n_sections++];

fail:
    free(s.options);
    return NULL;
}

/* Takes up what waited for s and its devices; the rest gets its defaults,
 * first, so that messages know the names. */
static clv_status settle(clv_config *config, const section *s)
{
    clv_status st = add_defaults(config, s, s->name, CLV_SCOPE_PLUGIN);
    for (uint32_t i = 0; i < config->n_entries && st == CLV_OK; i++) {
        bool of_device = is_device_section(config->entries[i].section);
        if (!has_base(config->entries[i].section, s->name))
            continue;
        if (of_device)
            st = add_defaults(config, s, config->entries[i].section,
                              CLV_SCOPE_DEVICE);
        const entry *e = &config->entries[i];
        const clv_option *o = find_option(s, of_device, e->key);
        if (st == CLV_OK && !o)
            return unknown_key(config, e->section, e->key, e->origin);
        if (st == CLV_OK && (st = core_option_check(o, e->value)) != CLV_OK)
            clv_error_prefix(st, "%s: %s.%s", e->origin, e->section, e->key);
    }
    return st == CLV_OK && config->env ? load_env_section(config, s) : st;
}

/* Two contexts of one configuration declare the same plugins. */
static bool same_table(const section *s, const clv_option *options,
                       uint32_t count)
{
    if (s->n_options != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(s->options[i].key, options[i].key) ||
            strcmp(s->options[i].default_value, options[i].default_value) ||
            s->options[i].type != options[i].type ||
            s->options[i].scope != options[i].scope)
            return false;
    return true;
}

clv_status clv_config_declare(clv_config *config, const char *name,
                              const clv_option *options, uint32_t count)
{
    if (!core_name_ok(name, MAX_SECTION))
        return clv_error(CLV_ERR_INVALID, "'%s' is no name for a section",
                         name);
    CLV_TRY(core_options_check(name, options, count));
    section *s = find_section(config, name);
    if (s && !same_table(s, options, count))
        return clv_error(CLV_ERR_INVALID,
                         "section [%s] is declared already, with other keys",
                         name);
    if (s) {
        s->n_users++;
        return CLV_OK;
    }
    s = add_section(config, name, options, count);
    if (!s)
        return core_no_memory("for the configuration");
    clv_status st = settle(config, s);
    if (st != CLV_OK)
        core_config_undeclare(config, name);
    return st;
}

void core_config_undeclare(clv_config *config, const char *name)
{
    section *s = find_section(config, name);
    if (!s || --s->n_users)
        return;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < config->n_entries; i++) {
        entry e = config->entries[i];
        if (has_base(e.section, name)) {
            e.option = NULL;
            if (e.rank == CORE_RANK_BUILTIN)
                continue;
        }
        config->entries[kept++] = e;
    }
    config->n_entries = kept;
    free(s->options);
    uint32_t after = (uint32_t)(&config->sections[--config->n_sections] - s);
    memmove(s, s + 1, after * sizeof *s);
}

/* The section whose name is close enough to be meant; NULL if none is. */
static const char *nearest_section(const clv_config *config, const char *name)
{
    const char *nearest = NULL;
    size_t best = 2 + strlen(name) / 3;
    for (uint32_t i = 0; i < config->n_sections; i++) {
        size_t d = core_edit_distance(config->sections[i].name, name);
        if (d < best) {
            best = d;
            nearest = config->sections[i].name;
        }
    }
    return nearest;
}

clv_status core_config_check_waiting(clv_config *config,
                                     bool (*may_wait)(void *, const char *),
                                     void *ctx)
{
    for (uint32_t i = 0; i < config->n_entries; i++) {
        const entry *e = &config->entries[i];
        char base[MAX_SECTION + 1];
        snprintf(base, sizeof base, "%.*s", (int)strcspn(e->section, ":"),
                 e->section);
        if (e->option || may_wait(ctx, base))
            continue;
        const char *nearest = nearest_section(config, e->section);
        return clv_error(CLV_ERR_NOT_FOUND,
                         "%s: nobody takes '%s.%s': there is no section [%s] "
                         "and no plugin of that name; %s%s%s",
                         e->origin, e->section, e->key, e->section,
                         nearest ? "the nearest is [" : "see core.plugin_dirs",
                         nearest ? nearest : "", nearest ? "]" : "");
    }
    return CLV_OK;
}

void core_config_each(const clv_config *config,
                      void (*fn)(void *, const char *, const clv_option *),
                      void *ctx)
{
    for (uint32_t i = 0; i < config->n_sections; i++)
        for (uint32_t j = 0; j < config->sections[i].n_options; j++)
            fn(ctx, config->sections[i].name, &config->sections[i].options[j]);
}

const char *core_config_device_section(const clv_config *config,
                                       const char *name, uint32_t index)
{
    for (uint32_t i = 0; i < config->n_entries; i++) {
        const char *sec = config->entries[i].section;
        bool first = is_device_section(sec) && has_base(sec, name);
        for (uint32_t j = 0; j < i && first; j++)
            first = strcmp(config->entries[j].section, sec) != 0;
        if (first && !index--)
            return strchr(sec, ':') + 1;
    }
    return NULL;
}

void core_config_each_given(const clv_config *config, const char *plugin,
                            void (*fn)(void *, const char *, const char *,
                                       const char *, core_config_rank),
                            void *ctx)
{
    for (uint32_t i = 0; i < config->n_entries; i++) {
        const entry *e = &config->entries[i];
        if (e->value && e->rank != CORE_RANK_BUILTIN &&
            has_base(e->section, plugin))
            fn(ctx, e->section, e->key, e->value, e->rank);
    }
}

bool core_config_uses_env(const clv_config *config)
{
    return config->env;
}

/* ------------------------------------------------------------------------ */
/* Values                                                                   */

const char *clv_config_get(const clv_config *config, const char *key)
{
    const entry *e = find_declared(config, key);
    return e ? e->value : NULL;
}

int64_t clv_config_get_int(const clv_config *config, const char *key)
{
    const entry *e = find_declared(config, key);
    return e ? core_option_int(e->value) : 0;
}

double clv_config_get_float(const clv_config *config, const char *key)
{
    const entry *e = find_declared(config, key);
    return e ? core_option_float(e->value) : 0;
}

bool clv_config_get_bool(const clv_config *config, const char *key)
{
    const entry *e = find_declared(config, key);
    return e && core_option_bool(e->value);
}

uint32_t core_config_choice(const clv_config *config, const char *key)
{
    const entry *e = find_declared(config, key);
    return e ? core_option_choice(e->option->choices, e->value) : 0;
}

const char *clv_config_origin(const clv_config *config, const char *key)
{
    const entry *e = find_declared(config, key);
    return e ? e->origin : NULL;
}

/* ------------------------------------------------------------------------ */
/* Making and destroying                                                    */

void core_config_keep(clv_config *config)
{
    config->kept = true;
}

clv_status clv_config_create(clv_config **out)
{
    *out = NULL;
    clv_config *config = calloc(1, sizeof *config);
    if (!config)
        return core_no_memory("for the configuration");
    clv_status st = core_declare_core_keys(config);
    if (st != CLV_OK) {
        clv_config_destroy(config);
        return st;
    }
    *out = config;
    return CLV_OK;
}

void clv_config_destroy(clv_config *config)
{
    if (!config)
        return;
    if (config->kept) {
        core_unreleased_add(config);
        return;
    }
    for (uint32_t i = 0; i < config->n_sections; i++)
        free(config->sections[i].options);
    for (text *t = config->texts; t;) {
        text *next = t->next;
        free(t);
        t = next;
    }
    free(config->sections);
    free(config->entries);
    free(config);
}
