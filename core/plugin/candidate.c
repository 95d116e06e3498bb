#include "candidate.h"

#include "../base/error.h"
#include "../base/names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_candidate(core_candidate *c)
{
    if (!c)
        return;
    free(c->path);
    free(c->name);
    free(c->version);
    free(c->reason);
    free(c);
}

core_candidate *core_candidate_add(core_candidates *all, const char *path,
                                   const char *name)
{
    core_candidate **list = reallocarray(all->list, all->n + 1u, sizeof *list);
    if (!list)
        return NULL;
    all->list = list;
    core_candidate *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->path = strdup(path);
    c->name = strdup(name);
    if (!c->path || !c->name) {
        free_candidate(c);
        return NULL;
    }
    c->pub = (clv_candidate){.path = c->path,
                             .plugin = "",
                             .version = "",
                             .stage = CLV_STAGE_FOUND,
                             .reason = "",
                             .abi = "",
                             .kinds = ""};
    list[all->n++] = c;
    return c;
}

void core_candidates_free(core_candidates *all)
{
    for (uint32_t i = 0; i < all->n; i++)
        free_candidate(all->list[i]);
    free(all->list);
    *all = (core_candidates){0};
}

bool core_candidate_named(void *candidates, const char *name)
{
    const core_candidates *all = candidates;
    for (uint32_t i = 0; i < all->n; i++)
        if (!strcmp(all->list[i]->name, name))
            return true;
    return false;
}

clv_status core_candidate_describe(core_candidate *c,
                                   const core_manifest *manifest)
{
    char *name = strdup(manifest->name);
    if (!name)
        return core_no_memory("for its manifest");
    free(c->name);
    c->name = name;
    c->manifest = *manifest;
    c->pub.plugin = c->manifest.name;
    c->pub.abi = c->manifest.abi;
    c->pub.kinds = c->manifest.kinds_text;
    return CLV_OK;
}

void core_candidate_stop(clv_context *ctx, core_candidate *c, uint32_t level,
                         clv_status status)
{
    c->pub.status = status;
    free(c->reason);
    c->reason = strdup(clv_last_error());
    c->pub.reason = c->reason ? c->reason : clv_status_name(status);
    clv_log(ctx, level, "%s: %s", c->path, c->pub.reason);
}

void core_candidate_note(clv_context *ctx, core_candidate *c, uint32_t level,
                         const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    clv_log(ctx, level, "%s: %s", c->path, text);
    char *reason = c->reason && c->reason[0]
                       ? core_format("%s; %s", c->reason, text)
                       : strdup(text);
    if (!reason)
        return;
    free(c->reason);
    c->pub.reason = c->reason = reason;
}
