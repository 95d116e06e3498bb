#include "language.h"
#include "formats.h"

static const char opencl_c[] =
    "#define f32 float\n"
    "#define f32x4 float4\n"
    "#define f32x4_of(a, b, c, d) ((float4)(a, b, c, d))\n"
    "#define f32x4_all(a) ((float4)(a))\n"
    "#define u32x4 uint4\n"
    "#define u32x4_of(a, b, c, d) ((uint4)(a, b, c, d))\n"
    "#define place size_t\n"
    "#define PLACE(x) ((size_t)(uint)(x))\n"
    "#define F32(x) ((float)(x))\n"
    "#define INT(x) ((int)(x))\n"
    "#define UINT(x) ((uint)(x))\n"
    "#define bits_f32(u) as_float(u)\n"
    "#define f32_bits(f) as_uint(f)\n"
    "#define GLOBAL_ID(i) ((int)get_global_id(i))\n"
    "#define LOCAL_ID(i) ((int)get_local_id(i))\n"
    "#define GROUP_ID(i) ((int)get_group_id(i))\n"
    "#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)\n"
    "#define LOCAL_ADD(to, n) atomic_add((volatile __local int *)&(to), n)\n"
    "#define MEM(t) t##_MEM\n" /* first in calls of the accessors */
    "#define exp_f32(x) exp(x)\n"
    "#define sqrt_f32(x) sqrt(x)\n"
    "#define tanh_f32(x) tanh(x)\n"
    "#define sin_cos(x, s, c) s = sincos(x, &c)\n"
    "#define QUAD_F32(q) as_float4(q)\n"
    "#define IN_REGISTERS _Pragma(\"unroll\")\n";

static const char glsl[] =
    "#define f32 float\n"
    "#define f32x4 vec4\n"
    "#define f32x4_of(a, b, c, d) vec4(a, b, c, d)\n"
    "#define f32x4_all(a) vec4(a)\n"
    "#define u32x4 uvec4\n"
    "#define u32x4_of(a, b, c, d) uvec4(a, b, c, d)\n"
    "#define place uint\n"
    "#define PLACE(x) uint(x)\n"
    "#define F32(x) float(x)\n"
    "#define INT(x) int(x)\n"
    "#define UINT(x) uint(x)\n"
    "#define bits_f32(u) uintBitsToFloat(uint(u))\n"
    "#define f32_bits(f) floatBitsToUint(f)\n"
    "#define GLOBAL_ID(i) int(gl_GlobalInvocationID[i])\n"
    "#define LOCAL_ID(i) int(gl_LocalInvocationID[i])\n"
    "#define GROUP_ID(i) int(gl_WorkGroupID[i])\n"
    "#define BARRIER barrier()\n"
    "#define LOCAL_ADD(to, n) atomicAdd(to, n)\n"
    "#define MEM(t)\n"
    "#define exp_f32(x) exp(x)\n"
    "#define sqrt_f32(x) sqrt(x)\n"
    "#define QUAD_F32(q) uintBitsToFloat(q)\n"
    "#define IN_REGISTERS\n"
    /* Near 0, where the quotient of exponentials has no digits left, by the
     * series; past 10 it is 1 in f32. What min makes of NaN is anybody's
     * guess. */
    "f32 tanh_f32(f32 v)\n"
    "{\n"
    "    f32 z = v * v;\n"
    "    if (z < 0.0625f)\n"
    "        return v * (1.0f - z * (0.333333333f - z * (0.133333333f -\n"
    "               z * (0.053968254f - z * 0.021869489f))));\n"
    "    if (abs(v) > 10.0f)\n"
    "        return v < 0.0f ? -1.0f : 1.0f;\n"
    "    f32 e = exp(-2.0f * abs(v));\n"
    "    return (v < 0.0f ? -1.0f : 1.0f) * (1.0f - e) / (1.0f + e);\n"
    "}\n"
    /* Quarter turns are taken off in three parts that k multiplies exactly;
     * the built-in functions promise nothing outside -pi..pi. */
    "void sin_cos_of(f32 x, out f32 s, out f32 c)\n"
    "{\n"
    "    precise f32 k = floor(x * 0.636619772f + 0.5f);\n"
    "    precise f32 r = x - k * 1.5703125f;\n"
    "    r = r - k * 4.837512969970703125e-4f;\n"
    "    r = r - k * 7.549789948768648e-8f;\n"
    "    f32 z = r * r;\n"
    "    f32 a = r + r * z * (-1.6666654611e-1f + z * (8.3321608736e-3f -\n"
    "            z * 1.9515295891e-4f));\n"
    "    f32 b = 1.0f - 0.5f * z + z * z * (4.166664568298827e-2f +\n"
    "            z * (-1.388731625493765e-3f + z * 2.443315711809948e-5f));\n"
    "    int q = int(k) & 3;\n"
    "    s = (q & 1) != 0 ? b : a;\n"
    "    c = (q & 1) != 0 ? a : b;\n"
    "    s = (q & 2) != 0 ? -s : s;\n"
    "    c = q == 1 || q == 2 ? -c : c;\n"
    "}\n"
    "#define sin_cos(x, s, c) sin_cos_of(x, s, c)\n";

/* Conversions by bits: drivers may flush subnormal numbers and round as they
 * like, and not all have the types. */
static const char common[] =
    "f32 half_f32(uint h)\n"
    "{\n"
    "    uint sign = (h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 1023u;\n"
    "    if (e == 0u) {\n"
    "        f32 tiny = F32(m) * 5.9604644775390625e-8f;\n"
    "        return sign != 0u ? -tiny : tiny;\n"
    "    }\n"
    "    e = e == 31u ? 255u : e + 112u;\n"
    "    return bits_f32(sign | (e << 23) | (m << 13));\n"
    "}\n"
    "uint f32_half(f32 x)\n"
    "{\n"
    "    uint u = f32_bits(x), a = u & 0x7fffffffu, sign = (u >> 16) & "
    "0x8000u;\n"
    "    if (a > 0x7f800000u)\n"
    "        return sign | 0x7e00u;\n"
    "    if (a >= 0x47800000u)\n"
    "        return sign | 0x7c00u;\n"
    "    if (a >= 0x38800000u)\n"
    "        return sign | ((a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> "
    "13);\n"
    "    uint e = a >> 23, m = (a & 0x7fffffu) | 0x800000u, shift = 126u - e;\n"
    "    if (e < 102u)\n"
    "        return sign;\n"
    "    uint h = m >> shift, rest = m & ((1u << shift) - 1u);\n"
    "    uint middle = 1u << (shift - 1u);\n"
    "    if (rest > middle || (rest == middle && (h & 1u) != 0u))\n"
    "        h++;\n"
    "    return sign | h;\n"
    "}\n"
    "#define bf16_f32(h) bits_f32((h) << 16)\n"
    "uint f32_bf16(f32 x)\n"
    "{\n"
    "    uint u = f32_bits(x);\n"
    "    if ((u & 0x7fffffffu) > 0x7f800000u)\n"
    "        return (u >> 16) | 0x40u;\n"
    "    return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;\n"
    "}\n"
    "f32 silu_f32(f32 x) { return x / (1.0f + exp_f32(-x)); }\n"
    "f32 gelu_f32(f32 x)\n"
    "{\n"
    "    f32 z = 1.5957691216057308f * (x + 0.044715f * x * x * x);\n"
    "    return x / (1.0f + exp_f32(-z));\n"
    "}\n"
    "f32 sigmoid_f32(f32 x) { return 1.0f / (1.0f + exp_f32(-x)); }\n"
    "f32 softcap_f32(f32 x, f32 cap) { return cap * tanh_f32(x / cap); }\n"
    "f32 excess_f32(f32 x, f32 limit)\n"
    "{\n"
    "    return x - min(max(x, -limit), limit);\n"
    "}\n"
    "f32x4 excess4(f32x4 v, f32 limit)\n"
    "{\n"
    "    return f32x4_of(excess_f32(v.x, limit), excess_f32(v.y, limit),\n"
    "                    excess_f32(v.z, limit), excess_f32(v.w, limit));\n"
    "}\n"
    "f32x4 sigmoid4(f32x4 v)\n"
    "{\n"
    "    return f32x4_of(sigmoid_f32(v.x), sigmoid_f32(v.y), "
    "sigmoid_f32(v.z),\n"
    "                    sigmoid_f32(v.w));\n"
    "}\n"
    "f32x4 softcap4(f32x4 v, f32 cap)\n"
    "{\n"
    "    return f32x4_of(softcap_f32(v.x, cap), softcap_f32(v.y, cap),\n"
    "                    softcap_f32(v.z, cap), softcap_f32(v.w, cap));\n"
    "}\n"
    "f32x4 silu4(f32x4 v)\n"
    "{\n"
    "    return f32x4_of(silu_f32(v.x), silu_f32(v.y), silu_f32(v.z), "
    "silu_f32(v.w));\n"
    "}\n"
    "f32x4 gelu4(f32x4 v)\n"
    "{\n"
    "    return f32x4_of(gelu_f32(v.x), gelu_f32(v.y), gelu_f32(v.z), "
    "gelu_f32(v.w));\n"
    "}\n";

static bool reads_images(const gpu_call *call)
{
    for (uint32_t i = 0; i < call->n_operands; i++)
        if (!call->operands[i].written &&
            gpu_language_is_image(&call->operands[i]))
            return true;
    return false;
}

void gpu_language_prelude(gpu_text *out, const gpu_target *target,
                          const gpu_call *call)
{
    const bool subgroups = call->subgroups;
    if (target->language == GPU_GLSL) {
        gpu_puts(out, "#version 450\n");
        if (target->fp16_storage)
            gpu_puts(out, "#extension GL_EXT_shader_16bit_storage : require\n");
        if (target->int_dot)
            gpu_puts(out, "#extension GL_EXT_spirv_intrinsics : require\n");
        if (reads_images(call))
            gpu_puts(out, "#extension GL_EXT_samplerless_texture_functions : "
                          "require\n");
        if (subgroups)
            gpu_puts(
                out,
                "#extension GL_KHR_shader_subgroup_basic : require\n"
                "#extension GL_KHR_shader_subgroup_arithmetic : require\n");
        gpu_puts(out, glsl);
    } else {
        gpu_puts(out, opencl_c);
    }
    gpu_language_reductions(out, subgroups);
    gpu_puts(out, common);
}

/* ------------------------------------------------------------------------ */
/* Operands                                                                  */

void gpu_language_named(gpu_text *out, const char *text, const char *name)
{
    for (const char *end; *text; text = end) {
        end = text + strcspn(text, "$");
        gpu_put(out, text, (size_t)(end - text));
        if (*end) {
            gpu_puts(out, name);
            end++;
        }
    }
}

static const char opencl_reading[] =
    "#define $_ARG __global const uchar *$,\n"
    "#define $_MEM $,\n"
    "#define $_QUAD(at) (*(__global const uint4 *)($ + (at)))\n"
    "#define $_WORD(at) (*(__global const uint *)($ + (at)))\n"
    "#define $_HALF(at) ((uint)*(__global const ushort *)($ + (at)))\n"
    "#define $_BYTE(at) ((uint)$[at])\n";

static const char opencl_writing[] =
    "#define $_ARG __global uchar *$,\n"
    "#define $_MEM $,\n"
    "#define $_QUAD(at) (*(__global const uint4 *)($ + (at)))\n"
    "#define $_WORD(at) (*(__global const uint *)($ + (at)))\n"
    "#define $_HALF(at) ((uint)*(__global const ushort *)($ + (at)))\n"
    "#define $_BYTE(at) ((uint)$[at])\n"
    "#define $_SET_WORD(at, v) *(__global uint *)($ + (at)) = v\n"
    "#define $_SET_HALF(at, v) *(__global ushort *)($ + (at)) = (ushort)(v)\n";

static const char glsl_reading[] =
    "#define $_ARG\n"
    "#define $_QUAD(at) $_q[(at) >> 4]\n"
    "#define $_WORD(at) $_w[(at) >> 2]\n"
    "#define $_BYTE(at) (($_w[(at) >> 2] >> (((at) & 3u) << 3)) & 0xffu)\n";

static const char glsl_halves[] =
    "#define $_HALF(at) (($_w[(at) >> 2] >> (((at) & 2u) << 3)) & 0xffffu)\n";

static const char glsl_halves_16[] =
    "#define $_HALF(at) uint($_h[(at) >> 1])\n";

/* Without 16-bit elements each invocation changes its own bits of a word. */
static const char glsl_writing[] =
    "#define $_SET_WORD(at, v) $_w[(at) >> 2] = v\n"
    "void $_SET_HALF(uint at, uint v)\n"
    "{\n"
    "    uint shift = (at & 2u) << 3;\n"
    "    atomicAnd($_w[at >> 2], ~(0xffffu << shift));\n"
    "    atomicOr($_w[at >> 2], v << shift);\n"
    "}\n";

static const char glsl_writing_16[] =
    "#define $_SET_WORD(at, v) $_w[(at) >> 2] = v\n"
    "#define $_SET_HALF(at, v) $_h[(at) >> 1] = uint16_t(v)\n";

/* An element of the row that begins at a place. */
static const char *getter(uint32_t dtype)
{
    switch (dtype) {
    case CLV_DTYPE_F32:
        return "f32 $_get($_ARG place row, place c)\n"
               "{ return bits_f32($_WORD(row + c * 4u)); }\n";
    case CLV_DTYPE_I32:
        return "int $_get($_ARG place row, place c)\n"
               "{ return INT($_WORD(row + c * 4u)); }\n";
    case CLV_DTYPE_F16:
        return "f32 $_get($_ARG place row, place c)\n"
               "{ return half_f32($_HALF(row + c * 2u)); }\n";
    case CLV_DTYPE_BF16:
        return "f32 $_get($_ARG place row, place c)\n"
               "{ return bf16_f32($_HALF(row + c * 2u)); }\n";
    }
    return "";
}

/* Of weights: by the words of their format, without scales that are a tensor of
 * their own. */
static const char integer_getter[] =
    "f32 $_get($_ARG place row, place c)\n"
    "{\n"
    "    place block = row + c / BLOCK * BLOCK_BYTES;\n"
    "    f32 value = F32(INTEGER($_BYTE, block, c));\n"
    "#ifdef SCALE_AT\n"
    "    value *= SCALE_AT($_HALF, block, c);\n"
    "#endif\n"
    "#ifdef MINIMUM_AT\n"
    "    value += MINIMUM_AT($_HALF, block, c);\n"
    "#endif\n"
    "    return value;\n"
    "}\n";

static const char reader[] = "f32x4 $_read($_ARG place row, int c, int left)\n"
                             "{\n"
                             "    f32x4 v = f32x4_all(0.0f);\n"
                             "    if (left > 0)\n"
                             "        v.x = $_get(MEM($) row, PLACE(c));\n"
                             "    if (left > 1)\n"
                             "        v.y = $_get(MEM($) row, PLACE(c + 1));\n"
                             "    if (left > 2)\n"
                             "        v.z = $_get(MEM($) row, PLACE(c + 2));\n"
                             "    if (left > 3)\n"
                             "        v.w = $_get(MEM($) row, PLACE(c + 3));\n"
                             "    return v;\n"
                             "}\n";

static const char *setter(uint32_t dtype)
{
    switch (dtype) {
    case CLV_DTYPE_F32:
        return "void $_put($_ARG place row, place c, f32 v)\n"
               "{ $_SET_WORD(row + c * 4u, f32_bits(v)); }\n";
    case CLV_DTYPE_F16:
        return "void $_put($_ARG place row, place c, f32 v)\n"
               "{ $_SET_HALF(row + c * 2u, f32_half(v)); }\n";
    case CLV_DTYPE_BF16:
        return "void $_put($_ARG place row, place c, f32 v)\n"
               "{ $_SET_HALF(row + c * 2u, f32_bf16(v)); }\n";
    }
    return "";
}

static const char writer[] =
    "void $_write($_ARG place row, int c, int left, f32x4 v)\n"
    "{\n"
    "    if (left > 0)\n"
    "        $_put(MEM($) row, PLACE(c), v.x);\n"
    "    if (left > 1)\n"
    "        $_put(MEM($) row, PLACE(c + 1), v.y);\n"
    "    if (left > 2)\n"
    "        $_put(MEM($) row, PLACE(c + 2), v.z);\n"
    "    if (left > 3)\n"
    "        $_put(MEM($) row, PLACE(c + 3), v.w);\n"
    "}\n";

static const char scatterer[] =
    "void $_scatter($_ARG place row, place step, int c, int left, f32x4 v)\n"
    "{\n"
    "    place at = row + PLACE(c) * step;\n"
    "    if (left > 0)\n"
    "        $_put(MEM($) at, PLACE(0), v.x);\n"
    "    if (left > 1)\n"
    "        $_put(MEM($) at + step, PLACE(0), v.y);\n"
    "    if (left > 2)\n"
    "        $_put(MEM($) at + step * PLACE(2), PLACE(0), v.z);\n"
    "    if (left > 3)\n"
    "        $_put(MEM($) at + step * PLACE(3), PLACE(0), v.w);\n"
    "}\n";

static const char loader[] =
    "f32x4 $_load($_ARG place at)\n"
    "{\n"
    "    return f32x4_of(bits_f32($_WORD(at)), bits_f32($_WORD(at + 4u)),\n"
    "                    bits_f32($_WORD(at + 8u)), bits_f32($_WORD(at + "
    "12u)));\n"
    "}\n";

void gpu_language_words(gpu_text *out, const gpu_target *target,
                        const gpu_operand *operand)
{
    const char *name = operand->name;
    const bool halves = target->fp16_storage;
    if (target->language == GPU_GLSL) {
        gpu_language_named(out, glsl_reading, name);
        gpu_language_named(out, halves ? glsl_halves_16 : glsl_halves, name);
        if (operand->written)
            gpu_language_named(out, halves ? glsl_writing_16 : glsl_writing,
                               name);
    } else {
        gpu_language_named(
            out, operand->written ? opencl_writing : opencl_reading, name);
    }
}

void gpu_language_accessors(gpu_text *out, const gpu_target *target,
                            const gpu_operand *operand)
{
    const char *name = operand->name;
    if (operand->sliced) {
        gpu_language_slices(out, target, operand);
        return;
    }
    gpu_language_words(out, target, operand);
    if (operand->weights)
        gpu_put_format(out, operand->dtype);
    const char *get = gpu_is_integers(operand->dtype)
                          ? operand->weights ? integer_getter : ""
                          : getter(operand->dtype);
    gpu_language_named(out, get, name);
    if (*get && operand->dtype != CLV_DTYPE_I32)
        gpu_language_named(out, reader, name);
    if (operand->dtype == CLV_DTYPE_F32)
        gpu_language_named(out, loader, name);
    if (operand->written) {
        const char *set = setter(operand->dtype);
        gpu_language_named(out, set, name);
        if (*set)
            gpu_language_named(out, operand->packed ? writer : scatterer, name);
    }
}
