#include "callables.h"

#include "print.h"
#include "text.h"

#include <utf8proc.h>

/* The set of characters that strip() takes; *given false: white space. */
static clv_status strip_set(llm_jinja *j, const llm_args *args, llm_text *set,
                            bool *given)
{
    CLV_TRY(llm_args_check(j, args, "chars", 0));
    const llm_value *arg = llm_arg(args, 0, "chars");
    *given = arg && arg->type != LLM_V_NONE;
    return *given ? llm_arg_text(j, arg, set) : CLV_OK;
}

static clv_status strip_ends(llm_jinja *j, const llm_value *self,
                             const llm_args *args, bool left, bool right,
                             llm_value *out)
{
    llm_text set;
    bool given;
    CLV_TRY(strip_set(j, args, &set, &given));
    CLV_TRY(llm_jinja_work(j, self->text.size / 64));
    *out = llm_value_text(
        llm_text_strip(self->text, given ? &set : NULL, left, right));
    return CLV_OK;
}

static clv_status strip(llm_jinja *j, const llm_value *self,
                        const llm_args *args, llm_value *out)
{
    return strip_ends(j, self, args, true, true, out);
}

static clv_status lstrip(llm_jinja *j, const llm_value *self,
                         const llm_args *args, llm_value *out)
{
    return strip_ends(j, self, args, true, false, out);
}

static clv_status rstrip(llm_jinja *j, const llm_value *self,
                         const llm_args *args, llm_value *out)
{
    return strip_ends(j, self, args, false, true, out);
}

/* ------------------------------------------------------------------------ */
/* Searching                                                                */

/* The one text of a method, without bounds to look in. */
static clv_status one_text(llm_jinja *j, const llm_value *self,
                           const llm_args *args, llm_text *out)
{
    if (args->n != 1 || args->n_named)
        return llm_jinja_unknown(j, "such arguments of a text's method");
    CLV_TRY(llm_jinja_work(j, self->text.size / 64));
    return llm_arg_text(j, &args->items[0], out);
}

static clv_status affix(llm_jinja *j, const llm_value *self,
                        const llm_args *args,
                        bool (*matches)(llm_text text, llm_text part),
                        llm_value *out)
{
    llm_text part;
    bool found = false;
    const bool tuple = args->n == 1 && args->items[0].type == LLM_V_LIST &&
                       args->items[0].list->kind == LLM_LIST_TUPLE;
    if (tuple) {
        const llm_list *list = args->items[0].list;
        for (uint64_t i = 0; i < list->n; i++) {
            CLV_TRY(llm_arg_text(j, &list->items[i], &part));
            found |= matches(self->text, part);
        }
    } else {
        CLV_TRY(one_text(j, self, args, &part));
        found = matches(self->text, part);
    }
    *out = llm_value_bool(found);
    return CLV_OK;
}

static clv_status startswith(llm_jinja *j, const llm_value *self,
                             const llm_args *args, llm_value *out)
{
    return affix(j, self, args, llm_text_starts, out);
}

static clv_status endswith(llm_jinja *j, const llm_value *self,
                           const llm_args *args, llm_value *out)
{
    return affix(j, self, args, llm_text_ends, out);
}

static clv_status removeprefix(llm_jinja *j, const llm_value *self,
                               const llm_args *args, llm_value *out)
{
    llm_text part;
    CLV_TRY(one_text(j, self, args, &part));
    const uint64_t n = llm_text_starts(self->text, part) ? part.size : 0;
    *out = llm_value_text(llm_text_part(self->text, n, self->text.size));
    return CLV_OK;
}

static clv_status removesuffix(llm_jinja *j, const llm_value *self,
                               const llm_args *args, llm_value *out)
{
    llm_text part;
    CLV_TRY(one_text(j, self, args, &part));
    const uint64_t n = llm_text_ends(self->text, part) ? part.size : 0;
    *out = llm_value_text(llm_text_part(self->text, 0, self->text.size - n));
    return CLV_OK;
}

static void found_at(const llm_value *self, uint64_t at, llm_value *out)
{
    *out = llm_value_int(-1);
    if (at != UINT64_MAX)
        *out = llm_value_int(
            (int64_t)llm_text_length(llm_text_part(self->text, 0, at)));
}

static clv_status find(llm_jinja *j, const llm_value *self,
                       const llm_args *args, llm_value *out)
{
    llm_text part;
    CLV_TRY(one_text(j, self, args, &part));
    found_at(self, llm_text_find(self->text, part, 0), out);
    return CLV_OK;
}

static clv_status rfind(llm_jinja *j, const llm_value *self,
                        const llm_args *args, llm_value *out)
{
    llm_text part;
    CLV_TRY(one_text(j, self, args, &part));
    found_at(self, llm_text_find_last(self->text, part, self->text.size), out);
    return CLV_OK;
}

static clv_status count(llm_jinja *j, const llm_value *self,
                        const llm_args *args, llm_value *out)
{
    llm_text part;
    int64_t n = 0;
    uint64_t at = 0;
    CLV_TRY(one_text(j, self, args, &part));
    if (!part.size)
        n = (int64_t)llm_text_length(self->text) + 1;
    while (part.size &&
           (at = llm_text_find(self->text, part, at)) != UINT64_MAX) {
        at += part.size;
        n++;
    }
    *out = llm_value_int(n);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Kinds of characters                                                      */

typedef bool (*point_fn)(uint32_t point);

static clv_status all_are(llm_jinja *j, const llm_value *self,
                          const llm_args *args, point_fn is, llm_value *out)
{
    bool all = self->text.size;
    CLV_TRY(llm_args_check(j, args, "", 0));
    CLV_TRY(llm_jinja_work(j, self->text.size / 16));
    for (uint64_t at = 0; at < self->text.size && all;
         at = llm_text_next(self->text, at)) {
        const uint32_t point = llm_text_point(self->text, at);
        if (point >= 0x80 && is != llm_text_is_space)
            return llm_jinja_unknown(j, "asking for the kind of U+%04X", point);
        all = is(point);
    }
    *out = llm_value_bool(all);
    return CLV_OK;
}

static bool is_digit(uint32_t p)
{
    return p >= '0' && p <= '9';
}

static bool is_letter(uint32_t p)
{
    return (p | 32) >= 'a' && (p | 32) <= 'z';
}

static bool is_letter_or_digit(uint32_t p)
{
    return is_digit(p) || is_letter(p);
}

static clv_status isdigit_method(llm_jinja *j, const llm_value *self,
                                 const llm_args *args, llm_value *out)
{
    return all_are(j, self, args, is_digit, out);
}

static clv_status isalpha_method(llm_jinja *j, const llm_value *self,
                                 const llm_args *args, llm_value *out)
{
    return all_are(j, self, args, is_letter, out);
}

static clv_status isalnum_method(llm_jinja *j, const llm_value *self,
                                 const llm_args *args, llm_value *out)
{
    return all_are(j, self, args, is_letter_or_digit, out);
}

static clv_status isspace_method(llm_jinja *j, const llm_value *self,
                                 const llm_args *args, llm_value *out)
{
    return all_are(j, self, args, llm_text_is_space, out);
}

/* ------------------------------------------------------------------------ */

static clv_status join(llm_jinja *j, const llm_value *self,
                       const llm_args *args, llm_value *out)
{
    const llm_list *list;
    llm_text part;
    const uint64_t begin = llm_text_begin(j);
    if (args->n != 1 || args->n_named)
        return llm_jinja_error(j, CLV_ERR_INVALID, "join takes one list");
    CLV_TRY(llm_value_iterate(j, &args->items[0], &list));
    for (uint64_t i = 0; i < list->n; i++) {
        if (i)
            CLV_TRY(llm_text_add(j, self->text));
        CLV_TRY(llm_arg_text(j, &list->items[i], &part));
        CLV_TRY(llm_text_add(j, part));
    }
    return llm_text_end_value(j, begin, out);
}

static clv_status replace(llm_jinja *j, const llm_value *self,
                          const llm_args *args, llm_value *out)
{
    llm_text from, to;
    int64_t most;
    CLV_TRY(llm_args_check(j, args, "old|new|count", 2));
    CLV_TRY(llm_arg_text(j, llm_arg(args, 0, "old"), &from));
    CLV_TRY(llm_arg_text(j, llm_arg(args, 1, "new"), &to));
    CLV_TRY(llm_arg_int(j, llm_arg(args, 2, "count"), -1, &most));
    return llm_text_replace(j, self->text, from, to, most, out);
}

const llm_method llm_text_methods[] = {
    {"strip", strip},
    {"lstrip", lstrip},
    {"rstrip", rstrip},
    {"startswith", startswith},
    {"endswith", endswith},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"find", find},
    {"rfind", rfind},
    {"count", count},
    {"isdigit", isdigit_method},
    {"isnumeric", isdigit_method},
    {"isdecimal", isdigit_method},
    {"isalpha", isalpha_method},
    {"isalnum", isalnum_method},
    {"isspace", isspace_method},
    {"join", join},
    {"replace", replace},
    {"upper", llm_text_upper},
    {"lower", llm_text_lower},
    {"title", llm_text_title},
    {"capitalize", llm_text_capitalize},
    {0},
};
