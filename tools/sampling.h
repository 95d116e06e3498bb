/* Options of samplers, with llama.cpp's names and defaults. */
#pragma once

#include "options.h"

#include <cleave/llm.h>

typedef struct tool_sampling {
    int64_t seed, top_k, repeat_last, dry_length, dry_last, mirostat;
    double temperature, top_p, min_p, top_n_sigma, typical_p;
    double repeat_penalty, presence_penalty, frequency_penalty;
    double dry_multiplier, dry_base, xtc_probability, xtc_threshold;
    double dynatemp_range, dynatemp_exponent, mirostat_tau, mirostat_eta;
    tool_strings dry_breakers, logit_bias;
    const char *samplers;
    const char *grammar, *grammar_file, *schema, *schema_file;
} tool_sampling;

void tool_sampling_init(tool_sampling *args); /* the defaults */
/* -1, or an exit code after a message about options that contradict. */
int tool_sampling_check(const tool_sampling *args);
/* *seed: the one that is used, drawn where none is given. n_ctx: for the
 * windows of penalties that are -1. */
clv_status tool_sampling_create(const tool_sampling *args,
                                const clv_model *model, uint32_t n_ctx,
                                uint64_t *seed, clv_sampler **out);

/* Options for structs with a member sampling. */
#define TOOL_SAMPLING_AT(type, member)                                         \
    (offsetof(type, sampling) + offsetof(tool_sampling, member))
#define TOOL_OPTIONS_SAMPLING(type)                                            \
    TOOL_OPT_GROUP("sampling"),                                                \
        TOOL_OPT_INT('s', "seed", TOOL_SAMPLING_AT(type, seed), -1,            \
                     UINT32_MAX,                                               \
                     "seed of the draws, -1: a new one each time"),            \
        TOOL_OPT_FLOAT(0, "temp|temperature",                                  \
                       TOOL_SAMPLING_AT(type, temperature), 0, 1000,           \
                       "temperature; 0: always the most likely token"),        \
        TOOL_OPT_INT(0, "top-k", TOOL_SAMPLING_AT(type, top_k), 0, INT32_MAX,  \
                     "draw from the N most likely tokens, 0: all"),            \
        TOOL_OPT_FLOAT(0, "top-p", TOOL_SAMPLING_AT(type, top_p), 0, 1,        \
                       "draw from the most likely tokens that make up X, 1: "  \
                       "all"),                                                 \
        TOOL_OPT_FLOAT(0, "min-p", TOOL_SAMPLING_AT(type, min_p), 0, 1,        \
                       "draw from tokens at least X times as likely as the "   \
                       "most likely, 0: all"),                                 \
        TOOL_OPT_FLOAT(0, "top-n-sigma|top-nsigma",                            \
                       TOOL_SAMPLING_AT(type, top_n_sigma), -1, 1000,          \
                       "draw from logits at most X standard deviations under " \
                       "the highest, -1: all"),                                \
        TOOL_OPT_FLOAT(0, "typical|typical-p",                                 \
                       TOOL_SAMPLING_AT(type, typical_p), 0, 1,                \
                       "draw from the most typical tokens that make up X, 1: " \
                       "all"),                                                 \
        TOOL_OPT_FLOAT(0, "xtc-probability",                                   \
                       TOOL_SAMPLING_AT(type, xtc_probability), 0, 1,          \
                       "how often likely tokens are left out"),                \
        TOOL_OPT_FLOAT(0, "xtc-threshold",                                     \
                       TOOL_SAMPLING_AT(type, xtc_threshold), 0, 1,            \
                       "from which probability on, but the least of them"),    \
        TOOL_OPT_FLOAT(0, "repeat-penalty",                                    \
                       TOOL_SAMPLING_AT(type, repeat_penalty), 0.01, 100,      \
                       "make recent tokens less likely, 1: no"),               \
        TOOL_OPT_INT(0, "repeat-last-n", TOOL_SAMPLING_AT(type, repeat_last),  \
                     -1, 1 << 20,                                              \
                     "how many tokens are recent, -1: the context"),           \
        TOOL_OPT_FLOAT(0, "presence-penalty",                                  \
                       TOOL_SAMPLING_AT(type, presence_penalty), -100, 100,    \
                       "taken from the logits of recent tokens"),              \
        TOOL_OPT_FLOAT(0, "frequency-penalty",                                 \
                       TOOL_SAMPLING_AT(type, frequency_penalty), -100, 100,   \
                       "the same for each time they occur"),                   \
        TOOL_OPT_FLOAT(0, "dry-multiplier",                                    \
                       TOOL_SAMPLING_AT(type, dry_multiplier), 0, 1000,        \
                       "DRY: X * base^(length - allowed) is taken from what "  \
                       "would repeat a sequence, 0: no"),                      \
        TOOL_OPT_FLOAT(0, "dry-base", TOOL_SAMPLING_AT(type, dry_base), 0,     \
                       1000, "base of DRY"),                                   \
        TOOL_OPT_INT(0, "dry-allowed-length",                                  \
                     TOOL_SAMPLING_AT(type, dry_length), 1, 1 << 20,           \
                     "shorter sequences may be repeated"),                     \
        TOOL_OPT_INT(0, "dry-penalty-last-n",                                  \
                     TOOL_SAMPLING_AT(type, dry_last), -1, 1 << 20,            \
                     "tokens that DRY looks back on, -1: the context"),        \
        TOOL_OPT_STRINGS(0, "dry-sequence-breaker", "TEXT",                    \
                         TOOL_SAMPLING_AT(type, dry_breakers),                 \
                         "sequences end there; may be repeated; 'none': "      \
                         "nowhere (default: newline, ':', '\"', '*')"),        \
        TOOL_OPT_FLOAT(0, "dynatemp-range",                                    \
                       TOOL_SAMPLING_AT(type, dynatemp_range), 0, 1000,        \
                       "temperature between itself less X and more X, by the " \
                       "entropy"),                                             \
        TOOL_OPT_FLOAT(0, "dynatemp-exp",                                      \
                       TOOL_SAMPLING_AT(type, dynatemp_exponent), 0, 1000,     \
                       "exponent of the entropy's part of the highest"),       \
        TOOL_OPT_INT(0, "mirostat", TOOL_SAMPLING_AT(type, mirostat), 0, 2,    \
                     "1, 2: Mirostat of that version, behind the "             \
                     "temperature, in place of the others"),                   \
        TOOL_OPT_FLOAT(0, "mirostat-ent",                                      \
                       TOOL_SAMPLING_AT(type, mirostat_tau), 0, 1000,          \
                       "its target of surprise, bits a token"),                \
        TOOL_OPT_FLOAT(0, "mirostat-lr", TOOL_SAMPLING_AT(type, mirostat_eta), \
                       0, 1000, "its learning rate"),                          \
        TOOL_OPT_STRINGS('l', "logit-bias", "ID(+/-)BIAS",                     \
                         TOOL_SAMPLING_AT(type, logit_bias),                   \
                         "add to a token's logit, as in 15043+1 or 13-inf; "   \
                         "may be repeated"),                                   \
        TOOL_OPT_STRING(0, "samplers", "LIST",                                 \
                        TOOL_SAMPLING_AT(type, samplers),                      \
                        "the samplers in their order, with ';' between them "  \
                        "(default: penalties, dry, top_n_sigma, top_k, "       \
                        "typ_p, top_p, min_p, xtc, temperature)"),             \
        TOOL_OPT_GROUP("grammar"),                                             \
        TOOL_OPT_STRING(0, "grammar", "GBNF", TOOL_SAMPLING_AT(type, grammar), \
                        "only texts of this grammar"),                         \
        TOOL_OPT_STRING(0, "grammar-file", "FILE",                             \
                        TOOL_SAMPLING_AT(type, grammar_file),                  \
                        "the same from a file"),                               \
        TOOL_OPT_STRING('j', "json-schema", "JSON",                            \
                        TOOL_SAMPLING_AT(type, schema),                        \
                        "only JSON of this schema, '{}': any"),                \
        TOOL_OPT_STRING(0, "json-schema-file|-jf", "FILE",                     \
                        TOOL_SAMPLING_AT(type, schema_file),                   \
                        "the same from a file")
