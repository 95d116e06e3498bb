#include "noise.h"

/* Of simulated time, from one random speed to the next. */
#define DRIFT_NS 1000000000u

/* -1..1 */
static double draw(const npu_config *config, const npu_settings *device,
                   const char *what, uint64_t index)
{
    uint64_t hash =
        clv_hash_text(clv_hash_text(config->seed, what), device->name) +
        index * 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
    return (double)((hash ^ hash >> 31) >> 11) * 0x1p-52 - 1;
}

double npu_noise(const npu_config *config, const npu_settings *device,
                 uint64_t index, uint64_t at_ns)
{
    if (config->drift_at >= 0)
        at_ns = (uint64_t)(config->drift_at * 1e9);
    uint64_t knot = at_ns / DRIFT_NS;
    double part = (double)(at_ns % DRIFT_NS) / DRIFT_NS;
    double drift = draw(config, device, "drift", knot) * (1 - part) +
                   draw(config, device, "drift", knot + 1) * part;
    return (1 + config->jitter * draw(config, device, "jitter", index)) *
           (1 + config->drift * drift);
}
