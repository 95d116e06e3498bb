#include "source.h"
#include "opencl_build_id.h"

#include <string.h>

#define MAX_OPTIONS 256

/* What the compiler is told: ours, and those of the key. */
static void build_options(const clv_plugin_device *dev, char out[MAX_OPTIONS])
{
    const clv_host_api *host = dev->base.host;
    const char *more = host->option(host->host, "options");
    snprintf(out, MAX_OPTIONS, "-cl-std=CL1.2 %s", more ? more : "");
}

/* What stands before the identity, the text and the code in a cached entry. */
typedef struct entry_header {
    char magic[8];
    uint64_t identity_size, text_size, code_size;
    uint64_t checksum; /* of what follows the header */
} entry_header;

static const char magic[8] = "clvocl1";

static uint64_t hash(uint64_t h, const void *data, size_t size)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* Whose code it is: plugin, driver, device, options. */
static void identify(const clv_plugin_device *dev, char *out, size_t size)
{
    const clv_device_info *info = &dev->props->info;
    char options[MAX_OPTIONS];
    build_options(dev, options);
    snprintf(out, size, "%s\n%s\n%s\n%s\n%s", BUILD_ID,
             dev->props->platform_name, info->driver, info->name, options);
}

void ocl_entry_name(const clv_plugin_device *dev, const char *kind,
                    const char *text, char out[64])
{
    char identity[768];
    uint64_t low = 0xcbf29ce484222325u, high = 0x9e3779b97f4a7c15u;
    identify(dev, identity, sizeof identity);
    low = hash(hash(low, identity, strlen(identity) + 1), text, strlen(text));
    high = hash(hash(high, text, strlen(text) + 1), identity, strlen(identity));
    snprintf(out, 64, "%.20s-%016llx%016llx", kind, (unsigned long long)high,
             (unsigned long long)low);
}

static void debug(clv_plugin_device *dev, const char *what, const char *name)
{
    char line[256];
    const clv_host_api *host = dev->base.host;
    snprintf(line, sizeof line, "opencl: %.60s: %.80s %s",
             dev->props->info.name, name, what);
    host->log(host->host, CLV_LOG_DEBUG, NULL, 0, line);
}

/* ------------------------------------------------------------------------ */
/* The cache                                                                */

/* The code in an entry that is whole, and for just this text; else NULL. */
static const unsigned char *find_code(const void *data, uint64_t size,
                                      const char *identity, const char *text,
                                      size_t *code_size)
{
    entry_header h;
    const unsigned char *body = (const unsigned char *)data + sizeof h;
    size_t identity_size = strlen(identity), text_size = strlen(text);
    if (size < sizeof h)
        return NULL;
    memcpy(&h, data, sizeof h);
    uint64_t rest = size - sizeof h;
    if (memcmp(h.magic, magic, sizeof magic) ||
        h.identity_size != identity_size || h.text_size != text_size ||
        rest < identity_size || rest - identity_size < text_size ||
        rest - identity_size - text_size != h.code_size || !h.code_size ||
        hash(0, body, rest) != h.checksum ||
        memcmp(body, identity, identity_size) ||
        memcmp(body + identity_size, text, text_size))
        return NULL;
    *code_size = (size_t)h.code_size;
    return body + identity_size + text_size;
}

/* NULL: build it. */
static cl_program load(clv_plugin_device *dev, const char *name,
                       const char *text)
{
    const clv_host_api *host = dev->base.host;
    const ocl_api *cl = dev->cl;
    char identity[768], key[64], options[MAX_OPTIONS];
    void *data = NULL;
    uint64_t size = 0;
    size_t code_size = 0;
    cl_program program = NULL;
    cl_int error, status = CL_SUCCESS;
    identify(dev, identity, sizeof identity);
    build_options(dev, options);
    ocl_entry_name(dev, "kernel", text, key);
    if (host->cache_get(host->host, key, &data, &size))
        return NULL;
    const unsigned char *code =
        find_code(data, size, identity, text, &code_size);
    if (code)
        program =
            cl->CreateProgramWithBinary(dev->context, 1, &dev->props->id,
                                        &code_size, &code, &status, &error);
    if (program && (status || cl->BuildProgram(program, 1, &dev->props->id,
                                               options, NULL, NULL))) {
        cl->ReleaseProgram(program);
        program = NULL;
    }
    host->free(host->host, data);
    debug(dev,
          program ? "comes from the cache"
                  : "is damaged in the cache and built again",
          name);
    return program;
}

/* Best effort: what cannot be cached is built again the next time. */
static void store(clv_plugin_device *dev, cl_program program, const char *text)
{
    const clv_host_api *host = dev->base.host;
    char identity[768], key[64];
    size_t code_size = 0, text_size = strlen(text);
    identify(dev, identity, sizeof identity);
    ocl_entry_name(dev, "kernel", text, key);
    entry_header h = {.identity_size = strlen(identity),
                      .text_size = text_size};
    memcpy(h.magic, magic, sizeof magic);
    if (dev->cl->GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES,
                                sizeof code_size, &code_size, NULL) ||
        !code_size)
        return;
    h.code_size = code_size;
    uint64_t size = sizeof h + h.identity_size + text_size + code_size;
    unsigned char *data = host->alloc(host->host, size, 64);
    if (!data)
        return;
    unsigned char *body = data + sizeof h;
    unsigned char *code = body + h.identity_size + text_size;
    memcpy(body, identity, (size_t)h.identity_size);
    memcpy(body + h.identity_size, text, text_size);
    if (!dev->cl->GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof code,
                                 &code, NULL)) {
        h.checksum = hash(0, body, (size_t)(size - sizeof h));
        memcpy(data, &h, sizeof h);
        host->cache_put(host->host, key, data, size);
    }
    host->free(host->host, data);
}

/* ------------------------------------------------------------------------ */
/* Building                                                                 */

/* The compiler's words, line by line to the log; the first that names an error,
 * or the first, to `first`. */
static void log_words(clv_plugin_device *dev, cl_program program, char *first,
                      size_t first_size)
{
    const clv_host_api *host = dev->base.host;
    size_t size = 0;
    dev->cl->GetProgramBuildInfo(program, dev->props->id, CL_PROGRAM_BUILD_LOG,
                                 0, NULL, &size);
    char *log = size > 1 && size < 1 << 24
                    ? host->alloc(host->host, size + 1, 64)
                    : NULL;
    if (log &&
        !dev->cl->GetProgramBuildInfo(program, dev->props->id,
                                      CL_PROGRAM_BUILD_LOG, size, log, NULL)) {
        log[size] = 0;
        const char *at = strstr(log, "error");
        while (at && at > log && at[-1] != '\n')
            at--;
        at = at ? at : log;
        snprintf(first, first_size, "%.*s", (int)strcspn(at, "\n"), at);
        for (char *line = log, *end; *line; line = end) {
            end = line + strcspn(line, "\n");
            if (*end)
                *end++ = 0;
            host->log(host->host, CLV_LOG_DEBUG, NULL, 0, line);
        }
    }
    clv_free(host, log);
}

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
             "opencl: %.60s: kernel %.60s does not build: %s: %s; leave the "
             "device out",
             dev->props->info.name, name, ocl_error_name(error), first);
    return host->set_error(host->host, status, error, text);
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
    debug(dev, "is built", name);
    log_words(dev, program, (char[2]){0}, 2);
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

void ocl_sources_free(clv_plugin_device *dev)
{
    while (dev->sources) {
        ocl_source *s = dev->sources;
        dev->sources = s->next;
        dev->cl->ReleaseProgram(s->program);
        clv_free(dev->base.host, s);
    }
}
