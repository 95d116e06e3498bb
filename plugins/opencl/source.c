#include "source.h"
#include "opencl_build_id.h"

#include <entry.h>
#include <ptx.h>

#include <string.h>

#define MAX_OPTIONS 256

/* What the compiler is told: ours, and those of the key. */
static void build_options(const clv_plugin_device *dev, char out[MAX_OPTIONS])
{
    const clv_host_api *host = dev->base.host;
    const char *more = host->option(host->host, "options");
    snprintf(out, MAX_OPTIONS, "-cl-std=CL1.2 -w %s", more ? more : "");
}

void ocl_identify(clv_plugin_device *dev)
{
    const clv_device_info *info = &dev->props->info;
    char options[MAX_OPTIONS];
    build_options(dev, options);
    snprintf(dev->identity, sizeof dev->identity, "%s\n%s\n%s\n%s\n%s",
             BUILD_ID, dev->props->platform_name, info->driver, info->name,
             options);
}

static gpu_entry entry_of(const clv_plugin_device *dev, const char *text)
{
    return (gpu_entry){dev->base.host, "kernel", dev->identity, text};
}

static void log_words(clv_plugin_device *dev, cl_program program, char *first,
                      size_t first_size)
{
    ocl_log_words(dev->base.host, dev->cl, program, dev->props->id, first,
                  first_size);
}

/* A program of the driver's code; NULL: it is refused. */
static cl_program load_code(clv_plugin_device *dev, const void *code,
                            size_t size)
{
    const ocl_api *cl = dev->cl;
    char options[MAX_OPTIONS];
    cl_int error, status = CL_SUCCESS;
    build_options(dev, options);
    cl_program program = cl->CreateProgramWithBinary(
        dev->context, 1, &dev->props->id, &size,
        (const unsigned char *[]){code}, &status, &error);
    if (program && (status || cl->BuildProgram(program, 1, &dev->props->id,
                                               options, NULL, NULL))) {
        log_words(dev, program, (char[2]){0}, 2);
        cl->ReleaseProgram(program);
        program = NULL;
    }
    return program;
}

/* NULL: build it. */
static cl_program load(clv_plugin_device *dev, const char *name,
                       const char *text)
{
    const gpu_entry entry = entry_of(dev, text);
    uint64_t size = 0;
    unsigned char *code = gpu_entry_get(&entry, &size);
    if (!code)
        return NULL;
    cl_program program = load_code(dev, code, (size_t)size);
    clv_free(dev->base.host, code);
    clv_log(dev->base.host, CLV_LOG_DEBUG, "%s: %.80s %s", dev->label, name,
            program ? "comes from the cache" : "in the cache is refused");
    return program;
}

/* Without memory for it, it is built again the next time. */
static void store(clv_plugin_device *dev, cl_program program, const char *text)
{
    const gpu_entry entry = entry_of(dev, text);
    size_t size;
    unsigned char *code;
    if (!ocl_binary(dev->base.host, dev->cl, program, &code, &size) && code)
        gpu_entry_put(&entry, code, size);
    clv_free(dev->base.host, code);
}

/* ------------------------------------------------------------------------ */
/* Building                                                                 */

static clv_status build_failed(clv_plugin_device *dev, cl_program program,
                               const char *name, cl_int error)
{
    const clv_host_api *host = dev->base.host;
    char first[200] = "the compiler says nothing";
    log_words(dev, program, first, sizeof first);
    clv_status status =
        error == CL_OUT_OF_HOST_MEMORY ? CLV_ERR_NO_MEMORY : CLV_ERR_INTERNAL;
    char text[512];
    snprintf(text, sizeof text,
             "%s: kernel %.60s does not build: %s: %s; leave the "
             "device out",
             dev->label, name, ocl_error_name(error), first);
    return host->set_error(host->host, status, error, text);
}

/* The program with its marked instructions, in place of the one that was built
 * without them. */
static clv_status open_program(clv_plugin_device *dev, const char *name,
                               cl_program *program)
{
    const clv_host_api *host = dev->base.host;
    const char *why = "its binary cannot be read";
    size_t size;
    unsigned char *code;
    CLV_TRY(ocl_binary(dev->base.host, dev->cl, *program, &code, &size));
    char *ptx = code ? gpu_ptx_open(host, (char *)code, size, &why) : NULL;
    clv_free(host, code);
    if (!ptx && !why)
        return CLV_ERR_NO_MEMORY;
    cl_program opened = ptx ? load_code(dev, ptx, strlen(ptx) + 1) : NULL;
    clv_free(host, ptx);
    if (!opened)
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "%s: kernel %.60s with instructions of sm_90a: %s; "
                        "%s.wgmma=off does without",
                        dev->label, name, why ? why : "the driver refuses it",
                        "opencl");
    dev->cl->ReleaseProgram(*program);
    *program = opened;
    return CLV_OK;
}

static clv_status build(clv_plugin_device *dev, const char *name,
                        const char *text, cl_program *out)
{
    const ocl_api *cl = dev->cl;
    cl_int error = CL_SUCCESS;
    char options[MAX_OPTIONS];
    build_options(dev, options);
    cl_program program =
        cl->CreateProgramWithSource(dev->context, 1, &text, NULL, &error);
    if (!program)
        return ocl_fail(dev->base.host, error, "opencl: kernel %.60s", name);
    error = cl->BuildProgram(program, 1, &dev->props->id, options, NULL, NULL);
    if (error) {
        clv_status status = build_failed(dev, program, name, error);
        cl->ReleaseProgram(program);
        return status;
    }
    clv_log(dev->base.host, CLV_LOG_DEBUG, "%s: %.80s is built", dev->label,
            name);
    log_words(dev, program, (char[2]){0}, 2);
    if (gpu_ptx_is_closed(text)) {
        clv_status status = open_program(dev, name, &program);
        if (status) {
            cl->ReleaseProgram(program);
            return status;
        }
    }
    store(dev, program, text);
    *out = program;
    return CLV_OK;
}

static ocl_source *find(clv_plugin_device *dev, const char *text)
{
    ocl_source *s = dev->sources;
    while (s && strcmp(s->text, text))
        s = s->next;
    return s;
}

/* Another thread may have built the same meanwhile; then its is taken. */
static cl_program add(clv_plugin_device *dev, ocl_source *own)
{
    cl_program program;
    pthread_mutex_lock(&dev->lock);
    ocl_source *other = find(dev, own->text);
    if (!other) {
        own->next = dev->sources;
        dev->sources = own;
    }
    program = other ? other->program : own->program;
    pthread_mutex_unlock(&dev->lock);
    if (other) {
        dev->cl->ReleaseProgram(own->program);
        clv_free(dev->base.host, own);
    }
    return program;
}

clv_status ocl_source_build(clv_plugin_device *dev, const char *name,
                            const char *text, cl_program *out)
{
    clv_status status = CLV_OK;
    size_t size = strlen(text) + 1;
    pthread_mutex_lock(&dev->lock);
    ocl_source *known = find(dev, text);
    pthread_mutex_unlock(&dev->lock);
    if (known) {
        *out = known->program;
        return CLV_OK;
    }
    ocl_source *own = clv_new(dev->base.host, sizeof *own + size);
    if (!own)
        return CLV_ERR_NO_MEMORY;
    own->text = memcpy(own + 1, text, size);
    own->program = load(dev, name, text);
    if (!own->program)
        status = build(dev, name, text, &own->program);
    if (status)
        clv_free(dev->base.host, own);
    else
        *out = add(dev, own);
    return status;
}

clv_status ocl_source_opens(clv_plugin_device *dev, bool *opens)
{
    cl_program program;
    clv_status status =
        ocl_source_build(dev, GPU_PTX_PROBE, gpu_ptx_probe, &program);
    *opens = !status;
    if (!status || status == CLV_ERR_NO_MEMORY)
        return status;
    clv_log(dev->base.host, CLV_LOG_WARN,
            "%s: products by warp groups cannot be had of this driver, those "
            "by warps are used (opencl.wgmma)",
            dev->label);
    return CLV_OK;
}

void ocl_sources_free(clv_plugin_device *dev)
{
    while (dev->sources) {
        ocl_source *s = dev->sources;
        dev->sources = s->next;
        dev->cl->ReleaseProgram(s->program);
        clv_free(dev->base.host, s);
    }
}
