/* Common parts of tests of files: a directory for each test, and checks of
 * messages. */
#pragma once

#include "temp.h"

#include <cleave/cleave.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static temp tmp;

static int make_temp(void **state)
{
    (void)state;
    temp_init(&tmp);
    return 0;
}

static int remove_temp(void **state)
{
    (void)state;
    temp_finish(&tmp);
    return 0;
}

static void assert_message(const char *part)
{
    if (!strstr(clv_last_error(), part))
        fail_msg("'%s' is not in '%s'", part, clv_last_error());
}
