#include "context.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_SIZE 2048

void clv_log(clv_context *ctx, uint32_t level, const char *fmt, ...)
{
    if (level > ctx->log_level)
        return;
    char line[LINE_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    for (char *c = line; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    pthread_rwlock_rdlock(&ctx->log_lock);
    if (ctx->log)
        ctx->log(ctx->log_ctx, level, line);
    pthread_rwlock_unlock(&ctx->log_lock);
}
