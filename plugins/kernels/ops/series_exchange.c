#include "ops/series_exchange.h"
#include "ops/series_shape.h"

bool gpu_series_sends(const gpu_step *steps, uint32_t n)
{
    const gpu_step *last = &steps[n - 1];
    const gpu_fused *f = &last->fused;
    if (last->attends || f->n_outs != 1 || f->rope || f->members[0].sets.sets)
        return false;
    const gpu_tensor *out = &f->members[0].out;
    return gpu_series_columns(gpu_step_product(last)) == 1 &&
           out->d.dtype == CLV_DTYPE_F32 && !gpu_is_transposed(out);
}

void gpu_series_add_exchange(gpu_call *call, const char *dst)
{
    static const char *const names[GPU_EXCHANGE_VALUES][2] = {
        {"receive_to_high", "receive_to_low"},
        {"receive_from_high", "receive_from_low"},
        {"receive_bytes_high", "receive_bytes_low"},
        {"receive_word_high", "receive_word_low"},
        {"receive_value_high", "receive_value_low"},
        {"send_to_high", "send_to_low"},
        {"send_word_high", "send_word_low"},
        {"send_value_high", "send_value_low"}};
    for (uint32_t i = 0; i < 2 * GPU_EXCHANGE_VALUES; i++) {
        gpu_expr value = gpu_constant(0);
        value.given = 1 + i;
        gpu_call_param(call, names[i / 2][i % 2], value);
    }
    call->exchanges = true;
    call->sent = dst;
}
