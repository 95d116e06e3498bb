/*
 * The syntax tree of a template.
 */
#pragma once

#include "value.h"

typedef enum llm_node_kind {
    /* Expressions */
    LLM_N_CONST = 0, /* value */
    LLM_N_NAME,      /* name */
    LLM_N_LIST,      /* items */
    LLM_N_TUPLE,     /* items */
    LLM_N_DICT,      /* items: key, value, key, value */
    LLM_N_NEGATE,    /* a */
    LLM_N_PLUS,      /* a */
    LLM_N_NOT,       /* a */
    LLM_N_AND,       /* a, b */
    LLM_N_OR,        /* a, b */
    LLM_N_BINARY,    /* a op b */
    LLM_N_CONCAT,    /* items */
    LLM_N_COMPARE,   /* a, items: operands with op and a */
    LLM_N_OPERAND,
    LLM_N_CHOICE,    /* b if a else c; c NULL: undefined */
    LLM_N_ATTRIBUTE, /* a.name */
    LLM_N_ITEM,      /* a[b] */
    LLM_N_SLICE,     /* a:b:c, each may be NULL */
    LLM_N_CALL,      /* a(items) */
    LLM_N_FILTER,    /* a|name(items); a NULL: of a block */
    LLM_N_TEST,      /* a is name(items) */
    LLM_N_NAMED,     /* name=a, among items */
    LLM_N_FIELD,     /* name.a, where it is assigned to: name, b's name */
    /* Statements */
    LLM_N_DATA,     /* value */
    LLM_N_PRINT,    /* a */
    LLM_N_IF,       /* a, body, other */
    LLM_N_FOR,      /* a in b if c, body, other */
    LLM_N_SET,      /* a = b, or a = body filtered by b */
    LLM_N_MACRO,    /* name, items: names with defaults as a; body */
    LLM_N_CALLER,   /* call block: a, items: parameters; body */
    LLM_N_FILTERED, /* body filtered by a */
    LLM_N_WITH,     /* items: names with values as a; body */
    LLM_N_BREAK,
    LLM_N_CONTINUE,
} llm_node_kind;

typedef enum llm_op {
    LLM_OP_ADD,
    LLM_OP_SUB,
    LLM_OP_MUL,
    LLM_OP_DIV,
    LLM_OP_FLOOR,
    LLM_OP_MOD,
    LLM_OP_POW,
    LLM_OP_EQ,
    LLM_OP_NE,
    LLM_OP_LT,
    LLM_OP_LE,
    LLM_OP_GT,
    LLM_OP_GE,
    LLM_OP_IN,
    LLM_OP_NOT_IN,
} llm_op;

struct llm_node {
    uint8_t kind; /* llm_node_kind */
    uint8_t op;   /* llm_op */
    bool block;   /* of SET: from a body */
    bool caller;  /* of MACRO: its body uses caller() */
    uint32_t line;
    uint32_t n_items;
    llm_str name;
    llm_value value;
    llm_node *a, *b, *c;
    llm_node *items;        /* the first; the others by next */
    llm_node *body, *other; /* likewise */
    llm_node *next;
};
