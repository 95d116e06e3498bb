/*
 * cleave/llm.h - embed language models, on top of cleave/cleave.h
 *
 * clv_model (weights, tokenizer) -> clv_session (KV cache, position) ->
 * clv_generate(), or clv_session_eval() and a clv_sampler by hand.
 *
 * Ownership, errors and parameter structs as in cleave.h: session before model
 * before context. A model may serve sessions on several threads; a session, a
 * sampler belong to one thread at a time.
 */
#ifndef CLEAVE_LLM_H_
#define CLEAVE_LLM_H_

#include <cleave/cleave.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clv_model clv_model;
typedef struct clv_tokenizer clv_tokenizer;
typedef struct clv_session clv_session;
typedef struct clv_sampler clv_sampler;

/* ------------------------------------------------------------------------ */
/* Tokenizers                                                               */

/* From a GGUF file, a tokenizer.json, a tokenizer.model of SentencePiece, or a
 * directory that holds one of these two. */
CLV_API clv_status clv_tokenizer_load(const char *path, clv_tokenizer **out);
CLV_API void clv_tokenizer_destroy(clv_tokenizer *tok);

typedef struct clv_tokenizer_info {
    const char *kind; /* "bpe" (byte level), "spm" (SentencePiece, merges),
                         "unigram" (SentencePiece) */
    uint32_t n_vocab;
    int32_t bos, eos; /* ids, -1: none */
    int32_t unk, pad;
    bool add_bos; /* the model expects BOS in front of a text */
} clv_tokenizer_info;
CLV_API clv_tokenizer_info clv_tokenizer_describe(const clv_tokenizer *tok);

enum {
    CLV_TOKENIZE_BOS = 1u << 0,      /* put BOS in front, if there is one */
    CLV_TOKENIZE_SPECIAL = 1u << 1,  /* recognise special tokens in the text */
    CLV_TOKENIZE_CONTINUE = 1u << 2, /* it goes on: no space is put in front */
};

/* A part of a text, in bytes. */
typedef struct clv_text_range {
    uint64_t start, size;
} clv_text_range;

/* text: length bytes, any bytes. *ids: *n ids, the caller's, freed with
 * clv_tokens_free(). */
CLV_API clv_status clv_tokenize(const clv_tokenizer *tok, const char *text,
                                uint64_t length, uint32_t flags, int32_t **ids,
                                uint64_t *n);
/* The same, but inside and across the edges of the plain ranges special tokens
 * are text. The ranges are in order and apart. */
CLV_API clv_status clv_tokenize_ranges(
    const clv_tokenizer *tok, const char *text, uint64_t length, uint32_t flags,
    const clv_text_range *plain, uint64_t n_plain, int32_t **ids, uint64_t *n);
CLV_API void clv_tokens_free(int32_t *ids);
/* The text of n ids, NUL-terminated, *length bytes without the NUL; the
 * caller's, freed with clv_string_free(). The inverse of clv_tokenize: the
 * space that SentencePiece puts in front of a text is taken away again. Special
 * tokens are left out unless special is set. */
CLV_API clv_status clv_detokenize(const clv_tokenizer *tok, const int32_t *ids,
                                  uint64_t n, bool special, char **text,
                                  uint64_t *length);
/* The bytes one id adds in the middle of a text, perhaps part of a UTF-8
 * sequence; owned by the tokenizer. *length 0 for special tokens and ids out of
 * range. */
CLV_API const char *clv_token_bytes(const clv_tokenizer *tok, int32_t id,
                                    uint32_t *length);
/* Ends a text: EOS, end of turn and their like. */
CLV_API bool clv_token_is_end(const clv_tokenizer *tok, int32_t id);

/* ------------------------------------------------------------------------ */
/* Chat templates                                                           */

typedef struct clv_chat_template clv_chat_template;

/* text: a template in Jinja2's language; or the name of a known one
 * (clv_chat_template_name()); or NULL, for the one that the tokenizer's file
 * holds: CLV_ERR_NOT_FOUND if it holds none. tok gives templates their
 * bos_token and the like; it may be NULL, and must outlive the template. May be
 * used from several threads. */
CLV_API clv_status clv_chat_template_create(const char *text,
                                            const clv_tokenizer *tok,
                                            clv_chat_template **out);
CLV_API void clv_chat_template_destroy(clv_chat_template *template_);
/* Known names, from index 0 on; NULL behind the last. */
CLV_API const char *clv_chat_template_name(uint32_t index);

typedef struct clv_chat_params {
    const char *variables;     /* more variables: a JSON object, or NULL */
    bool no_generation_prompt; /* the text does not end where an answer begins
                                */
    int64_t now;               /* what strftime_now() prints, in seconds since
                                  1970; 0: the present */
} clv_chat_params;

/* What a conversation becomes. */
typedef struct clv_chat_text {
    char *text; /* NUL-terminated */
    uint64_t length;
    /* The parts that came from the messages, for clv_tokenize_ranges(). */
    clv_text_range *ranges;
    uint64_t n_ranges;
} clv_chat_text;

/* messages: JSON, a list of messages ({"role", "content", ...}) or an object
 * with the list as "messages" and with other variables such as "tools" and
 * "documents". params may be NULL. *out is freed with clv_chat_text_free().
 * What the template refuses, or uses and is not known here, is an error; so is
 * one that takes too long or too much memory. */
CLV_API clv_status clv_chat_template_apply(const clv_chat_template *template_,
                                           const char *messages,
                                           uint64_t length,
                                           const clv_chat_params *params,
                                           clv_chat_text *out);
CLV_API void clv_chat_text_free(clv_chat_text *text);

/* ------------------------------------------------------------------------ */
/* Models                                                                   */

typedef struct clv_model_params {
    clv_progress_fn progress;
    void *progress_ctx;
    bool copy; /* files into memory, instead of mapping them */
    bool lock; /* them in physical memory, or fail */
} clv_model_params;

/* path: a GGUF file, any part of a split one, or a directory whose weights are
 * in one; a Hugging Face directory (config.json, model.safetensors or its
 * shards, tokenizer.json if present); or "synth:NAME[:QUANT][:zero]", a model
 * of a published shape with made-up weights, q8_0 (the default), another float
 * or block type for all matrices, a mix of clv_quantize(), w4a16 (int4 with a
 * scale an output channel, the embedding int8) or w8a8 (int8 with a scale a
 * tensor), without a tokenizer. With ":zero" all weights are zero and take no
 * memory: for devices that do not compute. Weights are mapped, unless copies
 * are asked for. A tensor that the model does not need is an error, as the
 * model would be another one. A file that is cut short while it is in use ends
 * runs with CLV_ERR_IO: see clv_file_guard().
 */
CLV_API clv_status clv_model_load(clv_context *ctx, const char *path,
                                  const clv_model_params *params,
                                  clv_model **out);
CLV_API void clv_model_destroy(clv_model *model);

typedef struct clv_model_info {
    const char *architecture; /* "llama" */
    const char *name;
    const char *quant; /* of most weights: "q8_0" */
    uint32_t n_layers, n_embd, n_ff, n_vocab;
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t n_ctx_train; /* positions it was trained for */
    uint64_t n_params;
    uint64_t size; /* bytes of weights */
} clv_model_info;
CLV_API const clv_model_info *clv_model_describe(const clv_model *model);
/* NULL if the files hold none. Owned by the model. */
CLV_API const clv_tokenizer *clv_model_tokenizer(const clv_model *model);

/* ------------------------------------------------------------------------ */
/* Sessions                                                                 */

/*
 * A session holds one text, or several of which it can run a token each at
 * once: clv_session_step(). These are its sequences. What is said of one text
 * below (position, truncate, reuse, eval, generation) is of the sequence that
 * was selected last, at first 0.
 */
typedef struct clv_session_params {
    uint32_t n_ctx;             /* positions of each sequence; 0:
                                   min(n_ctx_train, 4096) */
    uint32_t n_batch;           /* tokens a run at most; 0: 512, or 1024 or 2048
                                   where a text should take less time with them
                                   and devices have memory for them beside the
                                   weights, or where they do not hold all
                                   weights, which are copied for each run.
                                   Where a device has static shapes: of these
                                   and 256 those that it has programs for */
    uint32_t n_flight;          /* whole batches of a long text that may be
                                   under way at once, where several devices
                                   work for them, each with memory for its
                                   values, at most 8; 0: one, or two or four
                                   where a text should take less time then */
    uint32_t kv_dtype;          /* CLV_DTYPE_F16 (0), F32 or, where heads have
                                 a multiple of 32 channels, Q8_0 */
    clv_device *const *devices; /* NULL: all of the context */
    uint32_t n_devices;
    /* Saved plans, of clv_plan_json(), copied: a run whose graph one of
     * them was made for follows it, until a device is lost; others are planned
     * as ever, with a warning. */
    const char *const *plans;
    uint32_t n_plans;
    uint32_t n_sequences; /* 0: 1 */
} clv_session_params;

CLV_API clv_status clv_session_create(clv_model *model,
                                      const clv_session_params *params,
                                      clv_session **out);
CLV_API void clv_session_destroy(clv_session *session);
CLV_API uint32_t clv_session_n_ctx(const clv_session *session);
CLV_API uint64_t clv_session_kv_size(const clv_session *session); /* bytes */
CLV_API uint32_t clv_session_n_sequences(const clv_session *session);
CLV_API clv_status clv_session_select(clv_session *session, uint32_t sequence);
/* Tokens in the cache. */
CLV_API uint32_t clv_session_position(const clv_session *session);
/* Forgets all tokens from position on. */
CLV_API clv_status clv_session_truncate(clv_session *session,
                                        uint32_t position);
/* Forgets all tokens but those at the beginning that ids begin with too, and
 * always ids[n - 1]: *n_kept, less than n, stay in the cache, and ids from
 * there on are to be evaluated. So a conversation or a text with the same
 * beginning as the one before costs its new tokens only. n: at least 1. */
CLV_API clv_status clv_session_reuse(clv_session *session, const int32_t *ids,
                                     uint32_t n, uint32_t *n_kept);
/* Plans and compiles what evaluating n tokens at once needs: 1 a decode step,
 * more a prefill of up to n_batch, or of clv_session_batches(). Where a device
 * has static shapes that is a graph of n rows, or of a few more if it should
 * take less time; else one for all up to n_batch, or where n is much less, for
 * all up to a part of it. *plan is the session's, until it has made some
 * others.
 */
CLV_API clv_status clv_session_prepare(clv_session *session, uint32_t n,
                                       const clv_plan **plan);
/* What the session's plans take of a memory, as clv_plans_memory(). */
CLV_API clv_memory_use clv_session_memory(const clv_session *session,
                                          const clv_device *dev);
/* Where devices do not hold all weights: of how many tokens the runs are whose
 * plan is made first and keeps its weights, 1 or as many as a batch of a prompt
 * (core.objective). Elsewhere 1. */
CLV_API clv_status clv_session_first(clv_session *session, uint32_t *n);
/* What a run of n tokens should take, ns, as clv_plan_weigh(). Nothing is
 * prepared, but what comes first where core.objective weighs prompts. */
CLV_API clv_status clv_session_weigh(clv_session *session, uint32_t n,
                                     const clv_device *dev, uint64_t bytes,
                                     double *ns);
/* Measures what runs of these numbers of tokens cost on each device (1: a
 * decode step), as clv_profile_graph(): makes their graphs and has the core
 * measure them. lengths: n of them, each 1 to n_batch. The session's own
 * devices take the place of params->devices; params may be NULL. */
CLV_API clv_status clv_session_profile(clv_session *session,
                                       const uint32_t *lengths, uint32_t n,
                                       const clv_profile_params *params);
/* How a text of n more tokens is run, which plans may be made to find out: in
 * batches of n_batch tokens, n_flight whole ones at a time. Where all logits
 * are asked for, in those of the parameters. */
typedef struct clv_batches {
    uint32_t n_batch, n_flight;
} clv_batches;
CLV_API clv_status clv_session_batches(clv_session *session, uint32_t n,
                                       clv_batches *out);
/* The plan of the latest run; NULL before the first. */
CLV_API const clv_plan *clv_session_plan(const clv_session *session);

/* Whether devices and plans are still being measured by such runs as the latest
 * one: the next ones may be slower than those after them. */
CLV_API bool clv_session_is_learning(const clv_session *session);

/* What the latest evaluation should have taken, as clv_plan_predict(): all of
 * its batches. Of several batches the energy is 0, not known. */
CLV_API clv_status clv_session_predict(const clv_session *session,
                                       clv_prediction *out);

typedef enum clv_logits {
    CLV_LOGITS_LAST = 0,
    CLV_LOGITS_ALL = 1,
    CLV_LOGITS_NONE = 2,
} clv_logits;

/* Appends n ids and runs them in batches. A batch that fails because of a
 * device is repeated on the devices left, with a warning in the log: it fails
 * only when there are none. CLV_ERR_LIMIT if they do not fit the context; the
 * cache is then unchanged. *logits: rows of n_vocab, one (LAST),
 * n (ALL) or NULL (NONE); owned by the session, valid until its next call. */
CLV_API clv_status clv_session_eval(clv_session *session, const int32_t *ids,
                                    uint32_t n, uint32_t which,
                                    const float **logits);

/* The next token of a sequence. */
typedef struct clv_step {
    uint32_t sequence;
    int32_t id;
} clv_step;

/* Appends a token to each of n different sequences, at most n_batch, and runs
 * them together. Devices read weights once for all of them, so that 8 take
 * little longer than one. Failures are as those of clv_session_eval(); no
 * sequence has changed then. *logits: n rows of n_vocab, in the order of the
 * steps; owned by the session, valid until its next call. */
CLV_API clv_status clv_session_step(clv_session *session, const clv_step *steps,
                                    uint32_t n, const float **logits);
/* May be called from another thread or a signal handler: the running eval or
 * generation, or the next if none runs, ends with CLV_ERR_CANCELLED before its
 * next batch. */
CLV_API void clv_session_cancel(clv_session *session);

/* ------------------------------------------------------------------------ */
/* Sampling                                                                 */

/*
 * A chain of samplers with llama.cpp's names and defaults. Each takes the
 * tokens that the ones before it have left:
 *
 *   penalties    makes tokens of the history less likely
 *   dry          makes a token less likely that would go on with a sequence
 *                which the history has had before
 *   top_n_sigma  drops logits under the highest one less n standard deviations
 *   top_k        keeps the k most likely tokens
 *   typ_p        keeps those whose information is nearest to the entropy, as
 *                many as make up a probability
 *   top_p        keeps the most likely ones that make up a probability
 *   min_p        drops those less likely than a part of the most likely one
 *   xtc          at times drops all likely tokens but the least of them
 *   temperature  fixed, or by the entropy of what is left (dynamic)
 *
 * That is the default order. A token is drawn from what is left at the end.
 */
typedef struct clv_logit_bias {
    int32_t id;
    float bias; /* added to the logit; -INFINITY: never drawn */
} clv_logit_bias;

typedef struct clv_sampler_params {
    float temperature;    /* <= 0: the most likely token, first of equals */
    uint32_t top_k;       /* 0: all */
    float top_p;          /* 1: all; in 0..1 */
    float min_p;          /* 0: none; in 0..1 */
    float repeat_penalty; /* 1: none; > 0. Divides logits, or multiplies them */
    uint32_t repeat_last; /* tokens looked back on, by the next two as well */
    uint64_t seed;
    /* All fields from here on: 0 or NULL turns it off. */
    float frequency_penalty; /* subtracted for each time a token occurred */
    float presence_penalty;  /* subtracted if a token occurred at all */
    /* DRY: multiplier * base^(length - allowed), of a repeated sequence that is
     * at least `allowed` tokens long, is subtracted. Sequences end at texts
     * that are breakers. */
    float dry_multiplier, dry_base;
    uint32_t dry_allowed_length;
    uint32_t dry_last; /* tokens looked back on */
    const char *const *dry_breakers;
    uint32_t n_dry_breakers;
    float top_n_sigma;
    float typical_p;                      /* in 0..1, 1: all */
    float xtc_probability, xtc_threshold; /* in 0..1 */
    float dynatemp_range;    /* temperature - range .. temperature + range */
    float dynatemp_exponent; /* of the entropy's part of the highest possible */
    /* 1 or 2: Mirostat, which keeps the surprise of the text near tau, at the
     * learning rate eta; in place of the chain, behind the temperature. */
    uint32_t mirostat;
    float mirostat_tau, mirostat_eta;
    const char *chain; /* names with ';' between them; NULL: the default */
    const clv_logit_bias *bias; /* first of all */
    uint32_t n_bias;
    const char *grammar; /* GBNF: only texts that match it; docs/grammar.md */
    const clv_tokenizer *tokenizer; /* for breakers and grammar; must outlive
                                       the sampler */
} clv_sampler_params;

/* 0.8, 40, 0.95, 0.05, 1.0, 64, seed 0; dry_base 1.75, dry_allowed_length 2,
 * dry_last 4096, the breakers "\n", ":", "\"", "*"; typical_p 1;
 * xtc_threshold 0.1; dynatemp_exponent 1; mirostat_tau 5, mirostat_eta 0.1. */
CLV_API clv_sampler_params clv_sampler_defaults(void);
/* params and what it points to, but the tokenizer, is copied. CLV_ERR_INVALID,
 * with rule and place, if the grammar is none. */
CLV_API clv_status clv_sampler_create(const clv_sampler_params *params,
                                      uint32_t n_vocab, clv_sampler **out);
CLV_API void clv_sampler_destroy(clv_sampler *sampler);
/* Draws from n_vocab logits; CLV_ERR_INVALID if none is finite, or none of
 * those tokens goes on with what the grammar accepts. The choice is not yet
 * part of the history. */
CLV_API clv_status clv_sampler_sample(clv_sampler *sampler, const float *logits,
                                      int32_t *id);
/* Adds a token to the history; the grammar goes on behind it. */
CLV_API void clv_sampler_accept(clv_sampler *sampler, int32_t id);
/* Adds n tokens to the history that the grammar does not see: a prompt. */
CLV_API void clv_sampler_prime(clv_sampler *sampler, const int32_t *ids,
                               uint64_t n);
/* Begins a new text: the grammar starts again, and Mirostat; the history is
 * kept. clv_generate() does so. */
CLV_API void clv_sampler_restart(clv_sampler *sampler);
/* The same, and empties the history. */
CLV_API void clv_sampler_reset(clv_sampler *sampler);

/* GBNF for the texts that are JSON as a JSON schema wants it, the caller's,
 * freed with clv_string_free(). CLV_ERR_UNSUPPORTED, with its place, for a
 * keyword that is not in the subset of docs/grammar.md. */
CLV_API clv_status clv_json_schema_grammar(const char *schema, uint64_t length,
                                           char **grammar);

/* ------------------------------------------------------------------------ */
/* Generation                                                               */

/* Called for each new token with the text it completes: whole UTF-8 sequences,
 * length 0 while one is unfinished; bytes that are no UTF-8 become U+FFFD. If
 * the text ends inside a sequence, called once more with U+FFFD and id -1. The
 * end token is not reported. A non-zero answer stops. */
typedef int (*clv_token_fn)(void *ctx, int32_t id, const char *text,
                            uint32_t length);

typedef struct clv_generate_params {
    const int32_t *prompt; /* n_prompt ids, at least 1 */
    uint32_t n_prompt;
    int32_t n_predict;     /* tokens; -1: until the end or a full context */
    bool ignore_end;       /* go on past end tokens, unless a grammar ends */
    clv_token_fn on_token; /* may be NULL */
    void *on_token_ctx;
    clv_progress_fn progress; /* of the prompt; may be NULL */
    void *progress_ctx;
    /* A full context is no end: its first n_keep tokens (at most the prompt)
     * and the later half of the others are evaluated again, at their new
     * positions, and the text goes on. */
    bool shift;
    uint32_t n_keep;
} clv_generate_params;

typedef enum clv_stop {
    CLV_STOP_LIMIT = 0,   /* n_predict reached */
    CLV_STOP_END = 1,     /* end token */
    CLV_STOP_CONTEXT = 2, /* context full */
    CLV_STOP_CALLBACK = 3,
} clv_stop;

typedef struct clv_generate_stats {
    uint32_t n_prompt, n_generated;
    uint64_t prompt_ns, generate_ns;
    bool is_virtual; /* these are times of simulated devices */
    uint32_t stop;   /* clv_stop */
} clv_generate_stats;

/* The prompt goes behind what the session holds; all generated tokens but the
 * last one follow it. A prompt that fails leaves the session as it was. stats
 * may be NULL; it is filled on failure too, up to the failure. */
CLV_API clv_status clv_generate(clv_session *session, clv_sampler *sampler,
                                const clv_generate_params *params,
                                clv_generate_stats *stats);

/* ------------------------------------------------------------------------ */
/* Files                                                                    */

/* What clv_quantize() makes: a mix of types as llama.cpp has it ("Q4_K_M"), or
 * integers with scales beside them ("w8a8"), docs/quantize.md. */
typedef struct clv_quantize_type {
    const char *name, *summary;
    bool calibrated; /* needs ranges */
} clv_quantize_type;
/* False after the last. */
CLV_API bool clv_quantize_type_at(uint32_t i, clv_quantize_type *out);
/* By name, in any case; that of an element type means its usual mix. */
CLV_API clv_status clv_quantize_type_find(const char *name,
                                          clv_quantize_type *out);

/* Of what each weight is multiplied with: the range of its magnitudes, and how
 * much what lies outside matters. */
typedef struct clv_ranges clv_ranges;
CLV_API void clv_ranges_destroy(clv_ranges *ranges);
/* By running a model over the n ids of a text, in windows that do not see each
 * other, on the devices of its context. *out: the caller's. */
CLV_API clv_status clv_calibrate(clv_model *model, const int32_t *ids,
                                 uint64_t n, clv_progress_fn progress,
                                 void *progress_ctx, clv_ranges **out);

typedef struct clv_quantized_tensor {
    const char *name;  /* valid during the call */
    uint32_t from, to; /* clv_dtype */
    uint32_t quant;    /* clv_quant, of integers */
    uint32_t group;    /* of CLV_QUANT_PER_GROUP */
    uint64_t rows, columns;
    uint64_t size;     /* bytes, scales included */
    double error;      /* root of the mean square, relative to the values' */
    float input_scale; /* 0: activations are not rounded */
    /* How far predictions go off if outliers are cut off: nats a token. */
    double importance;
    uint32_t outliers; /* channels of a row at most; 0: they are cut off */
} clv_quantized_tensor;

typedef struct clv_quantize_params {
    const char *type;         /* of clv_quantize_type */
    uint32_t n_threads;       /* 0: all processors; the file is the same */
    const clv_ranges *ranges; /* for types that are calibrated */
    float prune; /* of their layers, the part whose outliers are cut off: those
                    to which they matter least; 0..1 */
    bool plain;  /* ranges reach to the largest magnitude, without outliers */
    clv_progress_fn progress; /* may be NULL */
    void *progress_ctx;
    void (*on_tensor)(void *ctx, const clv_quantized_tensor *t); /* or NULL */
    void *on_tensor_ctx;
} clv_quantize_params;

/* Rewrites a GGUF file in another type. Vectors, norms and routers stay F32;
 * where rows are not whole blocks another type is taken, which on_tensor tells.
 * Complete or not at all. */
CLV_API clv_status clv_quantize(const char *in, const char *out,
                                const clv_quantize_params *params);

typedef struct clv_convert_params {
    /* Of clv_quantize_type, no integers; NULL: of each matrix its own. */
    const char *type;
    /* Beyond either the model is split into NAME-00001-of-0000N.gguf. A tensor
     * is never divided. 0: no limit. */
    uint64_t max_size, max_tensors; /* of a file; size in bytes */
    clv_progress_fn progress;       /* may be NULL */
    void *progress_ctx;
    /* NULL, or called with each file before any is written; a failure ends the
     * conversion. */
    clv_status (*on_file)(void *ctx, const char *path);
    void *on_file_ctx;
} clv_convert_params;

/* A Hugging Face directory to GGUF: all files of it complete, or none. params:
 * NULL for zeros. */
CLV_API clv_status clv_convert(const char *dir, const char *out,
                               const clv_convert_params *params);

/* Named arrays of a .safetensors file, as reference outputs are kept in. May be
 * used from several threads. */
typedef struct clv_arrays clv_arrays;

CLV_API clv_status clv_arrays_open(const char *path, clv_arrays **out);
CLV_API void clv_arrays_close(clv_arrays *arrays);
/* Elements of an array, and of one row of its last dimension (either pointer
 * may be NULL). False if there is none of that name. */
CLV_API bool clv_arrays_find(const clv_arrays *arrays, const char *name,
                             uint64_t *count, uint64_t *row);
/* All elements, converted to F32 or I32; count as clv_arrays_find() says. */
CLV_API clv_status clv_arrays_read(const clv_arrays *arrays, const char *name,
                                   uint32_t dtype, void *out, uint64_t count);

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_LLM_H_ */
