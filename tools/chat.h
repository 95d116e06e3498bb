/*
 * A conversation in the terminal: what a person types and what the model
 * answers, by turns.
 */
#pragma once

#include "chat_template.h"
#include "env.h"

typedef struct tool_chat_options {
    bool wanted, unwanted, interactive, single_turn, plain_input;
    const char *system, *chat_template, *chat_variables;
    const char *in_prefix, *in_suffix;
    tool_strings reverse;
} tool_chat_options;

/* For the table of a command whose struct has a tool_chat_options called chat.
 */
#define TOOL_OPTIONS_CHAT(type)                                                \
    TOOL_OPT_GROUP("conversation"),                                            \
        TOOL_OPT_FLAG(0, "no-conversation|-no-cnv",                            \
                      offsetof(type, chat.unwanted),                           \
                      "go on from the prompt, even "                           \
                      "if the model has a chat template"),                     \
        TOOL_OPT_FLAG(                                                         \
            0, "conversation|-cnv", offsetof(type, chat.wanted),               \
            "talk by turns: -p, if given, is what you say first "              \
            "(default: if the model has a chat template, and standard "        \
            "input and output are a terminal)"),                               \
        TOOL_OPT_STRING(0, "system-prompt|-sys", "TEXT",                       \
                        offsetof(type, chat.system), "the system message"),    \
        TOOL_OPT_FLAG(0, "single-turn|-st", offsetof(type, chat.single_turn),  \
                      "end after the first answer"),                           \
        TOOL_OPTION_CHAT_TEMPLATE_AT(offsetof(type, chat.chat_template)),      \
        TOOL_OPTION_CHAT_VARIABLES_AT(offsetof(type, chat.chat_variables)),    \
        TOOL_OPT_FLAG(                                                         \
            'i', "interactive", offsetof(type, chat.interactive),              \
            "talk by turns without a template: what you type goes on "         \
            "the text"),                                                       \
        TOOL_OPT_STRINGS('r', "reverse-prompt", "TEXT",                        \
                         offsetof(type, chat.reverse),                         \
                         "stop where the model writes TEXT, and take input "   \
                         "(implies -i; may be repeated)"),                     \
        TOOL_OPT_STRING(0, "in-prefix", "TEXT",                                \
                        offsetof(type, chat.in_prefix),                        \
                        "put TEXT in front of what you type"),                 \
        TOOL_OPT_STRING(0, "in-suffix", "TEXT",                                \
                        offsetof(type, chat.in_suffix),                        \
                        "put TEXT behind what you type"),                      \
        TOOL_OPT_FLAG(0, "simple-io", offsetof(type, chat.plain_input),        \
                      "read lines without editing and history")

typedef struct tool_chat {
    const tool_chat_options *options;
    tool_env *env;
    clv_model *model;
    clv_session *session;
    clv_sampler *sampler;
    const char *prompt; /* NULL: none */
    int32_t n_predict;  /* tokens of an answer, -1: no limit */
    bool ignore_end;
} tool_chat;

/* Whether there may be a conversation, before the model is known. */
bool tool_chat_may_be(const tool_chat_options *options);
/* Whether to talk: by the options, and by the model's chat template where they
 * do not say. */
bool tool_chat_is_wanted(const tool_chat_options *options,
                         const clv_model *model);
/* Until the input ends. Returns the exit code. */
int tool_chat_run(const tool_chat *chat);
