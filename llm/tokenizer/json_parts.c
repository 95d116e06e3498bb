#include "json.h"

#include <string.h>

/* Sequences may be nested, a little. */
#define MAX_DEPTH 8

static bool is(const char *type, const char *name)
{
    return type && strcmp(type, name) == 0;
}

/* Strings of the JSON tree go before the tokenizer does. */
static clv_status keep(llm_json_loading *load, const char *text, llm_str *out)
{
    return llm_vocab_store(&load->tok->vocab, llm_str_of(text), out);
}

/* {"String": "x"} or {"Regex": "x"} */
static clv_status read_pattern(const llm_json_loading *load, const char *part,
                               const cJSON *component, llm_regex **out)
{
    const cJSON *pattern =
        cJSON_GetObjectItemCaseSensitive(component, "pattern");
    const char *regex = llm_json_string(pattern, "Regex");
    const char *text = llm_json_string(pattern, "String");
    if (!regex && (!text || !*text))
        return llm_json_malformed(load, part, "has no pattern");
    clv_status status =
        llm_regex_create(llm_str_of(regex ? regex : text), !regex, out);
    if (status != CLV_OK)
        clv_error_prefix(status, "%s: %s", load->name, part);
    return status;
}

/* The characters of one are to be read as spaces. */
static clv_status set_space(llm_json_loading *load, const char *part,
                            const char *text)
{
    if (load->space.size && !llm_str_equal(load->space, llm_str_of(text)))
        return llm_json_unsupported(load, part, "another spelling of spaces");
    return load->space.size ? CLV_OK : keep(load, text, &load->space);
}

/* ------------------------------------------------------------------------ */
/* Normalizer                                                               */

static clv_status add_replace(llm_json_loading *load, const cJSON *component)
{
    const char *content = llm_json_string(component, "content");
    const char *from = llm_json_string(
        cJSON_GetObjectItemCaseSensitive(component, "pattern"), "String");
    llm_rewrite rewrite = {.kind = LLM_REWRITE_REPLACE};
    clv_status status = CLV_OK;
    if (!content)
        return llm_json_malformed(load, "normalizer Replace", "has no content");
    if (is(from, " ") && *content)
        status = set_space(load, "normalizer Replace", content);
    if (status == CLV_OK)
        status = keep(load, content, &rewrite.content);
    if (status == CLV_OK)
        status = read_pattern(load, "normalizer Replace", component,
                              &rewrite.pattern);
    if (status != CLV_OK)
        return status;
    return llm_normalizer_add(&load->tok->normalizer, rewrite);
}

static clv_status add_prepend(llm_json_loading *load, const cJSON *component)
{
    const char *content = llm_json_string(component, "prepend");
    llm_rewrite rewrite = {.kind = LLM_REWRITE_PREPEND};
    if (!content)
        return llm_json_malformed(load, "normalizer Prepend",
                                  "has no text to prepend");
    if (is(content, " ") || is(content, "\u2581"))
        load->tok->front_space = LLM_FRONT_SPACE_FRAGMENTS;
    clv_status status = keep(load, content, &rewrite.content);
    if (status != CLV_OK)
        return status;
    return llm_normalizer_add(&load->tok->normalizer, rewrite);
}

static clv_status add_normalizer(llm_json_loading *load, const cJSON *component,
                                 int depth)
{
    static const char *const forms[] = {
        [LLM_REWRITE_NFC] = "NFC",
        [LLM_REWRITE_NFD] = "NFD",
        [LLM_REWRITE_NFKC] = "NFKC",
        [LLM_REWRITE_NFKD] = "NFKD",
    };
    const char *type = llm_json_type(component);
    llm_normalizer *normalizer = &load->tok->normalizer;
    for (int i = LLM_REWRITE_NFC; i <= LLM_REWRITE_NFKD; i++)
        if (is(type, forms[i]))
            return llm_normalizer_add(
                normalizer, (llm_rewrite){.kind = (llm_rewrite_kind)i});
    if (is(type, "Prepend"))
        return add_prepend(load, component);
    if (is(type, "Replace"))
        return add_replace(load, component);
    if (is(type, "Strip"))
        return llm_normalizer_add(
            normalizer,
            (llm_rewrite){.kind = LLM_REWRITE_STRIP,
                          .left = llm_json_flag(component, "strip_left", false),
                          .right =
                              llm_json_flag(component, "strip_right", false)});
    if (!is(type, "Sequence") || depth == MAX_DEPTH)
        return llm_json_unsupported(load, "normalizer", type);
    const cJSON *child;
    clv_status status = CLV_OK;
    cJSON_ArrayForEach (
        child, cJSON_GetObjectItemCaseSensitive(component, "normalizers"))
        if (status == CLV_OK)
            status = add_normalizer(load, child, depth + 1);
    return status;
}

clv_status llm_json_normalizer(llm_json_loading *load, const cJSON *normalizer)
{
    if (!normalizer || cJSON_IsNull(normalizer))
        return CLV_OK;
    return add_normalizer(load, normalizer, 0);
}

/* ------------------------------------------------------------------------ */
/* Pre-tokenizer                                                            */

static clv_status read_mode(const llm_json_loading *load,
                            const cJSON *component, llm_split_mode fallback,
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
        if (is(name, names[i])) {
            *out = (llm_split_mode)i;
            return CLV_OK;
        }
    }
    return llm_json_unsupported(load, "behavior", name);
}

/* A step with a pattern of ours; steps behind ByteLevel see its spelling. */
static clv_status add_step(llm_json_loading *load, const char *pattern,
                           bool literal, llm_step step)
{
    step.spelled = load->byte_level;
    clv_status status =
        llm_regex_create(llm_str_of(pattern), literal, &step.pattern);
    if (status != CLV_OK)
        return status;
    return llm_splitter_add(&load->tok->splitter, step);
}

static clv_status add_split(llm_json_loading *load, const cJSON *component)
{
    llm_step step = {.kind = LLM_STEP_SPLIT,
                     .spelled = load->byte_level,
                     .invert = llm_json_flag(component, "invert", false)};
    clv_status status =
        read_mode(load, component, LLM_SPLIT_REMOVED, &step.mode);
    if (status == CLV_OK)
        status =
            read_pattern(load, "pre_tokenizer Split", component, &step.pattern);
    if (status != CLV_OK)
        return status;
    return llm_splitter_add(&load->tok->splitter, step);
}

static clv_status add_byte_level(llm_json_loading *load, const cJSON *component)
{
    clv_status status = CLV_OK;
    if (load->byte_level)
        return llm_json_unsupported(load, "pre_tokenizer", "two of ByteLevel");
    if (llm_json_flag(component, "add_prefix_space", true))
        status = llm_splitter_add(
            &load->tok->splitter,
            (llm_step){.kind = LLM_STEP_PREPEND, .content = llm_str_of(" ")});
    if (status == CLV_OK && llm_json_flag(component, "use_regex", true))
        status = add_step(load, llm_pattern_gpt2, false,
                          (llm_step){.kind = LLM_STEP_SPLIT});
    load->byte_level = true;
    return status;
}

/* When a space goes in front of a text, under the format's older and newer
 * names. */
static clv_status read_scheme(llm_json_loading *load, const cJSON *component,
                              llm_front_space *out)
{
    const char *scheme = llm_json_string(component, "prepend_scheme");
    bool add = llm_json_flag(component, "add_prefix_space", true);
    *out = LLM_FRONT_SPACE_NONE;
    if (is(scheme, "never") || (!scheme && !add))
        return CLV_OK;
    if (!scheme || is(scheme, "always"))
        *out = LLM_FRONT_SPACE_FRAGMENTS;
    else if (is(scheme, "first"))
        *out = LLM_FRONT_SPACE_START;
    else
        return llm_json_unsupported(load, "prepend_scheme", scheme);
    return CLV_OK;
}

static clv_status add_metaspace(llm_json_loading *load, const cJSON *component)
{
    const char *space = llm_json_string(component, "replacement");
    llm_front_space front;
    llm_step replace = {.kind = LLM_STEP_REPLACE};
    if (load->byte_level)
        return llm_json_unsupported(load, "pre_tokenizer",
                                    "Metaspace behind ByteLevel");
    if (!space || !*space)
        space = "\u2581";
    clv_status status = read_scheme(load, component, &front);
    if (status == CLV_OK)
        status = set_space(load, "pre_tokenizer Metaspace", space);
    if (status != CLV_OK)
        return status;
    replace.content = load->space;
    status = add_step(load, " ", true, replace);
    if (status == CLV_OK && front != LLM_FRONT_SPACE_NONE) {
        load->tok->front_space = front;
        status = llm_splitter_add(
            &load->tok->splitter,
            (llm_step){.kind = LLM_STEP_PREPEND,
                       .content = load->space,
                       .first_only = front == LLM_FRONT_SPACE_START});
    }
    if (status == CLV_OK && llm_json_flag(component, "split", true))
        status = add_step(
            load, space, true,
            (llm_step){.kind = LLM_STEP_SPLIT, .mode = LLM_SPLIT_WITH_NEXT});
    return status;
}

static clv_status add_delimiter(llm_json_loading *load, const cJSON *component)
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
                                  const cJSON *component)
{
    llm_step step = {.kind = LLM_STEP_SPLIT};
    clv_status status =
        read_mode(load, component, LLM_SPLIT_ISOLATED, &step.mode);
    if (status != CLV_OK)
        return status;
    return add_step(load, "[\\p{P}!-/:-@\\[-`{-~]", false, step);
}

static clv_status add_pre_tokenizer(llm_json_loading *load,
                                    const cJSON *component, int depth)
{
/* Rust's \w */
#define WORD_ITEMS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"
    const char *type = llm_json_type(component);
    llm_step removed = {.kind = LLM_STEP_SPLIT, .mode = LLM_SPLIT_REMOVED};
    llm_step digits = {.kind = LLM_STEP_SPLIT, .mode = LLM_SPLIT_CONTIGUOUS};
    llm_step words = {
        .kind = LLM_STEP_SPLIT, .mode = LLM_SPLIT_REMOVED, .invert = true};
    if (is(type, "ByteLevel"))
        return add_byte_level(load, component);
    if (is(type, "Split"))
        return add_split(load, component);
    if (is(type, "Metaspace"))
        return add_metaspace(load, component);
    if (is(type, "Punctuation"))
        return add_punctuation(load, component);
    if (is(type, "CharDelimiterSplit"))
        return add_delimiter(load, component);
    if (is(type, "WhitespaceSplit"))
        return add_step(load, "\\s", false, removed);
    if (is(type, "Whitespace"))
        return add_step(load, "[" WORD_ITEMS "]+|[^" WORD_ITEMS "\\s]+", false,
                        words);
    if (is(type, "Digits")) {
        if (llm_json_flag(component, "individual_digits", false))
            digits.mode = LLM_SPLIT_ISOLATED;
        return add_step(load, "\\p{N}", false, digits);
    }
    if (!is(type, "Sequence") || depth == MAX_DEPTH)
        return llm_json_unsupported(load, "pre_tokenizer", type);
    const cJSON *child;
    clv_status status = CLV_OK;
    cJSON_ArrayForEach (
        child, cJSON_GetObjectItemCaseSensitive(component, "pretokenizers"))
        if (status == CLV_OK)
            status = add_pre_tokenizer(load, child, depth + 1);
    return status;
#undef WORD_ITEMS
}

clv_status llm_json_pre_tokenizer(llm_json_loading *load,
                                  const cJSON *component)
{
    if (!component || cJSON_IsNull(component))
        return CLV_OK;
    return add_pre_tokenizer(load, component, 0);
}

/* ------------------------------------------------------------------------ */
/* Decoder and post-processor                                               */

static clv_status check_decoder(const llm_json_loading *load,
                                const cJSON *component, int depth)
{
    /* How text is put together again follows from how it was taken apart; a
     * decoder of these kinds says the same. */
    static const char *const known[] = {"ByteLevel", "ByteFallback", "Fuse",
                                        "Metaspace", "Replace",      "Strip"};
    const char *type = llm_json_type(component);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (is(type, known[i]))
            return CLV_OK;
    if (!is(type, "Sequence") || depth == MAX_DEPTH)
        return llm_json_unsupported(load, "decoder", type);
    const cJSON *child;
    clv_status status = CLV_OK;
    cJSON_ArrayForEach (child,
                        cJSON_GetObjectItemCaseSensitive(component, "decoders"))
        if (status == CLV_OK)
            status = check_decoder(load, child, depth + 1);
    return status;
}

clv_status llm_json_decoder(llm_json_loading *load, const cJSON *decoder)
{
    if (!decoder || cJSON_IsNull(decoder))
        return CLV_OK;
    return check_decoder(load, decoder, 0);
}

/* [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]: what comes in
 * front of a text. */
static clv_status read_template(llm_json_loading *load, const cJSON *component)
{
    const cJSON *item,
        *single = cJSON_GetObjectItemCaseSensitive(component, "single");
    const char *front = NULL;
    cJSON_ArrayForEach (item, single) {
        const cJSON *special =
            cJSON_GetObjectItemCaseSensitive(item, "SpecialToken");
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
                                     const cJSON *component, int depth)
{
    const char *type = llm_json_type(component);
    if (is(type, "ByteLevel"))
        return CLV_OK;
    if (is(type, "TemplateProcessing"))
        return read_template(load, component);
    if (!is(type, "Sequence") || depth == MAX_DEPTH)
        return llm_json_unsupported(load, "post_processor", type);
    const cJSON *child;
    clv_status status = CLV_OK;
    cJSON_ArrayForEach (
        child, cJSON_GetObjectItemCaseSensitive(component, "processors"))
        if (status == CLV_OK)
            status = add_post_processor(load, child, depth + 1);
    return status;
}

clv_status llm_json_post_processor(llm_json_loading *load,
                                   const cJSON *processor)
{
    if (!processor || cJSON_IsNull(processor))
        return CLV_OK;
    return add_post_processor(load, processor, 0);
}
