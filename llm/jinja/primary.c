#include "parser.h"

#include "text.h"

static clv_status sequence(llm_parser *p, llm_node_kind kind, const char *close,
                           llm_node **out)
{
    llm_node *list, *item, **end = NULL;
    CLV_TRY(llm_parser_node(p, kind, &list));
    while (!llm_parser_skip_op(p, close)) {
        if (list->items) {
            CLV_TRY(llm_parser_expect(p, LLM_T_OP, ","));
            if (llm_parser_skip_op(p, close))
                break;
        }
        CLV_TRY(llm_parse_expression(p, &item));
        llm_parser_add(list, item, &end);
        if (kind == LLM_N_DICT) {
            CLV_TRY(llm_parser_expect(p, LLM_T_OP, ":"));
            CLV_TRY(llm_parse_expression(p, &item));
            llm_parser_add(list, item, &end);
        }
    }
    *out = list;
    return CLV_OK;
}

/* Neighbouring texts are one. */
static clv_status string(llm_parser *p, llm_node *node)
{
    const uint64_t begin = llm_text_begin(p->j);
    for (; p->at->kind == LLM_T_STRING; p->at++)
        CLV_TRY(llm_text_add(
            p->j, (llm_text){p->at->text.data, NULL, p->at->text.size}));
    return llm_text_end_value(p->j, begin, &node->value);
}

clv_status llm_parse_name(llm_parser *p, llm_node *node)
{
    static const struct {
        const char *name;
        llm_value value;
    } words[] = {
        {"true", {.type = LLM_V_BOOL, .truth = true}},
        {"True", {.type = LLM_V_BOOL, .truth = true}},
        {"false", {.type = LLM_V_BOOL}},
        {"False", {.type = LLM_V_BOOL}},
        {"none", {.type = LLM_V_NONE}},
        {"None", {.type = LLM_V_NONE}},
    };
    CLV_TRY(llm_parser_name(p, &node->name));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!llm_str_equal(node->name, llm_str_of(words[i].name)))
            continue;
        node->kind = LLM_N_CONST;
        node->value = words[i].value;
        return CLV_OK;
    }
    node->kind = LLM_N_NAME;
    p->uses_caller |= llm_str_equal(node->name, llm_str_of("caller"));
    return CLV_OK;
}

clv_status llm_parse_primary(llm_parser *p, llm_node **out)
{
    llm_node *node;
    if (llm_parser_skip_op(p, "["))
        return sequence(p, LLM_N_LIST, "]", out);
    if (llm_parser_skip_op(p, "{"))
        return sequence(p, LLM_N_DICT, "}", out);
    if (llm_parser_skip_op(p, "(")) {
        if (llm_parser_skip_op(p, ")"))
            return llm_parser_node(p, LLM_N_TUPLE, out);
        CLV_TRY(llm_parse_tuple(p, true, out));
        return llm_parser_expect(p, LLM_T_OP, ")");
    }
    CLV_TRY(llm_parser_node(p, LLM_N_CONST, &node));
    *out = node;
    switch (p->at->kind) {
    case LLM_T_NAME:
        return llm_parse_name(p, node);
    case LLM_T_STRING:
        return string(p, node);
    case LLM_T_INT:
        node->value = llm_value_int((p->at++)->whole);
        return CLV_OK;
    case LLM_T_FLOAT:
        node->value = llm_value_real((p->at++)->real);
        return CLV_OK;
    default:
        return llm_parser_fail(p);
    }
}

/* ------------------------------------------------------------------------ */
/* What follows a primary                                                   */

static clv_status argument(llm_parser *p, bool named_before, llm_node **out)
{
    if (p->at->kind == LLM_T_NAME && p->at[1].kind == LLM_T_OP &&
        llm_str_equal(p->at[1].text, llm_str_of("="))) {
        CLV_TRY(llm_parser_node(p, LLM_N_NAMED, out));
        (*out)->name = p->at->text;
        p->at += 2;
        return llm_parse_expression(p, &(*out)->a);
    }
    if (named_before)
        return llm_parser_fail(p);
    return llm_parse_expression(p, out);
}

/* Behind "(". */
static clv_status arguments(llm_parser *p, llm_node *node)
{
    llm_node *item = NULL, **end = NULL;
    while (!llm_parser_skip_op(p, ")")) {
        if (node->items) {
            CLV_TRY(llm_parser_expect(p, LLM_T_OP, ","));
            if (llm_parser_skip_op(p, ")"))
                break;
        }
        CLV_TRY(argument(p, item && item->kind == LLM_N_NAMED, &item));
        llm_parser_add(node, item, &end);
    }
    return CLV_OK;
}

/* The expression between "[" and "]", a slice or an index. */
static clv_status subscript(llm_parser *p, llm_node **out)
{
    llm_node *parts[3] = {NULL};
    int n = 0;
    bool slice = false;
    while (!llm_parser_is_op(p, "]")) {
        if (llm_parser_skip_op(p, ":")) {
            slice = true;
            if (++n > 2)
                return llm_parser_fail(p);
        } else if (parts[n]) {
            return llm_parser_fail(p);
        } else {
            CLV_TRY(llm_parse_expression(p, &parts[n]));
        }
    }
    p->at++;
    if (!slice && !parts[0])
        return llm_parser_fail(p);
    if (!slice) {
        *out = parts[0];
        return CLV_OK;
    }
    CLV_TRY(llm_parser_wrap(p, LLM_N_SLICE, parts[0], parts[1], out));
    (*out)->c = parts[2];
    return CLV_OK;
}

static clv_status member(llm_parser *p, llm_node **node)
{
    llm_node *index = NULL;
    if (p->at->kind == LLM_T_INT) {
        CLV_TRY(llm_parse_primary(p, &index));
        return llm_parser_wrap(p, LLM_N_ITEM, *node, index, node);
    }
    CLV_TRY(llm_parser_wrap(p, LLM_N_ATTRIBUTE, *node, NULL, node));
    return llm_parser_name(p, &(*node)->name);
}

static clv_status call(llm_parser *p, llm_node **node)
{
    CLV_TRY(llm_parser_wrap(p, LLM_N_CALL, *node, NULL, node));
    return arguments(p, *node);
}

clv_status llm_parse_postfix(llm_parser *p, llm_node **node)
{
    llm_node *index = NULL;
    while (true) {
        if (llm_parser_skip_op(p, ".")) {
            CLV_TRY(member(p, node));
        } else if (llm_parser_skip_op(p, "[")) {
            CLV_TRY(subscript(p, &index));
            CLV_TRY(llm_parser_wrap(p, LLM_N_ITEM, *node, index, node));
        } else if (llm_parser_skip_op(p, "(")) {
            CLV_TRY(call(p, node));
        } else {
            return CLV_OK;
        }
    }
}

static clv_status filter(llm_parser *p, llm_node **node)
{
    CLV_TRY(llm_parser_wrap(p, LLM_N_FILTER, *node, NULL, node));
    CLV_TRY(llm_parser_name(p, &(*node)->name));
    return llm_parser_skip_op(p, "(") ? arguments(p, *node) : CLV_OK;
}

clv_status llm_parse_filters(llm_parser *p, llm_node **out)
{
    *out = NULL;
    do
        CLV_TRY(filter(p, out));
    while (llm_parser_skip_op(p, "|"));
    return CLV_OK;
}

/* One argument may follow without parentheses. */
static bool starts_argument(const llm_parser *p)
{
    switch (p->at->kind) {
    case LLM_T_NAME:
        return !llm_parser_is_word(p, "else") && !llm_parser_is_word(p, "or") &&
               !llm_parser_is_word(p, "and");
    case LLM_T_STRING:
    case LLM_T_INT:
    case LLM_T_FLOAT:
        return true;
    default:
        return llm_parser_is_op(p, "[") || llm_parser_is_op(p, "{");
    }
}

static clv_status test(llm_parser *p, llm_node **node)
{
    llm_node *argument_node, **end = NULL;
    const bool negated = llm_parser_skip_word(p, "not");
    CLV_TRY(llm_parser_wrap(p, LLM_N_TEST, *node, NULL, node));
    CLV_TRY(llm_parser_name(p, &(*node)->name));
    if (llm_parser_skip_op(p, "(")) {
        CLV_TRY(arguments(p, *node));
    } else if (starts_argument(p)) {
        if (llm_parser_is_word(p, "is"))
            return llm_parser_fail(p);
        CLV_TRY(llm_parse_primary(p, &argument_node));
        CLV_TRY(llm_parse_postfix(p, &argument_node));
        llm_parser_add(*node, argument_node, &end);
    }
    return negated ? llm_parser_wrap(p, LLM_N_NOT, *node, NULL, node) : CLV_OK;
}

clv_status llm_parse_applied(llm_parser *p, llm_node **node)
{
    while (true) {
        if (llm_parser_skip_op(p, "|"))
            CLV_TRY(filter(p, node));
        else if (llm_parser_skip_word(p, "is"))
            CLV_TRY(test(p, node));
        else if (llm_parser_skip_op(p, "("))
            CLV_TRY(call(p, node));
        else
            return CLV_OK;
    }
}
