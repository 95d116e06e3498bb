#include "chat_template.h"

#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_known(const char *name)
{
    for (uint32_t i = 0; clv_chat_template_name(i); i++)
        if (!strcmp(name, clv_chat_template_name(i)))
            return true;
    return false;
}

clv_status tool_chat_template(const char *given, const clv_tokenizer *tok,
                              clv_chat_template **out)
{
    char *text;
    uint64_t length;
    if (!given || is_known(given) || access(given, F_OK)) {
        clv_status status = clv_chat_template_create(given, tok, out);
        return status && given ? clv_error_prefix(status, "--chat-template")
                               : status;
    }
    clv_status status = tool_read_file(given, &text, &length);
    if (status)
        return status;
    if (strlen(text) != length)
        status = clv_error(CLV_ERR_FORMAT, "it holds a NUL");
    else
        status = clv_chat_template_create(text, tok, out);
    free(text);
    return status ? clv_error_prefix(status, "%s", given) : CLV_OK;
}

clv_status tool_chat_time(int64_t *out)
{
    const char *text = getenv("SOURCE_DATE_EPOCH");
    char *end;
    *out = 0;
    if (!text)
        return CLV_OK;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (!errno && *text && !*end && *out > 0 && *out < INT64_C(1) << 40)
        return CLV_OK;
    return clv_error(CLV_ERR_INVALID,
                     "SOURCE_DATE_EPOCH: '%.40s' is no number of seconds "
                     "since 1970; unset it",
                     text);
}
