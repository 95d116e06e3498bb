/*
 * The float weights that outliers are multiplied with, as names.h says: for
 * each channel a row, so that those of a few channels lie together in the file.
 */
#pragma once

#include "ranges.h"
#include "recode.h"

/* Adds the tensors of a weight to the list in the file, then their bytes. */
clv_status llm_outliers_describe(llm_gguf_writer *writer,
                                 const llm_recode_tensor *t,
                                 const llm_input_range *range);
clv_status llm_outliers_write(llm_gguf_writer *writer,
                              const llm_recode_tensor *t,
                              const llm_input_range *range);
