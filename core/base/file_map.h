/* Errors of files. */
#pragma once

#include <cleave/cleave.h>

/* From errno. */
clv_status core_open_error(const char *path);
