#include "context.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_SIZE 2048

void clv_log(clv_context *ctx, uint32_t level, const char *fmt, ...)
{
    if (!ctx->log || level > ctx->log_level)
        return;
    char line[LINE_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    for (char *c = line; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    ctx->log(ctx->log_ctx, level, line);
}
