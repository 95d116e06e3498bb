/*
 * What templates call by name: functions, methods, filters and tests.
 */
#pragma once

#include "value.h"

/* A method or attribute of a value that is not an item of it. *found is false
 * if Python has none of that name; an error if only Python has it. */
clv_status llm_member(llm_jinja *j, const llm_value *v, llm_str name,
                      bool *found, llm_value *out);

/* value|name(args) */
clv_status llm_filter(llm_jinja *j, llm_str name, const llm_value *v,
                      const llm_args *args, llm_value *out);
/* value is name(args) */
clv_status llm_test(llm_jinja *j, llm_str name, const llm_value *v,
                    const llm_args *args, bool *out);
/* Whether there is such a filter or test. */
bool llm_filter_exists(llm_str name);
bool llm_test_exists(llm_str name);

typedef struct llm_method {
    const char *name;
    llm_method_fn call;
} llm_method;

/* The tables; each ends with one without a name. */
extern const llm_method llm_text_methods[], llm_split_methods[],
    llm_value_filters[], llm_number_filters[], llm_list_filters[],
    llm_item_filters[];
/* Methods that are filters too (rewrite.c). */
clv_status llm_text_upper(llm_jinja *j, const llm_value *self,
                          const llm_args *args, llm_value *out);
clv_status llm_text_lower(llm_jinja *j, const llm_value *self,
                          const llm_args *args, llm_value *out);
clv_status llm_text_title(llm_jinja *j, const llm_value *self,
                          const llm_args *args, llm_value *out);
clv_status llm_text_capitalize(llm_jinja *j, const llm_value *self,
                               const llm_args *args, llm_value *out);
/* most < 0: all */
clv_status llm_text_replace(llm_jinja *j, llm_text text, llm_text from,
                            llm_text to, int64_t most, llm_value *out);
/* The lines of a text. (split_methods.c) */
clv_status llm_text_lines(llm_jinja *j, llm_text text, bool keep_ends,
                          llm_value *out);
/* NULL: there is none. */
llm_method_fn llm_method_find(const llm_method *methods, llm_str name);

/* Makes a name known: a value, or a function (functions.c). */
clv_status llm_functions_define(llm_jinja *j);
/* Names that Python's Jinja2 defines and we do not. */
bool llm_function_is_missing(llm_str name);

/*
 * Arguments by position or name. Each call of llm_args_* looks for parameter
 * `index` called name; NULL in *out if it was not given. llm_args_check()
 * refuses what no parameter takes.
 */
const llm_value *llm_arg(const llm_args *args, uint64_t index,
                         const char *name);
/* names: "old|new|count" in order; required: how many must be given. */
clv_status llm_args_check(llm_jinja *j, const llm_args *args, const char *names,
                          uint64_t required);
/* A text, an integer, a truth; fallback where it is not given or none. */
clv_status llm_arg_text(llm_jinja *j, const llm_value *arg, llm_text *out);
clv_status llm_arg_int(llm_jinja *j, const llm_value *arg, int64_t fallback,
                       int64_t *out);
bool llm_arg_truth(const llm_value *arg, bool fallback);
