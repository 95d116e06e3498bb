#include "callables.h"

#include "print.h"

#include <string.h>

const llm_value *llm_arg(const llm_args *args, uint64_t index, const char *name)
{
    if (index < args->n)
        return &args->items[index];
    for (uint64_t i = 0; i < args->n_named; i++)
        if (llm_str_equal(args->names[i], llm_str_of(name)))
            return &args->named[i];
    return NULL;
}

/* The position of a name among "a|b|c"; UINT64_MAX: it is not there. */
static uint64_t position(const char *names, llm_str name)
{
    uint64_t index = 0;
    while (*names) {
        const size_t n = strcspn(names, "|");
        if (llm_str_equal((llm_str){names, n}, name))
            return index;
        names += n + (names[n] == '|');
        index++;
    }
    return UINT64_MAX;
}

clv_status llm_args_check(llm_jinja *j, const llm_args *args, const char *names,
                          uint64_t required)
{
    uint64_t most = *names != 0, seen = 0;
    for (const char *p = names; *p; p++)
        most += *p == '|';
    for (uint64_t i = 0; i < args->n && i < 64; i++)
        seen |= 1ull << i;
    for (uint64_t i = 0; i < args->n_named; i++) {
        const uint64_t at = position(names, args->names[i]);
        if (at >= 64 || seen & 1ull << at)
            return llm_jinja_error(j, CLV_ERR_INVALID,
                                   "argument '%s' is not expected",
                                   llm_str_show(args->names[i]).text);
        seen |= 1ull << at;
    }
    if (args->n > most)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "%llu arguments are given where at most %llu "
                               "are taken",
                               (unsigned long long)args->n,
                               (unsigned long long)most);
    if ((seen & ((1ull << required) - 1)) != (1ull << required) - 1)
        return llm_jinja_error(j, CLV_ERR_INVALID, "an argument is missing");
    return CLV_OK;
}

clv_status llm_arg_text(llm_jinja *j, const llm_value *arg, llm_text *out)
{
    if (arg->type != LLM_V_TEXT || arg->markup)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "an argument is %s instead of a text",
                               llm_value_kind(arg));
    *out = arg->text;
    return CLV_OK;
}

clv_status llm_arg_int(llm_jinja *j, const llm_value *arg, int64_t fallback,
                       int64_t *out)
{
    *out = fallback;
    if (!arg || arg->type == LLM_V_NONE || llm_value_whole(arg, out))
        return CLV_OK;
    return llm_jinja_error(j, CLV_ERR_INVALID,
                           "an argument is %s instead of an integer",
                           llm_value_kind(arg));
}

bool llm_arg_truth(const llm_value *arg, bool fallback)
{
    return arg ? llm_value_truth(arg) : fallback;
}

llm_method_fn llm_method_find(const llm_method *methods, llm_str name)
{
    for (; methods->name; methods++)
        if (llm_str_equal(name, llm_str_of(methods->name)))
            return methods->call;
    return NULL;
}
