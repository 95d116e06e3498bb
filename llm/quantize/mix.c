#include "mix.h"

#include <cleave/plugin_format.h>

#include <string.h>
#include <strings.h>

/* What a tensor is for, as far as mixes care. Bits. */
enum {
    OUTPUT = 1u << 0, /* or the embedding that stands for it */
    EMBEDDING = 1u << 1,
    QUERY = 1u << 2,
    KEY = 1u << 3,
    VALUE = 1u << 4, /* also of all three in one */
    ATTN_OUTPUT = 1u << 5,
    FFN_DOWN = 1u << 6,
    FFN_OTHER = 1u << 7,
    OTHER = 1u << 8,

    ATTENTION = QUERY | KEY | VALUE | ATTN_OUTPUT,
    FFN = FFN_DOWN | FFN_OTHER,
};

typedef enum condition {
    ALWAYS,
    FIRST_2, /* the first layers */
    FIRST_4,
    FIRST_16TH, /* this part of the layers */
    FIRST_8TH,
    SELECTED,     /* the first and last eighths, and a third of the others */
    SHARED_HEADS, /* at least 4 query heads to one of keys */
    EIGHT_EXPERTS,
} condition;

struct llm_mix_rule {
    uint32_t roles;
    condition when;
    llm_target target;
};

#define TYPE(name)                                                             \
    {                                                                          \
        CLV_DTYPE_##name, CLV_QUANT_NONE, 0                                    \
    }
#define CHANNELS(name)                                                         \
    {                                                                          \
        CLV_DTYPE_##name, CLV_QUANT_PER_CHANNEL, 0                             \
    }
#define END                                                                    \
    {                                                                          \
        0, ALWAYS,                                                             \
        {                                                                      \
            0, 0, 0                                                            \
        }                                                                      \
    }

/* clang-format off */
static const llm_mix_rule q2_k[] = {
    {VALUE, SHARED_HEADS, TYPE(Q4_K)},
    {VALUE | FFN_DOWN, ALWAYS, TYPE(Q3_K)},
    {ATTN_OUTPUT, EIGHT_EXPERTS, TYPE(Q5_K)},
    {ATTN_OUTPUT, ALWAYS, TYPE(Q3_K)},
    END,
};
static const llm_mix_rule q3_k_s[] = {
    {ATTN_OUTPUT, EIGHT_EXPERTS, TYPE(Q5_K)},
    END,
};
static const llm_mix_rule q3_k_m[] = {
    {VALUE, FIRST_2, TYPE(Q5_K)},
    {FFN_DOWN, FIRST_16TH, TYPE(Q5_K)},
    {ATTN_OUTPUT, EIGHT_EXPERTS, TYPE(Q5_K)},
    {VALUE | FFN_DOWN | ATTN_OUTPUT, ALWAYS, TYPE(Q4_K)},
    END,
};
static const llm_mix_rule q3_k_l[] = {
    {ATTN_OUTPUT, EIGHT_EXPERTS, TYPE(Q3_K)},
    {VALUE | FFN_DOWN | ATTN_OUTPUT, ALWAYS, TYPE(Q5_K)},
    END,
};
static const llm_mix_rule q4_k_s[] = {
    {VALUE, FIRST_4, TYPE(Q5_K)},
    {FFN_DOWN, FIRST_8TH, TYPE(Q5_K)},
    {ATTN_OUTPUT, EIGHT_EXPERTS, TYPE(Q5_K)},
    END,
};
static const llm_mix_rule q4_k_m[] = {
    {VALUE | FFN_DOWN, SELECTED, TYPE(Q6_K)},
    {ATTN_OUTPUT, EIGHT_EXPERTS, TYPE(Q5_K)},
    END,
};
static const llm_mix_rule q5_k_m[] = {
    {VALUE | FFN_DOWN, SELECTED, TYPE(Q6_K)},
    END,
};
static const llm_mix_rule iq4[] = {
    {VALUE, SHARED_HEADS, TYPE(Q5_K)},
    {FFN_DOWN, FIRST_8TH, TYPE(Q5_K)},
    {ATTN_OUTPUT, EIGHT_EXPERTS, TYPE(Q5_K)},
    END,
};
/* Reading rows of the table costs little, their errors have the largest
 * effect. */
static const llm_mix_rule w4a16[] = {
    {EMBEDDING | OUTPUT, ALWAYS, CHANNELS(I8)},
    END,
};
static const llm_mix_rule q844[] = {
    {ATTENTION, ALWAYS, CHANNELS(I8)},
    END,
};

/* The usual mix of a type stands before its others. */
static const llm_mix mixes[] = {
    {"F32", "32-bit floats", 0, TYPE(F32), NULL, 0},
    {"F16", "16-bit floats", 1, TYPE(F16), NULL, 0},
    {"BF16", "16-bit floats with the range of F32", 32, TYPE(BF16), NULL, 0},
    {"Q8_0", "8.5 bits, blocks of 32", 7, TYPE(Q8_0), NULL, 0},
    {"Q6_K", "6.6 bits, blocks of 256", 18, TYPE(Q6_K), NULL, 0},
    {"Q5_K_M", "5.7 bits", 17, TYPE(Q5_K), q5_k_m, 0},
    {"Q5_K_S", "5.5 bits", 16, TYPE(Q5_K), NULL, 0},
    {"Q5_1", "6 bits, blocks of 32 with minimums", 9, TYPE(Q5_1), NULL, 0},
    {"Q5_0", "5.5 bits, blocks of 32", 8, TYPE(Q5_0), NULL, 0},
    {"Q4_K_M", "4.8 bits", 15, TYPE(Q4_K), q4_k_m, 0},
    {"Q4_K_S", "4.6 bits", 14, TYPE(Q4_K), q4_k_s, 0},
    {"Q4_1", "5 bits, blocks of 32 with minimums", 3, TYPE(Q4_1), NULL, 0},
    {"Q4_0", "4.5 bits, blocks of 32", 2, TYPE(Q4_0), NULL, 0},
    {"IQ4_NL", "4.5 bits of uneven levels, blocks of 32", 25, TYPE(IQ4_NL),
     iq4, 0},
    {"IQ4_XS", "4.25 bits of uneven levels", 30, TYPE(IQ4_XS), iq4, 0},
    {"Q3_K_M", "3.9 bits", 12, TYPE(Q3_K), q3_k_m, 0},
    {"Q3_K_L", "4.3 bits", 13, TYPE(Q3_K), q3_k_l, 0},
    {"Q3_K_S", "3.5 bits", 11, TYPE(Q3_K), q3_k_s, 0},
    {"Q2_K", "3 bits", 10, TYPE(Q2_K), q2_k, 0},
    {"q8", "int8, a scale an output channel", 0, CHANNELS(I8), NULL, 0},
    {"8/4/4", "int8 in attention, else int4, a scale an output channel", 0,
     CHANNELS(I4), q844, 0},
    {"w4a16", "int4, a scale an output channel; embedding int8", 0,
     CHANNELS(I4), w4a16, 0},
    {"w4a16_g128", "int4, a scale 128 weights; embedding int8", 0,
     {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 128}, w4a16, 0},
    {"w4a16_g32", "int4, a scale 32 weights; embedding int8", 0,
     {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 32}, w4a16, 0},
    {"w8a8", "int8, a scale a matrix, and activations by --calibrate", 0,
     {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 0}, NULL, 1},
};
/* clang-format on */
enum { N_MIXES = sizeof mixes / sizeof mixes[0] };

const llm_mix *llm_mix_at(uint32_t i)
{
    return i < N_MIXES ? &mixes[i] : NULL;
}

const llm_mix *llm_mix_of(uint32_t dtype)
{
    for (uint32_t i = 0; i < N_MIXES; i++)
        if (mixes[i].base.dtype == dtype && !mixes[i].base.quant)
            return &mixes[i];
    return NULL;
}

clv_status llm_mix_find(const char *name, const llm_mix **out)
{
    char names[320] = "";
    for (uint32_t i = 0; i < N_MIXES; i++) {
        *out = &mixes[i];
        if (!strcasecmp(name, mixes[i].name))
            return CLV_OK;
        llm_list_add(names, sizeof names, mixes[i].name);
    }
    *out = llm_mix_of(clv_dtype_parse(name));
    if (*out)
        return CLV_OK;
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "'%s' is not a type to quantise to; choose one of %s",
                     name, names);
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                  */

static bool has(llm_str name, const char *part)
{
    const size_t n = strlen(part);
    for (size_t i = 0; i + n <= name.size; i++)
        if (!memcmp(name.data + i, part, n))
            return true;
    return false;
}

static uint32_t role_of(llm_str name, bool tied)
{
    static const struct {
        const char *part;
        uint32_t role;
    } parts[] = {
        {"attn_qkv.", VALUE},
        {"attn_v.", VALUE},
        {"attn_k.", KEY},
        {"attn_q.", QUERY},
        {"attn_output.", ATTN_OUTPUT},
        {"ffn_down", FFN_DOWN},
        {"ffn_", FFN_OTHER},
    };
    if (llm_str_equal(name, llm_str_of("output.weight")))
        return OUTPUT;
    if (llm_str_equal(name, llm_str_of("token_embd.weight")))
        return tied ? OUTPUT : EMBEDDING;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (has(name, parts[i].part))
            return parts[i].role;
    return OTHER;
}

/* Of "blk.N.", else 0. */
static uint32_t layer_of(llm_str name)
{
    uint32_t layer = 0;
    if (name.size < 5 || memcmp(name.data, "blk.", 4) != 0)
        return 0;
    for (size_t i = 4; i < name.size && name.data[i] != '.'; i++)
        if (name.data[i] >= '0' && name.data[i] <= '9' && layer < 1000000)
            layer = layer * 10 + (uint32_t)(name.data[i] - '0');
    return layer;
}

static bool holds(condition when, const llm_mix_model *m, uint32_t layer)
{
    const uint32_t n = m->n_layers, eighth = n / 8;
    switch (when) {
    case ALWAYS:
        return true;
    case FIRST_2:
        return layer < 2;
    case FIRST_4:
        return layer < 4;
    case FIRST_16TH:
        return layer < n / 16;
    case FIRST_8TH:
        return layer < eighth;
    case SELECTED:
        return layer < eighth || layer >= 7 * n / 8 ||
               (layer - eighth) % 3 == 2;
    case SHARED_HEADS:
        return m->n_kv_heads && m->n_heads / m->n_kv_heads >= 4;
    case EIGHT_EXPERTS:
        return m->n_experts == 8;
    }
    return false;
}

/* Of all mixes of blocks. */
static llm_target adjust(llm_target target, const llm_mix *mix,
                         const llm_mix_model *m, uint32_t role)
{
    const llm_target q8_0 = TYPE(Q8_0), q6_k = TYPE(Q6_K), q5_k = TYPE(Q5_K);
    const bool few_bits =
        target.dtype == CLV_DTYPE_Q3_K || target.dtype == CLV_DTYPE_Q4_K;
    if (!clv_format_is(mix->base.dtype, CLV_FORMAT_BLOCK))
        return target;
    if (role == OUTPUT && mix->base.dtype != CLV_DTYPE_Q8_0)
        return q6_k;
    if (role & (KEY | VALUE) && holds(EIGHT_EXPERTS, m, 0))
        return q8_0;
    /* One key head for 8 queries: these matrices are small. */
    if (role == VALUE && few_bits && m->n_layers == 80 &&
        m->n_heads != m->n_kv_heads)
        return q5_k;
    return target;
}

/* For rows that are not whole blocks, and integers where they cannot be. */
static uint32_t fallback(uint32_t dtype)
{
    switch (dtype) {
    case CLV_DTYPE_Q2_K:
    case CLV_DTYPE_Q3_K:
    case CLV_DTYPE_I4:
        return CLV_DTYPE_Q4_0;
    case CLV_DTYPE_Q4_K:
        return CLV_DTYPE_Q5_0;
    case CLV_DTYPE_Q5_K:
        return CLV_DTYPE_Q5_1;
    case CLV_DTYPE_Q6_K:
    case CLV_DTYPE_I8:
        return CLV_DTYPE_Q8_0;
    case CLV_DTYPE_IQ4_XS:
        return CLV_DTYPE_IQ4_NL;
    default:
        return CLV_DTYPE_F16;
    }
}

llm_target llm_target_fit(llm_target target, uint32_t rank, int64_t columns)
{
    if (target.quant && rank > 2)
        target = (llm_target){fallback(target.dtype), CLV_QUANT_NONE, 0};
    if (target.quant == CLV_QUANT_PER_GROUP && columns % target.group)
        target = (llm_target){target.dtype, CLV_QUANT_PER_CHANNEL, 0};
    while (columns % clv_format_of(target.dtype)->elements)
        target = (llm_target){fallback(target.dtype), CLV_QUANT_NONE, 0};
    return target;
}

llm_target llm_mix_target(const llm_mix *mix, const llm_mix_model *model,
                          llm_str name, uint32_t rank, int64_t columns)
{
    const uint32_t role = role_of(name, model->tied);
    llm_target target = mix->base;
    /* Expert routers decide by small differences. */
    if (rank < 2 || has(name, "ffn_gate_inp.weight") ||
        has(name, "_norm.weight"))
        return (llm_target)TYPE(F32);
    for (const llm_mix_rule *r = mix->rules; r && r->roles; r++) {
        if (r->roles & role && holds(r->when, model, layer_of(name))) {
            target = r->target;
            break;
        }
    }
    target = adjust(target, mix, model, role);
    /* One expert for all tokens: products see it as experts of one. */
    return llm_target_fit(target, has(name, "_shexp.") ? 3 : rank, columns);
}
