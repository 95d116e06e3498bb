#include "untouched.h"

clv_status gpu_note_untouched(const gpu_code *code, clv_program_base *base)
{
    uint8_t *touched = clv_new(base->host, base->n_tensors);
    if (!touched)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < code->n_dispatches; i++) {
        const gpu_dispatch *d = &code->dispatches[i];
        for (uint32_t j = 0; j < code->kernels[d->kernel].n_args; j++)
            if (d->args[j].memory == GPU_MEMORY_TENSOR)
                touched[d->args[j].index] = 1;
    }
    const clv_status status = clv_program_note_untouched(base, touched);
    clv_free(base->host, touched);
    return status;
}
