#include "text.h"

static bool grow(gpu_text *text, size_t more)
{
    size_t capacity = text->capacity ? text->capacity : 1024;
    if (text->failed)
        return false;
    if (text->n + more < text->capacity)
        return true;
    while (capacity <= text->n + more)
        capacity *= 2;
    char *data = clv_new(text->host, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    if (text->n)
        memcpy(data, text->data, text->n);
    clv_free(text->host, text->data);
    text->data = data;
    text->capacity = capacity;
    return true;
}

void gpu_put(gpu_text *text, const char *data, size_t n)
{
    if (!grow(text, n))
        return;
    if (n)
        memcpy(text->data + text->n, data, n);
    text->n += n;
    text->data[text->n] = 0;
}

void gpu_puts(gpu_text *text, const char *string)
{
    gpu_put(text, string, strlen(string));
}

void gpu_printf(gpu_text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n >= 0 && grow(text, (size_t)n)) {
        vsnprintf(text->data + text->n, text->capacity - text->n, format,
                  again);
        text->n += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void gpu_put_undefined(gpu_text *text, const char *other)
{
    static const char word[] = "#define ";
    for (const char *line = other; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, sizeof word - 1) != 0)
            continue;
        const char *name = line + sizeof word - 1;
        gpu_printf(text, "#undef %.*s\n", (int)strcspn(name, "( \n"), name);
    }
}

void gpu_text_free(gpu_text *text)
{
    clv_free(text->host, text->data);
    text->data = NULL;
    text->n = text->capacity = 0;
}
