/* Checks on the thread's error message. */
#pragma once

#include <cleave/cleave.h>

#include <string.h>

/* The message is one line and has every part of "a|b|c". */
static inline void assert_message(const char *parts)
{
    const char *message = clv_last_error();
    if (strchr(message, '\n'))
        fail_msg("more than one line: %s", message);
    while (*parts) {
        char part[256];
        size_t n = strcspn(parts, "|");
        memcpy(part, parts, n);
        part[n] = 0;
        parts += n + (parts[n] != 0);
        if (!strstr(message, part))
            fail_msg("no '%s' in: %s", part, message);
    }
}
