/* The tests behind `is`. */
#include "callables.h"
#include "ops.h"
#include "print.h"
#include "text.h"

typedef clv_status (*test_fn)(llm_jinja *j, const llm_value *v,
                              const llm_value *arg, bool *out);

typedef struct test {
    const char *name;
    test_fn holds;     /* NULL: by type or op */
    uint32_t types;    /* bits of llm_value_type that pass, if not 0 */
    uint8_t op;        /* llm_op, if neither */
    uint8_t arguments; /* how many it takes */
} test;

#define TYPE(t) (1u << LLM_V_##t)

static bool is_sequence(const llm_value *v)
{
    return v->type == LLM_V_UNDEFINED || v->type == LLM_V_TEXT ||
           v->type == LLM_V_DICT ||
           (v->type == LLM_V_LIST && v->list->kind <= LLM_LIST_RANGE);
}

static clv_status sequence(llm_jinja *j, const llm_value *v,
                           const llm_value *arg, bool *out)
{
    (void)j, (void)arg;
    *out = is_sequence(v);
    return CLV_OK;
}

static clv_status defined(llm_jinja *j, const llm_value *v,
                          const llm_value *arg, bool *out)
{
    (void)j, (void)arg;
    *out = v->type != LLM_V_UNDEFINED;
    return CLV_OK;
}

static clv_status is_true(llm_jinja *j, const llm_value *v,
                          const llm_value *arg, bool *out)
{
    (void)j, (void)arg;
    *out = v->type == LLM_V_BOOL && v->truth;
    return CLV_OK;
}

static clv_status is_false(llm_jinja *j, const llm_value *v,
                           const llm_value *arg, bool *out)
{
    (void)j, (void)arg;
    *out = v->type == LLM_V_BOOL && !v->truth;
    return CLV_OK;
}

/* The rest of a division, which Python says has the divisor's sign. */
static clv_status rest_of(llm_jinja *j, const llm_value *v, int64_t by,
                          int64_t *out)
{
    const llm_value divisor = llm_value_int(by);
    llm_value rest;
    int64_t whole;
    if (!llm_value_whole(v, &whole))
        return llm_jinja_unknown(j, "a division of %s by a test",
                                 llm_value_kind(v));
    CLV_TRY(llm_op_binary(j, LLM_OP_MOD, v, &divisor, &rest));
    *out = rest.whole;
    return CLV_OK;
}

static clv_status odd(llm_jinja *j, const llm_value *v, const llm_value *arg,
                      bool *out)
{
    int64_t rest = 0;
    (void)arg;
    CLV_TRY(rest_of(j, v, 2, &rest));
    *out = rest == 1;
    return CLV_OK;
}

static clv_status even(llm_jinja *j, const llm_value *v, const llm_value *arg,
                       bool *out)
{
    CLV_TRY(odd(j, v, arg, out));
    *out = !*out;
    return CLV_OK;
}

static clv_status divisible(llm_jinja *j, const llm_value *v,
                            const llm_value *arg, bool *out)
{
    int64_t by, rest = 0;
    if (arg->type == LLM_V_NONE)
        return llm_jinja_error(j, CLV_ERR_INVALID, "none divides nothing");
    CLV_TRY(llm_arg_int(j, arg, 0, &by));
    CLV_TRY(rest_of(j, v, by, &rest));
    *out = rest == 0;
    return CLV_OK;
}

/* Whether all letters have one case, and there is one. */
static clv_status all_cased(llm_jinja *j, const llm_value *v, bool want_upper,
                            bool *out)
{
    llm_text text;
    bool other = false, upper;
    *out = false;
    CLV_TRY(llm_print_text(j, v, &text));
    CLV_TRY(llm_jinja_work(j, text.size / 8));
    for (uint64_t at = 0; at < text.size; at = llm_text_next(text, at)) {
        const uint32_t point = llm_text_point(text, at);
        if (point >= 0x80)
            return llm_jinja_unknown(j, "asking for the case of U+%04X", point);
        if (!llm_text_is_cased(point, &upper))
            continue;
        *out = true;
        other |= upper != want_upper;
    }
    *out &= !other;
    return CLV_OK;
}

static clv_status upper(llm_jinja *j, const llm_value *v, const llm_value *arg,
                        bool *out)
{
    (void)arg;
    return all_cased(j, v, true, out);
}

static clv_status lower(llm_jinja *j, const llm_value *v, const llm_value *arg,
                        bool *out)
{
    (void)arg;
    return all_cased(j, v, false, out);
}

static clv_status filter(llm_jinja *j, const llm_value *v, const llm_value *arg,
                         bool *out)
{
    (void)arg;
    *out = v->type == LLM_V_TEXT && llm_filter_exists(llm_text_str(v->text));
    /* Perhaps Jinja2 has it. */
    return *out ? CLV_OK : llm_jinja_unknown(j, "asking for this filter");
}

static clv_status test_name(llm_jinja *j, const llm_value *v,
                            const llm_value *arg, bool *out)
{
    (void)arg;
    *out = v->type == LLM_V_TEXT && llm_test_exists(llm_text_str(v->text));
    return *out ? CLV_OK : llm_jinja_unknown(j, "asking for this test");
}

static const test tests[] = {
    {"defined", defined, 0, 0, 0},
    {"undefined", NULL, TYPE(UNDEFINED), 0, 0},
    {"none", NULL, TYPE(NONE), 0, 0},
    {"boolean", NULL, TYPE(BOOL), 0, 0},
    {"integer", NULL, TYPE(INT), 0, 0},
    {"float", NULL, TYPE(FLOAT), 0, 0},
    {"number", NULL, TYPE(BOOL) | TYPE(INT) | TYPE(FLOAT), 0, 0},
    {"string", NULL, TYPE(TEXT), 0, 0},
    {"mapping", NULL, TYPE(DICT), 0, 0},
    {"iterable", NULL,
     TYPE(UNDEFINED) | TYPE(TEXT) | TYPE(LIST) | TYPE(DICT) | TYPE(LOOP), 0, 0},
    {"sequence", sequence, 0, 0, 0},
    {"callable", NULL, TYPE(CALLABLE) | TYPE(LOOP), 0, 0},
    {"true", is_true, 0, 0, 0},
    {"false", is_false, 0, 0, 0},
    {"odd", odd, 0, 0, 0},
    {"even", even, 0, 0, 0},
    {"divisibleby", divisible, 0, 0, 1},
    {"upper", upper, 0, 0, 0},
    {"lower", lower, 0, 0, 0},
    {"filter", filter, 0, 0, 0},
    {"test", test_name, 0, 0, 0},
    {"eq", NULL, 0, LLM_OP_EQ, 1},
    {"equalto", NULL, 0, LLM_OP_EQ, 1},
    {"==", NULL, 0, LLM_OP_EQ, 1},
    {"ne", NULL, 0, LLM_OP_NE, 1},
    {"!=", NULL, 0, LLM_OP_NE, 1},
    {"lt", NULL, 0, LLM_OP_LT, 1},
    {"lessthan", NULL, 0, LLM_OP_LT, 1},
    {"<", NULL, 0, LLM_OP_LT, 1},
    {"le", NULL, 0, LLM_OP_LE, 1},
    {"<=", NULL, 0, LLM_OP_LE, 1},
    {"gt", NULL, 0, LLM_OP_GT, 1},
    {"greaterthan", NULL, 0, LLM_OP_GT, 1},
    {">", NULL, 0, LLM_OP_GT, 1},
    {"ge", NULL, 0, LLM_OP_GE, 1},
    {">=", NULL, 0, LLM_OP_GE, 1},
    {"in", NULL, 0, LLM_OP_IN, 1},
};

static const test *find(llm_str name)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (llm_str_equal(name, llm_str_of(tests[i].name)))
            return &tests[i];
    return NULL;
}

bool llm_test_exists(llm_str name)
{
    return find(name);
}

clv_status llm_test(llm_jinja *j, llm_str name, const llm_value *v,
                    const llm_args *args, bool *out)
{
    const test *found = find(name);
    CLV_TRY(llm_jinja_work(j, 1));
    if (!found)
        return llm_jinja_unknown(j, "test '%s'", llm_str_show(name).text);
    if (args->n != found->arguments || args->n_named)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "test '%s' takes %u arguments", found->name,
                               found->arguments);
    if (found->holds)
        return found->holds(j, v, args->items, out);
    if (!found->types)
        return llm_op_compare(j, found->op, v, args->items, out);
    *out = found->types >> v->type & 1;
    return CLV_OK;
}
