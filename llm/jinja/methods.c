#include "callables.h"

#include "text.h"

#include <string.h>

/* A function that is bound to a value. */
static clv_status bind(llm_jinja *j, const llm_value *self, llm_method_fn call,
                       llm_value *out)
{
    CLV_TRY(llm_value_function(j, call, out));
    out->callable->self = *self;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Dicts and lists                                                          */

/* Lists of a dict's parts, which share its memory but for items. */
static clv_status view(llm_jinja *j, const llm_value *self,
                       const llm_args *args, llm_list_kind kind, llm_value *out)
{
    const llm_dict *dict = self->dict;
    CLV_TRY(llm_args_check(j, args, "", 0));
    CLV_TRY(llm_value_list(j, kind, kind == LLM_LIST_ITEMS ? dict->n : 0, out));
    llm_list *list = out->list;
    if (kind != LLM_LIST_ITEMS) {
        list->items = kind == LLM_LIST_KEYS ? dict->keys : dict->values;
        list->n = dict->n;
        return CLV_OK;
    }
    for (uint64_t i = 0; i < dict->n; i++) {
        llm_value *pair = &list->items[list->n++];
        CLV_TRY(llm_value_list(j, LLM_LIST_TUPLE, 2, pair));
        pair->list->items[0] = dict->keys[i];
        pair->list->items[1] = dict->values[i];
        pair->list->n = 2;
    }
    return CLV_OK;
}

static clv_status keys(llm_jinja *j, const llm_value *self,
                       const llm_args *args, llm_value *out)
{
    return view(j, self, args, LLM_LIST_KEYS, out);
}

static clv_status values(llm_jinja *j, const llm_value *self,
                         const llm_args *args, llm_value *out)
{
    return view(j, self, args, LLM_LIST_VALUES, out);
}

static clv_status items(llm_jinja *j, const llm_value *self,
                        const llm_args *args, llm_value *out)
{
    return view(j, self, args, LLM_LIST_ITEMS, out);
}

static clv_status get(llm_jinja *j, const llm_value *self, const llm_args *args,
                      llm_value *out)
{
    llm_value *found;
    if (!args->n || args->n > 2 || args->n_named)
        return llm_jinja_error(j, CLV_ERR_INVALID,
                               "get takes a key and perhaps a default");
    CLV_TRY(llm_dict_find(j, self->dict, &args->items[0], &found));
    *out = found          ? *found
           : args->n == 2 ? args->items[1]
                          : (llm_value){.type = LLM_V_NONE};
    return CLV_OK;
}

/* Values do not change, so a copy need not be one. */
static clv_status copy(llm_jinja *j, const llm_value *self,
                       const llm_args *args, llm_value *out)
{
    *out = *self;
    return llm_args_check(j, args, "", 0);
}

/* How many items equal the argument, and the first that does. */
static clv_status search(llm_jinja *j, const llm_value *self,
                         const llm_args *args, int64_t *n, int64_t *first)
{
    *n = 0;
    if (args->n != 1 || args->n_named)
        return llm_jinja_unknown(j, "such arguments of a list's method");
    for (uint64_t i = self->list->n; i-- > 0;) {
        bool same;
        CLV_TRY(
            llm_value_equal(j, &self->list->items[i], &args->items[0], &same));
        *n += same;
        if (same)
            *first = (int64_t)i;
    }
    return CLV_OK;
}

static clv_status count(llm_jinja *j, const llm_value *self,
                        const llm_args *args, llm_value *out)
{
    int64_t n, first;
    CLV_TRY(search(j, self, args, &n, &first));
    *out = llm_value_int(n);
    return CLV_OK;
}

static clv_status find_index(llm_jinja *j, const llm_value *self,
                             const llm_args *args, llm_value *out)
{
    int64_t n, first = 0;
    CLV_TRY(search(j, self, args, &n, &first));
    if (!n)
        return llm_jinja_error(j, CLV_ERR_INVALID, "a list lacks an item");
    *out = llm_value_int(first);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Loops                                                                    */

static clv_status cycle(llm_jinja *j, const llm_value *self,
                        const llm_args *args, llm_value *out)
{
    if (!args->n || args->n_named)
        return llm_jinja_error(j, CLV_ERR_INVALID, "cycle takes values");
    *out = args->items[self->loop->index % args->n];
    return CLV_OK;
}

static clv_status changed(llm_jinja *j, const llm_value *self,
                          const llm_args *args, llm_value *out)
{
    llm_loop *loop = self->loop;
    llm_value now = {.type = LLM_V_LIST};
    bool same = false;
    if (args->n_named)
        return llm_jinja_unknown(j, "named arguments of changed");
    CLV_TRY(llm_value_list(j, LLM_LIST_TUPLE, args->n, &now));
    for (uint64_t i = 0; i < args->n; i++)
        now.list->items[now.list->n++] = args->items[i];
    if (loop->latest)
        CLV_TRY(llm_value_equal(j, &now, loop->latest, &same));
    if (!loop->latest)
        loop->latest = llm_jinja_alloc(j, 1, sizeof *loop->latest);
    if (!loop->latest)
        return CLV_ERR_LIMIT;
    *loop->latest = now;
    *out = llm_value_bool(!same);
    return CLV_OK;
}

static clv_status of_loop(llm_jinja *j, const llm_value *v, llm_str name,
                          bool *found, llm_value *out)
{
    const llm_loop *loop = v->loop;
    const int64_t n = (int64_t)loop->list->n, index = (int64_t)loop->index;
    const struct {
        const char *name;
        llm_value value;
    } members[] = {
        {"index", llm_value_int(index + 1)},
        {"index0", llm_value_int(index)},
        {"revindex", llm_value_int(n - index)},
        {"revindex0", llm_value_int(n - index - 1)},
        {"first", llm_value_bool(index == 0)},
        {"last", llm_value_bool(index == n - 1)},
        {"length", llm_value_int(n)},
        {"depth", llm_value_int(loop->depth + 1)},
        {"depth0", llm_value_int(loop->depth)},
        {"previtem", index ? loop->list->items[index - 1] : (llm_value){0}},
        {"nextitem",
         index < n - 1 ? loop->list->items[index + 1] : (llm_value){0}},
    };
    *found = true;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (!llm_str_equal(name, llm_str_of(members[i].name)))
            continue;
        *out = members[i].value;
        return CLV_OK;
    }
    if (llm_str_equal(name, llm_str_of("cycle")))
        return bind(j, v, cycle, out);
    if (llm_str_equal(name, llm_str_of("changed")))
        return bind(j, v, changed, out);
    return llm_jinja_unknown(j, "'loop.%s'", llm_str_show(name).text);
}

/* ------------------------------------------------------------------------ */

static const llm_method dict_methods[] = {
    {"keys", keys}, {"values", values}, {"items", items},
    {"get", get},   {"copy", copy},     {0},
};

static const llm_method list_methods[] = {
    {"count", count},
    {"index", find_index},
    {"copy", copy},
    {0},
};

static const llm_method none[] = {{0}};

/* A type's methods, and what else Python's has. */
typedef struct members {
    const llm_method *methods;
    const char *others; /* " a b c " */
} members;

static members members_of(const llm_value *v)
{
    switch (v->type) {
    case LLM_V_TEXT:
        return (members){
            llm_text_methods,
            " casefold center encode expandtabs format format_map index "
            "isascii isidentifier islower isprintable istitle isupper ljust "
            "maketrans rindex rjust swapcase translate zfill "};
    case LLM_V_DICT:
        return (members){dict_methods,
                         " clear fromkeys pop popitem setdefault update "};
    case LLM_V_LIST:
        return (members){
            v->list->kind <= LLM_LIST_RANGE ? list_methods : none,
            " append clear extend insert pop remove reverse sort count index "
            "isdisjoint mapping close send throw gi_code gi_frame gi_running "
            "gi_suspended gi_yieldfrom start step stop "};
    case LLM_V_BOOL:
    case LLM_V_INT:
    case LLM_V_FLOAT:
        return (members){none,
                         " as_integer_ratio bit_count bit_length conjugate "
                         "denominator from_bytes fromhex hex imag is_integer "
                         "numerator real to_bytes "};
    default:
        return (members){none, ""};
    }
}

/* Whether a word is among " a b c ". */
static bool has_word(const char *words, llm_str name)
{
    for (const char *p = words; *p; p++)
        if (*p == ' ' && strlen(p + 1) > name.size &&
            !memcmp(p + 1, name.data, name.size) && p[1 + name.size] == ' ')
            return true;
    return false;
}

clv_status llm_member(llm_jinja *j, const llm_value *v, llm_str name,
                      bool *found, llm_value *out)
{
    *found = false;
    *out = (llm_value){0};
    if (v->type == LLM_V_LOOP)
        return of_loop(j, v, name, found, out);
    const members m = members_of(v);
    llm_method_fn call = llm_method_find(m.methods, name);
    if (!call && v->type == LLM_V_TEXT)
        call = llm_method_find(llm_split_methods, name);
    const bool private =
        name.size > 1 && name.data[0] == '_' && name.data[1] == '_';
    if (!call && !private && v->type != LLM_V_CALLABLE &&
        !has_word(m.others, name))
        return CLV_OK;
    *found = true;
    if (!call || (v->type == LLM_V_TEXT && v->markup))
        return llm_jinja_unknown(j, "'%s' of %s", llm_str_show(name).text,
                                 llm_value_kind(v));
    return bind(j, v, call, out);
}
