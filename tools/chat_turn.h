/*
 * One turn of a conversation: what was said becomes a prompt, of which only
 * what the session does not hold yet is evaluated.
 */
#pragma once

#include "chat.h"

/* Where the first n_ids tokens stand for the first bytes of the text. */
typedef struct chat_mark {
    uint64_t length, n_ids;
} chat_mark;

typedef struct chat_turn {
    const tool_chat *chat;
    /* What the session holds, and the text that it stands for; the last token
     * may not be in the session yet. */
    int32_t *ids;
    uint64_t n_ids;
    char *text;
    chat_mark *marks; /* behind each prompt and answer; none: not known */
    uint64_t n_marks, marks_capacity;
    /* The answer. */
    char *answer;
    uint64_t answer_length, answer_capacity;
    int32_t *answer_ids;
    uint64_t n_answer, ids_capacity;
    bool write_failed, out_of_memory, reversed;
    clv_generate_stats stats;
    uint64_t n_kept; /* tokens of the prompt that were there already */
} chat_turn;

void chat_turn_finish(chat_turn *turn);
/* Generates the answer to a text and prints it. The answer is in turn->answer,
 * also after an interrupt. */
clv_status chat_turn_run(chat_turn *turn, const clv_chat_text *prompt);
/* Forgets all. */
void chat_turn_clear(chat_turn *turn);
