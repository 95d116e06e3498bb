/*
 * How a GGUF file holds integers with scales: docs/quantize.md. A matrix
 * "x.weight" is of type I8, its scales are "x.scale", and "x.input_scale" is
 * the one by which activations are rounded before they are multiplied by it.
 * "x.outliers", F16, is the matrix in floats, transposed: what rounding cuts
 * off is multiplied with it. "x.outlier_channels", I32, tells how many channels
 * of a row that is at most, and then those that it mostly is.
 */
#pragma once

#include "../base/str.h"

/* An array of the matrices that hold two int4 a byte; their last dimension
 * counts bytes. */
#define LLM_INT4_KEY "cleave.int4"
/* The scheme, for people: "w8a8". */
#define LLM_SCHEME_KEY "cleave.scheme"

#define LLM_OUTLIERS "outliers"
#define LLM_OUTLIER_CHANNELS "outlier_channels"

enum { LLM_SCALE_NAME = 160 };

/* "blk.0.attn_q.weight" and "scale": "blk.0.attn_q.scale". False for a name
 * that does not end in "weight" or is too long. */
bool llm_scale_name(llm_str weight, const char *suffix,
                    char out[LLM_SCALE_NAME]);
