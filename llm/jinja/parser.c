#include "parser.h"

#define MAX_DEPTH 300

clv_status llm_parser_node(llm_parser *p, llm_node_kind kind, llm_node **out)
{
    llm_node *node = llm_jinja_alloc(p->j, 1, sizeof *node);
    if (!node)
        return CLV_ERR_LIMIT;
    node->kind = (uint8_t)kind;
    node->line = p->at->line;
    *out = node;
    return CLV_OK;
}

bool llm_parser_is(const llm_parser *p, llm_token_kind kind, const char *text)
{
    return p->at->kind == kind && llm_str_equal(p->at->text, llm_str_of(text));
}

bool llm_parser_skip(llm_parser *p, llm_token_kind kind, const char *text)
{
    const bool found = llm_parser_is(p, kind, text);
    p->at += found;
    return found;
}

clv_status llm_parser_expect(llm_parser *p, llm_token_kind kind,
                             const char *text)
{
    return llm_parser_skip(p, kind, text) ? CLV_OK : llm_parser_fail(p);
}

clv_status llm_parser_name(llm_parser *p, llm_str *out)
{
    if (p->at->kind != LLM_T_NAME)
        return llm_parser_fail(p);
    *out = (p->at++)->text;
    return CLV_OK;
}

clv_status llm_parser_fail(const llm_parser *p)
{
    if (p->at->kind == LLM_T_END)
        return llm_lex_error(p->at->line, "the template ends inside a block");
    if (!p->at->text.size)
        return llm_lex_error(p->at->line, "a tag ends too early");
    return llm_lex_error(p->at->line, "'%s' is not supported here",
                         llm_str_show(p->at->text).text);
}

clv_status llm_parser_enter(llm_parser *p)
{
    if (p->depth >= MAX_DEPTH)
        return llm_lex_error(p->at->line, "it is nested more than %d deep",
                             MAX_DEPTH);
    p->depth++;
    return CLV_OK;
}

clv_status llm_parser_wrap(llm_parser *p, llm_node_kind kind, llm_node *a,
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

void llm_parser_add(llm_node *list, llm_node *item, llm_node ***end)
{
    if (!list->items)
        *end = &list->items;
    **end = item;
    *end = &item->next;
    list->n_items++;
}

/* ------------------------------------------------------------------------ */
/* Statements                                                               */

static clv_status block(llm_parser *p, llm_node **out);

static clv_status end_of_tag(llm_parser *p)
{
    return llm_parser_expect(p, LLM_T_BLOCK_END, "");
}

/* Whether a tag {% word is next; if so, moves behind word. */
static bool skip_tag(llm_parser *p, const char *word)
{
    if (p->at->kind != LLM_T_BLOCK || p->at[1].kind != LLM_T_NAME ||
        !llm_str_equal(p->at[1].text, llm_str_of(word)))
        return false;
    p->at += 2;
    return true;
}

/* The end of a tag, statements, and {% word %}. */
static clv_status body_until(llm_parser *p, const char *word, llm_node **out)
{
    CLV_TRY(end_of_tag(p));
    CLV_TRY(block(p, out));
    if (!skip_tag(p, word))
        return llm_parser_fail(p);
    return end_of_tag(p);
}

static clv_status parse_if(llm_parser *p, llm_node *node)
{
    CLV_TRY(llm_parse_tuple(p, false, &node->a));
    CLV_TRY(end_of_tag(p));
    CLV_TRY(block(p, &node->body));
    if (skip_tag(p, "elif")) {
        CLV_TRY(llm_parser_node(p, LLM_N_IF, &node->other));
        CLV_TRY(llm_parser_enter(p));
        CLV_TRY(parse_if(p, node->other));
        p->depth--;
        return CLV_OK;
    }
    if (skip_tag(p, "else"))
        return body_until(p, "endif", &node->other);
    return skip_tag(p, "endif") ? end_of_tag(p) : llm_parser_fail(p);
}

static clv_status parse_for(llm_parser *p, llm_node *node)
{
    CLV_TRY(llm_parse_target(p, false, &node->a));
    CLV_TRY(llm_parser_expect(p, LLM_T_NAME, "in"));
    CLV_TRY(llm_parse_tuple(p, false, &node->b));
    if (llm_parser_skip(p, LLM_T_NAME, "if"))
        CLV_TRY(llm_parse_expression(p, &node->c));
    CLV_TRY(end_of_tag(p));
    p->loops++;
    CLV_TRY(block(p, &node->body));
    p->loops--;
    if (skip_tag(p, "else"))
        return body_until(p, "endfor", &node->other);
    return skip_tag(p, "endfor") ? end_of_tag(p) : llm_parser_fail(p);
}

static clv_status parse_set(llm_parser *p, llm_node *node)
{
    CLV_TRY(llm_parse_target(p, true, &node->a));
    if (llm_parser_skip(p, LLM_T_OP, "=")) {
        CLV_TRY(llm_parse_tuple(p, true, &node->b));
        return end_of_tag(p);
    }
    node->block = true;
    if (llm_parser_skip(p, LLM_T_OP, "|"))
        CLV_TRY(llm_parse_filters(p, &node->b));
    return body_until(p, "endset", &node->body);
}

/* (NAME, NAME=DEFAULT...) behind "(". */
static clv_status parse_parameters(llm_parser *p, llm_node *node)
{
    llm_node **end = &node->items;
    while (!llm_parser_skip(p, LLM_T_OP, ")")) {
        if (node->items)
            CLV_TRY(llm_parser_expect(p, LLM_T_OP, ","));
        CLV_TRY(llm_parser_node(p, LLM_N_NAMED, end));
        CLV_TRY(llm_parser_name(p, &(*end)->name));
        if (llm_parser_skip(p, LLM_T_OP, "="))
            CLV_TRY(llm_parse_expression(p, &(*end)->a));
        end = &(*end)->next;
        node->n_items++;
    }
    return CLV_OK;
}

/* A body that is run as a function; it cannot leave a loop around it. */
static clv_status function_body(llm_parser *p, llm_node *node, const char *end)
{
    const uint32_t loops = p->loops;
    const bool uses_caller = p->uses_caller;
    p->loops = 0;
    p->uses_caller = false;
    CLV_TRY(body_until(p, end, &node->body));
    node->caller = p->uses_caller;
    p->uses_caller |= uses_caller;
    p->loops = loops;
    return CLV_OK;
}

static clv_status parse_macro(llm_parser *p, llm_node *node)
{
    CLV_TRY(llm_parser_name(p, &node->name));
    CLV_TRY(llm_parser_expect(p, LLM_T_OP, "("));
    CLV_TRY(parse_parameters(p, node));
    return function_body(p, node, "endmacro");
}

static clv_status parse_caller(llm_parser *p, llm_node *node)
{
    if (llm_parser_skip(p, LLM_T_OP, "("))
        CLV_TRY(parse_parameters(p, node));
    CLV_TRY(llm_parse_expression(p, &node->a));
    if (node->a->kind != LLM_N_CALL)
        return llm_parser_fail(p);
    return function_body(p, node, "endcall");
}

static clv_status parse_filtered(llm_parser *p, llm_node *node)
{
    CLV_TRY(llm_parse_filters(p, &node->a));
    return body_until(p, "endfilter", &node->body);
}

static clv_status parse_with(llm_parser *p, llm_node *node)
{
    llm_node **end = &node->items;
    while (p->at->kind != LLM_T_BLOCK_END) {
        if (node->items)
            CLV_TRY(llm_parser_expect(p, LLM_T_OP, ","));
        CLV_TRY(llm_parser_node(p, LLM_N_NAMED, end));
        CLV_TRY(llm_parser_name(p, &(*end)->name));
        CLV_TRY(llm_parser_expect(p, LLM_T_OP, "="));
        CLV_TRY(llm_parse_expression(p, &(*end)->a));
        end = &(*end)->next;
        node->n_items++;
    }
    return body_until(p, "endwith", &node->body);
}

/* What marks the model's own text for training is a scope, no more. */
static clv_status parse_generation(llm_parser *p, llm_node *node)
{
    return body_until(p, "endgeneration", &node->body);
}

static clv_status parse_jump(llm_parser *p, llm_node *node)
{
    (void)node;
    return p->loops ? end_of_tag(p)
                    : llm_lex_error(p->at->line, "there is no loop to leave");
}

static clv_status statement(llm_parser *p, llm_node **out)
{
    static const struct {
        const char *word;
        uint8_t kind; /* llm_node_kind */
        clv_status (*parse)(llm_parser *p, llm_node *node);
    } statements[] = {
        {"if", LLM_N_IF, parse_if},
        {"for", LLM_N_FOR, parse_for},
        {"set", LLM_N_SET, parse_set},
        {"macro", LLM_N_MACRO, parse_macro},
        {"call", LLM_N_CALLER, parse_caller},
        {"filter", LLM_N_FILTERED, parse_filtered},
        {"with", LLM_N_WITH, parse_with},
        {"generation", LLM_N_WITH, parse_generation},
        {"break", LLM_N_BREAK, parse_jump},
        {"continue", LLM_N_CONTINUE, parse_jump},
    };
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!skip_tag(p, statements[i].word))
            continue;
        CLV_TRY(llm_parser_node(p, statements[i].kind, out));
        return statements[i].parse(p, *out);
    }
    return llm_lex_error(p->at->line, "statement '%s' is not supported",
                         llm_str_show(p->at[1].text).text);
}

static bool ends_block(const llm_parser *p)
{
    const llm_str word = p->at[1].text;
    return p->at->kind == LLM_T_BLOCK && p->at[1].kind == LLM_T_NAME &&
           (llm_str_equal(word, llm_str_of("elif")) ||
            llm_str_equal(word, llm_str_of("else")) ||
            (word.size > 3 &&
             llm_str_equal((llm_str){word.data, 3}, llm_str_of("end"))));
}

static clv_status print(llm_parser *p, llm_node **out)
{
    CLV_TRY(llm_parser_node(p, LLM_N_PRINT, out));
    p->at++;
    CLV_TRY(llm_parse_tuple(p, true, &(*out)->a));
    return llm_parser_expect(p, LLM_T_PRINT_END, "");
}

static clv_status data(llm_parser *p, llm_node **out)
{
    CLV_TRY(llm_parser_node(p, LLM_N_DATA, out));
    (*out)->value =
        llm_value_text((llm_text){p->at->text.data, NULL, p->at->text.size});
    p->at++;
    return CLV_OK;
}

/* Statements until a tag that ends them, or the end of the template. */
static clv_status block(llm_parser *p, llm_node **out)
{
    *out = NULL;
    CLV_TRY(llm_parser_enter(p));
    while (p->at->kind != LLM_T_END && !ends_block(p)) {
        if (p->at->kind == LLM_T_DATA)
            CLV_TRY(data(p, out));
        else if (p->at->kind == LLM_T_PRINT)
            CLV_TRY(print(p, out));
        else
            CLV_TRY(statement(p, out));
        out = &(*out)->next;
    }
    p->depth--;
    return CLV_OK;
}

clv_status llm_parse(llm_parser *p, llm_node **out)
{
    CLV_TRY(block(p, out));
    if (p->at->kind == LLM_T_END)
        return CLV_OK;
    return llm_lex_error(p->at->line, "'%s' has no beginning",
                         llm_str_show(p->at[1].text).text);
}
