#include "chat_input.h"

#include "interrupt.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HISTORY 200
#define PASTE_BEGIN "\033[200~"
#define PASTE_END "\033[201~"

struct tool_input {
    EditLine *line; /* NULL: no editing */
    History *history;
    HistEvent event;
    bool prompts, goes_on; /* the text goes on in the line to be read */
    bool marks_pastes;     /* the terminal can be asked to */
    char *text;
    size_t size, capacity;
};

static char *prompt(EditLine *line)
{
    static char first[] = "> ", next[] = ". ";
    tool_input *input;
    el_get(line, EL_CLIENTDATA, &input);
    return input->goes_on ? next : first;
}

/* What a terminal sends for a paste, between two sequences, is text: its line
 * ends do not end the line. */
static unsigned char on_paste(EditLine *line, int key)
{
    static const char end[] = PASTE_END;
    char text[4096];
    size_t n = 0;
    char c;
    (void)key;
    while (el_getc(line, &c) == 1) {
        text[n++] = c == '\r' ? '\n' : c;
        const bool ends =
            n >= sizeof end - 1 &&
            !memcmp(text + n - (sizeof end - 1), end, sizeof end - 1);
        n -= ends ? sizeof end - 1 : 0;
        if (!ends && n < sizeof text - 1)
            continue;
        /* A character that is cut stays for the next part. */
        size_t whole = n;
        while (!ends && whole && ((unsigned char)text[whole] & 0xc0) == 0x80)
            whole--;
        const char last = text[whole];
        text[whole] = 0;
        el_insertstr(line, text);
        if (ends)
            break;
        text[whole] = last;
        memmove(text, text + whole, n - whole);
        n -= whole;
    }
    return CC_REFRESH;
}

static clv_status open_editor(tool_input *input)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    input->history = history_init();
    input->line = el_init("cleave", stdin, stderr, stderr);
    if (!input->history || !input->line)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for the line editor");
    history(input->history, &input->event, H_SETSIZE, HISTORY);
    history(input->history, &input->event, H_SETUNIQUE, 1);
    el_set(input->line, EL_CLIENTDATA, input);
    el_set(input->line, EL_PROMPT, prompt);
    el_set(input->line, EL_EDITOR, "emacs");
    el_set(input->line, EL_HIST, history, input->history);
    el_set(input->line, EL_ADDFN, "paste", "Takes a paste as text", on_paste);
    el_set(input->line, EL_BIND, PASTE_BEGIN, "paste", NULL);
    return CLV_OK;
}

clv_status tool_input_open(bool plain, tool_input **out)
{
    tool_input *input = calloc(1, sizeof *input);
    if (!input)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for the input");
    const bool terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    const char *kind = getenv("TERM");
    input->prompts = terminal;
    input->marks_pastes = kind && strcmp(kind, "dumb");
    clv_status status = terminal && !plain ? open_editor(input) : CLV_OK;
    if (status) {
        tool_input_close(input);
        return status;
    }
    *out = input;
    return CLV_OK;
}

void tool_input_close(tool_input *input)
{
    if (!input)
        return;
    if (input->line)
        el_end(input->line);
    if (input->history)
        history_end(input->history);
    free(input->text);
    free(input);
}

/* ------------------------------------------------------------------------ */

static tool_input_end no_memory(void)
{
    clv_error(CLV_ERR_NO_MEMORY, "no memory for the input");
    return TOOL_INPUT_FAILED;
}

static tool_input_end append(tool_input *input, const char *text, size_t n)
{
    if (input->size + n + 1 > input->capacity) {
        const size_t capacity = (input->size + n + 1) * 2;
        char *grown = realloc(input->text, capacity);
        if (!grown)
            return no_memory();
        input->text = grown;
        input->capacity = capacity;
    }
    memcpy(input->text + input->size, text, n);
    input->size += n;
    input->text[input->size] = 0;
    return TOOL_INPUT_LINE;
}

/* What ended a read that brought nothing. */
static tool_input_end ended(int n)
{
    if (tool_interrupted())
        return TOOL_INPUT_CANCEL;
    if (n < 0 && errno && errno != EINTR) {
        clv_error(CLV_ERR_IO, "standard input: %s", strerror(errno));
        return TOOL_INPUT_FAILED;
    }
    return TOOL_INPUT_END;
}

static tool_input_end read_edited(tool_input *input)
{
    static const char on[] = "\033[?2004h", off[] = "\033[?2004l";
    int n;
    fputs(input->marks_pastes ? on : "", stderr);
    fflush(stderr);
    errno = 0;
    const char *line = el_gets(input->line, &n);
    fputs(input->marks_pastes ? off : "", stderr);
    fflush(stderr);
    if (!line || n <= 0 || tool_interrupted())
        return ended(n);
    return append(input, line, (size_t)n);
}

static tool_input_end read_plain(tool_input *input)
{
    char *line = NULL;
    size_t capacity = 0;
    if (input->prompts)
        fputs(input->goes_on ? ". " : "> ", stderr);
    errno = 0;
    const ssize_t n = getline(&line, &capacity, stdin);
    const tool_input_end end =
        n > 0 ? append(input, line, (size_t)n) : ended(ferror(stdin) ? -1 : 0);
    free(line);
    return end;
}

/* Whether the text goes on: it ends with a backslash, which is taken away. */
static bool take_backslash(tool_input *input)
{
    char *text = input->text;
    if (input->size && text[input->size - 1] == '\n')
        text[--input->size] = 0;
    if (input->size && text[input->size - 1] == '\r')
        text[--input->size] = 0;
    const bool goes_on = input->size && text[input->size - 1] == '\\';
    if (goes_on)
        text[input->size - 1] = '\n';
    return goes_on;
}

tool_input_end tool_input_read(tool_input *input, char **text)
{
    tool_input_end end;
    input->size = 0;
    input->goes_on = false;
    do {
        end = input->line ? read_edited(input) : read_plain(input);
        if (end == TOOL_INPUT_END && input->goes_on)
            break;
        if (end != TOOL_INPUT_LINE)
            return end;
        input->goes_on = take_backslash(input);
    } while (input->goes_on);
    if (input->line && input->size)
        history(input->history, &input->event, H_ENTER, input->text);
    *text = strdup(input->text);
    return *text ? TOOL_INPUT_LINE : no_memory();
}
