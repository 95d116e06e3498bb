/*
 * Renders chat templates, many in one process, for chat_differential.py.
 *
 * chat_render NOW. A request is a line "BYTES TEMPLATE", the template as a JSON
 * string, and a line of BYTES bytes with the conversation. The answer is a line
 * {"text": TEXT} or {"error": MESSAGE}.
 */
#include <cleave/llm.h>

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

static clv_status render(const char *source, const char *conversation,
                         uint64_t length, int64_t now, clv_chat_text *out)
{
    clv_chat_template *t;
    const clv_chat_params params = {.now = now};
    CLV_TRY(clv_chat_template_create(source, NULL, &t));
    clv_status status =
        clv_chat_template_apply(t, conversation, length, &params, out);
    clv_chat_template_destroy(t);
    return status;
}

static void answer(const char *key, const char *text)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, key, text);
    char *line = cJSON_PrintUnformatted(object);
    puts(line);
    free(line);
    cJSON_Delete(object);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t size = 0;
    const int64_t now = argc > 1 ? strtoll(argv[1], NULL, 10) : 0;
    while (getline(&line, &size, stdin) > 0) {
        char *rest;
        const size_t bytes = strtoul(line, &rest, 10);
        cJSON *source = cJSON_Parse(rest);
        char *conversation = malloc(bytes + 1);
        if (!conversation || !cJSON_IsString(source) ||
            fread(conversation, 1, bytes + 1, stdin) != bytes + 1)
            return 1;
        clv_chat_text text = {0};
        if (render(source->valuestring, conversation, bytes, now, &text))
            answer("error", clv_last_error());
        else
            answer("text", text.text);
        clv_chat_text_free(&text);
        free(conversation);
        cJSON_Delete(source);
    }
    free(line);
    return 0;
}
