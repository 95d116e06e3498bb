#include "eval.h"

#include "callables.h"
#include "ops.h"
#include "parts.h"
#include "text.h"

clv_status llm_scope_create(llm_jinja *j, llm_scope *parent, llm_scope **out)
{
    llm_scope *scope = llm_jinja_alloc(j, 1, sizeof *scope);
    if (!scope)
        return CLV_ERR_LIMIT;
    scope->parent = parent;
    *out = scope;
    return CLV_OK;
}

clv_status llm_scope_set(llm_jinja *j, llm_scope *scope, llm_str name,
                         const llm_value *value)
{
    const llm_value key =
        llm_value_text((llm_text){name.data, NULL, name.size});
    return llm_dict_set(j, &scope->names, &key, value);
}

const llm_value *llm_scope_find(const llm_scope *scope, llm_str name)
{
    const llm_value *found = NULL;
    for (; scope && !found; scope = scope->parent)
        found = llm_dict_get(&scope->names, name);
    return found;
}

/* Jinja2 decides before it runs a template which scope a name belongs to. One
 * that a scope assigns to is undefined in the blocks inside it that come
 * before, unless the scope itself reads it first. Here they see the rendering's
 * variable of that name, so such an assignment is refused. */
clv_status llm_scope_assign(llm_jinja *j, llm_scope *scope, llm_str name,
                            const llm_value *value)
{
    const llm_value *passed = llm_dict_get(&scope->passed, name);
    bool known = !passed || passed->truth || llm_dict_get(&scope->names, name);
    for (const llm_scope *s = scope->parent; s && !known; s = s->parent) {
        passed = llm_dict_get(&s->passed, name);
        known = passed && passed->truth;
    }
    if (!known)
        return llm_jinja_unknown(j, "setting '%s' behind its use in a block",
                                 llm_str_show(name).text);
    return llm_scope_set(j, scope, name, value);
}

static clv_status note_passed(llm_jinja *j, llm_scope *scope, llm_str name)
{
    const llm_value key =
        llm_value_text((llm_text){name.data, NULL, name.size});
    for (llm_scope *s = scope; s && s != j->globals; s = s->parent) {
        const llm_value direct = llm_value_bool(s == scope);
        if (direct.truth || !llm_dict_get(&s->passed, name))
            CLV_TRY(llm_dict_set(j, &s->passed, &key, &direct));
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static clv_status eval_name(llm_jinja *j, llm_scope *scope,
                            const llm_node *node, llm_value *out)
{
    const llm_value *found = llm_scope_find(scope, node->name);
    *out = found ? *found : (llm_value){0};
    if (found && found == llm_dict_get(&j->globals->names, node->name))
        CLV_TRY(note_passed(j, scope, node->name));
    if (!found && llm_function_is_missing(node->name))
        return llm_jinja_unknown(j, "'%s'", llm_str_show(node->name).text);
    return CLV_OK;
}

static clv_status eval_list(llm_jinja *j, llm_scope *scope,
                            const llm_node *node, llm_value *out)
{
    CLV_TRY(llm_value_list(
        j, node->kind == LLM_N_TUPLE ? LLM_LIST_TUPLE : LLM_LIST_PLAIN,
        node->n_items, out));
    llm_list *list = out->list;
    for (const llm_node *item = node->items; item; item = item->next)
        CLV_TRY(llm_eval(j, scope, item, &list->items[list->n++]));
    return CLV_OK;
}

static clv_status eval_dict(llm_jinja *j, llm_scope *scope,
                            const llm_node *node, llm_value *out)
{
    llm_value dict, key, value;
    CLV_TRY(llm_value_dict(j, LLM_V_DICT, &dict));
    for (const llm_node *item = node->items; item; item = item->next->next) {
        CLV_TRY(llm_eval(j, scope, item, &key));
        CLV_TRY(llm_eval(j, scope, item->next, &value));
        CLV_TRY(llm_dict_set(j, dict.dict, &key, &value));
    }
    *out = dict;
    return CLV_OK;
}

static clv_status eval_pair(llm_jinja *j, llm_scope *scope,
                            const llm_node *node, llm_value *out)
{
    llm_value a, b;
    CLV_TRY(llm_eval(j, scope, node->a, &a));
    CLV_TRY(llm_eval(j, scope, node->b, &b));
    if (node->kind == LLM_N_BINARY)
        return llm_op_binary(j, node->op, &a, &b, out);
    if (node->kind == LLM_N_CONCAT)
        return llm_op_concat(j, &a, &b, out);
    return llm_op_item(j, &a, &b, out);
}

static clv_status eval_logic(llm_jinja *j, llm_scope *scope,
                             const llm_node *node, llm_value *out)
{
    CLV_TRY(llm_eval(j, scope, node->a, out));
    if (llm_value_truth(out) != (node->kind == LLM_N_AND))
        return CLV_OK;
    return llm_eval(j, scope, node->b, out);
}

static clv_status eval_sign(llm_jinja *j, llm_scope *scope,
                            const llm_node *node, llm_value *out)
{
    llm_value a;
    double real;
    CLV_TRY(llm_eval(j, scope, node->a, &a));
    if (node->kind == LLM_N_NEGATE)
        return llm_op_negate(j, &a, out);
    if (!llm_value_real_of(&a, &real))
        return llm_op_negate(j, &a, out); /* which says why not */
    *out = a.type == LLM_V_BOOL ? llm_value_int(a.truth) : a;
    return CLV_OK;
}

/* a < b < c: each is evaluated once, and none after the first that fails. */
static clv_status eval_compare(llm_jinja *j, llm_scope *scope,
                               const llm_node *node, llm_value *out)
{
    llm_value left, right;
    bool holds = true;
    CLV_TRY(llm_eval(j, scope, node->a, &left));
    for (const llm_node *item = node->items; item && holds; item = item->next) {
        CLV_TRY(llm_eval(j, scope, item->a, &right));
        CLV_TRY(llm_op_compare(j, item->op, &left, &right, &holds));
        left = right;
    }
    *out = llm_value_bool(holds);
    return CLV_OK;
}

static clv_status eval_slice(llm_jinja *j, llm_scope *scope,
                             const llm_node *node, llm_value *out)
{
    const llm_node *const parts[3] = {node->b->a, node->b->b, node->b->c};
    llm_value v, bounds[3];
    CLV_TRY(llm_eval(j, scope, node->a, &v));
    for (int i = 0; i < 3; i++) {
        bounds[i] = (llm_value){.type = LLM_V_NONE};
        if (parts[i])
            CLV_TRY(llm_eval(j, scope, parts[i], &bounds[i]));
    }
    return llm_op_slice(j, &v, bounds, out);
}

clv_status llm_eval_args(llm_jinja *j, llm_scope *scope, const llm_node *node,
                         llm_args *out)
{
    llm_value *items = llm_jinja_alloc(j, node->n_items, sizeof *items);
    llm_value *named = llm_jinja_alloc(j, node->n_items + 1ull, sizeof *named);
    llm_str *names = llm_jinja_alloc(j, node->n_items + 1ull, sizeof *names);
    if (!items || !named || !names)
        return CLV_ERR_LIMIT;
    *out = (llm_args){.items = items, .names = names, .named = named};
    for (const llm_node *item = node->items; item; item = item->next) {
        if (item->kind != LLM_N_NAMED) {
            CLV_TRY(llm_eval(j, scope, item, &items[out->n++]));
            continue;
        }
        for (uint64_t i = 0; i < out->n_named; i++)
            if (llm_str_equal(names[i], item->name))
                return llm_jinja_error(j, CLV_ERR_INVALID,
                                       "argument '%s' is given twice",
                                       llm_str_show(item->name).text);
        CLV_TRY(llm_eval(j, scope, item->a, &named[out->n_named]));
        names[out->n_named++] = item->name;
    }
    return CLV_OK;
}

clv_status llm_call(llm_jinja *j, const llm_value *callee, const llm_args *args,
                    llm_value *out)
{
    const llm_callable *callable = callee->callable;
    if (callee->type != LLM_V_CALLABLE)
        return llm_jinja_error(j, CLV_ERR_INVALID, "%s cannot be called",
                               llm_value_kind(callee));
    if (callable->macro)
        return llm_exec_macro(j, callable, args, out);
    return callable->call(j, &callable->self, args, out);
}

static clv_status eval_call(llm_jinja *j, llm_scope *scope,
                            const llm_node *node, llm_value *out)
{
    llm_value callee;
    llm_args args;
    CLV_TRY(llm_eval(j, scope, node->a, &callee));
    const uint8_t kind = node->a->kind;
    if (callee.type == LLM_V_UNDEFINED &&
        (kind == LLM_N_NAME || kind == LLM_N_ATTRIBUTE))
        return llm_jinja_unknown(j, "calling '%s'",
                                 llm_str_show(node->a->name).text);
    CLV_TRY(llm_eval_args(j, scope, node, &args));
    return llm_call(j, &callee, &args, out);
}

static clv_status eval_filter(llm_jinja *j, llm_scope *scope,
                              const llm_node *node, llm_value *out)
{
    llm_value v;
    llm_args args;
    if (node->a)
        CLV_TRY(llm_eval(j, scope, node->a, &v));
    else
        v = *j->block;
    CLV_TRY(llm_eval_args(j, scope, node, &args));
    return llm_filter(j, node->name, &v, &args, out);
}

static clv_status eval_test(llm_jinja *j, llm_scope *scope,
                            const llm_node *node, llm_value *out)
{
    llm_value v;
    llm_args args;
    bool holds;
    CLV_TRY(llm_eval(j, scope, node->a, &v));
    CLV_TRY(llm_eval_args(j, scope, node, &args));
    CLV_TRY(llm_test(j, node->name, &v, &args, &holds));
    *out = llm_value_bool(holds);
    return CLV_OK;
}

static clv_status eval_attribute(llm_jinja *j, llm_scope *scope,
                                 const llm_node *node, llm_value *out)
{
    llm_value v;
    CLV_TRY(llm_eval(j, scope, node->a, &v));
    if (v.type == LLM_V_UNDEFINED && node->a->kind == LLM_N_NAME)
        return llm_jinja_error(j, CLV_ERR_INVALID, "'%s' is undefined",
                               llm_str_show(node->a->name).text);
    j->reads += v.type == LLM_V_NAMESPACE;
    return llm_op_attribute(j, &v, node->name, out);
}

static clv_status eval_choice(llm_jinja *j, llm_scope *scope,
                              const llm_node *node, llm_value *out)
{
    llm_value condition;
    CLV_TRY(llm_eval(j, scope, node->a, &condition));
    *out = (llm_value){0};
    if (llm_value_truth(&condition))
        return llm_eval(j, scope, node->b, out);
    return node->c ? llm_eval(j, scope, node->c, out) : CLV_OK;
}

static clv_status eval(llm_jinja *j, llm_scope *scope, const llm_node *node,
                       llm_value *out)
{
    switch (node->kind) {
    case LLM_N_CONST:
        *out = node->value;
        return CLV_OK;
    case LLM_N_NAME:
        return eval_name(j, scope, node, out);
    case LLM_N_LIST:
    case LLM_N_TUPLE:
        return eval_list(j, scope, node, out);
    case LLM_N_DICT:
        return eval_dict(j, scope, node, out);
    case LLM_N_NEGATE:
    case LLM_N_PLUS:
        return eval_sign(j, scope, node, out);
    case LLM_N_NOT:
        CLV_TRY(llm_eval(j, scope, node->a, out));
        *out = llm_value_bool(!llm_value_truth(out));
        return CLV_OK;
    case LLM_N_AND:
    case LLM_N_OR:
        return eval_logic(j, scope, node, out);
    case LLM_N_COMPARE:
        return eval_compare(j, scope, node, out);
    case LLM_N_CHOICE:
        return eval_choice(j, scope, node, out);
    case LLM_N_ATTRIBUTE:
        return eval_attribute(j, scope, node, out);
    case LLM_N_ITEM:
        if (node->b->kind == LLM_N_SLICE)
            return eval_slice(j, scope, node, out);
        return eval_pair(j, scope, node, out);
    case LLM_N_BINARY:
    case LLM_N_CONCAT:
        return eval_pair(j, scope, node, out);
    case LLM_N_CALL:
        return eval_call(j, scope, node, out);
    case LLM_N_FILTER:
        return eval_filter(j, scope, node, out);
    case LLM_N_TEST:
        return eval_test(j, scope, node, out);
    default:
        return llm_jinja_unknown(j, "such an expression");
    }
}

clv_status llm_eval(llm_jinja *j, llm_scope *scope, const llm_node *node,
                    llm_value *out)
{
    const uint32_t line = j->line;
    j->line = node->line;
    CLV_TRY(llm_jinja_enter(j));
    CLV_TRY(eval(j, scope, node, out));
    llm_jinja_leave(j);
    j->line = line;
    return CLV_OK;
}
