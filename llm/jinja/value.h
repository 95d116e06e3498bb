/*
 * Values of the template language, as Python has them.
 *
 * Values never change, but for namespaces; so lists and texts share parts. All
 * memory is the rendering's and freed with it.
 */
#pragma once

#include "state.h"

typedef struct llm_node llm_node;

typedef enum llm_value_type {
    LLM_V_UNDEFINED = 0,
    LLM_V_NONE,
    LLM_V_BOOL,
    LLM_V_INT,
    LLM_V_FLOAT,
    LLM_V_TEXT,
    LLM_V_LIST, /* and what is iterated like one: see llm_list_kind */
    LLM_V_DICT,
    LLM_V_NAMESPACE,
    LLM_V_LOOP,
    LLM_V_CALLABLE,
} llm_value_type;

/* UTF-8. A mark, 1, for each byte that came from outside the template: there,
 * special tokens are plain text. */
typedef struct llm_text {
    const char *data;
    const char *marks; /* [size]; NULL: all 0 */
    uint64_t size;
} llm_text;

typedef enum llm_list_kind {
    LLM_LIST_PLAIN = 0,
    LLM_LIST_TUPLE,
    LLM_LIST_RANGE,
    LLM_LIST_KEYS, /* of a dict, as the two below */
    LLM_LIST_VALUES,
    LLM_LIST_ITEMS,
    LLM_LIST_GENERATOR, /* can be iterated once */
} llm_list_kind;

typedef struct llm_list {
    llm_value *items;
    uint64_t n;
    uint8_t kind; /* llm_list_kind */
    bool used;    /* a generator that was iterated */
} llm_list;

typedef struct llm_dict {
    llm_value *keys, *values; /* in order of insertion */
    uint64_t n, capacity;
} llm_dict;

/* What a for statement knows of its iteration. */
typedef struct llm_loop {
    const llm_list *list;
    uint64_t index;    /* from 0 */
    uint32_t depth;    /* from 0 */
    llm_value *latest; /* what changed() was called with; NULL: not yet */
} llm_loop;

struct llm_value {
    uint8_t type; /* llm_value_type */
    bool markup;  /* of a text: the result of `safe` */
    union {
        bool truth;
        int64_t whole;
        double real;
        llm_text text;
        llm_list *list;
        llm_dict *dict; /* of namespaces too */
        llm_loop *loop;
        struct llm_callable *callable;
    };
};

/* The arguments of a call, a filter or a test. */
typedef struct llm_args {
    const llm_value *items;
    uint64_t n;
    const llm_str *names; /* of the named ones: [n_named] */
    const llm_value *named;
    uint64_t n_named;
} llm_args;

typedef clv_status (*llm_method_fn)(llm_jinja *j, const llm_value *self,
                                    const llm_args *args, llm_value *out);

/* A macro, or a function with the value it is a method of. */
typedef struct llm_callable {
    const llm_node *macro; /* NULL: none */
    llm_scope *scope;      /* where the macro was defined */
    llm_method_fn call;
    llm_value self;
} llm_callable;

static inline llm_value llm_value_bool(bool truth)
{
    return (llm_value){.type = LLM_V_BOOL, .truth = truth};
}

static inline llm_value llm_value_int(int64_t whole)
{
    return (llm_value){.type = LLM_V_INT, .whole = whole};
}

static inline llm_value llm_value_real(double real)
{
    return (llm_value){.type = LLM_V_FLOAT, .real = real};
}

static inline llm_value llm_value_text(llm_text text)
{
    return (llm_value){.type = LLM_V_TEXT, .text = text};
}

/* Of the template's own text, which must outlive the value. */
llm_value llm_value_word(const char *text);
/* A list with space for n items, of which it has none yet. */
clv_status llm_value_list(llm_jinja *j, llm_list_kind kind, uint64_t n,
                          llm_value *out);
clv_status llm_value_dict(llm_jinja *j, llm_value_type type, llm_value *out);
clv_status llm_value_function(llm_jinja *j, llm_method_fn call, llm_value *out);

bool llm_value_is(const llm_value *v, llm_value_type type);
/* "a string", for messages */
const char *llm_value_kind(const llm_value *v);
/* Whether a name is the text of a value. */
bool llm_text_equal(llm_text text, const char *word);
llm_str llm_text_str(llm_text text);

bool llm_value_truth(const llm_value *v);
/* An int or a bool as a number. */
bool llm_value_whole(const llm_value *v, int64_t *out);
/* An int, a bool or a float. */
bool llm_value_real_of(const llm_value *v, double *out);
clv_status llm_value_equal(llm_jinja *j, const llm_value *a, const llm_value *b,
                           bool *out);
/* < 0, 0, > 0; an error for what Python does not order. */
clv_status llm_value_compare(llm_jinja *j, const llm_value *a,
                             const llm_value *b, int *out);
/* `item in container` */
clv_status llm_value_contains(llm_jinja *j, const llm_value *container,
                              const llm_value *item, bool *out);

/* NULL if it is not there. */
clv_status llm_dict_find(llm_jinja *j, const llm_dict *dict,
                         const llm_value *key, llm_value **out);
llm_value *llm_dict_get(const llm_dict *dict, llm_str key);
clv_status llm_dict_set(llm_jinja *j, llm_dict *dict, const llm_value *key,
                        const llm_value *value);

/* What iterating over a value gives: characters of a text, keys of a dict. A
 * generator is used up. */
clv_status llm_value_iterate(llm_jinja *j, const llm_value *v,
                             const llm_list **out);
