#include "gbnf.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TEXT (1u << 18)
#define MAX_NAMES 4096

/* ------------------------------------------------------------------------ */
/* Messages                                                                 */

clv_status llm_gbnf_fail_at(const llm_gbnf *p, const char *place,
                            clv_status status, const char *what)
{
    uint32_t line = 1, column = 1;
    for (const char *c = p->text; c < place; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    const bool known = p->rule < p->g->names.n;
    return clv_error(status, "grammar: line %u, column %u%s%s%s: %s", line,
                     column, known ? ", rule '" : "",
                     known ? p->g->names.items[p->rule] : "", known ? "'" : "",
                     what);
}

clv_status llm_gbnf_fail(const llm_gbnf *p, const char *what)
{
    return llm_gbnf_fail_at(p, p->at, CLV_ERR_INVALID, what);
}

/* Spaces and comments; with lines, ends of lines too. */
void llm_gbnf_skip(llm_gbnf *p, bool lines)
{
    while (llm_gbnf_more(p)) {
        if (*p->at == '#')
            while (llm_gbnf_more(p) && *p->at != '\n' && *p->at != '\r')
                p->at++;
        else if (*p->at == ' ' || *p->at == '\t' ||
                 (lines && (*p->at == '\n' || *p->at == '\r')))
            p->at++;
        else
            return;
    }
}

/* ------------------------------------------------------------------------ */
/* Rules                                                                    */

clv_status llm_gbnf_add(llm_gbnf *p, llm_gbnf_run *s, llm_element e)
{
    if (s->n + p->g->elements.n >= LLM_GBNF_MAX_ELEMENTS)
        return llm_gbnf_fail_at(
            p, p->at, CLV_ERR_LIMIT,
            "the grammar has more than 262144 elements, repetitions "
            "written out; ask for fewer");
    return LLM_ARRAY_ADD(s, e);
}

/* Puts a run that was read behind the others, as an alternative. */
clv_status llm_gbnf_end(llm_gbnf *p, llm_gbnf_run *s, llm_gbnf_list *list)
{
    const uint64_t begin = p->g->elements.n;
    CLV_TRY(llm_gbnf_add(p, s, (llm_element){LLM_ELEMENT_END, 0, 0}));
    for (uint64_t i = 0; i < s->n; i++)
        CLV_TRY(LLM_ARRAY_ADD(&p->g->elements, s->items[i]));
    s->n = 0;
    return LLM_ARRAY_ADD(list, (uint32_t)begin);
}

clv_status llm_gbnf_rule(llm_gbnf *p, uint32_t *rule)
{
    *rule = (uint32_t)p->g->rules.n;
    return LLM_ARRAY_ADD(&p->g->rules, ((llm_rule){.name = p->rule}));
}

clv_status llm_gbnf_define(llm_gbnf *p, uint32_t rule,
                           const llm_gbnf_list *list)
{
    llm_rule *r = &p->g->rules.items[rule];
    r->first = (uint32_t)p->g->alternatives.n;
    r->n = (uint32_t)list->n;
    for (uint64_t i = 0; i < list->n; i++)
        CLV_TRY(LLM_ARRAY_ADD(&p->g->alternatives, list->items[i]));
    return CLV_OK;
}

/* The rule of a name; it may not be defined yet. */
static clv_status find_name(llm_gbnf *p, const char *name, uint64_t size,
                            uint32_t *index)
{
    for (uint32_t i = 0; i < p->g->names.n; i++)
        if (!strncmp(p->g->names.items[i], name, size) &&
            !p->g->names.items[i][size]) {
            *index = i;
            return CLV_OK;
        }
    if (p->g->names.n == MAX_NAMES)
        return llm_gbnf_fail_at(p, p->at, CLV_ERR_LIMIT,
                                "the grammar has more than 4096 rules");
    uint32_t rule;
    *index = (uint32_t)p->g->names.n;
    CLV_TRY(llm_gbnf_rule(p, &rule));
    p->g->rules.items[rule].name = *index;
    CLV_TRY(LLM_ARRAY_ADD(&p->used_at, (uint32_t)(name - p->text)));
    CLV_TRY(LLM_ARRAY_ADD(&p->rule_of, rule));
    char *copy = strndup(name, size);
    if (!copy)
        return llm_no_memory("a grammar");
    clv_status status = LLM_ARRAY_ADD(&p->g->names, copy);
    if (status)
        free(copy);
    return status;
}

clv_status llm_gbnf_name(llm_gbnf *p, uint32_t *index)
{
    const char *begin = p->at;
    while (llm_gbnf_more(p) && llm_gbnf_is_word(*p->at))
        p->at++;
    return find_name(p, begin, (uint64_t)(p->at - begin), index);
}

/* ------------------------------------------------------------------------ */

static clv_status read_rule(llm_gbnf *p)
{
    uint32_t name;
    p->rule = UINT32_MAX;
    if (!llm_gbnf_is_word(*p->at))
        return llm_gbnf_fail(
            p, "a rule is expected here, as in: name ::= \"text\"");
    const char *begin = p->at;
    CLV_TRY(llm_gbnf_name(p, &name));
    p->rule = name;
    llm_gbnf_skip(p, false);
    if (p->end - p->at < 3 || memcmp(p->at, "::=", 3))
        return llm_gbnf_fail(p, "'::=' is missing behind the name of a rule");
    if (p->g->rules.items[p->rule_of.items[name]].n)
        return llm_gbnf_fail_at(p, begin, CLV_ERR_INVALID,
                                "the rule is there twice; keep one");
    p->at += 3;
    CLV_TRY(llm_gbnf_choices(p, p->rule_of.items[name]));
    if (llm_gbnf_more(p) && *p->at != '\n' && *p->at != '\r')
        return llm_gbnf_fail(
            p, "this does not go on with the rule; the end of the line "
               "is expected");
    return CLV_OK;
}

/* All rules are there, and "root" is. */
static clv_status check_names(llm_gbnf *p)
{
    int64_t root = -1;
    for (uint32_t i = 0; i < p->g->names.n; i++) {
        p->rule = i;
        if (!p->g->rules.items[p->rule_of.items[i]].n)
            return llm_gbnf_fail_at(p, p->text + p->used_at.items[i],
                                    CLV_ERR_INVALID,
                                    "the rule is used and never defined");
        if (!strcmp(p->g->names.items[i], "root"))
            root = p->rule_of.items[i];
    }
    if (root < 0)
        return clv_error(CLV_ERR_INVALID,
                         "grammar: there is no rule 'root', with which every "
                         "text begins");
    p->g->root = (uint32_t)root;
    return CLV_OK;
}

static clv_status parse(llm_gbnf *p)
{
    if (p->end - p->text > MAX_TEXT)
        return clv_error(CLV_ERR_LIMIT, "grammar: longer than %u bytes",
                         MAX_TEXT);
    for (llm_gbnf_skip(p, true); llm_gbnf_more(p); llm_gbnf_skip(p, true))
        CLV_TRY(read_rule(p));
    CLV_TRY(check_names(p));
    return llm_grammar_check_recursion(p->g);
}

clv_status llm_grammar_parse(const char *text, uint64_t size, llm_grammar **out)
{
    llm_gbnf p = {.text = text,
                  .at = text,
                  .end = text + size,
                  .rule = UINT32_MAX,
                  .g = calloc(1, sizeof *p.g)};
    if (!p.g)
        return llm_no_memory("a grammar");
    clv_status status = parse(&p);
    free(p.used_at.items);
    free(p.rule_of.items);
    if (status) {
        llm_grammar_destroy(p.g);
        return status;
    }
    *out = p.g;
    return CLV_OK;
}

void llm_grammar_destroy(llm_grammar *g)
{
    if (!g)
        return;
    for (uint64_t i = 0; i < g->names.n; i++)
        free(g->names.items[i]);
    free(g->names.items);
    free(g->elements.items);
    free(g->alternatives.items);
    free(g->rules.items);
    free(g->ranges.items);
    free(g);
}
