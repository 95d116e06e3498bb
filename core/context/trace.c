#include "trace.h"

#include "../base/error.h"
#include "../base/grow.h"
#include "../base/hash.h"
#include "../base/text.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct span {
    uint64_t begin_ns, end_ns;
    uint32_t name, track; /* in strings, in tracks */
} span;

typedef struct track {
    uint32_t clock, name;
} track;

struct core_trace {
    _Atomic bool enabled;
    pthread_mutex_t mutex; /* protects the rest */
    span *spans;
    uint32_t n_spans, spans_capacity;
    uint64_t n_dropped;
    track *tracks;
    uint32_t n_tracks, tracks_capacity;
    char **strings; /* each once */
    uint32_t n_strings, strings_capacity;
    uint32_t *buckets;  /* open addressing: 1 + index in strings, 0: free */
    uint32_t n_buckets; /* a power of two, over twice n_strings */
};

clv_status core_trace_create(struct core_trace **out)
{
    *out = NULL;
    struct core_trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        return core_no_memory("for a trace");
    pthread_mutex_init(&trace->mutex, NULL);
    *out = trace;
    return CLV_OK;
}

void core_trace_destroy(struct core_trace *trace)
{
    if (!trace)
        return;
    for (uint32_t i = 0; i < trace->n_strings; i++)
        free(trace->strings[i]);
    free(trace->strings);
    free(trace->buckets);
    free(trace->tracks);
    free(trace->spans);
    pthread_mutex_destroy(&trace->mutex);
    free(trace);
}

void clv_trace_enable(clv_context *ctx, bool on)
{
    atomic_store_explicit(&ctx->trace->enabled, on, memory_order_relaxed);
}

bool clv_trace_enabled(const clv_context *ctx)
{
    return atomic_load_explicit(&ctx->trace->enabled, memory_order_relaxed);
}

/* ------------------------------------------------------------------------ */
/* Strings, each stored once. All below with the mutex held.                 */

/* The bucket that holds s, or the free one where it belongs. */
static uint32_t *find_bucket(struct core_trace *trace, const char *s)
{
    uint32_t mask = trace->n_buckets - 1;
    for (uint64_t i = core_hash(CORE_HASH_SEED, s, strlen(s)) & mask;;
         i = (i + 1) & mask) {
        uint32_t *bucket = &trace->buckets[i];
        if (!*bucket || !strcmp(trace->strings[*bucket - 1], s))
            return bucket;
    }
}

static bool rehash(struct core_trace *trace, uint32_t n)
{
    uint32_t *buckets = calloc(n, sizeof *buckets);
    if (!buckets)
        return false;
    free(trace->buckets);
    trace->buckets = buckets;
    trace->n_buckets = n;
    for (uint32_t i = 0; i < trace->n_strings; i++)
        *find_bucket(trace, trace->strings[i]) = i + 1;
    return true;
}

static bool intern(struct core_trace *trace, const char *s, uint32_t *index)
{
    if (trace->n_strings * 2 >= trace->n_buckets &&
        !rehash(trace, trace->n_buckets ? trace->n_buckets * 2 : 256))
        return false;
    uint32_t *bucket = find_bucket(trace, s);
    if (!*bucket) {
        char *copy = NULL;
        if (!core_grow(&trace->strings, &trace->strings_capacity,
                       trace->n_strings + 1ull, sizeof *trace->strings) ||
            !(copy = strdup(s)))
            return false;
        trace->strings[trace->n_strings++] = copy;
        *bucket = trace->n_strings;
    }
    *index = *bucket - 1;
    return true;
}

static bool find_track(struct core_trace *trace, uint32_t clock,
                       const char *name, uint32_t *index)
{
    uint32_t string;
    if (!intern(trace, name, &string))
        return false;
    for (uint32_t i = 0; i < trace->n_tracks; i++) {
        if (trace->tracks[i].clock == clock &&
            trace->tracks[i].name == string) {
            *index = i;
            return true;
        }
    }
    if (!core_grow(&trace->tracks, &trace->tracks_capacity,
                   trace->n_tracks + 1ull, sizeof *trace->tracks))
        return false;
    trace->tracks[trace->n_tracks] = (track){clock, string};
    *index = trace->n_tracks++;
    return true;
}

static bool add_span(struct core_trace *trace, uint32_t clock,
                     const char *track_name, const char *name, span s)
{
    if (trace->n_spans >= CORE_TRACE_MAX_SPANS ||
        !find_track(trace, clock, track_name, &s.track) ||
        !intern(trace, name, &s.name) ||
        !core_grow(&trace->spans, &trace->spans_capacity, trace->n_spans + 1ull,
                   sizeof *trace->spans))
        return false;
    trace->spans[trace->n_spans++] = s;
    return true;
}

/* ------------------------------------------------------------------------ */

void core_trace_add(clv_context *ctx, uint32_t clock, const char *track_name,
                    const char *name, uint64_t begin_ns, uint64_t end_ns)
{
    struct core_trace *trace = ctx->trace;
    if (!clv_trace_enabled(ctx))
        return;
    span s = {.begin_ns = begin_ns,
              .end_ns = end_ns > begin_ns ? end_ns : begin_ns};
    pthread_mutex_lock(&trace->mutex);
    if (!add_span(trace, clock, track_name, name, s))
        trace->n_dropped++;
    pthread_mutex_unlock(&trace->mutex);
}

void clv_trace_span(clv_context *ctx, const char *track_name, const char *name,
                    uint64_t begin_ns, uint64_t end_ns)
{
    core_trace_add(ctx, CLV_CLOCK_REAL, track_name, name, begin_ns, end_ns);
}

const char *core_trace_host_track(void)
{
    static _Thread_local char name[24];
    if (!name[0])
        snprintf(name, sizeof name, "host %d", (int)gettid());
    return name;
}

/* ------------------------------------------------------------------------ */
/* Chrome's trace event format. A clock domain is a process, a track one of   */
/* its threads; times are microseconds.                                       */

static uint32_t process_of(uint32_t clock)
{
    return clock == CLV_CLOCK_VIRTUAL ? 2 : 1;
}

static void add_metadata(core_text *text, uint32_t pid, uint32_t tid,
                         const char *what, const char *name)
{
    core_text_add(text,
                  "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\","
                  "\"args\":{\"name\":",
                  pid, tid, what);
    core_text_add_json(text, name);
    core_text_add(text, "}},\n");
}

static void add_tracks(core_text *text, const struct core_trace *trace)
{
    bool seen[2] = {false, false};
    for (uint32_t i = 0; i < trace->n_tracks; i++) {
        const track *t = &trace->tracks[i];
        uint32_t pid = process_of(t->clock);
        if (!seen[pid - 1])
            add_metadata(text, pid, 0, "process_name",
                         pid == 1 ? "real time" : "virtual time");
        seen[pid - 1] = true;
        add_metadata(text, pid, i + 1, "thread_name", trace->strings[t->name]);
    }
}

/* Earliest start in each clock domain: times are shown from there. */
static void find_origins(const struct core_trace *trace, uint64_t origins[2])
{
    origins[0] = origins[1] = UINT64_MAX;
    for (uint32_t i = 0; i < trace->n_spans; i++) {
        const span *s = &trace->spans[i];
        uint64_t *origin =
            &origins[process_of(trace->tracks[s->track].clock) - 1];
        *origin = s->begin_ns < *origin ? s->begin_ns : *origin;
    }
}

static void add_event(core_text *text, const struct core_trace *trace,
                      const span *s, const uint64_t origins[2])
{
    uint32_t pid = process_of(trace->tracks[s->track].clock);
    uint64_t begin = s->begin_ns - origins[pid - 1];
    uint64_t length = s->end_ns - s->begin_ns;
    core_text_add(text,
                  "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,"
                  "\"ts\":%llu.%03u,\"dur\":%llu.%03u,\"name\":",
                  pid, s->track + 1, (unsigned long long)(begin / 1000),
                  (unsigned)(begin % 1000), (unsigned long long)(length / 1000),
                  (unsigned)(length % 1000));
    core_text_add_json(text, trace->strings[s->name]);
    core_text_add(text, "},\n");
}

static clv_status write_text(core_text *text, clv_file_writer *file)
{
    if (text->failed)
        return core_no_memory("to format the trace");
    clv_status status = CLV_OK;
    if (text->size)
        status = clv_file_writer_write(file, text->data, text->size);
    core_text_clear(text);
    return status;
}

static clv_status write_events(const struct core_trace *trace,
                               clv_file_writer *file)
{
    core_text text = {0};
    uint64_t origins[2];
    clv_status status = CLV_OK;
    find_origins(trace, origins);
    core_text_add(&text,
                  "{\"displayTimeUnit\":\"ns\",\"otherData\":"
                  "{\"dropped_spans\":\"%llu\"},\"traceEvents\":[\n",
                  (unsigned long long)trace->n_dropped);
    add_tracks(&text, trace);
    for (uint32_t i = 0; i < trace->n_spans && !status; i++) {
        add_event(&text, trace, &trace->spans[i], origins);
        if (text.size > 1 << 16)
            status = write_text(&text, file);
    }
    /* An event without effect, so that every one above ends in a comma. */
    core_text_add(&text, "{\"ph\":\"M\",\"pid\":1,\"tid\":0,"
                         "\"name\":\"process_sort_index\",\"args\":"
                         "{\"sort_index\":0}}\n]}\n");
    if (!status)
        status = write_text(&text, file);
    core_text_finish(&text);
    return status;
}

clv_status clv_trace_write(clv_context *ctx, const char *path)
{
    clv_file_writer *file;
    CLV_TRY(clv_file_writer_open(path, &file));
    pthread_mutex_lock(&ctx->trace->mutex);
    const clv_status status = write_events(ctx->trace, file);
    pthread_mutex_unlock(&ctx->trace->mutex);
    if (status) {
        clv_file_writer_discard(file);
        return status;
    }
    return clv_file_writer_commit(file);
}
