#include "callables.h"
#include "text.h"

clv_status llm_text_replace(llm_jinja *j, llm_text text, llm_text from,
                            llm_text to, int64_t most, llm_value *out)
{
    const uint64_t begin = llm_text_begin(j);
    uint64_t at = 0, found;
    for (; most && (found = llm_text_find(text, from, at)) != UINT64_MAX;
         most -= most > 0) {
        if (!from.size && at == text.size)
            break;
        CLV_TRY(llm_jinja_work(j, 1));
        CLV_TRY(llm_text_add(j, llm_text_part(text, at, found)));
        CLV_TRY(llm_text_add(j, to));
        at = found + from.size;
        if (from.size)
            continue;
        const uint64_t next = llm_text_next(text, at);
        CLV_TRY(llm_text_add(j, llm_text_part(text, at, next)));
        at = next;
    }
    CLV_TRY(llm_text_add(j, llm_text_part(text, at, text.size)));
    /* An empty text stands behind the last character too. */
    if (!from.size && most)
        CLV_TRY(llm_text_add(j, to));
    return llm_text_end_value(j, begin, out);
}

static clv_status whole_case(llm_jinja *j, const llm_value *self,
                             const llm_args *args, llm_text_case to,
                             llm_value *out)
{
    const uint64_t begin = llm_text_begin(j);
    CLV_TRY(llm_args_check(j, args, "", 0));
    CLV_TRY(llm_text_add_case(j, self->text, to));
    return llm_text_end_value(j, begin, out);
}

clv_status llm_text_upper(llm_jinja *j, const llm_value *self,
                          const llm_args *args, llm_value *out)
{
    return whole_case(j, self, args, LLM_CASE_UPPER, out);
}

clv_status llm_text_lower(llm_jinja *j, const llm_value *self,
                          const llm_args *args, llm_value *out)
{
    return whole_case(j, self, args, LLM_CASE_LOWER, out);
}

/* The first letter of each run of letters, upper or title, the others lower. */
clv_status llm_text_title(llm_jinja *j, const llm_value *self,
                          const llm_args *args, llm_value *out)
{
    const uint64_t begin = llm_text_begin(j);
    const llm_text text = self->text;
    bool inside = false, upper;
    CLV_TRY(llm_args_check(j, args, "", 0));
    for (uint64_t at = 0, next; at < text.size; at = next) {
        next = llm_text_next(text, at);
        CLV_TRY(llm_text_add_case(j, llm_text_part(text, at, next),
                                  inside ? LLM_CASE_LOWER : LLM_CASE_TITLE));
        inside = llm_text_is_cased(llm_text_point(text, at), &upper);
    }
    return llm_text_end_value(j, begin, out);
}

clv_status llm_text_capitalize(llm_jinja *j, const llm_value *self,
                               const llm_args *args, llm_value *out)
{
    const uint64_t begin = llm_text_begin(j);
    const llm_text text = self->text;
    const uint64_t first = text.size ? llm_text_next(text, 0) : 0;
    CLV_TRY(llm_args_check(j, args, "", 0));
    CLV_TRY(
        llm_text_add_case(j, llm_text_part(text, 0, first), LLM_CASE_TITLE));
    CLV_TRY(llm_text_add_case(j, llm_text_part(text, first, text.size),
                              LLM_CASE_LOWER));
    return llm_text_end_value(j, begin, out);
}
