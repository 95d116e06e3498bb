/* A context and models on it, for tests that run graphs. */
#pragma once

#include "check.h"
#include "runtime/model.h"
#include "tiny.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A context with the plugins of the build; NULL ends the test. */
clv_context *rig_context(void);
/* Whether the tests run on a driver in software, which is slow: they test less
 * then. The environment names its plugin. */
bool rig_on_driver(void);
/* A context with own settings: "key=value" words that replace those of a file
 * of conf/, or of none if conf is NULL; with the reference plugin and the
 * example beside those of the build. rig_close() destroys it. */
typedef struct rig_world {
    clv_config *config;
    clv_context *ctx;
} rig_world;
void rig_open(rig_world *world, const char *conf, const char *settings);
void rig_close(rig_world *world);
/* A tiny model, and its source, which the model owns. */
clv_model *rig_model(clv_context *ctx, const tiny_params *params,
                     llm_source **source);
clv_session *rig_session(clv_model *model, uint32_t n_ctx, uint32_t n_batch,
                         uint32_t kv_dtype);
/* Mean square difference of n numbers relative to the mean square of the
 * reference, as in clv_error_class. */
double rig_error(const float *x, const float *reference, uint64_t n);
/* The most likely token; the first of equals. */
int32_t rig_best(const float *logits, uint32_t n);
/* Whether the most likely tokens of x and of the reference are the same, or so
 * near to each other that an error of this size can exchange them. */
void rig_assert_choice(const float *x, const float *reference, uint32_t n,
                       double error);
/* Path of a file of the shared test data; skips the test if it is not there. */
const char *rig_shared(const char *name);
/* Whether the file exists. A program whose tests all need it exits with
 * RIG_SKIPPED if not. */
bool rig_has_shared(const char *name);
#define RIG_SKIPPED 77
