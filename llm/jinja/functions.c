#include "callables.h"
#include "eval.h"
#include "print.h"
#include "text.h"

#include <time.h>

static clv_status raise_exception(llm_jinja *j, const llm_value *self,
                                  const llm_args *args, llm_value *out)
{
    llm_text message;
    (void)self;
    *out = (llm_value){0};
    CLV_TRY(llm_args_check(j, args, "message", 1));
    CLV_TRY(llm_print_text(j, llm_arg(args, 0, "message"), &message));
    const int n = message.size > 400 ? 400 : (int)message.size;
    return clv_error(CLV_ERR_INVALID,
                     "chat template, line %u, refuses the conversation: %.*s; "
                     "change that, or take another template with "
                     "--chat-template",
                     j->line, n, message.size ? message.data : "");
}

static clv_status strftime_now(llm_jinja *j, const llm_value *self,
                               const llm_args *args, llm_value *out)
{
    char format[128], text[512] = "";
    llm_text given;
    struct tm now;
    const time_t seconds = (time_t)j->now;
    const uint64_t begin = llm_text_begin(j);
    (void)self;
    CLV_TRY(llm_args_check(j, args, "format", 1));
    CLV_TRY(llm_arg_text(j, llm_arg(args, 0, "format"), &given));
    if (given.size >= sizeof format)
        return llm_jinja_unknown(j, "so long a format of a date");
    for (uint64_t i = 0; i < given.size; i++)
        format[i] = given.data[i];
    format[given.size] = 0;
    if (!localtime_r(&seconds, &now))
        return llm_jinja_unknown(j, "the time");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t n = strftime(text, sizeof text, format, &now);
#pragma GCC diagnostic pop
    if (!n && given.size)
        return llm_jinja_unknown(j, "so long a date");
    CLV_TRY(llm_text_add_word(j, text));
    return llm_text_end_value(j, begin, out);
}

/* Adds named arguments, and those of a dict if one is given. */
static clv_status fill(llm_jinja *j, const llm_args *args, llm_dict *dict)
{
    if (args->n > 1 || (args->n && args->items[0].type != LLM_V_DICT))
        return llm_jinja_unknown(j, "such an argument of dict or namespace");
    for (uint64_t i = 0; args->n && i < args->items[0].dict->n; i++)
        CLV_TRY(llm_dict_set(j, dict, &args->items[0].dict->keys[i],
                             &args->items[0].dict->values[i]));
    for (uint64_t i = 0; i < args->n_named; i++) {
        const llm_value key = llm_value_text(
            (llm_text){args->names[i].data, NULL, args->names[i].size});
        CLV_TRY(llm_dict_set(j, dict, &key, &args->named[i]));
    }
    return CLV_OK;
}

static clv_status new_namespace(llm_jinja *j, const llm_value *self,
                                const llm_args *args, llm_value *out)
{
    (void)self;
    CLV_TRY(llm_value_dict(j, LLM_V_NAMESPACE, out));
    return fill(j, args, out->dict);
}

static clv_status new_dict(llm_jinja *j, const llm_value *self,
                           const llm_args *args, llm_value *out)
{
    (void)self;
    CLV_TRY(llm_value_dict(j, LLM_V_DICT, out));
    return fill(j, args, out->dict);
}

#define MAX_RANGE 100000 /* Jinja2's, where templates are not trusted */

static clv_status range(llm_jinja *j, const llm_value *self,
                        const llm_args *args, llm_value *out)
{
    int64_t bounds[3] = {0, 0, 1}, n = 0;
    (void)self;
    if (!args->n || args->n > 3 || args->n_named)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "range takes 1 to 3 numbers");
    for (uint64_t i = 0; i < args->n; i++) {
        int64_t *bound = &bounds[args->n == 1 ? 1 : i];
        if (args->items[i].type == LLM_V_NONE)
            return llm_jinja_error(j, CLV_ERR_INVALID, "range takes numbers");
        CLV_TRY(llm_arg_int(j, &args->items[i], 0, bound));
        if (*bound > INT32_MAX || *bound < -INT32_MAX)
            return llm_jinja_error(j, CLV_ERR_LIMIT, "a range is too large");
    }
    const int64_t from = bounds[0], to = bounds[1], step = bounds[2];
    if (!step)
        return llm_jinja_error(j, CLV_ERR_INVALID, "range takes no step of 0");
    if (step > 0 && to > from)
        n = (to - from + step - 1) / step;
    if (step < 0 && to < from)
        n = (from - to - step - 1) / -step;
    if (n > MAX_RANGE)
        return llm_jinja_error(j, CLV_ERR_LIMIT,
                               "a range has more than %d numbers", MAX_RANGE);
    CLV_TRY(llm_value_list(j, LLM_LIST_RANGE, (uint64_t)n, out));
    for (int64_t i = 0; i < n; i++)
        out->list->items[out->list->n++] = llm_value_int(from + i * step);
    return CLV_OK;
}

clv_status llm_functions_define(llm_jinja *j)
{
    static const llm_method functions[] = {
        {"raise_exception", raise_exception},
        {"strftime_now", strftime_now},
        {"namespace", new_namespace},
        {"dict", new_dict},
        {"range", range},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        llm_value value;
        CLV_TRY(llm_value_function(j, functions[i].call, &value));
        CLV_TRY(llm_scope_set(j, j->globals, llm_str_of(functions[i].name),
                              &value));
    }
    return CLV_OK;
}

bool llm_function_is_missing(llm_str name)
{
    static const char *const missing[] = {"lipsum", "cycler",  "joiner", "self",
                                          "super",  "varargs", "kwargs"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (llm_str_equal(name, llm_str_of(missing[i])))
            return true;
    return false;
}
