/*
 * Random simulated chips: two or three processors of all kinds that npu_sim
 * knows, faster and slower, eager and late, some with fixed lengths, some with
 * memory of their own, on a shared memory.
 */
#pragma once

#include "test.h"

#include <math.h>
#include <stdio.h>

#define CHIPS_MAX_DEVICES 3

typedef struct chips_key {
    clv_config *config;
    const char *section; /* "npu_sim", "npu_sim:a" */
} chips_key;

static inline void chips_set(const chips_key *k, const char *key, double value)
{
    char text[128];
    snprintf(text, sizeof text, "%s.%s=%.6g", k->section, key, value);
    assert_ok(clv_config_set(k->config, text, "chip"));
}

static inline void chips_name(const chips_key *k, const char *key,
                              const char *value)
{
    char text[128];
    snprintf(text, sizeof text, "%s.%s=%s", k->section, key, value);
    assert_ok(clv_config_set(k->config, text, "chip"));
}

/* Between the two, as often in each of their ratio's parts. */
static inline double chips_between(test_random *r, double least, double most)
{
    return least * pow(most / least, test_below(r, 10001) / 10000.0);
}

/* What the host and the device spend besides the work. */
static inline void chips_overheads(test_random *r, const chips_key *k)
{
    chips_name(k, "flag_wait", test_below(r, 2) ? "on" : "off");
    chips_set(k, "submit_us", chips_between(r, 1, 20));
    chips_set(k, "submit_empty_us", chips_between(r, 2, 90));
    chips_set(k, "dispatch_us", chips_between(r, 1, 60));
    chips_set(k, "launch_us", chips_between(r, 0.1, 5));
    chips_set(k, "wait_poll_us", chips_between(r, 0.5, 10));
    chips_set(k, "wait_block_us", chips_between(r, 20, 500));
    chips_set(k, "copy_us", chips_between(r, 2, 100));
}

/* An NPU with arrays; half of them have programs of fixed lengths. */
static inline void chips_npu(test_random *r, const chips_key *k)
{
    chips_name(k, "kind", "npu");
    chips_name(k, "model", "systolic");
    chips_set(k, "arrays", 1 + test_below(r, 16));
    chips_set(k, "frequency", chips_between(r, 0.5, 1.5));
    chips_set(k, "fp16", 1);
    chips_set(k, "vector", chips_between(r, 20, 200));
    chips_set(k, "expand", chips_between(r, 10, 100));
    chips_set(k, "swap_cycles", test_below(r, 320));
    chips_name(k, "static", test_below(r, 2) ? "on" : "off");
}

static inline void chips_processor(test_random *r, const chips_key *k, bool gpu)
{
    double rate = gpu ? chips_between(r, 0.3, 4) : chips_between(r, 0.1, 1);
    chips_name(k, "kind", gpu ? "gpu" : "cpu");
    chips_name(k, "model", "roofline");
    chips_set(k, "f32_tflops", rate);
    chips_set(k, "f16_tflops", rate * chips_between(r, 1, 2));
    chips_name(k, "precision", test_below(r, 2) ? "f16" : "f32");
    if (gpu && !test_below(r, 4)) {
        chips_set(k, "memory", 4096);
        chips_set(k, "link", chips_between(r, 4, 60));
    }
}

/* Describes the seed's chip in the configuration; noise: its jitter and drift
 * are up to that. The last device takes any length. */
static inline void chips_describe(clv_config *config, uint64_t seed,
                                  double noise)
{
    static const char *const names[CHIPS_MAX_DEVICES] = {
        "npu_sim:a", "npu_sim:b", "npu_sim:c"};
    test_random r = {seed * 0x9e3779b97f4a7c15u};
    uint32_t n = 2 + test_below(&r, CHIPS_MAX_DEVICES - 1);
    double bandwidth = chips_between(&r, 20, 200);
    chips_key k = {config, "npu_sim"};
    chips_set(&k, "memory_bandwidth", bandwidth);
    chips_set(&k, "seed", (double)seed);
    chips_set(&k, "jitter", noise * test_below(&r, 1001) / 1000);
    chips_set(&k, "drift", noise * test_below(&r, 1001) / 1000);
    for (uint32_t i = 0; i < n; i++) {
        k.section = names[i];
        chips_set(&k, "bandwidth", bandwidth * chips_between(&r, 0.4, 1));
        chips_overheads(&r, &k);
        if (i + 1 < n && test_below(&r, 2))
            chips_npu(&r, &k);
        else
            chips_processor(&r, &k, test_below(&r, 2));
    }
}
