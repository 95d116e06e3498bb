#include "ids.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void gpu_id_of(const char *name, char id[GPU_ID_SIZE])
{
    size_t n = 0;
    for (const char *c = name; *c && *c != '(' && n < 40; c++) {
        if (isalnum((unsigned char)*c))
            id[n++] = (char)tolower((unsigned char)*c);
        else if (n && id[n - 1] != '-')
            id[n++] = '-';
    }
    while (n && id[n - 1] == '-')
        n--;
    if (!n)
        id[n++] = 'x';
    id[n] = 0;
}

void gpu_number_ids(char *ids, size_t stride, uint32_t n)
{
    for (uint32_t i = n; i-- > 0;) {
        char *id = ids + i * stride;
        unsigned number = 1;
        for (uint32_t k = 0; k < i; k++)
            number += !strcmp(ids + k * stride, id);
        if (number > 1)
            snprintf(id + strlen(id), 16, ".%u", number);
    }
}
