/* Methods that cut a text into parts. */
#include "callables.h"

#include "text.h"

static clv_status add_part(llm_jinja *j, llm_list *list, uint64_t *capacity,
                           llm_text part)
{
    if (list->n == *capacity) {
        *capacity = list->n ? list->n * 2 : 8;
        llm_value *items = llm_jinja_alloc(j, *capacity, sizeof *items);
        if (!items)
            return CLV_ERR_LIMIT;
        for (uint64_t i = 0; i < list->n; i++)
            items[i] = list->items[i];
        list->items = items;
    }
    list->items[list->n++] = llm_value_text(part);
    return llm_jinja_work(j, 1);
}

/* Parts between runs of white space. */
static clv_status split_spaces(llm_jinja *j, llm_text text, int64_t most,
                               llm_list *list)
{
    uint64_t capacity = 0;
    while (true) {
        text = llm_text_strip(text, NULL, true, false);
        if (!text.size)
            return CLV_OK;
        uint64_t end = 0;
        while (end < text.size && !llm_text_is_space(llm_text_point(text, end)))
            end = llm_text_next(text, end);
        if (most >= 0 && (int64_t)list->n == most) {
            text = llm_text_strip(text, NULL, false, true);
            return add_part(j, list, &capacity, text);
        }
        CLV_TRY(add_part(j, list, &capacity, llm_text_part(text, 0, end)));
        text = llm_text_part(text, end, text.size);
    }
}

static clv_status split_by(llm_jinja *j, llm_text text, llm_text separator,
                           int64_t most, llm_list *list)
{
    uint64_t capacity = 0, at = 0, found;
    while ((most < 0 || (int64_t)list->n < most) &&
           (found = llm_text_find(text, separator, at)) != UINT64_MAX) {
        CLV_TRY(add_part(j, list, &capacity, llm_text_part(text, at, found)));
        at = found + separator.size;
    }
    return add_part(j, list, &capacity, llm_text_part(text, at, text.size));
}

/* From the right: parts in order of the text. */
static clv_status split_back(llm_jinja *j, llm_text text, llm_text separator,
                             int64_t most, llm_list *list)
{
    uint64_t capacity = 0, end = text.size, found;
    while ((most < 0 || (int64_t)list->n < most) &&
           (found = llm_text_find_last(text, separator, end)) != UINT64_MAX) {
        CLV_TRY(add_part(j, list, &capacity,
                         llm_text_part(text, found + separator.size, end)));
        end = found;
    }
    CLV_TRY(add_part(j, list, &capacity, llm_text_part(text, 0, end)));
    for (uint64_t i = 0; i < list->n / 2; i++) {
        const llm_value other = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = other;
    }
    return CLV_OK;
}

static clv_status split_any(llm_jinja *j, const llm_value *self,
                            const llm_args *args, bool back, llm_value *out)
{
    llm_text separator;
    int64_t most;
    CLV_TRY(llm_args_check(j, args, "sep|maxsplit", 0));
    const llm_value *sep = llm_arg(args, 0, "sep");
    CLV_TRY(llm_arg_int(j, llm_arg(args, 1, "maxsplit"), -1, &most));
    CLV_TRY(llm_jinja_work(j, self->text.size / 16));
    CLV_TRY(llm_value_list(j, LLM_LIST_PLAIN, 0, out));
    if (!sep || sep->type == LLM_V_NONE)
        return back && most >= 0 ? llm_jinja_unknown(j, "rsplit at white space")
                                 : split_spaces(j, self->text, most, out->list);
    CLV_TRY(llm_arg_text(j, sep, &separator));
    if (!separator.size)
        return llm_jinja_error(j, CLV_ERR_INVALID, "a separator is empty");
    return back ? split_back(j, self->text, separator, most, out->list)
                : split_by(j, self->text, separator, most, out->list);
}

static clv_status split(llm_jinja *j, const llm_value *self,
                        const llm_args *args, llm_value *out)
{
    return split_any(j, self, args, false, out);
}

static clv_status rsplit(llm_jinja *j, const llm_value *self,
                         const llm_args *args, llm_value *out)
{
    return split_any(j, self, args, true, out);
}

/* Where the line that begins at `at` ends, and *next where the next begins. */
static uint64_t line_end(llm_text text, uint64_t at, uint64_t *next)
{
    for (; at < text.size; at = llm_text_next(text, at)) {
        const uint32_t p = llm_text_point(text, at);
        if ((p < 10 || p > 13) && (p < 0x1c || p > 0x1e) && p != 0x85 &&
            p != 0x2028 && p != 0x2029)
            continue;
        *next = llm_text_next(text, at);
        if (p == '\r' && *next < text.size && text.data[*next] == '\n')
            ++*next;
        return at;
    }
    *next = at;
    return at;
}

clv_status llm_text_lines(llm_jinja *j, llm_text text, bool keep_ends,
                          llm_value *out)
{
    uint64_t capacity = 0, next;
    CLV_TRY(llm_jinja_work(j, text.size / 16));
    CLV_TRY(llm_value_list(j, LLM_LIST_PLAIN, 0, out));
    for (uint64_t at = 0; at < text.size; at = next) {
        const uint64_t end = line_end(text, at, &next);
        CLV_TRY(add_part(j, out->list, &capacity,
                         llm_text_part(text, at, keep_ends ? next : end)));
    }
    return CLV_OK;
}

static clv_status splitlines(llm_jinja *j, const llm_value *self,
                             const llm_args *args, llm_value *out)
{
    CLV_TRY(llm_args_check(j, args, "keepends", 0));
    return llm_text_lines(
        j, self->text, llm_arg_truth(llm_arg(args, 0, "keepends"), false), out);
}

static clv_status partition_at(llm_jinja *j, llm_text text, llm_text separator,
                               uint64_t found, bool back, llm_value *out)
{
    const llm_text none = {0};
    llm_text parts[3] = {text, none, none};
    if (found != UINT64_MAX) {
        parts[0] = llm_text_part(text, 0, found);
        parts[1] = separator;
        parts[2] = llm_text_part(text, found + separator.size, text.size);
    } else if (back) {
        parts[0] = none;
        parts[2] = text;
    }
    CLV_TRY(llm_value_list(j, LLM_LIST_TUPLE, 3, out));
    for (int i = 0; i < 3; i++)
        out->list->items[out->list->n++] = llm_value_text(parts[i]);
    return CLV_OK;
}

static clv_status partition_any(llm_jinja *j, const llm_value *self,
                                const llm_args *args, bool back, llm_value *out)
{
    llm_text separator;
    if (args->n != 1 || args->n_named)
        return llm_jinja_error(j, CLV_ERR_INVALID, "partition takes one text");
    CLV_TRY(llm_arg_text(j, &args->items[0], &separator));
    if (!separator.size)
        return llm_jinja_error(j, CLV_ERR_INVALID, "a separator is empty");
    CLV_TRY(llm_jinja_work(j, self->text.size / 16));
    return partition_at(
        j, self->text, separator,
        back ? llm_text_find_last(self->text, separator, self->text.size)
             : llm_text_find(self->text, separator, 0),
        back, out);
}

static clv_status partition(llm_jinja *j, const llm_value *self,
                            const llm_args *args, llm_value *out)
{
    return partition_any(j, self, args, false, out);
}

static clv_status rpartition(llm_jinja *j, const llm_value *self,
                             const llm_args *args, llm_value *out)
{
    return partition_any(j, self, args, true, out);
}

const llm_method llm_split_methods[] = {
    {"split", split},           {"rsplit", rsplit},
    {"splitlines", splitlines}, {"partition", partition},
    {"rpartition", rpartition}, {0},
};
