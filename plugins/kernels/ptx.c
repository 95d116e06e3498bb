#include "ptx.h"

#include <stdlib.h>
#include <string.h>

#define MARK "//@"
#define VERSION ".version "
#define LEAST_VERSION 8.0
#define TARGET ".target sm_"
#define LAUNCH_REGISTER "%envreg"
#define GROWTH 64 /* bytes that the head may become longer by */

const char gpu_ptx_probe[] =
    "__kernel void " GPU_PTX_PROBE "(__global uint *p)\n"
    "{\n"
    "    asm volatile(\"//@wgmma.fence.sync.aligned;\" ::: \"memory\");\n"
    "    p[get_global_id(0)] = 1u;\n"
    "}\n";

bool gpu_ptx_is_closed(const char *source)
{
    return strstr(source, MARK) != NULL;
}

/* Where a line begins with the word; NULL: none does. */
static const char *find_line(const char *text, const char *word)
{
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        if (!strncmp(text, word, strlen(word)))
            return text;
    return NULL;
}

static char *append(char *to, const char *from, size_t n)
{
    memcpy(to, from, n);
    return to + n;
}

/* The head with our version and target; *text: what is behind. */
static char *put_head(char *to, const char **text, const char *version,
                      const char *target)
{
    const char *behind = version + strcspn(version, "\n");
    const size_t before = (size_t)(version - *text);
    to = append(to, *text, before);
    if (strtod(version + strlen(VERSION), NULL) < LEAST_VERSION)
        to = append(to, VERSION "8.0", strlen(VERSION "8.0"));
    else
        to = append(to, version, (size_t)(behind - version));
    to = append(to, behind, (size_t)(target - behind));
    to = append(to, TARGET "90a", strlen(TARGET "90a"));
    *text = target + strlen(TARGET) + strcspn(target + strlen(TARGET), ", \n");
    return to;
}

static char *open_text(const clv_host_api *host, const char *text,
                       const char **why)
{
    const char *version = find_line(text, VERSION);
    const char *target = version ? find_line(version, TARGET) : NULL;
    *why = !target               ? "its binary is no PTX"
           : !strstr(text, MARK) ? "its PTX lost what is to be opened"
                                 : NULL;
    if (*why)
        return NULL;
    char *out = clv_new(host, strlen(text) + GROWTH), *to = out;
    if (!out)
        return NULL;
    to = put_head(to, &text, version, target);
    for (const char *at; (at = strstr(text, MARK)); text = at + strlen(MARK))
        to = append(to, text, (size_t)(at - text));
    append(to, text, strlen(text) + 1);
    return out;
}

char *gpu_ptx_open(const clv_host_api *host, const char *ptx, size_t size,
                   const char **why)
{
    char *text = clv_new(host, size + 1), *out;
    *why = NULL;
    if (!text)
        return NULL;
    memcpy(text, ptx, size);
    out = open_text(host, text, why);
    clv_free(host, text);
    return out;
}

/* Of the register that begins there, what stands for it; NULL: nothing does. In
 * what NVIDIA's compiler of OpenCL C makes, those of 0 to 2 are the offset of
 * the groups, of 3 to 5 that of the items, of 6 to 8 the number of groups. */
static const char *register_instead(const char *at, size_t *length)
{
    static const char *const counts[] = {"%nctaid.x", "%nctaid.y", "%nctaid.z"};
    const char *number = at + strlen(LAUNCH_REGISTER);
    *length = strlen(LAUNCH_REGISTER) + strspn(number, "0123456789");
    if (*length != strlen(LAUNCH_REGISTER) + 1 || *number > '8')
        return NULL;
    return *number < '6' ? "0" : counts[*number - '6'];
}

char *gpu_ptx_detach(const clv_host_api *host, const char *text,
                     const char **why)
{
    size_t n = 0, length;
    *why = NULL;
    for (const char *at = text; (at = strstr(at, LAUNCH_REGISTER)); n++)
        at += strlen(LAUNCH_REGISTER);
    char *out = clv_new(host, strlen(text) + n + 1), *to = out;
    for (const char *at; out && (at = strstr(text, LAUNCH_REGISTER));
         text = at + length) {
        const char *instead = register_instead(at, &length);
        if (!instead) {
            *why = "it reads a register that only OpenCL sets";
            clv_free(host, out);
            return NULL;
        }
        to = append(to, text, (size_t)(at - text));
        to = append(to, instead, strlen(instead));
    }
    if (out)
        append(to, text, strlen(text) + 1);
    return out;
}
