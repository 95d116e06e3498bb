#include "pre.h"

#include "../base/json.h"
#include "../tokenizer/pre.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PATTERNS = 8 };

typedef struct splitting {
    const char *path;
    const char *patterns[MAX_PATTERNS];
    uint64_t n;
} splitting;

static clv_status no_name(const splitting *s, const char *part,
                          const char *what)
{
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "%s: %s '%s' has no name in GGUF files; run the directory "
                     "itself",
                     s->path, part, llm_str_show(llm_str_of(what)).text);
}

static clv_status add(splitting *s, const char *pattern)
{
    if (s->n == MAX_PATTERNS)
        return no_name(s, "pre_tokenizer", "Sequence");
    s->patterns[s->n++] = pattern;
    return CLV_OK;
}

/* Whether each match becomes a piece. Inverted, "Removed" means the same. */
static bool isolates(const llm_json *split)
{
    const char *behavior = llm_json_string(split, "behavior");
    bool invert = llm_json_flag(split, "invert", false);
    return llm_text_is(behavior, invert ? "Removed" : "Isolated");
}

static clv_status add_component(splitting *s, const llm_json *component)
{
    const char *type = llm_json_string(component, "type");
    if (llm_text_is(type, "ByteLevel")) {
        if (llm_json_flag(component, "add_prefix_space", true))
            return no_name(s, "pre_tokenizer", "add_prefix_space");
        return llm_json_flag(component, "use_regex", true)
                   ? add(s, llm_pattern_gpt2)
                   : CLV_OK;
    }
    if (llm_text_is(type, "Digits") &&
        llm_json_flag(component, "individual_digits", false))
        return add(s, "\\p{N}");
    if (llm_text_is(type, "Split") && isolates(component)) {
        const char *regex =
            llm_json_string(llm_json_get(component, "pattern"), "Regex");
        if (regex)
            return add(s, regex);
    }
    return no_name(s, "pre_tokenizer", type ? type : "without a type");
}

/* GGUF files cannot ask for NFC: their readers take texts as they are. */
static clv_status check_normalizer(const splitting *s, const llm_json *root)
{
    const llm_json *normalizer = llm_json_get(root, "normalizer");
    const char *type = llm_json_string(normalizer, "type");
    if (!llm_json_is(normalizer, LLM_JSON_OBJECT) || llm_text_is(type, "NFC"))
        return CLV_OK;
    return no_name(s, "normalizer", type ? type : "without a type");
}

static clv_status find_name(splitting *s, const llm_json *root,
                            bool whole_first, const char **out)
{
    const llm_json *pre = llm_json_get(root, "pre_tokenizer");
    const llm_json *list = llm_json_get(pre, "pretokenizers");
    CLV_TRY(check_normalizer(s, root));
    if (llm_text_is(llm_json_string(pre, "type"), "Sequence"))
        for (llm_json_each e = llm_json_begin(list); llm_json_next(&e);)
            CLV_TRY(add_component(s, e.value));
    else
        CLV_TRY(add_component(s, pre));
    *out = llm_pre_name(s->patterns, s->n, whole_first);
    return *out ? CLV_OK
                : no_name(s, "pre_tokenizer",
                          s->n ? s->patterns[0] : "without a pattern");
}

clv_status llm_convert_pre(const char *dir, bool whole_first, const char **out)
{
    llm_json *root = NULL;
    char *path = llm_path_join(dir, "tokenizer.json");
    if (!path)
        return CLV_ERR_NO_MEMORY;
    splitting s = {.path = path};
    clv_status status = llm_json_load(path, &root);
    if (!status)
        status = find_name(&s, root, whole_first, out);
    llm_json_free(root);
    free(path);
    return status;
}
