#include "history.h"

#include "../base/str.h"

#include <stdlib.h>

clv_status llm_history_init(llm_history *h, uint32_t size)
{
    *h = (llm_history){.size = size};
    if (!size)
        return CLV_OK;
    h->ids = calloc(size, sizeof *h->ids);
    return h->ids ? CLV_OK : llm_no_memory("a sampler");
}

void llm_history_finish(llm_history *h)
{
    free(h->ids);
    *h = (llm_history){0};
}

void llm_history_add(llm_history *h, int32_t id)
{
    if (!h->size)
        return;
    h->ids[h->at] = id;
    h->at = h->at + 1 < h->size ? h->at + 1 : 0;
    if (h->n < h->size)
        h->n++;
}

void llm_history_clear(llm_history *h)
{
    h->at = h->n = 0;
}
