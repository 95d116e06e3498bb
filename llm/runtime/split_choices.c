#include "split_choices.h"

/* Up to here, and from there to twice as far each, texts share choices. */
#define NEAR_POSITIONS 1024

llm_split llm_split_plain(const llm_splits *s)
{
    return (llm_split){.length = s->n_batch ? s->n_batch : LLM_SPLIT_BATCH,
                       .n_flight = s->n_flight ? s->n_flight : 1};
}

static llm_split_choice key_of(const llm_splits *s, const llm_split_text *text)
{
    const uint32_t unit = s->n_batch ? s->n_batch : LLM_SPLIT_UNIT;
    uint32_t position = text->position / NEAR_POSITIONS, class = 0;
    for (; position; position /= 2)
        class ++;
    return (llm_split_choice){.n = (text->n + unit - 1) / unit,
                              .whole = text->n / unit,
                              .position = class};
}

static llm_split_choice *find(llm_splits *s, const llm_split_choice *key)
{
    for (uint32_t i = 0; i < s->n_choices && i < LLM_MAX_SPLITS; i++) {
        llm_split_choice *c = &s->choices[i];
        if (c->n == key->n && c->whole == key->whole &&
            c->position == key->position)
            return c;
    }
    return NULL;
}

bool llm_split_find(llm_splits *s, const llm_split_text *text, llm_split *out)
{
    const llm_split_choice key = key_of(s, text);
    const llm_split_choice *known = find(s, &key);
    if (known)
        *out = known->split;
    return known;
}

void llm_split_keep(llm_splits *s, const llm_split_text *text,
                    const llm_split *split)
{
    llm_split_choice *c = &s->choices[s->n_choices++ % LLM_MAX_SPLITS];
    *c = key_of(s, text);
    c->split = *split;
}

void llm_split_forget(llm_splits *s)
{
    s->n_choices = 0;
}

void llm_split_review(llm_splits *s, const llm_split *split,
                      const llm_runner *runner, bool steady, double ns)
{
    if (split->length > llm_split_plain(s).length &&
        llm_runner_is_real(runner) && (!steady || ns > split->plain_ns))
        llm_split_forget(s);
}

void llm_split_judge(llm_splits *s, const llm_split_text *text,
                     const llm_runner *runner, double ns)
{
    const llm_split_choice key = key_of(s, text);
    llm_split_choice *c = find(s, &key);
    if (!c || !(c->split.plain_ns > 0) || ns <= c->split.plain_ns ||
        !llm_runner_is_real(runner))
        return;
    clv_log(runner->model->ctx, CLV_LOG_INFO,
            "batches in flight took %.3f s, one at a time should take %.3f",
            ns * 1e-9, c->split.plain_ns * 1e-9);
    c->split = llm_split_plain(s);
}
