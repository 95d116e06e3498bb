/*
 * Evaluation of a syntax tree.
 */
#pragma once

#include "node.h"

/* Variables. Those of the scopes around it are seen too. */
struct llm_scope {
    llm_scope *parent; /* NULL: none */
    llm_dict names;
    /* What was read here (true) or only in a scope inside (false), and is a
     * variable of the rendering. */
    llm_dict passed;
    bool kept; /* by a macro that was defined in it */
};

clv_status llm_scope_create(llm_jinja *j, llm_scope *parent, llm_scope **out);
clv_status llm_scope_set(llm_jinja *j, llm_scope *scope, llm_str name,
                         const llm_value *value);
/* The same for a name that the template assigns to. */
clv_status llm_scope_assign(llm_jinja *j, llm_scope *scope, llm_str name,
                            const llm_value *value);
/* NULL: there is none. */
const llm_value *llm_scope_find(const llm_scope *scope, llm_str name);

/* An expression's value. */
clv_status llm_eval(llm_jinja *j, llm_scope *scope, const llm_node *node,
                    llm_value *out);
/* Calls a function, method or macro. */
clv_status llm_call(llm_jinja *j, const llm_value *callee, const llm_args *args,
                    llm_value *out);
/* The arguments of a call, with space for one more that is named. */
clv_status llm_eval_args(llm_jinja *j, llm_scope *scope, const llm_node *node,
                         llm_args *out);

/* Runs statements; their text is added to the one being made (exec.c). */
clv_status llm_exec(llm_jinja *j, llm_scope *scope, const llm_node *body);
/* Runs a macro's body (exec.c). */
clv_status llm_exec_macro(llm_jinja *j, const llm_callable *macro,
                          const llm_args *args, llm_value *out);
