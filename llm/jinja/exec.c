#include "eval.h"

#include "print.h"
#include "text.h"

/* Where statements go on after one. */
typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

static clv_status exec(llm_jinja *j, llm_scope *scope, const llm_node *body,
                       flow *then);

/* ------------------------------------------------------------------------ */
/* Assignment                                                               */

static clv_status assign(llm_jinja *j, llm_scope *scope, const llm_node *target,
                         const llm_value *value);

static clv_status unpack(llm_jinja *j, llm_scope *scope, const llm_node *target,
                         const llm_value *value)
{
    const llm_list *list;
    CLV_TRY(llm_value_iterate(j, value, &list));
    if (list->n != target->n_items)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "%llu values are assigned to %u names",
                               (unsigned long long)list->n, target->n_items);
    uint64_t i = 0;
    for (const llm_node *item = target->items; item; item = item->next)
        CLV_TRY(assign(j, scope, item, &list->items[i++]));
    return CLV_OK;
}

static clv_status assign_field(llm_jinja *j, llm_scope *scope,
                               const llm_node *target, const llm_value *value)
{
    const llm_value *found = llm_scope_find(scope, target->name);
    const llm_str name = target->b->name;
    const llm_value key =
        llm_value_text((llm_text){name.data, NULL, name.size});
    if (!found || found->type != LLM_V_NAMESPACE)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "'%s' is no namespace to assign to",
                               llm_str_show(target->name).text);
    j->writes++;
    return llm_dict_set(j, found->dict, &key, value);
}

static clv_status assign(llm_jinja *j, llm_scope *scope, const llm_node *target,
                         const llm_value *value)
{
    if (target->kind == LLM_N_TUPLE)
        return unpack(j, scope, target, value);
    if (target->kind == LLM_N_FIELD)
        return assign_field(j, scope, target, value);
    return llm_scope_assign(j, scope, target->name, value);
}

/* ------------------------------------------------------------------------ */
/* Bodies                                                                   */

/* Runs a body in a scope of its own; its text is added. */
static clv_status exec_inner(llm_jinja *j, llm_scope *scope,
                             const llm_node *body, flow *then)
{
    llm_scope *inner;
    CLV_TRY(llm_scope_create(j, scope, &inner));
    return exec(j, inner, body, then);
}

/* The same, but its text becomes a value, by filters if they are not NULL. */
static clv_status capture(llm_jinja *j, llm_scope *scope, const llm_node *body,
                          const llm_node *filters, flow *then, llm_value *out)
{
    const uint64_t begin = llm_text_begin(j);
    CLV_TRY(exec_inner(j, scope, body, then));
    CLV_TRY(llm_text_end_value(j, begin, out));
    if (!filters || *then)
        return CLV_OK;
    const llm_value block = *out, *outer = j->block;
    j->block = &block;
    clv_status status = llm_eval(j, scope, filters, out);
    j->block = outer;
    return status;
}

static clv_status exec_set(llm_jinja *j, llm_scope *scope, const llm_node *node,
                           flow *then)
{
    llm_value value;
    if (node->block)
        CLV_TRY(capture(j, scope, node->body, node->b, then, &value));
    else
        CLV_TRY(llm_eval(j, scope, node->b, &value));
    return *then ? CLV_OK : assign(j, scope, node->a, &value);
}

static clv_status exec_filtered(llm_jinja *j, llm_scope *scope,
                                const llm_node *node, flow *then)
{
    llm_value value;
    CLV_TRY(capture(j, scope, node->body, node->a, then, &value));
    return *then ? CLV_OK : llm_print(j, &value);
}

static clv_status exec_with(llm_jinja *j, llm_scope *scope,
                            const llm_node *node, flow *then)
{
    llm_scope *inner;
    llm_value value;
    CLV_TRY(llm_scope_create(j, scope, &inner));
    for (const llm_node *item = node->items; item; item = item->next) {
        CLV_TRY(llm_eval(j, scope, item->a, &value));
        CLV_TRY(llm_scope_set(j, inner, item->name, &value));
    }
    return exec(j, inner, node->body, then);
}

static clv_status exec_if(llm_jinja *j, llm_scope *scope, const llm_node *node,
                          flow *then)
{
    llm_value condition;
    CLV_TRY(llm_eval(j, scope, node->a, &condition));
    return exec(j, scope,
                llm_value_truth(&condition) ? node->body : node->other, then);
}

/* ------------------------------------------------------------------------ */
/* Loops                                                                    */

/* An empty scope for one iteration. */
static clv_status renew(llm_jinja *j, llm_scope *parent, llm_scope **scope)
{
    if (!*scope || (*scope)->kept)
        return llm_scope_create(j, parent, scope);
    (*scope)->names.n = (*scope)->passed.n = 0;
    return CLV_OK;
}

/* The items that the condition of a loop holds for. */
static clv_status select_items(llm_jinja *j, llm_scope *scope,
                               const llm_node *node, const llm_list *from,
                               const llm_list **out)
{
    llm_value chosen, holds;
    llm_scope *inner = NULL;
    CLV_TRY(llm_value_list(j, LLM_LIST_PLAIN, from->n, &chosen));
    for (uint64_t i = 0; i < from->n; i++) {
        CLV_TRY(renew(j, scope, &inner));
        CLV_TRY(assign(j, inner, node->a, &from->items[i]));
        CLV_TRY(llm_eval(j, inner, node->c, &holds));
        if (llm_value_truth(&holds))
            chosen.list->items[chosen.list->n++] = from->items[i];
    }
    *out = chosen.list;
    return CLV_OK;
}

static clv_status iterate(llm_jinja *j, llm_scope *scope, const llm_node *node,
                          llm_loop *loop)
{
    const llm_value value = {.type = LLM_V_LOOP, .loop = loop};
    llm_scope *inner = NULL;
    flow then = FLOW_NEXT;
    for (; loop->index < loop->list->n && then != FLOW_BREAK; loop->index++) {
        CLV_TRY(renew(j, scope, &inner));
        CLV_TRY(llm_scope_set(j, inner, llm_str_of("loop"), &value));
        CLV_TRY(assign(j, inner, node->a, &loop->list->items[loop->index]));
        then = FLOW_NEXT;
        CLV_TRY(exec(j, inner, node->body, &then));
    }
    return CLV_OK;
}

static clv_status exec_for(llm_jinja *j, llm_scope *scope, const llm_node *node,
                           flow *then)
{
    const llm_value *outer = llm_scope_find(scope, llm_str_of("loop"));
    llm_value value;
    const llm_list *list;
    CLV_TRY(llm_eval(j, scope, node->b, &value));
    CLV_TRY(llm_value_iterate(j, &value, &list));
    const uint64_t reads = j->reads, writes = j->writes;
    if (node->c)
        CLV_TRY(select_items(j, scope, node, list, &list));
    const bool depends = j->reads != reads;
    llm_loop *loop = llm_jinja_alloc(j, 1, sizeof *loop);
    if (!loop)
        return CLV_ERR_LIMIT;
    loop->list = list;
    if (outer && outer->type == LLM_V_LOOP)
        loop->depth = outer->loop->depth + 1;
    CLV_TRY(iterate(j, scope, node, loop));
    if (depends && j->writes != writes)
        return llm_jinja_unknown(j, "changing what a loop's condition reads");
    return loop->list->n ? CLV_OK : exec_inner(j, scope, node->other, then);
}

/* ------------------------------------------------------------------------ */
/* Macros                                                                   */

static clv_status define(llm_jinja *j, llm_scope *scope, const llm_node *node,
                         llm_value *out)
{
    CLV_TRY(llm_value_function(j, NULL, out));
    out->callable->macro = node;
    out->callable->scope = scope;
    for (; scope; scope = scope->parent)
        scope->kept = true;
    return CLV_OK;
}

static clv_status exec_macro_definition(llm_jinja *j, llm_scope *scope,
                                        const llm_node *node)
{
    llm_value macro;
    CLV_TRY(define(j, scope, node, &macro));
    return llm_scope_assign(j, scope, node->name, &macro);
}

/* What a parameter was given; NULL: nothing. */
static const llm_value *given(const llm_args *args, uint64_t index,
                              llm_str name)
{
    if (index < args->n)
        return &args->items[index];
    for (uint64_t i = 0; i < args->n_named; i++)
        if (llm_str_equal(args->names[i], name))
            return &args->named[i];
    return NULL;
}

static clv_status bind(llm_jinja *j, llm_scope *scope, const llm_node *macro,
                       const llm_args *args)
{
    uint64_t i = 0, used = args->n;
    llm_value value;
    for (const llm_node *p = macro->items; p; p = p->next, i++) {
        const llm_value *arg = given(args, i, p->name);
        used += arg && i >= args->n;
        value = arg ? *arg : (llm_value){0};
        if (!arg && p->a)
            CLV_TRY(llm_eval(j, scope, p->a, &value));
        CLV_TRY(llm_scope_set(j, scope, p->name, &value));
    }
    const llm_str caller = llm_str_of("caller");
    if (macro->caller && !llm_dict_get(&scope->names, caller)) {
        const llm_value *arg = given(args, UINT64_MAX, caller);
        used += arg != NULL;
        value = arg ? *arg : (llm_value){0};
        CLV_TRY(llm_scope_set(j, scope, caller, &value));
    }
    if (args->n > macro->n_items || used != args->n + args->n_named)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "macro '%s' does not take such arguments",
                               llm_str_show(macro->name).text);
    return CLV_OK;
}

clv_status llm_exec_macro(llm_jinja *j, const llm_callable *callable,
                          const llm_args *args, llm_value *out)
{
    llm_scope *scope;
    const uint64_t begin = llm_text_begin(j);
    CLV_TRY(llm_scope_create(j, callable->scope, &scope));
    CLV_TRY(bind(j, scope, callable->macro, args));
    CLV_TRY(llm_exec(j, scope, callable->macro->body));
    return llm_text_end_value(j, begin, out);
}

/* {% call f(...) %}: the body is passed to f as caller. */
static clv_status exec_caller(llm_jinja *j, llm_scope *scope,
                              const llm_node *node)
{
    llm_value callee, value, result;
    llm_args args;
    CLV_TRY(define(j, scope, node, &value));
    CLV_TRY(llm_eval(j, scope, node->a->a, &callee));
    CLV_TRY(llm_eval_args(j, scope, node->a, &args));
    if (callee.type != LLM_V_CALLABLE || !callee.callable->macro)
        return llm_jinja_unknown(j, "a call block of something but a macro");
    ((llm_value *)args.named)[args.n_named] = value;
    ((llm_str *)args.names)[args.n_named++] = llm_str_of("caller");
    CLV_TRY(llm_call(j, &callee, &args, &result));
    return llm_print(j, &result);
}

/* ------------------------------------------------------------------------ */

static clv_status exec_print(llm_jinja *j, llm_scope *scope,
                             const llm_node *node)
{
    llm_value value;
    CLV_TRY(llm_eval(j, scope, node->a, &value));
    return llm_print(j, &value);
}

static clv_status exec_one(llm_jinja *j, llm_scope *scope, const llm_node *node,
                           flow *then)
{
    switch (node->kind) {
    case LLM_N_DATA:
        return llm_text_add(j, node->value.text);
    case LLM_N_PRINT:
        return exec_print(j, scope, node);
    case LLM_N_IF:
        return exec_if(j, scope, node, then);
    case LLM_N_FOR:
        return exec_for(j, scope, node, then);
    case LLM_N_SET:
        return exec_set(j, scope, node, then);
    case LLM_N_MACRO:
        return exec_macro_definition(j, scope, node);
    case LLM_N_CALLER:
        return exec_caller(j, scope, node);
    case LLM_N_FILTERED:
        return exec_filtered(j, scope, node, then);
    case LLM_N_WITH:
        return exec_with(j, scope, node, then);
    default:
        *then = node->kind == LLM_N_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
        return CLV_OK;
    }
}

static clv_status exec(llm_jinja *j, llm_scope *scope, const llm_node *body,
                       flow *then)
{
    for (; body && *then == FLOW_NEXT; body = body->next) {
        j->line = body->line;
        CLV_TRY(llm_jinja_enter(j));
        CLV_TRY(exec_one(j, scope, body, then));
        llm_jinja_leave(j);
    }
    return CLV_OK;
}

clv_status llm_exec(llm_jinja *j, llm_scope *scope, const llm_node *body)
{
    flow then = FLOW_NEXT;
    return exec(j, scope, body, &then);
}
