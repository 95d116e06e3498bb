#include "conf.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
    kit_conf *conf;
    bool no_memory;
} reading;

static bool append(kit_conf *conf, char *item)
{
    char **items =
        item ? realloc(conf->items, (conf->n + 1) * sizeof *items) : NULL;
    if (!items) {
        free(item);
        return false;
    }
    conf->items = items;
    conf->items[conf->n++] = item;
    return true;
}

bool kit_conf_add(kit_conf *conf, const char *setting)
{
    return append(conf, strdup(setting));
}

static int take(void *ctx, const char *section, const char *key,
                const char *value)
{
    reading *r = ctx;
    char *item = NULL;
    if (!section[0] || !key[0])
        return 0;
    if (asprintf(&item, "%s.%s=%s", section, key, value) < 0)
        item = NULL;
    r->no_memory = !append(r->conf, item);
    return !r->no_memory;
}

bool kit_conf_read(kit_conf *conf, const char *path, char error[512])
{
    reading r = {conf, false};
    errno = 0;
    int line = ini_parse(path, take, &r);
    if (!line)
        return true;
    if (r.no_memory)
        snprintf(error, 512, "no memory for the settings of %s", path);
    else if (line < 0)
        snprintf(error, 512, "--conf %s: cannot be read: %s", path,
                 strerror(errno ? errno : EIO));
    else
        snprintf(error, 512,
                 "--conf %s: line %d is no [section] and no key = "
                 "value of one",
                 path, line);
    return false;
}

void kit_conf_free(kit_conf *conf)
{
    for (uint32_t i = 0; i < conf->n; i++)
        free(conf->items[i]);
    free(conf->items);
    *conf = (kit_conf){0};
}

/* ------------------------------------------------------------------------ */

size_t kit_section_length(const char *setting)
{
    return strcspn(setting, ".=");
}

/* The device of a setting, "large" of "vpu:large.rows=4". */
static const char *device_of(const char *setting, const char *plugin,
                             size_t *length)
{
    size_t n = strlen(plugin), section = kit_section_length(setting);
    if (section <= n + 1 || strncmp(setting, plugin, n) || setting[n] != ':')
        return NULL;
    *length = section - n - 1;
    return setting + n + 1;
}

const char *kit_device_section(const kit_config *config, const char *plugin,
                               uint32_t index)
{
    static char names[64][64];
    uint32_t found = 0;
    for (uint32_t i = 0; i < config->n_settings; i++) {
        size_t length, other;
        const char *name = device_of(config->settings[i], plugin, &length);
        bool known = !name || length >= sizeof *names;
        for (uint32_t j = 0; j < i && !known; j++) {
            const char *before = device_of(config->settings[j], plugin, &other);
            known = before && other == length && !memcmp(before, name, length);
        }
        if (known || found++ != index)
            continue;
        if (index >= 64)
            return NULL;
        snprintf(names[index], sizeof names[index], "%.*s", (int)length, name);
        return names[index];
    }
    return NULL;
}
