#include "compiler.h"
#include "glsl.h"
#include "ptx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* For the shell: a macro with the folder's name would be new code in each
 * clone. */
#define NVPTX_H "\"$CLEAVE_TEST_SOURCE/tests/kernels/nvptx.h\""

/* Several graphs have the same kernels. */
static bool was_seen(compiler *c, const char *text)
{
    for (uint32_t i = 0; i < c->n_seen; i++)
        if (!strcmp(c->seen[i], text))
            return true;
    assert_true(c->n_seen < sizeof c->seen / sizeof *c->seen);
    c->seen[c->n_seen] = strdup(text);
    assert_non_null(c->seen[c->n_seen++]);
    return false;
}

void compiler_finish(compiler *c)
{
    while (c->n_seen)
        free(c->seen[--c->n_seen]);
    assert_false(c->failed);
}

static void show(const gpu_kernel *kernel, const char *what)
{
    int line = 1;
    fprintf(stderr, "%s: %s\n%4d ", kernel->name, what, line++);
    for (const char *p = kernel->source; *p; p++) {
        fputc(*p, stderr);
        if (*p == '\n')
            fprintf(stderr, "%4d ", line++);
    }
}

static void compile_opencl(compiler *c, const gpu_kernel *kernel)
{
    cl_int status;
    const char *source = kernel->source;
    char log[4096] = "";
    cl_program program =
        clCreateProgramWithSource(c->context, 1, &source, NULL, &status);
    assert_int_equal(status, CL_SUCCESS);
    status = clBuildProgram(program, 1, &c->device, "-Werror -cl-opt-disable",
                            NULL, NULL);
    if (status) {
        clGetProgramBuildInfo(program, c->device, CL_PROGRAM_BUILD_LOG,
                              sizeof log, log, NULL);
        show(kernel, log);
        c->failed = true;
    } else {
        cl_uint n = 0;
        cl_kernel k = clCreateKernel(program, kernel->name, &status);
        assert_int_equal(status, CL_SUCCESS);
        clGetKernelInfo(k, CL_KERNEL_NUM_ARGS, sizeof n, &n, NULL);
        assert_int_equal(n, 2 * kernel->n_args + kernel->n_params);
        clReleaseKernel(k);
    }
    clReleaseProgram(program);
}

/* What ptxas says of the text for the architecture: as it is to run, nothing of
 * a stack, of registers in memory, and of matrix instructions that wait for
 * each other. */
static void assemble(compiler *c, const gpu_kernel *kernel, const char *path,
                     const char *arch)
{
    char command[512], line[512], said[4096] = "";
    bool good = true;
    snprintf(command, sizeof command, PTXAS " -v -arch=%s -o /dev/null %s 2>&1",
             arch, path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(line, sizeof line, pipe)) {
        int stack, stores, loads;
        if (sscanf(line, " %d bytes stack frame, %d bytes spill stores, %d",
                   &stack, &stores, &loads) == 3)
            good = good && !stack && !stores && !loads;
        good = good && !strstr(line, "C75");
        strncat(said, line, sizeof said - strlen(said) - 1);
    }
    if (!pclose(pipe) && good)
        return;
    show(kernel, arch);
    fprintf(stderr, "%s", said);
    c->failed = true;
}

/* The compiler's text, opened if it is to be, over what the file holds. */
static void open_ptx(compiler *c, const gpu_kernel *kernel, const char *path)
{
    static char text[1 << 22];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    const char *why = NULL;
    const size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    char *opened = gpu_ptx_open(&test_host, text, n, &why);
    if (!opened) {
        show(kernel, why);
        c->failed = true;
        return;
    }
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(opened, file);
    fclose(file);
    clv_free(&test_host, opened);
}

/* With instructions of sm_80, for a machine that has no such device; and those
 * assembled, where there is an assembler, as PTX of a version that has them
 * all: for every architecture, or for one in turn. */
static void compile_ptx(compiler *c, const gpu_kernel *kernel)
{
    static const char *const archs[] = {"sm_90a", "sm_80", "sm_89"};
    const bool closed = gpu_ptx_is_closed(kernel->source);
    const uint32_t n_archs =
        !PTXAS[0] || !(c->assembles || strstr(kernel->source, "asm")) ? 0
        : closed                                                      ? 1
                                                                      : 3;
    char path[] = "/tmp/cleave-ptx-XXXXXX", command[512];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    snprintf(command, sizeof command,
             CLANG " -x cl -cl-std=CL1.2 -Dasm=__asm__ -Wno-everything"
                   " -Werror=pedantic"
                   " --target=nvptx64-nvidia-nvcl -Xclang"
                   " -finclude-default-header -include " NVPTX_H
                   " -Xclang -target-cpu"
                   " -Xclang sm_80 -Xclang -target-feature -Xclang"
                   " +ptx75 -S -o %s - >&2 &&"
                   " sed -i 's/^.version 7.5/.version %s/' %s",
             path, strstr(kernel->source, ".mmio.") ? "8.2" : "7.8", path);
    FILE *pipe = popen(command, "w");
    assert_non_null(pipe);
    fputs(kernel->source, pipe);
    if (pclose(pipe)) {
        show(kernel, "clang refuses it");
        c->failed = true;
    } else {
        if (closed)
            open_ptx(c, kernel, path);
        for (uint32_t i = 0; i < n_archs; i++)
            if (c->all || n_archs == 1 || i == c->kernels % n_archs)
                assemble(c, kernel, path, archs[i]);
    }
    unlink(path);
}

static void compile_glsl(compiler *c, const gpu_kernel *kernel)
{
    const char *why = test_glsl_refusal(kernel->source);
    if (!why)
        return;
    show(kernel, why);
    c->failed = true;
}

void compiler_add_text(compiler *c, const char *name, const char *source)
{
    const gpu_kernel kernel = {.name = (char *)(uintptr_t)name,
                               .source = (char *)(uintptr_t)source};
    c->kernels++;
    compile_ptx(c, &kernel);
}

void compiler_add(compiler *c, const graph *g)
{
    gpu_code *code = NULL;
    clv_op_caps caps[GRAPH_NODES];
    for (uint32_t i = 0; i < GRAPH_NODES; i++)
        caps[i] = (clv_op_caps)CLV_INIT(clv_op_caps, CLV_STRUCT_OP_CAPS);
    gpu_caps(&c->target, &g->sub, caps, sizeof *caps);
    for (uint32_t i = 0; i < g->sub.n_nodes; i++)
        if (caps[i].answer != CLV_ANSWER_YES)
            fail_msg("refused: %s", caps[i].reason);
    if (gpu_lower(&test_host, &c->target, &g->sub, &code))
        fail_msg("gpu_lower: %s", test_error());
    assert_true(code->n_dispatches > 0);
    for (uint32_t i = 0; i < code->n_kernels; i++) {
        const gpu_kernel *k = &code->kernels[i];
        if (c->only && strcmp(c->only, k->name) != 0)
            continue;
        if (c->target.language == GPU_GLSL)
            assert_true(k->n_args + k->n_params <= GPU_MAX_PUSHED);
        c->kernels++;
        if (LOWER_ONLY || was_seen(c, k->source))
            continue;
        if (c->target.nvidia_ptx)
            compile_ptx(c, k);
        else if (c->target.language == GPU_OPENCL_C)
            compile_opencl(c, k);
        else
            compile_glsl(c, k);
    }
    gpu_code_free(&test_host, code);
}
