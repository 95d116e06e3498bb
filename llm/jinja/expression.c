#include "parser.h"

static clv_status unary(llm_parser *p, bool filters, llm_node **out);

static clv_status unary_inner(llm_parser *p, bool filters, llm_node **out)
{
    const bool minus = llm_parser_skip_op(p, "-");
    if (minus || llm_parser_skip_op(p, "+")) {
        CLV_TRY(unary(p, false, out));
        CLV_TRY(llm_parser_wrap(p, minus ? LLM_N_NEGATE : LLM_N_PLUS, *out,
                                NULL, out));
    } else {
        CLV_TRY(llm_parse_primary(p, out));
    }
    CLV_TRY(llm_parse_postfix(p, out));
    return filters ? llm_parse_applied(p, out) : CLV_OK;
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
        if (llm_parser_skip_op(p, level->texts[i]))
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
        CLV_TRY(llm_parser_wrap(p, level == 1 ? LLM_N_CONCAT : LLM_N_BINARY,
                                *out, right, out));
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
    if (llm_parser_skip_word(p, "in"))
        return true;
    if (!llm_parser_is_word(p, "not") || p->at[1].kind != LLM_T_NAME ||
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
            CLV_TRY(llm_parser_wrap(p, LLM_N_COMPARE, *out, NULL, out));
        CLV_TRY(llm_parser_node(p, LLM_N_OPERAND, &operand));
        operand->op = op;
        CLV_TRY(binary(p, 0, &operand->a));
        llm_parser_add(*out, operand, &end);
    }
    return CLV_OK;
}

static clv_status negation(llm_parser *p, llm_node **out)
{
    if (!llm_parser_skip_word(p, "not"))
        return comparison(p, out);
    CLV_TRY(llm_parser_enter(p));
    CLV_TRY(negation(p, out));
    p->depth--;
    return llm_parser_wrap(p, LLM_N_NOT, *out, NULL, out);
}

static clv_status conjunction(llm_parser *p, llm_node **out)
{
    llm_node *right;
    CLV_TRY(negation(p, out));
    while (llm_parser_skip_word(p, "and")) {
        CLV_TRY(negation(p, &right));
        CLV_TRY(llm_parser_wrap(p, LLM_N_AND, *out, right, out));
    }
    return CLV_OK;
}

static clv_status disjunction(llm_parser *p, llm_node **out)
{
    llm_node *right;
    CLV_TRY(conjunction(p, out));
    while (llm_parser_skip_word(p, "or")) {
        CLV_TRY(conjunction(p, &right));
        CLV_TRY(llm_parser_wrap(p, LLM_N_OR, *out, right, out));
    }
    return CLV_OK;
}

clv_status llm_parse_expression(llm_parser *p, llm_node **out)
{
    llm_node *condition;
    CLV_TRY(llm_parser_enter(p));
    CLV_TRY(disjunction(p, out));
    while (llm_parser_skip_word(p, "if")) {
        CLV_TRY(disjunction(p, &condition));
        CLV_TRY(llm_parser_wrap(p, LLM_N_CHOICE, condition, *out, out));
        if (llm_parser_skip_word(p, "else"))
            CLV_TRY(llm_parse_expression(p, &(*out)->c));
    }
    p->depth--;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static bool ends_tuple(const llm_parser *p)
{
    return p->at->kind == LLM_T_PRINT_END || p->at->kind == LLM_T_BLOCK_END ||
           llm_parser_is_op(p, ")") || llm_parser_is_word(p, "in") ||
           llm_parser_is_op(p, "=");
}

typedef clv_status (*part_fn)(llm_parser *p, llm_node **out);

static clv_status tuple(llm_parser *p, part_fn part, llm_node **out)
{
    llm_node *list = NULL, *item, **end = NULL;
    CLV_TRY(part(p, &item));
    *out = item;
    while (llm_parser_skip_op(p, ",")) {
        if (!list) {
            CLV_TRY(llm_parser_node(p, LLM_N_TUPLE, &list));
            llm_parser_add(list, item, &end);
            *out = list;
        }
        if (ends_tuple(p))
            break;
        CLV_TRY(part(p, &item));
        llm_parser_add(list, item, &end);
    }
    return CLV_OK;
}

clv_status llm_parse_tuple(llm_parser *p, bool chooses, llm_node **out)
{
    return tuple(p, chooses ? llm_parse_expression : disjunction, out);
}

static clv_status target(llm_parser *p, llm_node **out)
{
    if (llm_parser_skip_op(p, "(")) {
        CLV_TRY(llm_parse_target(p, false, out));
        return llm_parser_expect(p, LLM_T_OP, ")");
    }
    CLV_TRY(llm_parser_node(p, LLM_N_NAME, out));
    CLV_TRY(llm_parse_name(p, *out));
    return (*out)->kind == LLM_N_NAME ? CLV_OK : llm_parser_fail(p);
}

clv_status llm_parse_target(llm_parser *p, bool fields, llm_node **out)
{
    CLV_TRY(llm_parser_enter(p));
    CLV_TRY(tuple(p, target, out));
    p->depth--;
    if (!fields || (*out)->kind != LLM_N_NAME || !llm_parser_skip_op(p, "."))
        return CLV_OK;
    (*out)->kind = LLM_N_FIELD;
    CLV_TRY(llm_parser_node(p, LLM_N_NAME, &(*out)->b));
    return llm_parser_name(p, &(*out)->b->name);
}
