/* The text around a template: declarations of each language. */
#include "language.h"
#include "maker.h"

/* Lines of n bytes of text that begin with LOCAL, or the others. */
static void put_lines(gpu_maker *m, gpu_text *out, const char *text, size_t n,
                      bool local, const char *prefix)
{
    gpu_text lines = {.host = m->body.host};
    const char *last = text + n;
    for (const char *end; text < last; text = end < last ? end + 1 : end) {
        end = memchr(text, '\n', (size_t)(last - text));
        end = end ? end : last;
        bool is_local = !strncmp(text, "LOCAL ", 6);
        if (is_local != local)
            continue;
        if (is_local) {
            gpu_puts(&lines, prefix);
            text += 6;
        }
        gpu_put(&lines, text, (size_t)(end - text));
        gpu_puts(&lines, "\n");
    }
    if (lines.data)
        gpu_put_text(m, out, lines.data, lines.n);
    m->body.failed |= lines.failed;
    gpu_text_free(&lines);
}

/* Those lines of all helpers and of the n bytes of text before KERNEL. */
static void put_helpers(gpu_maker *m, gpu_text *out, size_t n, bool local,
                        const char *prefix)
{
    const gpu_call *call = m->call;
    for (uint32_t i = 0; i < call->n_uses; i++)
        put_lines(m, out, call->uses[i], strlen(call->uses[i]), local, prefix);
    put_lines(m, out, call->text, n, local, prefix);
}

static void put_opencl_entry(gpu_maker *m, gpu_text *out)
{
    const gpu_call *call = m->call;
    gpu_printf(out,
               "__kernel __attribute__((reqd_work_group_size(%u, %u, %u)))\n"
               "void %s(",
               call->local[0], call->local[1], call->local[2], call->name);
    gpu_put_arguments(m, out);
    for (uint32_t i = 0; i < m->n_ints; i++)
        gpu_printf(out, ", int %s", m->ints[i].name);
    gpu_puts(out, ")\n");
}

static void put_glsl_header(gpu_maker *m, gpu_text *out)
{
    const gpu_call *call = m->call;
    gpu_printf(out,
               "layout(local_size_x = %u, local_size_y = %u, local_size_z = "
               "%u) in;\n"
               "layout(push_constant) uniform Ints { ",
               call->local[0], call->local[1], call->local[2]);
    for (uint32_t i = 0; i < call->n_operands; i++)
        for (uint32_t k = 0; k < gpu_objects(&call->operands[i]); k++) {
            gpu_puts(out, "int ");
            gpu_language_object(out, &call->operands[i], k);
            gpu_puts(out, "_o; ");
        }
    for (uint32_t i = 0; i < m->n_ints; i++)
        gpu_printf(out, "int %s; ", m->ints[i].name);
    gpu_puts(out, "};\n");
    for (uint32_t i = 0, binding = 0; i < call->n_operands; i++) {
        gpu_language_binding(out, m->target, &call->operands[i], binding);
        binding += gpu_objects(&call->operands[i]);
    }
}

void gpu_put_source(gpu_maker *m)
{
    static const char begin[] = "KERNEL\n{\n";
    const gpu_call *call = m->call;
    const char *entry = strstr(call->text, begin);
    const bool opencl = m->target->language == GPU_OPENCL_C;
    gpu_text front = {.host = m->body.host};
    if (!entry) {
        gpu_wrong(m, "no KERNEL with its brace");
        return;
    }
    const size_t n = (size_t)(entry - call->text);
    entry += sizeof begin - 1;
    /* First what makes the params known. */
    put_lines(m, &m->body, entry, strlen(entry), false, "");
    put_helpers(m, &front, n, false, "");
    gpu_language_prelude(&m->source, m->target, call);
    for (uint32_t i = 0; i < call->n_defines; i++)
        gpu_printf(&m->source, "#define %s %lld\n", call->defines[i].name,
                   (long long)call->defines[i].value);
    if (opencl)
        gpu_put_repeats(m, &m->source);
    else
        put_glsl_header(m, &m->source);
    for (uint32_t i = 0; i < call->n_operands; i++)
        gpu_language_accessors(&m->source, m->target, &call->operands[i]);
    if (!opencl)
        put_helpers(m, &m->source, n, true, "shared ");
    if (front.data)
        gpu_put(&m->source, front.data, front.n);
    if (opencl)
        put_opencl_entry(m, &m->source);
    else
        gpu_puts(&m->source, "void main()\n");
    gpu_puts(&m->source, "{\n");
    if (opencl) {
        put_helpers(m, &m->source, n, true, "    __local ");
        gpu_put_repeated_places(m, &m->source);
    }
    if (m->body.data)
        gpu_put(&m->source, m->body.data, m->body.n);
    m->source.failed |= m->body.failed || front.failed;
    gpu_text_free(&front);
}
