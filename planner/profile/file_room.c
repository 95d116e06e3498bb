#include "file_room.h"

#include "../../core/base/cache.h"
#include "../../core/base/file_map.h"
#include "../../core/base/file_pages.h"
#include "../../core/base/host_memory.h"
#include "../../core/base/names.h"
#include "../../core/base/paths.h"
#include "../../core/config/config.h"
#include "../../core/context/context.h"
#include "../../core/graph/tensor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define MEASURED_SIZE ((uint64_t)64 << 20)
/* Of what is free, so that the next start has the same plans. */
#define ROOM_STEP ((uint64_t)16 << 20)
#define KEPT_SIZE ((uint64_t)16 << 20) /* less says little of other files */

uint64_t planner_file_room(const clv_plan *plan)
{
    clv_context *ctx = plan->ctx;
    const int64_t mib = clv_config_get_int(ctx->config, "core.host_memory");
    if (plan->devices[0].dev->info.clock == CLV_CLOCK_VIRTUAL)
        return UINT64_MAX;
    if (mib > 0)
        return (uint64_t)mib << 20;
    pthread_mutex_lock(&ctx->planner_mutex);
    if (!ctx->file_room) {
        const uint64_t all = core_host_memory_free("");
        const uint64_t room = all / 8 * 7;
        ctx->file_room = all == UINT64_MAX ? all : room - room % ROOM_STEP + 1;
    }
    const uint64_t room = ctx->file_room;
    pthread_mutex_unlock(&ctx->planner_mutex);
    return room;
}

/* The first of the weights that are read; NULL: none is. */
static const clv_tensor *first_read(const clv_plan *plan)
{
    for (clv_value v = 0; plan->file.read && v < plan->graph->n_tensors; v++)
        if (plan->file.read[v] && plan->graph->values[v].weight)
            return plan->graph->values[v].weight;
    return NULL;
}

/* By the disk that has the file. */
static char *key_of(const clv_tensor *tensor)
{
    struct stat st;
    core_file_place place;
    const int fd = core_file_find(tensor->memory->data, &place);
    return fd < 0 || fstat(fd, &st)
               ? NULL
               : core_format("reading files of device %u:%u, format 1",
                             major(st.st_dev), minor(st.st_dev));
}

static double measure(const clv_plan *plan, const clv_tensor *tensor)
{
    char *dir = core_context_cache(plan->ctx, "files");
    char *key = key_of(tensor);
    void *data = NULL;
    uint64_t size;
    double speed = 0;
    if (dir && key && !core_cache_get(dir, key, &data, &size) &&
        size == sizeof speed) {
        memcpy(&speed, data, sizeof speed);
    } else if (core_config_choice(plan->ctx->config, "core.profile") !=
               CORE_PROFILE_OFF) {
        size = MEASURED_SIZE;
        speed = core_file_speed(tensor->memory->data, &size);
        if (dir && key && size >= KEPT_SIZE &&
            core_cache_put(dir, key, &speed, sizeof speed))
            clv_log(plan->ctx, CLV_LOG_WARN,
                    "how fast files are read is not kept: %s",
                    clv_last_error());
    }
    free(data);
    free(dir);
    free(key);
    return speed > 0 && speed < 1e6 ? speed : 0;
}

double planner_file_speed(const clv_plan *plan)
{
    clv_context *ctx = plan->ctx;
    const int64_t mb = clv_config_get_int(ctx->config, "core.file_speed");
    const clv_tensor *tensor = first_read(plan);
    if (mb > 0)
        return (double)mb * 1e-3;
    if (!tensor)
        return ctx->file_speed;
    pthread_mutex_lock(&ctx->planner_mutex);
    if (!(ctx->file_speed > 0))
        ctx->file_speed = measure(plan, tensor);
    const double speed = ctx->file_speed;
    pthread_mutex_unlock(&ctx->planner_mutex);
    return speed;
}
