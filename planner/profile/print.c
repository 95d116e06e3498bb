/* A profile as text: how much was measured, and how well it predicts. */
#include "../../core/base/text.h"
#include "store.h"

#include <string.h>

/* "matmul f32 x i4 per channel": a work without its sizes. */
static const char *kind_text(const planner_workload_kind *kind,
                             char text[PLANNER_WORKLOAD_TEXT])
{
    const planner_workload workload = {.kind = *kind};
    planner_workload_text(&workload, text);
    char *sizes = strstr(text, " [");
    if (sizes)
        *sizes = 0;
    return text;
}

static const char *model_name(const planner_fit *fit)
{
    return !fit->n_samples ? "none" : fit->tree ? "tree" : "linear";
}

static uint32_t leaves_of(const planner_fit *fit)
{
    return fit->tree ? planner_tree_leaves(fit->tree) : fit->n_samples != 0;
}

/* ------------------------------------------------------------------------ */
/* For people                                                               */

static const char *const learned_names[] = {
    "submit", "submit_idle", "dispatch", "wait_poll", "wait_block", "copy"};
#define N_LEARNED (sizeof learned_names / sizeof *learned_names)

static void md_overheads(core_text *text, const planner_overheads *o)
{
    core_text_add(text,
                  "submit %.1f us (idle queue %.1f), dispatch %.1f us, "
                  "wait %.1f us polling and %.1f us blocking",
                  o->submit / 1e3, o->submit_idle / 1e3, o->dispatch / 1e3,
                  o->wait_poll / 1e3, o->wait_block / 1e3);
    if (o->copy_byte > 0)
        core_text_add(text, ", copies %.1f us and %.1f GB/s", o->copy / 1e3,
                      1 / o->copy_byte);
    if (o->copy_byte_out > 0)
        core_text_add(text, " in, %.1f us and %.1f GB/s out", o->copy_out / 1e3,
                      1 / o->copy_byte_out);
    if (o->copy_byte > 0)
        core_text_add(text, ", %.2f us a row", o->copy_row / 1e3);
    const char *before = "; corrected by runs: ";
    for (uint32_t i = 0; i < N_LEARNED; i++) {
        if (!(o->learned & 1u << i))
            continue;
        core_text_add(text, "%s%s", before, learned_names[i]);
        before = ", ";
    }
    core_text_add(text, "\n\n");
}

static void md_kind(core_text *text, const planner_profile_kind *k)
{
    const planner_fit *fit = &k->fit;
    char name[PLANNER_WORKLOAD_TEXT];
    core_text_add(text, "| %s | %u | %s | %u |", kind_text(&k->kind, name),
                  fit->n_samples, model_name(fit), leaves_of(fit));
    if (fit->n_samples)
        core_text_add(text, " %.4f |", fit->linear.r2);
    else
        core_text_add(text, " - |");
    if (fit->held_out.n)
        core_text_add(text, " %.1f%% | %.1f%% |\n", 100 * fit->held_out.median,
                      100 * fit->held_out.p90);
    else
        core_text_add(text, " - | - |\n");
}

static void md_device(core_text *text, const clv_device *dev,
                      const planner_profile_device *d)
{
    core_text_add(text, "## %s\n\n", dev->id);
    if (!d || (!d->n_kinds && !d->overheads)) {
        core_text_add(text, "Nothing is measured.\n\n");
        return;
    }
    if (d->overheads)
        md_overheads(text, d->overheads);
    core_text_add(text, "| work | samples | model | leaves | linear r^2 | "
                        "held out: median error | p90 |\n"
                        "|---|---:|---|---:|---:|---:|---:|\n");
    for (uint32_t i = 0; i < d->n_kinds; i++)
        md_kind(text, &d->kinds[i]);
    core_text_add(text, "\n");
}

static void md_set(core_text *text, const planner_profile_set *set)
{
    core_text_add(text, "## Together\n\n");
    if (set->contention.bandwidth > 0)
        core_text_add(text, "%.1f GB/s from memory\n\n",
                      set->contention.bandwidth);
    core_text_add(text, "| device | GB/s alone | slower when all compute |\n"
                        "|---|---:|---:|\n");
    for (uint32_t i = 0; i < set->n; i++)
        core_text_add(text, "| %s | %.1f | %.2f times |\n", set->devices[i]->id,
                      set->contention.alone[i], set->contention.slowdown[i]);
    core_text_add(text, "\n");
}

/* ------------------------------------------------------------------------ */
/* For machines                                                             */

static void json_overheads(core_text *text, const planner_overheads *o)
{
    core_text_add(text,
                  ",\"overheads\":{\"submit_ns\":%.9g,"
                  "\"submit_idle_ns\":%.9g,\"dispatch_ns\":%.9g,"
                  "\"wait_poll_ns\":%.9g,\"wait_block_ns\":%.9g,"
                  "\"copy_ns\":%.9g,\"copy_byte_ns\":%.9g,"
                  "\"copy_out_ns\":%.9g,\"copy_byte_out_ns\":%.9g,"
                  "\"copy_row_ns\":%.9g,"
                  "\"learned\":[",
                  o->submit, o->submit_idle, o->dispatch, o->wait_poll,
                  o->wait_block, o->copy, o->copy_byte, o->copy_out,
                  o->copy_byte_out, o->copy_row);
    const char *comma = "";
    for (uint32_t i = 0; i < N_LEARNED; i++) {
        if (!(o->learned & 1u << i))
            continue;
        core_text_add(text, "%s\"%s\"", comma, learned_names[i]);
        comma = ",";
    }
    core_text_add(text, "]}");
}

static void json_kind(core_text *text, const planner_profile_kind *k)
{
    const planner_fit *fit = &k->fit;
    char name[PLANNER_WORKLOAD_TEXT];
    core_text_add(text, "{\"work\":");
    core_text_add_json(text, kind_text(&k->kind, name));
    core_text_add(text, ",\"samples\":%u,\"model\":\"%s\",\"leaves\":%u",
                  fit->n_samples, model_name(fit), leaves_of(fit));
    if (fit->n_samples)
        core_text_add(text, ",\"linear_r2\":%.6f", fit->linear.r2);
    if (fit->held_out.n)
        core_text_add(text,
                      ",\"held_out\":{\"n\":%u,\"median\":%.6g,"
                      "\"p90\":%.6g}",
                      fit->held_out.n, fit->held_out.median, fit->held_out.p90);
    core_text_add(text, "}");
}

static void json_device(core_text *text, const clv_device *dev,
                        const planner_profile_device *d)
{
    core_text_add(text, "{\"id\":");
    core_text_add_json(text, dev->id);
    if (d && d->overheads)
        json_overheads(text, d->overheads);
    core_text_add(text, ",\"kinds\":[");
    for (uint32_t i = 0; d && i < d->n_kinds; i++) {
        core_text_add(text, i ? ",\n" : "\n");
        json_kind(text, &d->kinds[i]);
    }
    core_text_add(text, "]}");
}

static void json_set(core_text *text, const planner_profile_set *set)
{
    core_text_add(text, "{\"bandwidth\":%.9g,\"devices\":[",
                  set->contention.bandwidth);
    for (uint32_t i = 0; i < set->n; i++) {
        core_text_add(text, "%s{\"id\":", i ? "," : "");
        core_text_add_json(text, set->devices[i]->id);
        core_text_add(text, ",\"alone\":%.9g,\"slowdown\":%.9g}",
                      set->contention.alone[i], set->contention.slowdown[i]);
    }
    core_text_add(text, "]}");
}

/* ------------------------------------------------------------------------ */

/* Whether all devices of the set are among these. */
static bool is_within(const planner_profile_set *set, clv_device *const *devs,
                      uint32_t n)
{
    for (uint32_t i = 0; i < set->n; i++) {
        bool found = false;
        for (uint32_t j = 0; j < n; j++)
            found |= set->devices[i] == devs[j];
        if (!found)
            return false;
    }
    return true;
}

static void print_md(core_text *text, const planner_profile *profile,
                     clv_device *const *devs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        md_device(text, devs[i], planner_profile_find(profile, devs[i]));
    for (uint32_t i = 0; i < profile->n_sets; i++)
        if (is_within(&profile->sets[i], devs, n))
            md_set(text, &profile->sets[i]);
}

static void print_json(core_text *text, const planner_profile *profile,
                       clv_device *const *devs, uint32_t n)
{
    const char *comma = "";
    core_text_add(text, "{\"devices\":[");
    for (uint32_t i = 0; i < n; i++) {
        core_text_add(text, i ? ",\n" : "\n");
        json_device(text, devs[i], planner_profile_find(profile, devs[i]));
    }
    core_text_add(text, "],\n\"together\":[");
    for (uint32_t i = 0; i < profile->n_sets; i++) {
        if (!is_within(&profile->sets[i], devs, n))
            continue;
        core_text_add(text, "%s", comma);
        json_set(text, &profile->sets[i]);
        comma = ",\n";
    }
    core_text_add(text, "]}\n");
}

clv_status planner_profile_print(const planner_profile *profile,
                                 clv_device *const *devs, uint32_t n,
                                 const char *format, char **out)
{
    planner_profile *p =
        (planner_profile *)(uintptr_t)profile; /* for its lock */
    const bool json = !strcmp(format, "json");
    core_text text = {0};
    *out = NULL;
    if (!json && strcmp(format, "md"))
        return clv_error(CLV_ERR_INVALID,
                         "profile: format '%s' is unknown; md "
                         "and json are",
                         format);
    pthread_rwlock_rdlock(&p->lock);
    if (json)
        print_json(&text, profile, devs, n);
    else
        print_md(&text, profile, devs, n);
    pthread_rwlock_unlock(&p->lock);
    return core_text_take(&text, out);
}
