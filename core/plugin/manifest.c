#include "manifest.h"

#include "cpu_features.h"

#include <stdio.h>
#include <string.h>

#define MAX_ABI 65535

/* A piece of the text, without blanks around it. */
typedef struct piece {
    const char *at;
    size_t size;
} piece;

#define BLANKS " \t\r"

static bool blank(char c)
{
    return c && strchr(BLANKS, c);
}

static piece trim(const char *at, size_t size)
{
    while (size && blank(*at))
        at++, size--;
    while (size && blank(at[size - 1]))
        size--;
    return (piece){at, size};
}

/* Printed text is short and has no control characters. */
#define SHOWN(p) (int)((p).size < 40 ? (p).size : 40), (p).at

const char *core_kind_name(uint32_t kind)
{
    static const char *const names[] = {NULL, "cpu", "gpu", "npu", "other"};
    return kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

/* ------------------------------------------------------------------------ */
/* Values                                                                   */

static clv_status parse_name(piece value, core_manifest *out)
{
    if (value.size <= CORE_PLUGIN_NAME_MAX) {
        memcpy(out->name, value.at, value.size);
        out->name[value.size] = 0;
        if (core_name_ok(out->name, CORE_PLUGIN_NAME_MAX))
            return CLV_OK;
    }
    return clv_error(CLV_ERR_FORMAT,
                     "its manifest: name: '%.*s' is no name: at most %d small "
                     "letters, digits and '_', a letter first",
                     SHOWN(value), CORE_PLUGIN_NAME_MAX);
}

/* A number from 1 to MAX_ABI at the start of *rest, cut off it; else 0. */
static uint32_t take_version(piece *rest)
{
    uint32_t n = 0;
    while (rest->size && *rest->at >= '0' && *rest->at <= '9') {
        n = n * 10 + (uint32_t)(*rest->at - '0');
        if (n > MAX_ABI)
            return 0;
        rest->at++;
        rest->size--;
    }
    return n;
}

static clv_status parse_abi(piece value, core_manifest *out)
{
    piece rest = value;
    out->abi_min = out->abi_max = take_version(&rest);
    if (rest.size && *rest.at == '-') {
        rest = (piece){rest.at + 1, rest.size - 1};
        out->abi_max = take_version(&rest);
    }
    if (rest.size || !out->abi_min || out->abi_max < out->abi_min)
        return clv_error(CLV_ERR_FORMAT,
                         "its manifest: abi: '%.*s' is no range of versions; "
                         "\"1\" or \"1-2\" is one",
                         SHOWN(value));
    snprintf(out->abi, sizeof out->abi,
             out->abi_min < out->abi_max ? "%u-%u" : "%u", out->abi_min,
             out->abi_max);
    return CLV_OK;
}

static clv_status copy_words(const char *key, piece value,
                             char out[CORE_MANIFEST_VALUE_MAX])
{
    if (value.size >= CORE_MANIFEST_VALUE_MAX)
        return clv_error(CLV_ERR_FORMAT,
                         "its manifest: %s: longer than %d bytes", key,
                         CORE_MANIFEST_VALUE_MAX - 1);
    memcpy(out, value.at, value.size);
    out[value.size] = 0;
    return CLV_OK;
}

static clv_status parse_devices(piece value, core_manifest *out)
{
    char words[CORE_MANIFEST_VALUE_MAX];
    CLV_TRY(copy_words("devices", value, words));
    const char *list = words;
    for (piece word; core_next_item(&list, BLANKS, &word.at, &word.size);) {
        uint32_t kind = CLV_DEVICE_CPU;
        while (kind <= CLV_DEVICE_OTHER &&
               !core_item_is(word.at, word.size, core_kind_name(kind)))
            kind++;
        if (kind > CLV_DEVICE_OTHER)
            return clv_error(CLV_ERR_FORMAT,
                             "its manifest: devices: '%.*s' is no kind of "
                             "device; they are cpu, gpu, npu and other",
                             SHOWN(word));
        out->kinds |= 1u << kind;
    }
    if (!out->kinds)
        return clv_error(CLV_ERR_FORMAT,
                         "its manifest: devices: it names no kind of device; "
                         "they are cpu, gpu, npu and other");
    for (uint32_t kind = CLV_DEVICE_CPU; kind <= CLV_DEVICE_OTHER; kind++) {
        if (!(out->kinds & 1u << kind))
            continue;
        strcat(out->kinds_text, out->kinds_text[0] ? " " : "");
        strcat(out->kinds_text, core_kind_name(kind));
    }
    return CLV_OK;
}

static clv_status parse_cpu(piece value, core_manifest *out)
{
    return copy_words("cpu", value, out->cpu);
}

static clv_status parse_drivers(piece value, core_manifest *out)
{
    return copy_words("drivers", value, out->drivers);
}

/* ------------------------------------------------------------------------ */
/* Lines                                                                    */

static const struct {
    const char *key;
    clv_status (*parse)(piece value, core_manifest *out);
    bool mandatory;
} keys[] = {
    {"name", parse_name, true},        {"abi", parse_abi, true},
    {"devices", parse_devices, true},  {"cpu", parse_cpu, false},
    {"drivers", parse_drivers, false},
};
#define N_KEYS (sizeof keys / sizeof *keys)

/* seen: bit per key. */
static clv_status parse_line(piece line, uint32_t *seen, core_manifest *out)
{
    const char *equals = memchr(line.at, '=', line.size);
    if (!equals)
        return clv_error(CLV_ERR_FORMAT,
                         "its manifest: '%.*s' is no \"key = value\"",
                         SHOWN(line));
    piece key = trim(line.at, (size_t)(equals - line.at));
    piece value = trim(equals + 1, line.size - (size_t)(equals + 1 - line.at));
    for (uint32_t i = 0; i < N_KEYS; i++) {
        if (!core_item_is(key.at, key.size, keys[i].key))
            continue;
        if (*seen & 1u << i)
            return clv_error(CLV_ERR_FORMAT, "its manifest: %s: given twice",
                             keys[i].key);
        *seen |= 1u << i;
        return keys[i].parse(value, out);
    }
    return CLV_OK;
}

static bool printable(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((text[i] < ' ' && text[i] != '\n' && !blank(text[i])) ||
            text[i] == 127)
            return false;
    return true;
}

clv_status core_manifest_parse(const char *text, size_t size,
                               core_manifest *out)
{
    *out = (core_manifest){0};
    uint32_t seen = 0;
    if (!printable(text, size))
        return clv_error(CLV_ERR_FORMAT, "its manifest: it is no text");
    while (size) {
        const char *newline = memchr(text, '\n', size);
        size_t n = newline ? (size_t)(newline - text) : size;
        const char *comment = memchr(text, '#', n);
        piece line = trim(text, comment ? (size_t)(comment - text) : n);
        if (line.size)
            CLV_TRY(parse_line(line, &seen, out));
        n += newline != NULL;
        text += n;
        size -= n;
    }
    for (uint32_t i = 0; i < N_KEYS; i++)
        if (keys[i].mandatory && !(seen & 1u << i))
            return clv_error(CLV_ERR_FORMAT, "its manifest: %s: not given",
                             keys[i].key);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Checks                                                                   */

static clv_status check_cpu(const core_manifest *m)
{
    const char *list = m->cpu;
    for (piece word; core_next_item(&list, BLANKS, &word.at, &word.size);) {
        core_feature feature = core_cpu_feature(word.at, word.size);
        if (feature == CORE_FEATURE_ABSENT)
            return clv_error(CLV_ERR_UNSUPPORTED,
                             "it needs the processor feature '%.*s', which "
                             "this one lacks; install a build of the plugin "
                             "without it",
                             SHOWN(word));
        if (feature == CORE_FEATURE_UNKNOWN)
            return clv_error(CLV_ERR_UNSUPPORTED,
                             "it needs the processor feature '%.*s', which "
                             "this libcleave does not know here; correct the "
                             "manifest's cpu, or install a newer libcleave",
                             SHOWN(word));
    }
    return CLV_OK;
}

clv_status core_manifest_check(const core_manifest *m, const char *name)
{
    if (name && strcmp(m->name, name))
        return clv_error(CLV_ERR_REFUSED,
                         "its manifest calls it '%s', its file is named for "
                         "'%s'; name the file cleave_%s.so",
                         m->name, name, m->name);
    if (m->abi_min > CLV_ABI_VERSION || m->abi_max < CLV_ABI_VERSION_MIN)
        return clv_error(CLV_ERR_VERSION,
                         "it speaks ABI %u to %u, this libcleave %u to %u; "
                         "install a plugin built for it",
                         m->abi_min, m->abi_max, CLV_ABI_VERSION_MIN,
                         CLV_ABI_VERSION);
    return check_cpu(m);
}
