/* Text that grows, in host memory. */
#pragma once

#include <cleave/plugin_util.h>

#include <stdbool.h>

typedef struct gpu_text {
    const clv_host_api *host;
    char *data; /* NUL-terminated; NULL while empty */
    size_t n, capacity;
    bool failed; /* out of memory; what follows is dropped */
} gpu_text;

void gpu_put(gpu_text *text, const char *data, size_t n);
void gpu_puts(gpu_text *text, const char *string);
__attribute__((format(printf, 2, 3))) void gpu_printf(gpu_text *text,
                                                      const char *format, ...);
/* Takes back what another text defines, by an #undef of each of its macros. */
void gpu_put_undefined(gpu_text *text, const char *other);
void gpu_text_free(gpu_text *text);
