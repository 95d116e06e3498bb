#include "store.h"
#include "measure_copies.h"
#include "../../core/base/error.h"
#include "../../core/base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Times that no clock blurs. */
#define CLEAR_NS 1000

/* ------------------------------------------------------------------------ */
/* Devices                                                                  */

planner_profile_device *planner_profile_find(const planner_profile *profile,
                                             const clv_device *dev)
{
    for (uint32_t i = 0; i < profile->n_entries; i++)
        if (profile->entries[i].dev == dev)
            return profile->entries[i].known;
    return NULL;
}

static planner_profile_device *make_device(planner_profile *profile,
                                           clv_device *dev, uint64_t hash)
{
    planner_profile_device **grown =
        reallocarray(profile->devices, profile->n_devices + 1u, sizeof *grown);
    if (!grown)
        return NULL;
    profile->devices = grown;
    planner_profile_device *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->dev = dev;
    d->hash = hash;
    grown[profile->n_devices++] = d;
    return d;
}

static planner_profile_device *find_same(const planner_profile *profile,
                                         uint64_t hash)
{
    for (uint32_t i = 0; hash && i < profile->n_devices; i++)
        if (profile->devices[i]->hash == hash)
            return profile->devices[i];
    return NULL;
}

planner_profile_device *planner_profile_add_device(planner_profile *profile,
                                                   clv_device *dev)
{
    const uint64_t hash = planner_profile_device_hash(dev);
    planner_profile_device *d = planner_profile_find(profile, dev);
    if (d)
        return d;
    planner_profile_entry *grown =
        reallocarray(profile->entries, profile->n_entries + 1u, sizeof *grown);
    if (!grown)
        return NULL;
    profile->entries = grown;
    d = find_same(profile, hash);
    if (!d)
        d = make_device(profile, dev, hash);
    if (d)
        grown[profile->n_entries++] = (planner_profile_entry){dev, d};
    return d;
}

/* Room in retired is kept for the overheads in use. */
static void retire_overheads(planner_profile_device *dev)
{
    if (dev->overheads)
        dev->retired[dev->n_retired++] = dev->overheads;
    dev->overheads = NULL;
}

void planner_profile_forget(planner_profile_device *dev)
{
    for (uint32_t i = 0; i < dev->n_kinds; i++)
        planner_fit_finish(&dev->kinds[i].fit);
    free(dev->kinds);
    free(dev->samples);
    free(dev->slots);
    free(dev->done);
    dev->done = NULL;
    dev->n_done = 0;
    dev->kinds = NULL;
    dev->samples = NULL;
    dev->slots = NULL;
    dev->n_kinds = dev->n_samples = dev->samples_capacity = dev->n_slots = 0;
    dev->top_bytes = dev->top_flops = 0;
    dev->standard = (planner_reference){0};
    dev->pace = 0;
    planner_programs_finish(&dev->programs);
    retire_overheads(dev);
}

clv_status planner_profile_set_overheads(planner_profile_device *dev,
                                         const planner_overheads *overheads)
{
    retire_overheads(dev);
    planner_overheads **grown =
        reallocarray(dev->retired, dev->n_retired + 1u, sizeof *grown);
    if (!grown)
        return core_no_memory("for a profile");
    dev->retired = grown;
    if (!(dev->overheads = malloc(sizeof *overheads)))
        return core_no_memory("for a profile");
    *dev->overheads = *overheads;
    return CLV_OK;
}

static void destroy_device(planner_profile_device *dev)
{
    planner_profile_forget(dev);
    for (uint32_t i = 0; i < dev->n_retired; i++)
        free(dev->retired[i]);
    free(dev->retired);
    free(dev->key);
    free(dev->path);
    free(dev);
}

/* ------------------------------------------------------------------------ */
/* Samples by work                                                          */

static uint64_t hash_kind(const planner_workload_kind *kind)
{
    uint64_t hash = core_hash_mix(1, kind->op | (uint64_t)kind->variant << 32);
    hash = core_hash_mix(hash, kind->detail | (uint64_t)kind->span << 32);
    hash =
        core_hash_mix(hash, kind->dtype | (uint64_t)kind->weight_dtype << 32);
    hash = core_hash_mix(hash, kind->quant | (uint64_t)kind->group << 32);
    return kind->way ? core_hash_mix(hash, kind->way) : hash;
}

static uint64_t hash_workload(const planner_workload *workload)
{
    uint64_t hash =
        core_hash_mix(hash_kind(&workload->kind), (uint64_t)workload->n);
    hash = core_hash_mix(hash, (uint64_t)workload->in);
    hash = core_hash_mix(hash, (uint64_t)workload->out);
    return core_hash_mix(hash, (uint64_t)workload->depth);
}

/* The slot of the work's sample, or the empty one where it would be. */
static uint32_t *find_slot(const planner_profile_device *dev,
                           const planner_workload *workload)
{
    uint32_t at = (uint32_t)hash_workload(workload);
    for (;; at++) {
        uint32_t *slot = &dev->slots[at & (dev->n_slots - 1)];
        if (!*slot ||
            planner_workload_equal(&dev->samples[*slot - 1].workload, workload))
            return slot;
    }
}

const planner_sample *planner_profile_sample(const planner_profile_device *dev,
                                             const planner_workload *workload)
{
    if (!dev->n_slots)
        return NULL;
    uint32_t slot = *find_slot(dev, workload);
    return slot ? &dev->samples[slot - 1] : NULL;
}

/* At most half of the slots are taken. */
static bool make_slots(planner_profile_device *dev)
{
    if (2 * (dev->n_samples + 1) <= dev->n_slots)
        return true;
    uint32_t n = dev->n_slots ? 2 * dev->n_slots : 64;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return false;
    free(dev->slots);
    dev->slots = slots;
    dev->n_slots = n;
    for (uint32_t i = 0; i < dev->n_samples; i++)
        *find_slot(dev, &dev->samples[i].workload) = i + 1;
    return true;
}

static bool make_room(planner_profile_device *dev)
{
    if (dev->n_samples < dev->samples_capacity)
        return true;
    uint32_t n = dev->samples_capacity ? 2 * dev->samples_capacity : 64;
    planner_sample *grown = reallocarray(dev->samples, n, sizeof *grown);
    if (!grown)
        return false;
    dev->samples = grown;
    dev->samples_capacity = n;
    return true;
}

/* ------------------------------------------------------------------------ */
/* Kinds                                                                    */

planner_profile_kind *planner_profile_kind_of(const planner_profile_device *dev,
                                              const planner_workload_kind *kind)
{
    uint64_t hash = hash_kind(kind);
    for (uint32_t i = 0; i < dev->n_kinds; i++)
        if (dev->kinds[i].hash == hash &&
            !memcmp(&dev->kinds[i].kind, kind, sizeof *kind))
            return &dev->kinds[i];
    return NULL;
}

static planner_profile_kind *add_kind(planner_profile_device *dev,
                                      const planner_workload_kind *kind)
{
    planner_profile_kind *k = planner_profile_kind_of(dev, kind);
    if (k)
        return k;
    planner_profile_kind *grown =
        reallocarray(dev->kinds, dev->n_kinds + 1u, sizeof *grown);
    if (!grown)
        return NULL;
    dev->kinds = grown;
    k = &grown[dev->n_kinds++];
    *k = (planner_profile_kind){.kind = *kind, .hash = hash_kind(kind)};
    return k;
}

double planner_profile_drift(const planner_profile_device *dev, double drifts)
{
    return dev->pace > 0 ? 1 + drifts * (dev->pace - 1) : 1;
}

void planner_profile_to_standard(planner_profile_device *dev,
                                 planner_sample *sample)
{
    const planner_reference *now = &sample->reference;
    if (!(now->ns > 0))
        return;
    if (!(dev->standard.ns > 0))
        dev->standard = *now;
    sample->ns /= 1 + sample->drifts * (now->ns / dev->standard.ns - 1);
}

clv_status planner_profile_add_sample(planner_profile_device *dev,
                                      const planner_sample *sample)
{
    if (!make_slots(dev) || !make_room(dev) ||
        !add_kind(dev, &sample->workload.kind))
        return core_no_memory("for a profile");
    uint32_t *slot = find_slot(dev, &sample->workload);
    if (!*slot)
        *slot = ++dev->n_samples;
    dev->samples[*slot - 1] = *sample;
    if (sample->ns >= CLEAR_NS) {
        const planner_workload *w = &sample->workload;
        dev->top_bytes =
            fmax(dev->top_bytes, planner_workload_bytes(w) / sample->ns);
        dev->top_flops =
            fmax(dev->top_flops, planner_workload_flops(w) / sample->ns);
    }
    return CLV_OK;
}

static void unite(planner_workload_box *box, const planner_workload_box *other)
{
    for (int i = 0; i < 4; i++) {
        if (other->least[i] < box->least[i])
            box->least[i] = other->least[i];
        if (other->most[i] > box->most[i])
            box->most[i] = other->most[i];
    }
}

clv_status planner_profile_note_covered(planner_profile_device *dev,
                                        const planner_workload_kind *kind,
                                        const planner_workload_box *box)
{
    planner_profile_kind *k = add_kind(dev, kind);
    if (!k)
        return core_no_memory("for a profile");
    if (k->has_covered)
        unite(&k->covered, box);
    else
        k->covered = *box;
    k->has_covered = true;
    return CLV_OK;
}

static uint64_t done_key(const clv_graph *graph, bool full)
{
    uint64_t fingerprint = core_graph_fingerprint(graph);
    return full ? ~fingerprint : fingerprint;
}

static bool has_done(const planner_profile_device *dev, uint64_t key)
{
    for (uint32_t i = 0; i < dev->n_done; i++)
        if (dev->done[i] == key)
            return true;
    return false;
}

bool planner_profile_is_done(const planner_profile_device *dev,
                             const clv_graph *graph, bool full)
{
    uint64_t fully = done_key(graph, true);
    return has_done(dev, fully) || (!full && has_done(dev, ~fully));
}

clv_status planner_profile_note_done(planner_profile_device *dev,
                                     const clv_graph *graph, bool full)
{
    if (planner_profile_is_done(dev, graph, full))
        return CLV_OK;
    uint64_t *grown = reallocarray(dev->done, dev->n_done + 1u, sizeof *grown);
    if (!grown)
        return core_no_memory("for a profile");
    dev->done = grown;
    grown[dev->n_done++] = done_key(graph, full);
    return CLV_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A spread that no quiet machine has. */
#define NOISY 0.25

bool planner_profile_is_noisy(const planner_sample *sample)
{
    return sample->spread > NOISY;
}

void planner_profile_mark_noisy(planner_sample *sample)
{
    sample->spread = fmax(sample->spread, 2 * NOISY);
}

bool planner_profile_has_noisy(const planner_profile_device *dev)
{
    bool any = false;
    for (uint32_t i = 0; i < dev->n_samples && !dev->retaken; i++)
        any = any || planner_profile_is_noisy(&dev->samples[i]);
    return any;
}

/* Samples of a kind; quiet: those that are not noisy. */
static uint32_t count_samples(const planner_profile_device *dev,
                              const planner_profile_kind *kind, bool quiet)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < dev->n_samples; i++) {
        const planner_sample *s = &dev->samples[i];
        n += s->ns > PLANNER_FREE_NS &&
             !(quiet && planner_profile_is_noisy(s)) &&
             !memcmp(&s->workload.kind, &kind->kind, sizeof kind->kind);
    }
    return n;
}

/* To all samples, unless most are quiet: then to those. */
clv_status planner_profile_fit_kind(planner_profile_device *dev,
                                    planner_profile_kind *kind)
{
    const bool quiet =
        2 * count_samples(dev, kind, true) > count_samples(dev, kind, false);
    planner_fit_sample *samples = calloc(dev->n_samples + 1u, sizeof *samples);
    double *power = calloc(dev->n_samples + 1u, sizeof *power);
    clv_status status =
        samples && power ? CLV_OK : core_no_memory("for a profile");
    planner_fit fit = {.n_samples = 0};
    uint32_t n = 0, n_features = 0;
    for (uint32_t i = 0; i < dev->n_samples && !status; i++) {
        const planner_sample *s = &dev->samples[i];
        if (!(s->ns > PLANNER_FREE_NS) ||
            (quiet && planner_profile_is_noisy(s)) ||
            memcmp(&s->workload.kind, &kind->kind, sizeof kind->kind))
            continue;
        n_features = planner_workload_features(&s->workload, samples[n].x);
        samples[n].ns = s->ns;
        power[n++] = s->energy_nj / s->ns;
    }
    if (n && !status)
        status = planner_fit_make(samples, n, n_features, &fit);
    if (!status) {
        if (n)
            qsort(power, n, sizeof *power, compare);
        kind->nj_ns = n ? power[n / 2] : 0;
        planner_fit_finish(&kind->fit);
        kind->fit = fit;
    }
    free(samples);
    free(power);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Devices together                                                         */

static void finish_set(planner_profile_set *set)
{
    free(set->devices);
    free(set->contention.alone);
    free(set->contention.slowdown);
}

clv_status planner_profile_add_set(planner_profile *profile,
                                   clv_device *const *devs, uint32_t n,
                                   const planner_contention *contention)
{
    planner_profile_set *set = NULL;
    for (uint32_t i = 0; i < profile->n_sets && !set; i++)
        if (profile->sets[i].n == n &&
            !memcmp(profile->sets[i].devices, devs, n * sizeof *devs))
            set = &profile->sets[i];
    if (set) {
        free(set->contention.alone);
        free(set->contention.slowdown);
        set->contention = *contention;
        return CLV_OK;
    }
    clv_device **copy = calloc(n, sizeof *copy);
    planner_profile_set *grown =
        reallocarray(profile->sets, profile->n_sets + 1u, sizeof *grown);
    if (grown)
        profile->sets = grown;
    if (!grown || !copy) {
        free(copy);
        return core_no_memory("for a profile");
    }
    memcpy(copy, devs, n * sizeof *devs);
    grown[profile->n_sets++] = (planner_profile_set){
        .devices = copy, .n = n, .contention = *contention};
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static const planner_profile_source meter = {
    .open = planner_meter_create,
    .close = planner_meter_destroy,
    .workload = planner_measure_workload,
    .overheads = planner_measure_overheads,
    .copies = planner_measure_copies,
    .contention = planner_measure_contention,
    .programs = planner_measured_programs,
    .others = planner_others_ns,
};

clv_status planner_profile_create(clv_context *ctx, planner_profile **out)
{
    *out = NULL;
    planner_profile *profile = calloc(1, sizeof *profile);
    if (!profile)
        return core_no_memory("for a profile");
    profile->ctx = ctx;
    profile->source = &meter;
    pthread_mutex_init(&profile->measuring, NULL);
    pthread_rwlock_init(&profile->lock, NULL);
    planner_history_begin(&profile->history);
    *out = profile;
    return CLV_OK;
}

void planner_profile_destroy(planner_profile *profile)
{
    if (!profile)
        return;
    planner_history_finish(&profile->history, profile->ctx);
    for (uint32_t i = 0; i < profile->n_devices; i++)
        destroy_device(profile->devices[i]);
    for (uint32_t i = 0; i < profile->n_sets; i++)
        finish_set(&profile->sets[i]);
    free(profile->devices);
    free(profile->entries);
    free(profile->sets);
    pthread_mutex_destroy(&profile->measuring);
    pthread_rwlock_destroy(&profile->lock);
    free(profile);
}
