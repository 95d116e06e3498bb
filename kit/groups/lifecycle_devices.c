/* What enumerate says. */
#include "lifecycle.h"

#include <stdlib.h>
#include <string.h>

static void run_enumerate(kit *k, const void *arg)
{
    enum { STRIDE = sizeof(clv_device_info) + 40 };
    kit_plugin p;
    (void)arg;
    lifecycle_make(k, &p);
    uint32_t n = p.n_devices;
    uint8_t *room = malloc((size_t)(n + 1) * STRIDE);
    KIT_CHECK(k, room, "no memory for the case");
    for (uint32_t given = 0; given <= n + 1; given++) {
        memset(room, 0x77, (size_t)(n + 1) * STRIDE);
        for (uint32_t i = 0; i < given; i++)
            *(clv_header *)(void *)(room + i * STRIDE) = (clv_header){
                sizeof(clv_device_info), CLV_STRUCT_DEVICE_INFO, NULL};
        uint32_t count = given;
        KIT_OK(k,
               p.api.enumerate(p.inst, &count, given ? (void *)room : NULL,
                               given ? STRIDE : 0),
               "enumerate with room for %u", (unsigned)given);
        KIT_CHECK(k, count == n,
                  "enumerate with room for %u counts %u "
                  "devices, %u are present",
                  (unsigned)given, (unsigned)count, (unsigned)n);
        for (uint32_t i = 0; i <= n; i++) {
            uint32_t used = i < given && i < n ? sizeof(clv_device_info)
                            : i < given        ? sizeof(clv_header)
                                               : 0;
            for (uint32_t j = used; j < STRIDE; j++)
                KIT_CHECK(k, room[i * STRIDE + j] == 0x77,
                          "enumerate with room for %u writes byte %u of "
                          "element %u, beyond what it was given",
                          (unsigned)given, (unsigned)j, (unsigned)i);
            const clv_device_info *info = (const void *)(room + i * STRIDE);
            KIT_CHECK(k,
                      i >= given || i >= n || !strcmp(info->id, p.infos[i].id),
                      "enumerate gives devices in another order");
        }
    }
    free(room);
    lifecycle_end(&p);
}

/* Length of the UTF-8 character at s, 0: it is none. */
static int utf8_length(const unsigned char *s)
{
    int n = *s < 0x80                 ? 1
            : *s >= 0xc2 && *s < 0xe0 ? 2
            : *s >= 0xe0 && *s < 0xf0 ? 3
            : *s >= 0xf0 && *s < 0xf5 ? 4
                                      : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f) ||
        (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

static void check_text(kit *k, const char *text, size_t size, const char *what)
{
    KIT_CHECK(k, memchr(text, 0, size), "%s has no end within its %zu bytes",
              what, size);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = utf8_length(s);
        KIT_CHECK(k, n && *s >= ' ' && *s != 0x7f,
                  "%s has the byte %#x at %td: no UTF-8 text", what, *s,
                  (const char *)s - text);
        s += n;
    }
}

static void check_info(kit *k, const clv_device_info *info)
{
    check_text(k, info->id, sizeof info->id, "a device's id");
    check_text(k, info->name, sizeof info->name, "a device's name");
    check_text(k, info->driver, sizeof info->driver, "a device's driver");
    check_text(k, info->bus_path, sizeof info->bus_path, "a device's bus_path");
    KIT_CHECK(k, !strpbrk(info->id, " \t:,"),
              "the device id \"%s\" has a blank, colon or comma; it is part of "
              "names such as plugin:id in lists",
              info->id);
    KIT_CHECK(k, info->name[0], "device \"%s\" has no name for people",
              info->id);
    KIT_CHECK(k, info->kind >= CLV_DEVICE_CPU && info->kind <= CLV_DEVICE_OTHER,
              "device \"%s\" is of kind %u, none of clv_device_kind", info->id,
              (unsigned)info->kind);
    KIT_CHECK(k, info->clock <= CLV_CLOCK_VIRTUAL,
              "device \"%s\" has clock %u, none of clv_clock", info->id,
              (unsigned)info->clock);
    KIT_CHECK(k, !info->memory_size || info->memory_free <= info->memory_size,
              "device \"%s\" has more memory free than there is", info->id);
    KIT_CHECK(k, !info->reserved, "device \"%s\" sets a reserved field",
              info->id);
}

static void run_infos(kit *k, const void *arg)
{
    enum { LIVES = 4 };
    kit_plugin p;
    clv_device_info *first = NULL;
    uint32_t n = 0;
    (void)arg;
    for (int life = 0; life < LIVES; life++) {
        lifecycle_make(k, &p);
        if (!life) {
            n = p.n_devices;
            first = calloc(n + 1, sizeof *first);
            KIT_CHECK(k, first, "no memory for the case");
            memcpy(first, p.infos, n * sizeof *first);
        }
        KIT_CHECK(k, p.n_devices == n,
                  "enumerate counts %u devices, and %u in another life",
                  (unsigned)n, (unsigned)p.n_devices);
        for (uint32_t i = 0; i < n; i++) {
            check_info(k, &p.infos[i]);
            KIT_CHECK(k,
                      !strcmp(p.infos[i].id, first[i].id) &&
                          !memcmp(p.infos[i].uuid, first[i].uuid, 16) &&
                          p.infos[i].kind == first[i].kind,
                      "device %u is \"%s\", and \"%s\" in another life; ids "
                      "are stable",
                      (unsigned)i, first[i].id, p.infos[i].id);
            for (uint32_t j = 0; j < i; j++)
                KIT_CHECK(k, strcmp(p.infos[i].id, p.infos[j].id),
                          "devices %u and %u have the same id \"%s\"",
                          (unsigned)j, (unsigned)i, p.infos[i].id);
        }
        lifecycle_end(&p);
    }
    free(first);
}

static void run_none(kit *k, const void *arg)
{
    kit_plugin p;
    (void)arg;
    lifecycle_make(k, &p); /* no device is success */
    if (p.n_devices)
        kit_skip(k, "%u devices are present", (unsigned)p.n_devices);
    lifecycle_end(&p);
}

void lifecycle_list_devices(kit_list *l)
{
    kit_add(l, KIT_PER_PLUGIN, 0, run_enumerate, NULL, "enumerate.count");
    kit_add(l, KIT_PER_PLUGIN, 0, run_infos, NULL, "enumerate.infos");
    kit_add(l, KIT_PER_PLUGIN, 0, run_none, NULL, "enumerate.no_device");
}
