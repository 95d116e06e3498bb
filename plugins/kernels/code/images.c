/* Operands in slices: their declarations, and the functions that read and write
 * four channels of them. */
#include "language.h"

typedef struct image_words {
    const char *opencl, *opencl_at, *glsl, *glsl_at;
} image_words;

static const image_words *words_of(uint32_t storage)
{
    static const image_words words[] = {
        [CLV_STORAGE_IMAGE_BUFFER] = {"image1d_buffer_t", "at_x",
                                      "imageBuffer", "at_x"},
        [CLV_STORAGE_TEXTURE_2D] = {"image2d_t", "(int2)(at_x, at_y)",
                                    "image2D", "ivec2(at_x, at_y)"},
        [CLV_STORAGE_TEXTURE_ARRAY] = {"image2d_array_t",
                                       "(int4)(at_x, at_y, at_z, 0)",
                                       "image2DArray",
                                       "ivec3(at_x, at_y, at_z)"},
        [CLV_STORAGE_TEXTURE_3D] = {"image3d_t", "(int4)(at_x, at_y, at_z, 0)",
                                    "image3D", "ivec3(at_x, at_y, at_z)"},
    };
    return &words[storage];
}

void gpu_language_argument(gpu_text *out, const gpu_operand *t)
{
    if (t->sliced && t->storage != CLV_STORAGE_BUFFER)
        gpu_printf(out, "%s %s %s", t->written ? "__write_only" : "__read_only",
                   words_of(t->storage)->opencl, t->name);
    else
        gpu_printf(out, "__global %suchar *%s", t->written ? "" : "const ",
                   t->name);
}

void gpu_language_binding(gpu_text *out, const gpu_target *target,
                          const gpu_operand *t, uint32_t i)
{
    const char *access = t->written ? "" : "readonly ", *name = t->name;
    if (t->sliced && t->storage != CLV_STORAGE_BUFFER) {
        gpu_printf(out, "layout(binding = %u, rgba32f) uniform %s %s %s;\n", i,
                   t->written ? "writeonly" : "readonly",
                   words_of(t->storage)->glsl, name);
        return;
    }
    gpu_printf(out, "layout(std430, binding = %u) %sbuffer %s_words "
                    "{ uint %s_w[]; };\n", i, access, name, name);
    if ((t->memory == GPU_MEMORY_PRIVATE || t->quads) && !t->written)
        gpu_printf(out, "layout(std430, binding = %u) readonly buffer %s_quads "
                        "{ uvec4 %s_q[]; };\n", i, name, name);
    if (target->fp16_storage)
        gpu_printf(out, "layout(std430, binding = %u) %sbuffer %s_halves "
                        "{ uint16_t %s_h[]; };\n", i, access, name, name);
}

/* ------------------------------------------------------------------------ */

static void put_image(gpu_text *out, const gpu_target *target,
                      const gpu_operand *t)
{
    const image_words *w = words_of(t->storage);
    const bool opencl = target->language == GPU_OPENCL_C;
    if (opencl && t->written && t->storage == CLV_STORAGE_TEXTURE_3D)
        gpu_puts(out, "#ifdef cl_khr_3d_image_writes\n"
                      "#pragma OPENCL EXTENSION cl_khr_3d_image_writes : "
                      "enable\n"
                      "#endif\n");
    gpu_printf(out, "#define %s_ARG ", t->name);
    if (opencl) {
        gpu_language_argument(out, t);
        gpu_puts(out, ",");
    }
    gpu_printf(out, "\n%s %s_%s(%s_ARG int at_x, int at_y, int at_z",
               t->written ? "void" : "f32x4", t->name,
               t->written ? "put4" : "load", t->name);
    if (t->written)
        gpu_printf(out, ", f32x4 v)\n{ %s(%s, %s, v); }\n",
                   opencl ? "write_imagef" : "imageStore", t->name,
                   opencl ? w->opencl_at : w->glsl_at);
    else
        gpu_printf(out, ")\n{ return %s(%s, %s); }\n",
                   opencl ? "read_imagef" : "imageLoad", t->name,
                   opencl ? w->opencl_at : w->glsl_at);
}

/* at_x: an element, at_y: the byte that the first one begins at. */
static const char from_buffer[] =
    "f32x4 $_load($_ARG int at_x, int at_y, int at_z)\n"
    "{\n"
    "    place at = PLACE(at_y) + PLACE(at_x) * 4u;\n"
    "    return f32x4_of(bits_f32($_WORD(at)), bits_f32($_WORD(at + 4u)),\n"
    "                    bits_f32($_WORD(at + 8u)), bits_f32($_WORD(at + 12u)));\n"
    "}\n";

static const char to_buffer[] =
    "void $_put4($_ARG int at_x, int at_y, int at_z, f32x4 v)\n"
    "{\n"
    "    place at = PLACE(at_y) + PLACE(at_x) * 4u;\n"
    "    $_SET_WORD(at, f32_bits(v.x));\n"
    "    $_SET_WORD(at + 4u, f32_bits(v.y));\n"
    "    $_SET_WORD(at + 8u, f32_bits(v.z));\n"
    "    $_SET_WORD(at + 12u, f32_bits(v.w));\n"
    "}\n";

static const char channel[] =
    "f32 $_at($_ARG int at_x, int at_y, int at_z, int c)\n"
    "{\n"
    "    f32x4 v = $_load(MEM($) at_x, at_y, at_z);\n"
    "    return c == 0 ? v.x : c == 1 ? v.y : c == 2 ? v.z : v.w;\n"
    "}\n";

/* Padding holds zeros. */
static const char store[] =
    "void $_store($_ARG int at_x, int at_y, int at_z, int left, f32x4 v)\n"
    "{\n"
    "    v = f32x4_of(v.x, left > 1 ? v.y : 0.0f, left > 2 ? v.z : 0.0f,\n"
    "                 left > 3 ? v.w : 0.0f);\n"
    "    $_put4(MEM($) at_x, at_y, at_z, v);\n"
    "}\n";

void gpu_language_slices(gpu_text *out, const gpu_target *target,
                         const gpu_operand *t)
{
    gpu_printf(out, "#define %s_SLICED\n", t->name);
    if (t->storage != CLV_STORAGE_BUFFER) {
        put_image(out, target, t);
    } else {
        gpu_language_words(out, target, t);
        gpu_language_named(out, t->written ? to_buffer : from_buffer, t->name);
    }
    gpu_language_named(out, t->written ? store : channel, t->name);
}
