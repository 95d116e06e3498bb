#include "entry.h"

#include <cleave/plugin_blob.h>

/* Behind it come identity and text, each with its NUL, and the data. */
typedef struct heading {
    char magic[8], kind[16];
    uint64_t identity_size, text_size, size;
    uint64_t checksum; /* of the data */
} heading;

static heading heading_of(const gpu_entry *e, const void *data, uint64_t size)
{
    heading h = {.magic = "clvgpu1",
                 .identity_size = strlen(e->identity) + 1,
                 .text_size = strlen(e->text) + 1,
                 .size = size,
                 .checksum = clv_hash(CLV_HASH_START, data, size)};
    snprintf(h.kind, sizeof h.kind, "%s", e->kind);
    return h;
}

/* "KIND-HASH", of 128 bits. */
static void name_entry(const gpu_entry *e, char out[64])
{
    uint64_t low = clv_hash_text(CLV_HASH_START, e->identity);
    uint64_t high = clv_hash_text(0x9e3779b97f4a7c15u, e->text);
    low = clv_hash_text(low, e->text);
    high = clv_hash_text(high, e->identity);
    snprintf(out, 64, "%.20s-%016llx%016llx", e->kind, (unsigned long long)high,
             (unsigned long long)low);
}

void *gpu_entry_get(const gpu_entry *e, uint64_t *size)
{
    char name[64];
    void *block = NULL;
    uint64_t all = 0;
    name_entry(e, name);
    if (e->host->cache_get(e->host->host, name, &block, &all))
        return NULL;
    heading want = heading_of(e, NULL, 0);
    const uint64_t head = sizeof want + want.identity_size + want.text_size;
    const char *identity = (const char *)block + sizeof want;
    const char *text = identity + want.identity_size;
    if (all >= head) {
        *size = all - head;
        want = heading_of(e, (const char *)block + head, *size);
    }
    if (all < head || memcmp(block, &want, sizeof want) ||
        memcmp(identity, e->identity, want.identity_size) ||
        memcmp(text, e->text, want.text_size)) {
        clv_free(e->host, block);
        return NULL;
    }
    memmove(block, (const char *)block + head, *size);
    ((char *)block)[*size] = 0;
    return block;
}

void gpu_entry_put(const gpu_entry *e, const void *data, uint64_t size)
{
    const heading h = heading_of(e, data, size);
    const uint64_t head = sizeof h + h.identity_size + h.text_size;
    char name[64];
    char *block = e->host->alloc(e->host->host, head + size, 64);
    if (!block)
        return;
    name_entry(e, name);
    memcpy(block, &h, sizeof h);
    memcpy(block + sizeof h, e->identity, h.identity_size);
    memcpy(block + sizeof h + h.identity_size, e->text, h.text_size);
    memcpy(block + head, data, size);
    e->host->cache_put(e->host->host, name, block, head + size);
    clv_free(e->host, block);
}
