/* A config.json: what is accepted is within its bounds. */
#include "../../llm/sources/hf_config.h"

#include <stddef.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    llm_hf_config c;
    if (llm_hf_config_parse(data, size, "config.json", &c))
        return 0;
    const llm_hparams *h = &c.hparams;
    if (!h->n_layers || !h->n_embd || !h->n_ff || !h->n_vocab ||
        !h->n_kv_heads || h->n_heads % h->n_kv_heads || h->head_dim % 2 ||
        h->rope_dim > h->head_dim || !(h->rope_base > 0))
        abort();
    return 0;
}
