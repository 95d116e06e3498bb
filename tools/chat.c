#include "chat.h"

#include "chat_input.h"
#include "chat_turn.h"
#include "interrupt.h"
#include "text.h"

#include <cjson/cJSON.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct talk {
    const tool_chat *chat;
    clv_chat_template *template_; /* NULL: what is typed goes on the text */
    cJSON *messages;
    chat_turn turn;
    tool_input *input;
    clv_chat_params params;
    clv_chat_text raw; /* the text so far, without a template */
    bool ended;
} talk;

static bool is_asked_for(const tool_chat_options *options)
{
    return options->wanted || options->interactive || options->reverse.n ||
           options->chat_template || options->system;
}

bool tool_chat_may_be(const tool_chat_options *options)
{
    return !options->unwanted &&
           (is_asked_for(options) ||
            (isatty(STDIN_FILENO) && tool_stdout_is_terminal()));
}

bool tool_chat_is_wanted(const tool_chat_options *options,
                         const clv_model *model)
{
    clv_chat_template *own;
    if (!tool_chat_may_be(options) || is_asked_for(options))
        return tool_chat_may_be(options);
    /* One that is there and cannot be read is told by tool_chat_run(). */
    const clv_tokenizer *tok = clv_model_tokenizer(model);
    const clv_status status =
        tok ? clv_chat_template_create(NULL, tok, &own) : CLV_ERR_NOT_FOUND;
    if (!status)
        clv_chat_template_destroy(own);
    return status != CLV_ERR_NOT_FOUND;
}

static clv_status no_memory(void)
{
    return clv_error(CLV_ERR_NO_MEMORY, "no memory for the conversation");
}

/* ------------------------------------------------------------------------ */
/* Messages                                                                 */

static clv_status add_message(talk *t, const char *role, const char *content)
{
    cJSON *message = cJSON_CreateObject();
    if (message && cJSON_AddStringToObject(message, "role", role) &&
        cJSON_AddStringToObject(message, "content", content) &&
        cJSON_AddItemToArray(t->messages, message))
        return CLV_OK;
    cJSON_Delete(message);
    return no_memory();
}

static void drop_last(talk *t)
{
    cJSON_DeleteItemFromArray(t->messages, cJSON_GetArraySize(t->messages) - 1);
}

static bool last_is(const talk *t, const char *role)
{
    const cJSON *last =
        cJSON_GetArrayItem(t->messages, cJSON_GetArraySize(t->messages) - 1);
    const char *is =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(last, "role"));
    return is && !strcmp(is, role);
}

static clv_status clear(talk *t)
{
    cJSON_Delete(t->messages);
    t->messages = cJSON_CreateArray();
    clv_chat_text_free(&t->raw);
    if (!t->messages)
        return no_memory();
    return t->chat->options->system && t->template_
               ? add_message(t, "system", t->chat->options->system)
               : CLV_OK;
}

static clv_status save(talk *t, const char *path)
{
    clv_file_writer *writer;
    char *text = cJSON_Print(t->messages);
    if (!text)
        return no_memory();
    clv_status status = clv_file_writer_open(path, &writer);
    if (!status) {
        status = clv_file_writer_write(writer, text, strlen(text));
        if (!status)
            status = clv_file_writer_write(writer, "\n", 1);
        if (status)
            clv_file_writer_discard(writer);
        else
            status = clv_file_writer_commit(writer);
    }
    cJSON_free(text);
    return status;
}

static clv_status load(talk *t, const char *path)
{
    char *text;
    uint64_t length;
    CLV_TRY(tool_read_file(path, &text, &length));
    cJSON *messages = cJSON_Parse(text);
    free(text);
    const cJSON *message;
    bool good = cJSON_IsArray(messages);
    if (good)
        cJSON_ArrayForEach (message, messages)
            good &= cJSON_IsObject(message);
    if (!good) {
        cJSON_Delete(messages);
        return clv_error(CLV_ERR_FORMAT,
                         "%s: not a list of messages in JSON; give a file that "
                         "/save wrote",
                         path);
    }
    cJSON_Delete(t->messages);
    t->messages = messages;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Turns                                                                    */

/* Adds a text that is not the template's but, perhaps, a person's. */
static clv_status add_raw(clv_chat_text *raw, const char *text, bool plain)
{
    const uint64_t n = text ? strlen(text) : 0;
    if (!n)
        return CLV_OK;
    char *grown = realloc(raw->text, raw->length + n + 1);
    if (!grown)
        return no_memory();
    raw->text = grown;
    clv_text_range *ranges =
        realloc(raw->ranges, (raw->n_ranges + 1) * sizeof *ranges);
    if (!ranges)
        return no_memory();
    raw->ranges = ranges;
    if (plain)
        ranges[raw->n_ranges++] = (clv_text_range){raw->length, n};
    memcpy(grown + raw->length, text, n + 1);
    raw->length += n;
    return CLV_OK;
}

static void print_turn(const talk *t)
{
    const chat_turn *turn = &t->turn;
    if (t->chat->env->log_level < CLV_LOG_INFO)
        return;
    fprintf(stderr,
            "turn: %u tokens evaluated, %" PRIu64
            " of the prompt reused, %u generated\n",
            turn->stats.n_prompt, turn->n_kept, turn->stats.n_generated);
}

static clv_status render(talk *t, clv_chat_text *out)
{
    char *json = cJSON_PrintUnformatted(t->messages);
    if (!json)
        return no_memory();
    clv_status status = clv_chat_template_apply(t->template_, json,
                                                strlen(json), &t->params, out);
    cJSON_free(json);
    return status;
}

/* Generates an answer to what is there. An interrupt ends it, not the talk. */
static clv_status take_turn(talk *t)
{
    clv_chat_text text = {0};
    if (t->template_)
        CLV_TRY(render(t, &text));
    clv_status status = chat_turn_run(&t->turn, t->template_ ? &text : &t->raw);
    const bool interrupted = tool_interrupted();
    /* Of a script, it ends all. */
    if (interrupted && !(isatty(STDIN_FILENO) && tool_interrupt_forget()))
        t->ended = true;
    t->ended |= t->turn.write_failed;
    if (interrupted && status == CLV_ERR_CANCELLED)
        status = CLV_OK;
    if (!t->turn.write_failed && !t->turn.reversed)
        tool_write("\n", 1);
    if (!status)
        print_turn(t);
    clv_chat_text_free(&text);
    if (status)
        return status;
    const char *answer = t->turn.answer_length ? t->turn.answer : "";
    if (t->template_)
        return add_message(t, "assistant", answer);
    return add_raw(&t->raw, answer, true);
}

/* What a person said, and the answer to it. */
static clv_status say(talk *t, const char *text)
{
    const tool_chat_options *o = t->chat->options;
    clv_chat_text said = {0}, *to = t->template_ ? &said : &t->raw;
    clv_status status = add_raw(to, o->in_prefix, false);
    if (!status)
        status = add_raw(to, text, true);
    if (!status && !t->template_)
        status = add_raw(to, "\n", true);
    if (!status)
        status = add_raw(to, o->in_suffix, false);
    if (!status && t->template_)
        status = add_message(t, "user", said.text ? said.text : "");
    clv_chat_text_free(&said);
    if (status)
        return status;
    status = take_turn(t);
    if (status && t->template_ && last_is(t, "user"))
        drop_last(t);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Commands                                                                 */

static clv_status show_help(talk *t, const char *arg)
{
    (void)t, (void)arg;
    fputs("/help        shows this\n"
          "/clear       begins again, with the same system message\n"
          "/regen       makes another answer\n"
          "/save FILE   writes the messages as JSON\n"
          "/load FILE   reads them\n"
          "/exit        ends, as Ctrl-D does; Ctrl-C ends an answer\n"
          "A line that ends with \\ goes on in the next one.\n",
          stderr);
    return CLV_OK;
}

static clv_status command_clear(talk *t, const char *arg)
{
    (void)arg;
    return clear(t);
}

static clv_status command_regen(talk *t, const char *arg)
{
    (void)arg;
    if (last_is(t, "assistant"))
        drop_last(t);
    if (!last_is(t, "user") && !last_is(t, "tool"))
        return clv_error(CLV_ERR_INVALID,
                         "there is no message to answer; write one");
    return take_turn(t);
}

static clv_status command_exit(talk *t, const char *arg)
{
    (void)arg;
    t->ended = true;
    return CLV_OK;
}

static const struct {
    const char *name;
    bool takes_file, by_template;
    clv_status (*run)(talk *t, const char *arg);
} commands[] = {
    {"/help", false, false, show_help},
    {"/clear", false, false, command_clear},
    {"/regen", false, true, command_regen},
    {"/save", true, true, save},
    {"/load", true, true, load},
    {"/exit", false, false, command_exit},
};

/* A line that begins with "/" and a letter. */
static clv_status command(talk *t, char *line)
{
    char *arg = line + strcspn(line, " \t");
    const size_t n = (size_t)(arg - line);
    arg += strspn(arg, " \t");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strlen(commands[i].name) != n || strncmp(line, commands[i].name, n))
            continue;
        if (commands[i].by_template && !t->template_)
            return clv_error(CLV_ERR_INVALID,
                             "%s: needs a chat template; give one with "
                             "--chat-template",
                             commands[i].name);
        if (commands[i].takes_file != (*arg != 0))
            return clv_error(CLV_ERR_INVALID, "%s: %s", commands[i].name,
                             *arg ? "takes nothing behind it"
                                  : "name a file behind it");
        return commands[i].run(t, arg);
    }
    return clv_error(CLV_ERR_INVALID,
                     "%.*s is no command; see /help, or begin with a space",
                     (int)(n > 40 ? 40 : n), line);
}

static bool is_command(const char *line)
{
    const char c = line[0] == '/' ? line[1] : 0;
    return c >= 'a' && c <= 'z' && !strchr(line, '\n');
}

/* ------------------------------------------------------------------------ */

static clv_status begin(talk *t)
{
    const tool_chat_options *o = t->chat->options;
    const bool raw = (o->interactive || o->reverse.n) && !o->wanted &&
                     !o->chat_template && !o->system;
    CLV_TRY(tool_chat_time(&t->params.now));
    t->params.variables = o->chat_variables;
    if (!raw)
        CLV_TRY(tool_chat_template(o->chat_template,
                                   clv_model_tokenizer(t->chat->model),
                                   &t->template_));
    CLV_TRY(tool_input_open(o->plain_input, &t->input));
    CLV_TRY(clear(t));
    if (!t->chat->prompt)
        return CLV_OK;
    if (t->template_)
        return say(t, t->chat->prompt);
    CLV_TRY(add_raw(&t->raw, t->chat->prompt, false));
    return take_turn(t);
}

/* One input. False: the talk ends, by an error if *status is not CLV_OK. */
static bool go_on(talk *t, clv_status *status)
{
    char *line;
    switch (tool_input_read(t->input, &line)) {
    case TOOL_INPUT_END:
        return false;
    case TOOL_INPUT_FAILED:
        *status = CLV_ERR_IO;
        return false;
    case TOOL_INPUT_CANCEL:
        fputc('\n', stderr);
        return isatty(STDIN_FILENO) && tool_interrupt_forget();
    default:
        break;
    }
    clv_status done = CLV_OK;
    if (is_command(line))
        done = command(t, line);
    else if (*line || !t->template_)
        done = say(t, line);
    const bool said = *line && !is_command(line);
    free(line);
    if (done && !t->ended) {
        /* A person may try again; nobody reads what a script gets wrong. */
        if (!isatty(STDIN_FILENO)) {
            *status = done;
            return false;
        }
        tool_print_error(clv_last_error());
    }
    return !t->ended && !(said && t->chat->options->single_turn);
}

int tool_chat_run(const tool_chat *chat)
{
    talk t = {.chat = chat, .turn = {.chat = chat}};
    clv_status status = begin(&t);
    if (!status && !(chat->prompt && chat->options->single_turn))
        while (!t.ended && go_on(&t, &status))
            continue;
    const bool failed = status || t.turn.write_failed || tool_interrupted();
    const int code = t.turn.write_failed ? TOOL_FAILED
                     : failed            ? tool_fail()
                                         : TOOL_OK;
    tool_input_close(t.input);
    chat_turn_finish(&t.turn);
    clv_chat_text_free(&t.raw);
    clv_chat_template_destroy(t.template_);
    cJSON_Delete(t.messages);
    return code;
}
