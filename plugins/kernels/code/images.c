/* Operands in slices: their declarations, and the functions that read and write
 * four channels of them, of object at_n where there are several. */
#include "language.h"

typedef struct image_words {
    const char *opencl, *opencl_at, *glsl, *glsl_at, *level;
} image_words;

static const image_words *words_of(uint32_t storage)
{
    static const image_words words[] = {
        [CLV_STORAGE_IMAGE_BUFFER] = {"image1d_buffer_t", "at_x", "Buffer",
                                      "at_x", ""},
        [CLV_STORAGE_TEXTURE_2D] = {"image2d_t", "(int2)(at_x, at_y)", "2D",
                                    "ivec2(at_x, at_y)", ", 0"},
        [CLV_STORAGE_TEXTURE_ARRAY] = {"image2d_array_t",
                                       "(int4)(at_x, at_y, at_z, 0)", "2DArray",
                                       "ivec3(at_x, at_y, at_z)", ", 0"},
        [CLV_STORAGE_TEXTURE_3D] = {"image3d_t", "(int4)(at_x, at_y, at_z, 0)",
                                    "3D", "ivec3(at_x, at_y, at_z)", ", 0"},
    };
    return &words[storage];
}

bool gpu_language_is_image(const gpu_operand *t)
{
    return t->sliced && t->storage != CLV_STORAGE_BUFFER;
}

void gpu_language_object(gpu_text *out, const gpu_operand *t, uint32_t k)
{
    if (gpu_objects(t) > 1)
        gpu_printf(out, "%s_%u", t->name, (unsigned)k);
    else
        gpu_puts(out, t->name);
}

void gpu_language_argument(gpu_text *out, const gpu_operand *t, bool apart)
{
    if (!gpu_language_is_image(t)) {
        gpu_printf(out, "__global %suchar *%s%s", t->written ? "" : "const ",
                   apart ? "restrict " : "", t->name);
        return;
    }
    for (uint32_t k = 0; k < gpu_objects(t); k++) {
        gpu_printf(out, "%s%s %s ", k ? ", " : "",
                   t->written ? "__write_only" : "__read_only",
                   words_of(t->storage)->opencl);
        gpu_language_object(out, t, k);
    }
}

static void put_image_binding(gpu_text *out, const gpu_operand *t, uint32_t i)
{
    for (uint32_t k = 0; k < gpu_objects(t); k++) {
        gpu_printf(
            out, "layout(binding = %u%s) uniform %s%s%s%s ", (unsigned)(i + k),
            !t->written                 ? ""
            : t->dtype == CLV_DTYPE_F16 ? ", rgba16f"
            : t->dtype == CLV_DTYPE_I32 ? ", rgba32ui"
                                        : ", rgba32f",
            t->written ? "writeonly " : "",
            t->dtype == CLV_DTYPE_I32 ? "u" : "",
            t->written ? "image" : "texture", words_of(t->storage)->glsl);
        gpu_language_object(out, t, k);
        gpu_puts(out, ";\n");
    }
}

void gpu_language_binding(gpu_text *out, const gpu_target *target,
                          const gpu_operand *t, uint32_t i)
{
    const char *access = t->written ? "" : "readonly ", *name = t->name;
    if (gpu_language_is_image(t)) {
        put_image_binding(out, t, i);
        return;
    }
    gpu_printf(out,
               "layout(std430, binding = %u) %sbuffer %s_words "
               "{ uint %s_w[]; };\n",
               i, access, name, name);
    if ((t->memory == GPU_MEMORY_PRIVATE || t->quads) && !t->written)
        gpu_printf(out,
                   "layout(std430, binding = %u) readonly buffer %s_quads "
                   "{ uvec4 %s_q[]; };\n",
                   i, name, name);
    if (target->fp16_storage)
        gpu_printf(out,
                   "layout(std430, binding = %u) %sbuffer %s_halves "
                   "{ uint16_t %s_h[]; };\n",
                   i, access, name, name);
}

/* ------------------------------------------------------------------------ */

/* What there is to call the accessors of an image with, in OpenCL C. */
static void put_image_words(gpu_text *out, const gpu_operand *t)
{
    if (t->written && t->storage == CLV_STORAGE_TEXTURE_3D)
        gpu_puts(out, "#ifdef cl_khr_3d_image_writes\n"
                      "#pragma OPENCL EXTENSION cl_khr_3d_image_writes : "
                      "enable\n"
                      "#endif\n");
    gpu_printf(out, "#define %s_ARG ", t->name);
    gpu_language_argument(out, t, false);
    gpu_printf(out, ",\n#define %s_MEM ", t->name);
    for (uint32_t k = 0; k < gpu_objects(t); k++) {
        gpu_language_object(out, t, k);
        gpu_puts(out, ", ");
    }
    gpu_puts(out, "\n");
}

/* A texel of object k. */
static void put_texel(gpu_text *out, bool opencl, const gpu_operand *t,
                      uint32_t k)
{
    const image_words *w = words_of(t->storage);
    gpu_puts(out, t->written ? "" : "return ");
    if (opencl)
        gpu_printf(out, "%s_image%s(", t->written ? "write" : "read",
                   t->dtype == CLV_DTYPE_I32 ? "ui" : "f");
    else
        gpu_puts(out, t->written ? "imageStore(" : "texelFetch(");
    gpu_language_object(out, t, k);
    gpu_printf(out, ", %s%s);\n", opencl ? w->opencl_at : w->glsl_at,
               t->written ? ", v"
               : opencl   ? ""
                          : w->level);
}

static void put_image(gpu_text *out, const gpu_target *target,
                      const gpu_operand *t)
{
    const bool opencl = target->language == GPU_OPENCL_C;
    const uint32_t last = gpu_objects(t) - 1;
    const char *type = t->dtype == CLV_DTYPE_I32 ? "u32x4" : "f32x4";
    if (opencl)
        put_image_words(out, t);
    else
        gpu_printf(out, "#define %s_ARG\n", t->name);
    if (t->written)
        gpu_printf(out,
                   "void %s_put4(%s_ARG int at_x, int at_y, int at_z, "
                   "int at_n, %s v)\n{\n",
                   t->name, t->name, type);
    else
        gpu_printf(out,
                   "%s %s_load(%s_ARG int at_x, int at_y, int at_z, "
                   "int at_n)\n{\n",
                   type, t->name, t->name);
    for (uint32_t k = 0; k < last; k++) {
        gpu_printf(out, "    %sif (at_n == %u)\n        ", k ? "else " : "",
                   (unsigned)k);
        put_texel(out, opencl, t, k);
    }
    gpu_puts(out, last ? "    else\n        " : "    ");
    put_texel(out, opencl, t, last);
    gpu_puts(out, "}\n");
}

/* at_x: an element, at_y: the byte that the first one begins at. */
static const char from_floats[] =
    "f32x4 $_load($_ARG int at_x, int at_y, int at_z, int at_n)\n"
    "{\n"
    "    return QUAD_F32($_QUAD(PLACE(at_y) + PLACE(at_x) * 4u));\n"
    "}\n";

static const char from_halves_opencl[] =
    "f32x4 $_load($_ARG int at_x, int at_y, int at_z, int at_n)\n"
    "{\n"
    "    place at = PLACE(at_y) + PLACE(at_x) * 2u;\n"
    "    return vload_half4(0, (__global const half *)($ + at));\n"
    "}\n";

static const char from_halves_glsl[] =
    "f32x4 $_load($_ARG int at_x, int at_y, int at_z, int at_n)\n"
    "{\n"
    "    place at = PLACE(at_y) + PLACE(at_x) * 2u;\n"
    "    return vec4(unpackHalf2x16($_WORD(at)),\n"
    "                unpackHalf2x16($_WORD(at + 4u)));\n"
    "}\n";

static const char to_floats[] =
    "void $_put4($_ARG int at_x, int at_y, int at_z, int at_n, f32x4 v)\n"
    "{\n"
    "    place at = PLACE(at_y) + PLACE(at_x) * 4u;\n"
    "    $_SET_WORD(at, f32_bits(v.x));\n"
    "    $_SET_WORD(at + 4u, f32_bits(v.y));\n"
    "    $_SET_WORD(at + 8u, f32_bits(v.z));\n"
    "    $_SET_WORD(at + 12u, f32_bits(v.w));\n"
    "}\n";

static const char to_halves[] =
    "void $_put4($_ARG int at_x, int at_y, int at_z, int at_n, f32x4 v)\n"
    "{\n"
    "    place at = PLACE(at_y) + PLACE(at_x) * 2u;\n"
    "    $_SET_WORD(at, f32_half(v.x) | (f32_half(v.y) << 16));\n"
    "    $_SET_WORD(at + 4u, f32_half(v.z) | (f32_half(v.w) << 16));\n"
    "}\n";

static const char from_words[] =
    "u32x4 $_load($_ARG int at_x, int at_y, int at_z, int at_n)\n"
    "{\n"
    "    return $_QUAD(PLACE(at_y) + PLACE(at_x) * 4u);\n"
    "}\n";

static const char to_words[] =
    "void $_put4($_ARG int at_x, int at_y, int at_z, int at_n, u32x4 v)\n"
    "{\n"
    "    place at = PLACE(at_y) + PLACE(at_x) * 4u;\n"
    "    $_SET_WORD(at, v.x);\n"
    "    $_SET_WORD(at + 4u, v.y);\n"
    "    $_SET_WORD(at + 8u, v.z);\n"
    "    $_SET_WORD(at + 12u, v.w);\n"
    "}\n";

static const char channel[] =
    "f32 $_at($_ARG int at_x, int at_y, int at_z, int at_n, int c)\n"
    "{\n"
    "    f32x4 v = $_load(MEM($) at_x, at_y, at_z, at_n);\n"
    "    return c == 0 ? v.x : c == 1 ? v.y : c == 2 ? v.z : v.w;\n"
    "}\n";

/* Padding holds zeros. */
static const char store[] =
    "void $_store($_ARG int at_x, int at_y, int at_z, int at_n, int left,\n"
    "             f32x4 v)\n"
    "{\n"
    "    v = f32x4_of(v.x, left > 1 ? v.y : 0.0f, left > 2 ? v.z : 0.0f,\n"
    "                 left > 3 ? v.w : 0.0f);\n"
    "    $_put4(MEM($) at_x, at_y, at_z, at_n, v);\n"
    "}\n";

static const char channel_of_words[] =
    "uint $_at($_ARG int at_x, int at_y, int at_z, int at_n, int c)\n"
    "{\n"
    "    u32x4 v = $_load(MEM($) at_x, at_y, at_z, at_n);\n"
    "    return c == 0 ? v.x : c == 1 ? v.y : c == 2 ? v.z : v.w;\n"
    "}\n";

static const char store_of_words[] =
    "void $_store($_ARG int at_x, int at_y, int at_z, int at_n, int left,\n"
    "             u32x4 v)\n"
    "{\n"
    "    v = u32x4_of(v.x, left > 1 ? v.y : 0u, left > 2 ? v.z : 0u,\n"
    "                 left > 3 ? v.w : 0u);\n"
    "    $_put4(MEM($) at_x, at_y, at_z, at_n, v);\n"
    "}\n";

static const char *buffer_functions(bool opencl, const gpu_operand *t)
{
    if (t->dtype == CLV_DTYPE_I32)
        return t->written ? to_words : from_words;
    if (t->dtype == CLV_DTYPE_F32)
        return t->written ? to_floats : from_floats;
    return t->written ? to_halves
           : opencl   ? from_halves_opencl
                      : from_halves_glsl;
}

void gpu_language_slices(gpu_text *out, const gpu_target *target,
                         const gpu_operand *t)
{
    gpu_printf(out, "#define %s_SLICED\n", t->name);
    if (gpu_language_is_image(t)) {
        put_image(out, target, t);
    } else {
        gpu_language_words(out, target, t);
        gpu_language_named(
            out, buffer_functions(target->language == GPU_OPENCL_C, t),
            t->name);
    }
    if (t->dtype == CLV_DTYPE_I32)
        gpu_language_named(out, t->written ? store_of_words : channel_of_words,
                           t->name);
    else
        gpu_language_named(out, t->written ? store : channel, t->name);
}
