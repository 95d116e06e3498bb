#include "chat_turn.h"

#include "interrupt.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

void chat_turn_finish(chat_turn *turn)
{
    free(turn->ids);
    free(turn->text);
    free(turn->marks);
    free(turn->answer);
    free(turn->answer_ids);
    *turn = (chat_turn){.chat = turn->chat};
}

void chat_turn_clear(chat_turn *turn)
{
    turn->n_ids = turn->n_marks = 0;
}

static clv_status no_memory(void)
{
    return clv_error(CLV_ERR_NO_MEMORY, "no memory for the conversation");
}

/* Makes space for one more; items: the address of the pointer. */
static bool reserve(void *items, uint64_t *capacity, uint64_t need, size_t size)
{
    void *old, *grown;
    if (need <= *capacity)
        return true;
    memcpy(&old, items, sizeof old);
    grown = realloc(old, need * 2 * size);
    if (!grown)
        return false;
    memcpy(items, &grown, sizeof grown);
    *capacity = need * 2;
    return true;
}

/* ------------------------------------------------------------------------ */
/* The prompt                                                               */

static clv_status join(const int32_t *first, uint64_t n_first, int32_t *more,
                       uint64_t n_more, int32_t **out, uint64_t *n)
{
    int32_t *ids = malloc((n_first + n_more + 1) * sizeof *ids);
    if (!ids) {
        clv_tokens_free(more);
        return no_memory();
    }
    if (n_first)
        memcpy(ids, first, n_first * sizeof *ids);
    if (n_more)
        memcpy(ids + n_first, more, n_more * sizeof *ids);
    clv_tokens_free(more);
    *out = ids;
    *n = n_first + n_more;
    return CLV_OK;
}

static clv_status tokenize_from(const chat_turn *turn,
                                const clv_chat_text *prompt, uint64_t from,
                                uint32_t flags, int32_t **ids, uint64_t *n)
{
    const clv_tokenizer *tok = clv_model_tokenizer(turn->chat->model);
    clv_text_range *ranges = malloc((prompt->n_ranges + 1) * sizeof *ranges);
    uint64_t n_ranges = 0;
    if (!ranges)
        return no_memory();
    for (uint64_t i = 0; i < prompt->n_ranges; i++) {
        const clv_text_range r = prompt->ranges[i];
        const uint64_t start = r.start > from ? r.start : from;
        if (r.start + r.size > start)
            ranges[n_ranges++] =
                (clv_text_range){start - from, r.start + r.size - start};
    }
    clv_status status = clv_tokenize_ranges(
        tok, prompt->text + from, prompt->length - from,
        flags | CLV_TOKENIZE_SPECIAL, ranges, n_ranges, ids, n);
    free(ranges);
    return status;
}

/* The most of what the session holds that a text begins with. */
static chat_mark find_mark(const chat_turn *turn, const clv_chat_text *prompt)
{
    for (uint64_t i = turn->n_marks; i-- > 0;) {
        const chat_mark mark = turn->marks[i];
        if (mark.length <= prompt->length &&
            !memcmp(turn->text, prompt->text, mark.length))
            return mark;
    }
    return (chat_mark){0, 0};
}

/* A text that begins with what the session holds goes on from those tokens,
 * which need not be the ones that it would be cut into. */
static clv_status tokenize(chat_turn *turn, const clv_chat_text *prompt,
                           int32_t **ids, uint64_t *n)
{
    const clv_tokenizer_info info =
        clv_tokenizer_describe(clv_model_tokenizer(turn->chat->model));
    const chat_mark mark = find_mark(turn, prompt);
    int32_t *more;
    uint64_t n_more;
    while (turn->n_marks && turn->marks[turn->n_marks - 1].length > mark.length)
        turn->n_marks--;
    if (mark.n_ids) {
        CLV_TRY(tokenize_from(turn, prompt, mark.length, CLV_TOKENIZE_CONTINUE,
                              &more, &n_more));
        return join(turn->ids, mark.n_ids, more, n_more, ids, n);
    }
    CLV_TRY(tokenize_from(turn, prompt, 0, 0, &more, &n_more));
    /* Most templates begin with BOS themselves. */
    const bool bos = info.add_bos && (!n_more || more[0] != info.bos);
    return join(&info.bos, bos, more, n_more, ids, n);
}

/* How many tokens at the start need not be evaluated again. */
static uint32_t common(const chat_turn *turn, const int32_t *ids, uint64_t n)
{
    uint64_t most = clv_session_position(turn->chat->session), same = 0;
    most = most < turn->n_ids ? most : turn->n_ids;
    most = most < n - 1 ? most : n - 1; /* the last one gives the logits */
    while (same < most && turn->ids[same] == ids[same])
        same++;
    return (uint32_t)same;
}

static clv_status check_length(const chat_turn *turn, uint64_t n)
{
    const uint32_t n_ctx = clv_session_n_ctx(turn->chat->session);
    if (!n)
        return clv_error(CLV_ERR_INVALID, "the conversation holds no token");
    if (n < n_ctx)
        return CLV_OK;
    return clv_error(CLV_ERR_LIMIT,
                     "the conversation has %llu tokens, the context %u "
                     "positions; raise -c, or /clear it",
                     (unsigned long long)n, n_ctx);
}

/* ------------------------------------------------------------------------ */
/* The answer                                                               */

/* Whether the answer ends with a reverse prompt. */
static bool ends_reversed(const chat_turn *turn, uint32_t latest)
{
    const tool_strings *reverse = &turn->chat->options->reverse;
    for (uint32_t i = 0; i < reverse->n; i++) {
        const uint64_t size = strlen(reverse->items[i]);
        const uint64_t back = size + latest;
        const uint64_t from =
            turn->answer_length > back ? turn->answer_length - back : 0;
        if (size && memmem(turn->answer + from, turn->answer_length - from,
                           reverse->items[i], size))
            return true;
    }
    return false;
}

static int on_token(void *ctx, int32_t id, const char *text, uint32_t length)
{
    chat_turn *turn = ctx;
    if (!reserve(&turn->answer, &turn->answer_capacity,
                 turn->answer_length + length + 1, 1) ||
        !reserve(&turn->answer_ids, &turn->ids_capacity, turn->n_answer + 1,
                 sizeof *turn->answer_ids)) {
        turn->out_of_memory = true;
        return 1;
    }
    if (length)
        memcpy(turn->answer + turn->answer_length, text, length);
    turn->answer_length += length;
    turn->answer[turn->answer_length] = 0;
    if (id >= 0)
        turn->answer_ids[turn->n_answer++] = id;
    turn->write_failed = !tool_write(text, length);
    turn->reversed = ends_reversed(turn, length);
    return turn->write_failed || turn->reversed || tool_interrupted();
}

/* What the session holds now: the prompt, then the answer. */
static clv_status remember(chat_turn *turn, const clv_chat_text *prompt)
{
    const uint64_t length = prompt->length + turn->answer_length;
    char *text = malloc(length + 1);
    int32_t *ids =
        realloc(turn->ids, (turn->n_ids + turn->n_answer + 1) * sizeof *ids);
    if (ids)
        turn->ids = ids;
    if (!text || !ids ||
        !reserve(&turn->marks, &turn->marks_capacity, turn->n_marks + 2,
                 sizeof *turn->marks)) {
        free(text);
        chat_turn_clear(turn);
        return no_memory();
    }
    turn->marks[turn->n_marks++] = (chat_mark){prompt->length, turn->n_ids};
    if (turn->n_answer)
        memcpy(ids + turn->n_ids, turn->answer_ids,
               turn->n_answer * sizeof *ids);
    turn->n_ids += turn->n_answer;
    turn->marks[turn->n_marks++] = (chat_mark){length, turn->n_ids};
    memcpy(text, prompt->text, prompt->length);
    if (turn->answer_length)
        memcpy(text + prompt->length, turn->answer, turn->answer_length);
    free(turn->text);
    turn->text = text;
    return CLV_OK;
}

static clv_status answer(chat_turn *turn, const clv_chat_text *prompt)
{
    const tool_chat *chat = turn->chat;
    const clv_generate_params params = {
        .prompt = turn->ids + turn->n_kept,
        .n_prompt = (uint32_t)(turn->n_ids - turn->n_kept),
        .n_predict = chat->n_predict,
        .ignore_end = chat->ignore_end,
        .on_token = on_token,
        .on_token_ctx = turn,
        .progress = tool_progress_report,
        .progress_ctx = &chat->env->progress,
    };
    clv_status status =
        clv_generate(chat->session, chat->sampler, &params, &turn->stats);
    tool_progress_clear(&chat->env->progress);
    if (turn->out_of_memory)
        status = no_memory();
    if (turn->stats.n_prompt < params.n_prompt) { /* it is not there */
        turn->n_ids = turn->n_kept;
        while (turn->n_marks &&
               turn->marks[turn->n_marks - 1].n_ids > turn->n_ids)
            turn->n_marks--;
        return status;
    }
    const clv_status kept = remember(turn, prompt);
    return status ? status : kept;
}

clv_status chat_turn_run(chat_turn *turn, const clv_chat_text *prompt)
{
    int32_t *ids = NULL;
    uint64_t n = 0;
    turn->answer_length = turn->n_answer = 0;
    turn->reversed = false;
    turn->stats = (clv_generate_stats){0};
    CLV_TRY(tokenize(turn, prompt, &ids, &n));
    clv_status status = check_length(turn, n);
    if (!status) {
        turn->n_kept = common(turn, ids, n);
        status =
            clv_session_truncate(turn->chat->session, (uint32_t)turn->n_kept);
    }
    if (status) {
        free(ids);
        return status;
    }
    free(turn->ids);
    turn->ids = ids;
    turn->n_ids = n;
    return answer(turn, prompt);
}
