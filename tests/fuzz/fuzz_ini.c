/* Ini text as a configuration file holds it, then declared keys. */
#include "../../core/config/config.h"

#include <stddef.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADER                                                                 \
    {                                                                          \
        sizeof(clv_option), CLV_STRUCT_OPTION, NULL                            \
    }

static const clv_option options[] = {
    {.header = HEADER,
     .key = "threads",
     .type = CLV_OPTION_INT,
     .default_value = "0",
     .help = "",
     .max = 64},
    {.header = HEADER,
     .key = "ratio",
     .type = CLV_OPTION_FLOAT,
     .default_value = "0.5",
     .help = "",
     .max = 1},
    {.header = HEADER,
     .key = "mode",
     .type = CLV_OPTION_ENUM,
     .default_value = "fast",
     .help = "",
     .choices = "fast|slow"},
};

static bool none(void *ctx, const char *section)
{
    (void)ctx;
    (void)section;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    clv_config *config;
    if (clv_config_create(&config) != CLV_OK)
        return 0;
    core_config_parse(config, "fuzz.ini", data, size, CORE_RANK_FILE);
    clv_config_declare(config, "cpu", options,
                       sizeof options / sizeof *options);
    core_config_check_waiting(config, none, NULL);
    clv_config_destroy(config);
    return 0;
}
