/* Filters of lists that take a filter or a test for their items. */
#include "callables.h"
#include "ops.h"
#include "parts.h"

/* The arguments behind the first n. */
static llm_args behind(const llm_args *args, uint64_t n)
{
    llm_args rest = *args;
    rest.items += n;
    rest.n -= n;
    return rest;
}

static clv_status map_item(llm_jinja *j, const llm_value *item,
                           const llm_args *args, llm_value *out)
{
    llm_text name;
    if (args->n) {
        const llm_args rest = behind(args, 1);
        CLV_TRY(llm_arg_text(j, &args->items[0], &name));
        return llm_filter(j, llm_text_str(name), item, &rest, out);
    }
    CLV_TRY(llm_args_check(j, args, "|attribute|default", 0));
    const llm_value *attribute = llm_arg(args, 1, "attribute");
    const llm_value *fallback = llm_arg(args, 2, "default");
    if (!attribute)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "map takes a filter or an attribute");
    if (fallback && fallback->type == LLM_V_NONE)
        fallback = NULL;
    return llm_op_path(j, item, attribute, fallback, out);
}

static clv_status map(llm_jinja *j, const llm_value *v, const llm_args *args,
                      llm_value *out)
{
    const llm_list *list;
    CLV_TRY(llm_value_iterate(j, v, &list));
    CLV_TRY(llm_value_list(j, LLM_LIST_GENERATOR, list->n, out));
    for (uint64_t i = 0; i < list->n; i++)
        CLV_TRY(map_item(j, &list->items[i], args,
                         &out->list->items[out->list->n++]));
    return CLV_OK;
}

/* Whether a test holds for a value; without one, whether it is true. */
static clv_status passes(llm_jinja *j, const llm_value *v, const llm_args *args,
                         bool *out)
{
    llm_text name;
    if (!args->n) {
        *out = llm_value_truth(v);
        return llm_args_check(j, args, "", 0);
    }
    const llm_args rest = behind(args, 1);
    CLV_TRY(llm_arg_text(j, &args->items[0], &name));
    return llm_test(j, llm_text_str(name), v, &rest, out);
}

static clv_status choose(llm_jinja *j, const llm_value *v, const llm_args *args,
                         bool by_attribute, bool keeps, llm_value *out)
{
    const llm_list *list;
    CLV_TRY(llm_value_iterate(j, v, &list));
    CLV_TRY(llm_value_list(j, LLM_LIST_GENERATOR, list->n, out));
    if (by_attribute && !args->n)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "selectattr takes an attribute");
    const llm_args rest = behind(args, by_attribute);
    for (uint64_t i = 0; i < list->n; i++) {
        llm_value asked = list->items[i];
        bool holds;
        if (by_attribute)
            CLV_TRY(
                llm_op_path(j, &list->items[i], &args->items[0], NULL, &asked));
        CLV_TRY(passes(j, &asked, &rest, &holds));
        if (holds == keeps)
            out->list->items[out->list->n++] = list->items[i];
    }
    return CLV_OK;
}

static clv_status select_filter(llm_jinja *j, const llm_value *v,
                                const llm_args *args, llm_value *out)
{
    return choose(j, v, args, false, true, out);
}

static clv_status reject(llm_jinja *j, const llm_value *v, const llm_args *args,
                         llm_value *out)
{
    return choose(j, v, args, false, false, out);
}

static clv_status selectattr(llm_jinja *j, const llm_value *v,
                             const llm_args *args, llm_value *out)
{
    return choose(j, v, args, true, true, out);
}

static clv_status rejectattr(llm_jinja *j, const llm_value *v,
                             const llm_args *args, llm_value *out)
{
    return choose(j, v, args, true, false, out);
}

const llm_method llm_item_filters[] = {
    {"map", map},
    {"select", select_filter},
    {"reject", reject},
    {"selectattr", selectattr},
    {"rejectattr", rejectattr},
    {0},
};
