#include "parser.h"

#include "text.h"

#include <string.h>

static bool is_op(const llm_parser *p, const char *text)
{
    return llm_parser_is(p, LLM_T_OP, text);
}

static bool skip_op(llm_parser *p, const char *text)
{
    return llm_parser_skip(p, LLM_T_OP, text);
}

static bool is_word(const llm_parser *p, const char *text)
{
    return llm_parser_is(p, LLM_T_NAME, text);
}

static bool skip_word(llm_parser *p, const char *text)
{
    return llm_parser_skip(p, LLM_T_NAME, text);
}

static clv_status unary(llm_parser *p, bool filters, llm_node **out);
static clv_status postfix(llm_parser *p, llm_node **node);

/* A node around a and b that takes their place. */
static clv_status wrap(llm_parser *p, llm_node_kind kind, llm_node *a,
                       llm_node *b, llm_node **out)
{
    llm_node *node;
    CLV_TRY(llm_parser_node(p, kind, &node));
    node->a = a;
    node->b = b;
    if (a)
        node->line = a->line;
    *out = node;
    return CLV_OK;
}

/* Adds to a list of nodes; *end: where the next one goes. */
static void add_item(llm_node *list, llm_node *item, llm_node ***end)
{
    if (!list->items)
        *end = &list->items;
    **end = item;
    *end = &item->next;
    list->n_items++;
}

/* ------------------------------------------------------------------------ */
/* Primaries                                                                */

static clv_status sequence(llm_parser *p, llm_node_kind kind, const char *close,
                           llm_node **out)
{
    llm_node *list, *item, **end = NULL;
    CLV_TRY(llm_parser_node(p, kind, &list));
    while (!skip_op(p, close)) {
        if (list->items) {
            CLV_TRY(llm_parser_expect(p, LLM_T_OP, ","));
            if (skip_op(p, close))
                break;
        }
        CLV_TRY(llm_parse_expression(p, &item));
        add_item(list, item, &end);
        if (kind == LLM_N_DICT) {
            CLV_TRY(llm_parser_expect(p, LLM_T_OP, ":"));
            CLV_TRY(llm_parse_expression(p, &item));
            add_item(list, item, &end);
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

static clv_status name(llm_parser *p, llm_node *node)
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

static clv_status primary(llm_parser *p, llm_node **out)
{
    llm_node *node;
    if (skip_op(p, "["))
        return sequence(p, LLM_N_LIST, "]", out);
    if (skip_op(p, "{"))
        return sequence(p, LLM_N_DICT, "}", out);
    if (skip_op(p, "(")) {
        if (skip_op(p, ")"))
            return llm_parser_node(p, LLM_N_TUPLE, out);
        CLV_TRY(llm_parse_tuple(p, true, out));
        return llm_parser_expect(p, LLM_T_OP, ")");
    }
    CLV_TRY(llm_parser_node(p, LLM_N_CONST, &node));
    *out = node;
    switch (p->at->kind) {
    case LLM_T_NAME:
        return name(p, node);
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
    while (!skip_op(p, ")")) {
        if (node->items) {
            CLV_TRY(llm_parser_expect(p, LLM_T_OP, ","));
            if (skip_op(p, ")"))
                break;
        }
        CLV_TRY(argument(p, item && item->kind == LLM_N_NAMED, &item));
        add_item(node, item, &end);
    }
    return CLV_OK;
}

/* The expression between "[" and "]", a slice or an index. */
static clv_status subscript(llm_parser *p, llm_node **out)
{
    llm_node *parts[3] = {NULL};
    int n = 0;
    bool slice = false;
    while (!is_op(p, "]")) {
        if (skip_op(p, ":")) {
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
    CLV_TRY(wrap(p, LLM_N_SLICE, parts[0], parts[1], out));
    (*out)->c = parts[2];
    return CLV_OK;
}

static clv_status member(llm_parser *p, llm_node **node)
{
    llm_node *index = NULL;
    if (p->at->kind == LLM_T_INT) {
        CLV_TRY(primary(p, &index));
        return wrap(p, LLM_N_ITEM, *node, index, node);
    }
    CLV_TRY(wrap(p, LLM_N_ATTRIBUTE, *node, NULL, node));
    return llm_parser_name(p, &(*node)->name);
}

static clv_status call(llm_parser *p, llm_node **node)
{
    CLV_TRY(wrap(p, LLM_N_CALL, *node, NULL, node));
    return arguments(p, *node);
}

static clv_status postfix(llm_parser *p, llm_node **node)
{
    llm_node *index = NULL;
    while (true) {
        if (skip_op(p, ".")) {
            CLV_TRY(member(p, node));
        } else if (skip_op(p, "[")) {
            CLV_TRY(subscript(p, &index));
            CLV_TRY(wrap(p, LLM_N_ITEM, *node, index, node));
        } else if (skip_op(p, "(")) {
            CLV_TRY(call(p, node));
        } else {
            return CLV_OK;
        }
    }
}

static clv_status filter(llm_parser *p, llm_node **node)
{
    CLV_TRY(wrap(p, LLM_N_FILTER, *node, NULL, node));
    CLV_TRY(llm_parser_name(p, &(*node)->name));
    return skip_op(p, "(") ? arguments(p, *node) : CLV_OK;
}

clv_status llm_parse_filters(llm_parser *p, llm_node **out)
{
    *out = NULL;
    do
        CLV_TRY(filter(p, out));
    while (skip_op(p, "|"));
    return CLV_OK;
}

/* One argument may follow without parentheses. */
static bool starts_argument(const llm_parser *p)
{
    switch (p->at->kind) {
    case LLM_T_NAME:
        return !is_word(p, "else") && !is_word(p, "or") && !is_word(p, "and");
    case LLM_T_STRING:
    case LLM_T_INT:
    case LLM_T_FLOAT:
        return true;
    default:
        return is_op(p, "[") || is_op(p, "{");
    }
}

static clv_status test(llm_parser *p, llm_node **node)
{
    llm_node *argument_node, **end = NULL;
    const bool negated = skip_word(p, "not");
    CLV_TRY(wrap(p, LLM_N_TEST, *node, NULL, node));
    CLV_TRY(llm_parser_name(p, &(*node)->name));
    if (skip_op(p, "(")) {
        CLV_TRY(arguments(p, *node));
    } else if (starts_argument(p)) {
        if (is_word(p, "is"))
            return llm_parser_fail(p);
        CLV_TRY(primary(p, &argument_node));
        CLV_TRY(postfix(p, &argument_node));
        add_item(*node, argument_node, &end);
    }
    return negated ? wrap(p, LLM_N_NOT, *node, NULL, node) : CLV_OK;
}

static clv_status filters_and_tests(llm_parser *p, llm_node **node)
{
    while (true) {
        if (skip_op(p, "|"))
            CLV_TRY(filter(p, node));
        else if (skip_word(p, "is"))
            CLV_TRY(test(p, node));
        else if (skip_op(p, "("))
            CLV_TRY(call(p, node));
        else
            return CLV_OK;
    }
}

/* ------------------------------------------------------------------------ */
/* Operators                                                                */

static clv_status unary_inner(llm_parser *p, bool filters, llm_node **out)
{
    const bool minus = skip_op(p, "-");
    if (minus || skip_op(p, "+")) {
        CLV_TRY(unary(p, false, out));
        CLV_TRY(wrap(p, minus ? LLM_N_NEGATE : LLM_N_PLUS, *out, NULL, out));
    } else {
        CLV_TRY(primary(p, out));
    }
    CLV_TRY(postfix(p, out));
    return filters ? filters_and_tests(p, out) : CLV_OK;
}

static clv_status unary(llm_parser *p, bool filters, llm_node **out)
{
    CLV_TRY(llm_parser_enter(p));
    clv_status status = unary_inner(p, filters, out);
    p->depth--;
    return status;
}

typedef struct operators {
    const char *texts[6];
    uint8_t ops[6]; /* llm_op */
} operators;

/* The operator of a level that is next. */
static bool skip_binary(llm_parser *p, const operators *level, uint8_t *op)
{
    for (int i = 0; i < 6 && level->texts[i]; i++) {
        *op = level->ops[i];
        if (skip_op(p, level->texts[i]))
            return true;
    }
    return false;
}

/* A level of binary operators that group to the left, and those above it. */
static clv_status binary(llm_parser *p, int level, llm_node **out)
{
    static const operators levels[] = {
        {{"+", "-"}, {LLM_OP_ADD, LLM_OP_SUB}},
        {{"~"}, {0}},
        {{"*", "/", "//", "%"},
         {LLM_OP_MUL, LLM_OP_DIV, LLM_OP_FLOOR, LLM_OP_MOD}},
        {{"**"}, {LLM_OP_POW}},
    };
    llm_node *right;
    uint8_t op;
    if (level == 4)
        return unary(p, true, out);
    CLV_TRY(binary(p, level + 1, out));
    while (skip_binary(p, &levels[level], &op)) {
        CLV_TRY(binary(p, level + 1, &right));
        CLV_TRY(wrap(p, level == 1 ? LLM_N_CONCAT : LLM_N_BINARY, *out, right,
                     out));
        (*out)->op = op;
    }
    return CLV_OK;
}

static bool skip_comparison(llm_parser *p, uint8_t *op)
{
    static const operators comparisons = {
        {"==", "!=", "<=", ">=", "<", ">"},
        {LLM_OP_EQ, LLM_OP_NE, LLM_OP_LE, LLM_OP_GE, LLM_OP_LT, LLM_OP_GT}};
    if (skip_binary(p, &comparisons, op))
        return true;
    *op = LLM_OP_IN;
    if (skip_word(p, "in"))
        return true;
    if (!is_word(p, "not") || p->at[1].kind != LLM_T_NAME ||
        !llm_str_equal(p->at[1].text, llm_str_of("in")))
        return false;
    p->at += 2;
    *op = LLM_OP_NOT_IN;
    return true;
}

static clv_status comparison(llm_parser *p, llm_node **out)
{
    llm_node *operand, **end = NULL;
    uint8_t op;
    CLV_TRY(binary(p, 0, out));
    while (skip_comparison(p, &op)) {
        if (!end)
            CLV_TRY(wrap(p, LLM_N_COMPARE, *out, NULL, out));
        CLV_TRY(llm_parser_node(p, LLM_N_OPERAND, &operand));
        operand->op = op;
        CLV_TRY(binary(p, 0, &operand->a));
        add_item(*out, operand, &end);
    }
    return CLV_OK;
}

static clv_status negation(llm_parser *p, llm_node **out)
{
    if (!skip_word(p, "not"))
        return comparison(p, out);
    CLV_TRY(llm_parser_enter(p));
    CLV_TRY(negation(p, out));
    p->depth--;
    return wrap(p, LLM_N_NOT, *out, NULL, out);
}

static clv_status conjunction(llm_parser *p, llm_node **out)
{
    llm_node *right;
    CLV_TRY(negation(p, out));
    while (skip_word(p, "and")) {
        CLV_TRY(negation(p, &right));
        CLV_TRY(wrap(p, LLM_N_AND, *out, right, out));
    }
    return CLV_OK;
}

static clv_status disjunction(llm_parser *p, llm_node **out)
{
    llm_node *right;
    CLV_TRY(conjunction(p, out));
    while (skip_word(p, "or")) {
        CLV_TRY(conjunction(p, &right));
        CLV_TRY(wrap(p, LLM_N_OR, *out, right, out));
    }
    return CLV_OK;
}

clv_status llm_parse_expression(llm_parser *p, llm_node **out)
{
    llm_node *condition;
    CLV_TRY(llm_parser_enter(p));
    CLV_TRY(disjunction(p, out));
    while (skip_word(p, "if")) {
        CLV_TRY(disjunction(p, &condition));
        CLV_TRY(wrap(p, LLM_N_CHOICE, condition, *out, out));
        if (skip_word(p, "else"))
            CLV_TRY(llm_parse_expression(p, &(*out)->c));
    }
    p->depth--;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static bool ends_tuple(const llm_parser *p)
{
    return p->at->kind == LLM_T_PRINT_END || p->at->kind == LLM_T_BLOCK_END ||
           is_op(p, ")") || is_word(p, "in") || is_op(p, "=");
}

typedef clv_status (*part_fn)(llm_parser *p, llm_node **out);

static clv_status tuple(llm_parser *p, part_fn part, llm_node **out)
{
    llm_node *list = NULL, *item, **end = NULL;
    CLV_TRY(part(p, &item));
    *out = item;
    while (skip_op(p, ",")) {
        if (!list) {
            CLV_TRY(llm_parser_node(p, LLM_N_TUPLE, &list));
            add_item(list, item, &end);
            *out = list;
        }
        if (ends_tuple(p))
            break;
        CLV_TRY(part(p, &item));
        add_item(list, item, &end);
    }
    return CLV_OK;
}

clv_status llm_parse_tuple(llm_parser *p, bool chooses, llm_node **out)
{
    return tuple(p, chooses ? llm_parse_expression : disjunction, out);
}

static clv_status target(llm_parser *p, llm_node **out)
{
    if (skip_op(p, "(")) {
        CLV_TRY(llm_parse_target(p, false, out));
        return llm_parser_expect(p, LLM_T_OP, ")");
    }
    CLV_TRY(llm_parser_node(p, LLM_N_NAME, out));
    CLV_TRY(name(p, *out));
    return (*out)->kind == LLM_N_NAME ? CLV_OK : llm_parser_fail(p);
}

clv_status llm_parse_target(llm_parser *p, bool fields, llm_node **out)
{
    CLV_TRY(llm_parser_enter(p));
    CLV_TRY(tuple(p, target, out));
    p->depth--;
    if (!fields || (*out)->kind != LLM_N_NAME || !skip_op(p, "."))
        return CLV_OK;
    (*out)->kind = LLM_N_FIELD;
    CLV_TRY(llm_parser_node(p, LLM_N_NAME, &(*out)->b));
    return llm_parser_name(p, &(*out)->b->name);
}
