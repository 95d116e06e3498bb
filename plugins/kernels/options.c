#include "options.h"

clv_status gpu_choose_storage(const clv_host_api *host, const char *device,
                              const char *key, const uint32_t image[5][3],
                              bool usable, uint32_t *choice)
{
    static const char *const names[] = {"auto",          "buffer",
                                        "image_buffer",  "texture_2d",
                                        "texture_array", "texture_3d"};
    const char *storage = host->option(host->host, key);
    *choice = 0;
    for (uint32_t i = 1; storage && i < sizeof names / sizeof *names; i++)
        if (!strcmp(storage, names[i]))
            *choice = i;
    if (*choice > 1 + CLV_STORAGE_BUFFER && (!image[*choice - 1][0] || !usable))
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "%.80s: %s = %s: the device has no such images that "
                        "kernels write, or too few at a time; use another",
                        device, key, storage);
    return CLV_OK;
}
