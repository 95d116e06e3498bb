#include "calls.h"
#include "child.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t kit_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void kit_child_init(kit *k, const kit_config *config, int fd)
{
    memset(k, 0, sizeof *k);
    k->config = config;
    k->fd = fd;
    k->device = KIT_NO_DEVICE;
    k->name = "";
    k->begin_ns = kit_now();
    pthread_mutex_init(&k->mutex, NULL);
    kit_child_handlers(k->handlers);
}

void kit_child_handlers(void (*out[KIT_N_SIGNALS])(int))
{
    for (int i = 1; i < KIT_N_SIGNALS; i++) {
        struct sigaction action = {.sa_handler = SIG_DFL};
        sigaction(i, NULL, &action);
        out[i] = action.sa_handler;
    }
}

/* A parent that cannot be told anything leaves nothing to do. */
static void send_record(kit *k, kit_record *record)
{
    record->magic = KIT_RECORD_MAGIC;
    record->index = k->index;
    record->warned = k->warned;
    record->ns = kit_now() - k->begin_ns;
    ssize_t n;
    do
        n = write(k->fd, record, sizeof *record);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof *record)
        _exit(KIT_EXIT_FAILED);
}

static void send_text(kit *k, uint32_t kind, const char *text)
{
    kit_record record = {.kind = kind};
    snprintf(record.text, sizeof record.text, "%s", text);
    send_record(k, &record);
}

void kit_child_send(kit *k, uint32_t tag, const void *data, size_t size)
{
    kit_record record = {.kind = KIT_RECORD_DATA, .tag = tag};
    if (size > sizeof record.data)
        kit_fail(k, "the kit's data of %zu bytes do not fit a record", size);
    memcpy(record.data, data, size);
    send_record(k, &record);
}

/* ------------------------------------------------------------------------ */
/* Verdicts                                                                 */

static _Noreturn void end_with(kit *k, uint32_t kind, const char *fmt,
                               va_list args)
{
    char text[KIT_TEXT_SIZE];
    while (atomic_exchange(&k->failing, true))
        pause(); /* another thread was first */
    vsnprintf(text, sizeof text, fmt, args);
    send_text(k, kind, text);
    _exit(KIT_EXIT_FAILED);
}

void kit_fail(kit *k, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    end_with(k, KIT_RECORD_FAIL, fmt, args);
    va_end(args);
}

void kit_child_usage(kit *k, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    end_with(k, KIT_RECORD_USAGE, fmt, args);
    va_end(args);
}

static void keep_note(kit *k, const char *fmt, va_list args)
{
    pthread_mutex_lock(&k->mutex);
    vsnprintf(k->note, sizeof k->note, fmt, args);
    pthread_mutex_unlock(&k->mutex);
}

void kit_skip(kit *k, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    keep_note(k, fmt, args);
    va_end(args);
    k->skipped = true;
}

void kit_note(kit *k, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!k->skipped)
        keep_note(k, fmt, args);
    va_end(args);
}

void kit_warn(kit *k, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    keep_note(k, fmt, args);
    va_end(args);
    k->warned = true;
}

void kit_checked(kit *k)
{
    atomic_fetch_add_explicit(&k->n_checks, 1, memory_order_relaxed);
}

static const char *status_name(clv_status status)
{
    static const char *const names[] = {"CLV_OK",
                                        "CLV_ERR_INVALID",
                                        "CLV_ERR_UNSUPPORTED",
                                        "CLV_ERR_NO_MEMORY",
                                        "CLV_ERR_IO",
                                        "CLV_ERR_FORMAT",
                                        "CLV_ERR_NOT_FOUND",
                                        "CLV_ERR_VERSION",
                                        "CLV_ERR_TIMEOUT",
                                        "CLV_ERR_CANCELLED",
                                        "CLV_ERR_DEVICE_LOST",
                                        "CLV_ERR_LIMIT",
                                        "CLV_ERR_REFUSED",
                                        "CLV_ERR_INTERNAL"};
    int64_t i = -(int64_t)status;
    return i >= 0 && i < (int64_t)(sizeof names / sizeof *names)
               ? names[i]
               : "a status that is not one";
}

void kit_expect(kit *k, clv_status status, clv_status expected,
                const char *call, ...)
{
    char what[160], said[KIT_TEXT_SIZE];
    va_list args;
    kit_checked(k);
    pthread_mutex_lock(&k->mutex);
    memcpy(said, k->error, sizeof said);
    k->error[0] = 0;
    pthread_mutex_unlock(&k->mutex);
    if (status == expected && (status == CLV_OK || said[0]))
        return;
    va_start(args, call);
    vsnprintf(what, sizeof what, call, args);
    va_end(args);
    if (status == expected)
        kit_fail(k,
                 "%s: answered %s and did not say why: call "
                 "host->set_error() first",
                 what, status_name(status));
    kit_fail(k, "%s: answered %s (%d), expected %s%s%.300s", what,
             status_name(status), (int)status, status_name(expected),
             status == CLV_OK ? ""
             : said[0]        ? "; it says: "
                              : "; it said nothing",
             status == CLV_OK ? "" : said);
}

/* ------------------------------------------------------------------------ */
/* A case                                                                   */

/* FNV-1a, so that a case's random values depend on its name alone. */
static uint64_t hash_text(uint64_t seed, const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u ^ seed * 0x9e3779b97f4a7c15u;
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    return hash;
}

void kit_child_begin(kit *k, uint32_t index, const char *name)
{
    k->index = index;
    k->name = name;
    k->skipped = k->warned = false;
    k->note[0] = k->error[0] = 0;
    k->random = kit_seed(k) | 1;
    atomic_store(&k->n_checks, 0);
    k->begin_ns = kit_now();
    send_text(k, KIT_RECORD_BEGIN, "");
}

void kit_alive(kit *k)
{
    send_text(k, KIT_RECORD_ALIVE, "");
}

void kit_child_verdict(kit *k)
{
    char note[KIT_TEXT_SIZE];
    if (!k->skipped && !atomic_load(&k->n_checks))
        kit_fail(k, "the case checked nothing");
    pthread_mutex_lock(&k->mutex);
    memcpy(note, k->note, sizeof note);
    pthread_mutex_unlock(&k->mutex);
    send_text(k, k->skipped ? KIT_RECORD_SKIP : KIT_RECORD_PASS, note);
}

void kit_child_end(kit *k)
{
    kit_drop_under_test(k);
    send_text(k, KIT_RECORD_END, "");
}

uint64_t kit_seed(const kit *k)
{
    return hash_text(k->config->seed, k->name);
}

uint64_t kit_timeout_ns(const kit *k)
{
    return k->config->timeout_ns;
}

bool kit_thorough(const kit *k)
{
    return k->config->thorough;
}

const char *kit_path(const kit *k)
{
    return k->config->path;
}

uint64_t kit_time_left(const kit *k)
{
    uint64_t spent = kit_calls_spent();
    uint64_t limit = k->config->timeout_ns - k->config->timeout_ns / 8;
    return spent < limit ? limit - spent : 0;
}
