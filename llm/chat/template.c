#include "known.h"
#include "messages.h"

#include "../jinja/jinja.h"
#include "../tokenizer/tokenizer.h"

#include <string.h>
#include <time.h>

struct clv_chat_template {
    llm_program *programs[LLM_TEMPLATE_COUNT]; /* NULL: none */
    const clv_tokenizer *tok;                  /* NULL: none */
};

/* A text without any tag is taken for a name. */
static bool is_name(const char *text)
{
    return !strchr(text, '{') && !strchr(text, '\n') && strlen(text) < 64;
}

static clv_status unknown_name(const char *name)
{
    char list[512] = "";
    for (uint32_t i = 0; llm_known_name(i); i++)
        llm_list_add(list, sizeof list, llm_known_name(i));
    return clv_error(CLV_ERR_NOT_FOUND,
                     "no chat template is called '%s'; known are %s",
                     llm_str_show(llm_str_of(name)).text, list);
}

static clv_status compile(clv_chat_template *t, const char *text)
{
    if (text) {
        const char *known = is_name(text) ? llm_known_template(text) : text;
        return known ? llm_jinja_compile(llm_str_of(known), &t->programs[0])
                     : unknown_name(text);
    }
    if (!t->tok || !t->tok->templates[LLM_TEMPLATE_DEFAULT])
        return clv_error(CLV_ERR_NOT_FOUND,
                         "the model holds no chat template; give one with "
                         "--chat-template");
    for (int i = 0; i < LLM_TEMPLATE_COUNT; i++)
        if (t->tok->templates[i])
            CLV_TRY(llm_jinja_compile(llm_str_of(t->tok->templates[i]),
                                      &t->programs[i]));
    return CLV_OK;
}

clv_status clv_chat_template_create(const char *text, const clv_tokenizer *tok,
                                    clv_chat_template **out)
{
    if (!out)
        return clv_error(CLV_ERR_INVALID,
                         "clv_chat_template_create: out is NULL");
    *out = NULL;
    clv_chat_template *t = calloc(1, sizeof *t);
    if (!t)
        return llm_no_memory("a chat template");
    t->tok = tok;
    clv_status status = compile(t, text);
    if (status) {
        clv_chat_template_destroy(t);
        return status;
    }
    *out = t;
    return CLV_OK;
}

void clv_chat_template_destroy(clv_chat_template *t)
{
    if (!t)
        return;
    for (int i = 0; i < LLM_TEMPLATE_COUNT; i++)
        llm_program_destroy(t->programs[i]);
    free(t);
}

const char *clv_chat_template_name(uint32_t index)
{
    return llm_known_name(index);
}

/* ------------------------------------------------------------------------ */
/* Variables                                                                */

static clv_status define_token(llm_jinja *j, const clv_tokenizer *tok,
                               const char *name, int32_t id)
{
    if (id < 0 || (uint32_t)id >= tok->vocab.n)
        return CLV_OK;
    const llm_str text = llm_token_text(&tok->vocab.tokens[id]);
    const llm_value value =
        llm_value_text((llm_text){text.data, NULL, text.size});
    return llm_jinja_define(j, llm_str_of(name), &value);
}

/* What is there unless the conversation says otherwise. */
static clv_status define_defaults(llm_jinja *j, const clv_tokenizer *tok)
{
    const llm_value none = {.type = LLM_V_NONE}, yes = llm_value_bool(true);
    CLV_TRY(llm_jinja_define(j, llm_str_of("tools"), &none));
    CLV_TRY(llm_jinja_define(j, llm_str_of("documents"), &none));
    CLV_TRY(llm_jinja_define(j, llm_str_of("add_generation_prompt"), &yes));
    if (!tok)
        return CLV_OK;
    CLV_TRY(define_token(j, tok, "bos_token", tok->bos));
    CLV_TRY(define_token(j, tok, "eos_token", tok->eos));
    CLV_TRY(define_token(j, tok, "pad_token", tok->pad));
    return define_token(j, tok, "unk_token", tok->model.unknown);
}

static clv_status define_all(llm_jinja *j, const llm_dict *dict)
{
    for (uint64_t i = 0; i < dict->n; i++)
        CLV_TRY(llm_jinja_define(j, llm_text_str(dict->keys[i].text),
                                 &dict->values[i]));
    return CLV_OK;
}

static clv_status define_messages(llm_jinja *j, llm_str json)
{
    llm_value read;
    CLV_TRY(llm_messages_read(j, json, "messages", true, &read));
    if (read.type == LLM_V_LIST)
        return llm_jinja_define(j, llm_str_of("messages"), &read);
    const llm_value *messages =
        read.type == LLM_V_DICT
            ? llm_dict_get(read.dict, llm_str_of("messages"))
            : NULL;
    if (!messages || messages->type != LLM_V_LIST)
        return clv_error(CLV_ERR_FORMAT,
                         "messages: neither a list of messages nor an object "
                         "with one as \"messages\"");
    return define_all(j, read.dict);
}

static clv_status define_variables(llm_jinja *j, const clv_chat_params *params)
{
    llm_value read;
    if (params && params->variables) {
        CLV_TRY(llm_messages_read(j, llm_str_of(params->variables),
                                  "template variables", false, &read));
        if (read.type != LLM_V_DICT)
            return clv_error(CLV_ERR_FORMAT,
                             "template variables: not a JSON object");
        CLV_TRY(define_all(j, read.dict));
    }
    const llm_value no = llm_value_bool(false);
    if (params && params->no_generation_prompt)
        return llm_jinja_define(j, llm_str_of("add_generation_prompt"), &no);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static clv_status add_ranges(llm_text text, clv_chat_text *out)
{
    struct {
        clv_text_range *items;
        uint64_t n, capacity;
    } ranges = {0};
    clv_status status = CLV_OK;
    for (uint64_t at = 0, end; text.marks && at < text.size && !status;
         at = end) {
        end = at + 1;
        while (end < text.size && text.marks[end] == text.marks[at])
            end++;
        const clv_text_range range = {at, end - at};
        if (text.marks[at])
            status = LLM_ARRAY_ADD(&ranges, range);
    }
    out->ranges = ranges.items;
    out->n_ranges = ranges.n;
    return status;
}

static clv_status copy_out(llm_text text, clv_chat_text *out)
{
    *out = (clv_chat_text){.length = text.size};
    out->text = malloc(text.size + 1);
    if (!out->text)
        return llm_no_memory("a conversation");
    if (text.size)
        memcpy(out->text, text.data, text.size);
    out->text[text.size] = 0;
    clv_status status = add_ranges(text, out);
    if (status)
        clv_chat_text_free(out);
    return status;
}

static clv_status render(const clv_chat_template *t, llm_jinja *j,
                         llm_str messages, const clv_chat_params *params,
                         llm_text *out)
{
    CLV_TRY(define_defaults(j, t->tok));
    CLV_TRY(define_messages(j, messages));
    CLV_TRY(define_variables(j, params));
    const llm_value *tools = llm_jinja_find(j, llm_str_of("tools"));
    const bool offers = tools && tools->type != LLM_V_NONE;
    const llm_program *program = t->programs[LLM_TEMPLATE_TOOLS];
    if (!offers || !program)
        program = t->programs[LLM_TEMPLATE_DEFAULT];
    return llm_jinja_run(j, program, out);
}

clv_status clv_chat_template_apply(const clv_chat_template *t,
                                   const char *messages, uint64_t length,
                                   const clv_chat_params *params,
                                   clv_chat_text *out)
{
    if (!t || !messages || !out)
        return clv_error(CLV_ERR_INVALID,
                         "clv_chat_template_apply: an argument is NULL");
    llm_jinja j;
    llm_text text;
    const int64_t now = params && params->now ? params->now : time(NULL);
    clv_status status = llm_jinja_begin(&j, now);
    if (!status)
        status = render(t, &j, (llm_str){messages, length}, params, &text);
    if (!status)
        status = copy_out(text, out);
    llm_jinja_finish(&j);
    return status;
}

void clv_chat_text_free(clv_chat_text *text)
{
    if (!text)
        return;
    free(text->text);
    free(text->ranges);
    *text = (clv_chat_text){0};
}
