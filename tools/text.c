#include "text.h"
#include "interrupt.h"
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utf8proc.h>

#define TEXT_MAX (1u << 30) /* bytes; an endless device ends here */
#define WIDTH 80            /* of wrapped text */

void tool_print_error(const char *text)
{
    char *clean = tool_clean(text);
    fprintf(stderr, "%s: %s\n", program_invocation_short_name,
            clean ? clean : "out of memory");
    free(clean);
}

int tool_fail(void)
{
    if (tool_interrupted()) {
        tool_print_error("interrupted");
        return tool_interrupt_code();
    }
    tool_print_error(clv_last_error());
    return TOOL_FAILED;
}

/* ------------------------------------------------------------------------ */

static clv_status read_all(int fd, const char *path, char **text,
                           uint64_t *length)
{
    size_t size = 1 << 16, n = 0;
    char *data = malloc(size);
    while (data) {
        ssize_t got = read(fd, data + n, size - n - 1);
        if (got < 0) {
            clv_error(CLV_ERR_IO, "%s: cannot be read: %s", path,
                      strerror(errno));
            free(data);
            return CLV_ERR_IO;
        }
        if (got == 0) {
            data[n] = 0;
            *text = data;
            *length = n;
            return CLV_OK;
        }
        n += (size_t)got;
        if (n >= TEXT_MAX) {
            free(data);
            return clv_error(CLV_ERR_LIMIT, "%s: longer than %u MiB; split it",
                             path, TEXT_MAX >> 20);
        }
        if (n + 1 == size) {
            char *grown = realloc(data, size *= 2);
            if (!grown)
                free(data);
            data = grown;
        }
    }
    return clv_error(CLV_ERR_NO_MEMORY, "%s: no memory for %zu bytes", path,
                     size);
}

clv_status tool_read_file(const char *path, char **text, uint64_t *length)
{
    if (!strcmp(path, "-"))
        return read_all(STDIN_FILENO, "standard input", text, length);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return clv_error(errno == ENOENT ? CLV_ERR_NOT_FOUND : CLV_ERR_IO,
                         "%s: cannot be opened: %s", path, strerror(errno));
    clv_status status = read_all(fd, path, text, length);
    close(fd);
    return status;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

uint64_t tool_unescape(char *text, uint64_t length)
{
    static const char from[] = "nrt\\'\"", to[] = "\n\r\t\\'\"";
    uint64_t n = 0;
    for (uint64_t i = 0; i < length; i++) {
        const char *known;
        if (text[i] != '\\' || i + 1 >= length) {
            text[n++] = text[i];
        } else if (text[i + 1] && (known = strchr(from, text[i + 1]))) {
            text[n++] = to[known - from];
            i++;
        } else if (text[i + 1] == '\n') {
            i++;
        } else if (text[i + 1] == 'x' && i + 3 < length &&
                   hex_digit(text[i + 2]) >= 0 && hex_digit(text[i + 3]) >= 0) {
            text[n++] =
                (char)(hex_digit(text[i + 2]) * 16 + hex_digit(text[i + 3]));
            i += 3;
        } else {
            text[n++] = text[i];
        }
    }
    text[n] = 0;
    return n;
}

char *tool_clean(const char *text)
{
    size_t size = strlen(text) + 1;
    char *out = malloc(size), *end = out;
    if (!out)
        return NULL;
    for (const utf8proc_uint8_t *s = (const void *)text; *s;) {
        utf8proc_int32_t point;
        utf8proc_ssize_t n = utf8proc_iterate(s, -1, &point);
        if (n <= 0 || utf8proc_category(point) == UTF8PROC_CATEGORY_CC) {
            *end++ = '?';
            s += n > 0 ? n : 1;
        } else {
            memcpy(end, s, (size_t)n);
            end += n;
            s += n;
        }
    }
    *end = 0;
    return out;
}

void tool_print_wrapped(const char *text, int column)
{
    int at = column;
    while (*text) {
        int word = (int)strcspn(text, " ");
        bool first = at == column;
        if (!first && at + 1 + word >= WIDTH) {
            printf("\n%*s", column, "");
            at = column;
            first = true;
        }
        at += printf("%s%.*s", first ? "" : " ", word, text);
        text += word;
        text += strspn(text, " ");
    }
    putchar('\n');
}

/* ------------------------------------------------------------------------ */

static const char *quantity(uint64_t value, double step,
                            const char *const *units, char *out)
{
    double scaled = (double)value;
    uint32_t i = 0;
    while (scaled >= step && i < 4) {
        scaled /= step;
        i++;
    }
    snprintf(out, TOOL_QUANTITY_MAX, i ? "%.2f %s" : "%.0f %s", scaled,
             units[i]);
    return out;
}

const char *tool_bytes(uint64_t bytes, char out[TOOL_QUANTITY_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    return quantity(bytes, 1024, units, out);
}

const char *tool_count(uint64_t count, char out[TOOL_QUANTITY_MAX])
{
    static const char *const units[] = {"", "K", "M", "B", "T"};
    return quantity(count, 1000, units, out);
}

/* ------------------------------------------------------------------------ */

static bool stdout_failed(void)
{
    if (errno != EPIPE) {
        char text[160];
        snprintf(text, sizeof text, "standard output: cannot be written: %s",
                 strerror(errno));
        tool_print_error(text);
    }
    return false;
}

/* NULL: stdout is. */
static FILE *own_output;

static FILE *output(void)
{
    return own_output ? own_output : stdout;
}

clv_status tool_own_stdout(void)
{
    const int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd >= 0)
        own_output = fdopen(fd, "w");
    if (own_output && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
        return CLV_OK;
    return clv_error(CLV_ERR_IO, "standard output: %s", strerror(errno));
}

bool tool_stdout_is_terminal(void)
{
    return isatty(fileno(output()));
}

bool tool_write(const char *text, uint64_t length)
{
    if (fwrite(text, 1, length, output()) == length && !fflush(output()))
        return true;
    return stdout_failed();
}

bool tool_close_stdout(void)
{
    if (ferror(output()))
        return false;
    return fflush(output()) ? stdout_failed() : true;
}
