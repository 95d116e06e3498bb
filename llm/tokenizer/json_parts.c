#include "json_parts.h"

#include "pre.h"

#include <string.h>

/* Sequences may be nested, a little. */
#define MAX_DEPTH 8

clv_status llm_json_unsupported(const llm_json_loading *load, const char *part,
                                const char *what)
{
    return clv_error(CLV_ERR_UNSUPPORTED, "%s: %s '%s' is not supported",
                     load->name, part, what ? what : "without a type");
}

clv_status llm_json_malformed(const llm_json_loading *load, const char *part,
                              const char *what)
{
    return clv_error(CLV_ERR_FORMAT, "%s: %s %s", load->name, part, what);
}

/* A copy: the JSON tree is freed before the tokenizer. */
static clv_status keep(llm_json_loading *load, const char *text, llm_str *out)
{
    return llm_vocab_store(&load->tok->vocab, llm_str_of(text), out);
}

/* {"String": "x"} or {"Regex": "x"} */
static clv_status read_pattern(const llm_json_loading *load, const char *part,
                               const llm_json *component, llm_regex **out)
{
    const llm_json *pattern = llm_json_get(component, "pattern");
    const char *regex = llm_json_string(pattern, "Regex");
    const char *text = llm_json_string(pattern, "String");
    if (!regex && (!text || !*text))
        return llm_json_malformed(load, part, "has no pattern");
    clv_status status =
        llm_regex_create(llm_str_of(regex ? regex : text), !regex, out);
    if (status)
        clv_error_prefix(status, "%s: %s", load->name, part);
    return status;
}

/* text stands for a space. */
static clv_status set_space(llm_json_loading *load, const char *part,
                            const char *text)
{
    if (load->space.size && !llm_str_equal(load->space, llm_str_of(text)))
        return llm_json_unsupported(load, part, "another spelling of spaces");
    return load->space.size ? CLV_OK : keep(load, text, &load->space);
}

/* ------------------------------------------------------------------------ */
/* Normalizer                                                               */

static clv_status add_replace(llm_json_loading *load, const llm_json *component)
{
    const char *content = llm_json_string(component, "content");
    const char *from =
        llm_json_string(llm_json_get(component, "pattern"), "String");
    llm_rewrite rewrite = {.kind = LLM_REWRITE_REPLACE};
    if (!content)
        return llm_json_malformed(load, "normalizer Replace", "has no content");
    if (llm_text_is(from, " ") && *content)
        CLV_TRY(set_space(load, "normalizer Replace", content));
    CLV_TRY(keep(load, content, &rewrite.content));
    CLV_TRY(
        read_pattern(load, "normalizer Replace", component, &rewrite.pattern));
    return llm_normalizer_add(&load->tok->normalizer, rewrite);
}

static clv_status add_prepend(llm_json_loading *load, const llm_json *component)
{
    const char *content = llm_json_string(component, "prepend");
    llm_rewrite rewrite = {.kind = LLM_REWRITE_PREPEND};
    if (!content)
        return llm_json_malformed(load, "normalizer Prepend",
                                  "has no text to prepend");
    if (llm_text_is(content, " ") || llm_text_is(content, "\u2581"))
        load->tok->front_space = LLM_FRONT_SPACE_FRAGMENTS;
    CLV_TRY(keep(load, content, &rewrite.content));
    return llm_normalizer_add(&load->tok->normalizer, rewrite);
}

static clv_status add_normalizer(llm_json_loading *load,
                                 const llm_json *component, const char *type)
{
    static const char *const forms[] = {
        [LLM_REWRITE_NFC] = "NFC",
        [LLM_REWRITE_NFD] = "NFD",
        [LLM_REWRITE_NFKC] = "NFKC",
        [LLM_REWRITE_NFKD] = "NFKD",
    };
    llm_rewrite rewrite = {
        .kind = LLM_REWRITE_STRIP,
        .left = llm_json_flag(component, "strip_left", false),
        .right = llm_json_flag(component, "strip_right", false),
    };
    if (llm_text_is(type, "Prepend"))
        return add_prepend(load, component);
    if (llm_text_is(type, "Replace"))
        return add_replace(load, component);
    for (int i = LLM_REWRITE_NFC; i <= LLM_REWRITE_NFKD; i++)
        if (llm_text_is(type, forms[i]))
            rewrite = (llm_rewrite){.kind = (llm_rewrite_kind)i};
    if (rewrite.kind == LLM_REWRITE_STRIP && !llm_text_is(type, "Strip"))
        return llm_json_unsupported(load, "normalizer", type);
    return llm_normalizer_add(&load->tok->normalizer, rewrite);
}

/* ------------------------------------------------------------------------ */
/* Pre-tokenizer                                                            */

static clv_status read_mode(const llm_json_loading *load,
                            const llm_json *component, llm_split_mode fallback,
                            llm_split_mode *out)
{
    static const char *const names[] = {
        [LLM_SPLIT_ISOLATED] = "Isolated",
        [LLM_SPLIT_REMOVED] = "Removed",
        [LLM_SPLIT_CONTIGUOUS] = "Contiguous",
        [LLM_SPLIT_WITH_PREVIOUS] = "MergedWithPrevious",
        [LLM_SPLIT_WITH_NEXT] = "MergedWithNext",
    };
    const char *name = llm_json_string(component, "behavior");
    *out = fallback;
    if (!name)
        return CLV_OK;
    for (int i = LLM_SPLIT_ISOLATED; i <= LLM_SPLIT_WITH_NEXT; i++) {
        if (llm_text_is(name, names[i])) {
            *out = (llm_split_mode)i;
            return CLV_OK;
        }
    }
    return llm_json_unsupported(load, "behavior", name);
}

/* A step with a fixed pattern. Steps after ByteLevel match its spelling. */
static clv_status add_step(llm_json_loading *load, const char *pattern,
                           bool literal, llm_step step)
{
    step.spelled = load->byte_level;
    CLV_TRY(llm_regex_create(llm_str_of(pattern), literal, &step.pattern));
    return llm_splitter_add(&load->tok->splitter, step);
}

static clv_status add_split(llm_json_loading *load, const llm_json *component)
{
    llm_step step = {.kind = LLM_STEP_SPLIT,
                     .spelled = load->byte_level,
                     .invert = llm_json_flag(component, "invert", false)};
    CLV_TRY(read_mode(load, component, LLM_SPLIT_REMOVED, &step.mode));
    CLV_TRY(
        read_pattern(load, "pre_tokenizer Split", component, &step.pattern));
    return llm_splitter_add(&load->tok->splitter, step);
}

static clv_status add_byte_level(llm_json_loading *load,
                                 const llm_json *component)
{
    if (load->byte_level)
        return llm_json_unsupported(load, "pre_tokenizer", "two of ByteLevel");
    if (llm_json_flag(component, "add_prefix_space", true))
        CLV_TRY(llm_splitter_add(
            &load->tok->splitter,
            (llm_step){.kind = LLM_STEP_PREPEND, .content = llm_str_of(" ")}));
    if (llm_json_flag(component, "use_regex", true))
        CLV_TRY(add_step(load, llm_pattern_gpt2, false,
                         (llm_step){.kind = LLM_STEP_SPLIT}));
    load->byte_level = true;
    return CLV_OK;
}

/* When a space goes in front of a text, under the format's older and newer
 * names. */
static clv_status read_scheme(llm_json_loading *load, const llm_json *component,
                              llm_front_space *out)
{
    const char *scheme = llm_json_string(component, "prepend_scheme");
    bool add = llm_json_flag(component, "add_prefix_space", true);
    *out = LLM_FRONT_SPACE_NONE;
    if (llm_text_is(scheme, "never") || (!scheme && !add))
        return CLV_OK;
    if (!scheme || llm_text_is(scheme, "always"))
        *out = LLM_FRONT_SPACE_FRAGMENTS;
    else if (llm_text_is(scheme, "first"))
        *out = LLM_FRONT_SPACE_START;
    else
        return llm_json_unsupported(load, "prepend_scheme", scheme);
    return CLV_OK;
}

static clv_status add_metaspace(llm_json_loading *load,
                                const llm_json *component)
{
    const char *space = llm_json_string(component, "replacement");
    llm_front_space front;
    llm_step replace = {.kind = LLM_STEP_REPLACE};
    if (load->byte_level)
        return llm_json_unsupported(load, "pre_tokenizer",
                                    "Metaspace behind ByteLevel");
    if (!space || !*space)
        space = "\u2581";
    CLV_TRY(read_scheme(load, component, &front));
    CLV_TRY(set_space(load, "pre_tokenizer Metaspace", space));
    replace.content = load->space;
    CLV_TRY(add_step(load, " ", true, replace));
    if (front != LLM_FRONT_SPACE_NONE) {
        load->tok->front_space = front;
        CLV_TRY(llm_splitter_add(
            &load->tok->splitter,
            (llm_step){.kind = LLM_STEP_PREPEND,
                       .content = load->space,
                       .first_only = front == LLM_FRONT_SPACE_START}));
    }
    if (!llm_json_flag(component, "split", true))
        return CLV_OK;
    return add_step(
        load, space, true,
        (llm_step){.kind = LLM_STEP_SPLIT, .mode = LLM_SPLIT_WITH_NEXT});
}

static clv_status add_delimiter(llm_json_loading *load,
                                const llm_json *component)
{
    const char *delimiter = llm_json_string(component, "delimiter");
    if (!delimiter || !*delimiter)
        return llm_json_malformed(load, "pre_tokenizer CharDelimiterSplit",
                                  "has no delimiter");
    return add_step(
        load, delimiter, true,
        (llm_step){.kind = LLM_STEP_SPLIT, .mode = LLM_SPLIT_REMOVED});
}

static clv_status add_punctuation(llm_json_loading *load,
                                  const llm_json *component)
{
    llm_step step = {.kind = LLM_STEP_SPLIT};
    CLV_TRY(read_mode(load, component, LLM_SPLIT_ISOLATED, &step.mode));
    return add_step(load, "[\\p{P}!-/:-@\\[-`{-~]", false, step);
}

static clv_status add_pre_tokenizer(llm_json_loading *load,
                                    const llm_json *component, const char *type)
{
/* Rust's \w */
#define WORD_ITEMS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"
    llm_step removed = {.kind = LLM_STEP_SPLIT, .mode = LLM_SPLIT_REMOVED};
    llm_step digits = {.kind = LLM_STEP_SPLIT, .mode = LLM_SPLIT_CONTIGUOUS};
    llm_step words = {
        .kind = LLM_STEP_SPLIT, .mode = LLM_SPLIT_REMOVED, .invert = true};
    if (llm_text_is(type, "ByteLevel"))
        return add_byte_level(load, component);
    if (llm_text_is(type, "Split"))
        return add_split(load, component);
    if (llm_text_is(type, "Metaspace"))
        return add_metaspace(load, component);
    if (llm_text_is(type, "Punctuation"))
        return add_punctuation(load, component);
    if (llm_text_is(type, "CharDelimiterSplit"))
        return add_delimiter(load, component);
    if (llm_text_is(type, "WhitespaceSplit"))
        return add_step(load, "\\s", false, removed);
    if (llm_text_is(type, "Whitespace"))
        return add_step(load, "[" WORD_ITEMS "]+|[^" WORD_ITEMS "\\s]+", false,
                        words);
    if (llm_text_is(type, "Digits")) {
        if (llm_json_flag(component, "individual_digits", false))
            digits.mode = LLM_SPLIT_ISOLATED;
        return add_step(load, "\\p{N}", false, digits);
    }
    return llm_json_unsupported(load, "pre_tokenizer", type);
#undef WORD_ITEMS
}

/* ------------------------------------------------------------------------ */
/* Decoder and post-processor                                               */

/* Decoding follows from the normalizer and the pre-tokenizer; a decoder of
 * these types agrees with them. */
static clv_status check_decoder(llm_json_loading *load,
                                const llm_json *component, const char *type)
{
    static const char *const known[] = {"ByteLevel", "ByteFallback", "Fuse",
                                        "Metaspace", "Replace",      "Strip"};
    (void)component;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (llm_text_is(type, known[i]))
            return CLV_OK;
    return llm_json_unsupported(load, "decoder", type);
}

/* [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]: what comes in
 * front of a text. */
static clv_status read_template(llm_json_loading *load,
                                const llm_json *component)
{
    const llm_json *single = llm_json_get(component, "single");
    const char *front = NULL;
    for (llm_json_each e = llm_json_begin(single); llm_json_next(&e);) {
        const llm_json *special = llm_json_get(e.value, "SpecialToken");
        if (!special)
            break;
        if (front)
            return llm_json_unsupported(load, "post_processor",
                                        "TemplateProcessing with two tokens in "
                                        "front of a text");
        front = llm_json_string(special, "id");
        if (!front)
            return llm_json_malformed(load, "post_processor",
                                      "has a special token without an id");
    }
    if (!front)
        return CLV_OK;
    int32_t id = llm_vocab_find_text(&load->tok->vocab, llm_str_of(front));
    if (id < 0)
        return llm_json_malformed(
            load, "post_processor",
            "names a token that is not in the vocabulary");
    load->tok->bos = id;
    load->tok->add_bos = true;
    return CLV_OK;
}

static clv_status add_post_processor(llm_json_loading *load,
                                     const llm_json *component,
                                     const char *type)
{
    if (llm_text_is(type, "ByteLevel"))
        return CLV_OK;
    if (llm_text_is(type, "TemplateProcessing"))
        return read_template(load, component);
    return llm_json_unsupported(load, "post_processor", type);
}

/* ------------------------------------------------------------------------ */

typedef struct kind {
    const char *name, *list; /* of a Sequence */
    clv_status (*add)(llm_json_loading *load, const llm_json *component,
                      const char *type);
} kind;

static const kind kinds[] = {
    {"normalizer", "normalizers", add_normalizer},
    {"pre_tokenizer", "pretokenizers", add_pre_tokenizer},
    {"decoder", "decoders", check_decoder},
    {"post_processor", "processors", add_post_processor},
};

/* A component, or those of a sequence one after the other. */
static clv_status add_all(llm_json_loading *load, const kind *part,
                          const llm_json *component, int depth)
{
    const char *type = llm_json_string(component, "type");
    const llm_json *list = llm_json_get(component, part->list);
    if (!llm_text_is(type, "Sequence") || depth == MAX_DEPTH)
        return part->add(load, component, type);
    for (llm_json_each e = llm_json_begin(list); llm_json_next(&e);)
        CLV_TRY(add_all(load, part, e.value, depth + 1));
    return CLV_OK;
}

clv_status llm_json_part(llm_json_loading *load, const llm_json *root,
                         const char *name)
{
    const llm_json *component = llm_json_get(root, name);
    for (size_t i = 0; component && i < sizeof kinds / sizeof *kinds; i++)
        if (llm_text_is(kinds[i].name, name))
            return add_all(load, &kinds[i], component, 0);
    return CLV_OK;
}
