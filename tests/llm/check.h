/* cmocka with what it needs, and a check that shows the library's message. */
#pragma once

#include <cleave/cleave.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifndef assert_ok /* that of the core's tests is as good */
#define assert_ok(call)                                                        \
    do {                                                                       \
        const clv_status status_ = (call);                                     \
        if (status_)                                                           \
            fail_msg("%s: %s (%d)", #call, clv_last_error(), (int)status_);    \
    } while (0)
#endif

/* The call fails with status, and the message has text in it. */
#define assert_fails(call, status, text)                                       \
    do {                                                                       \
        assert_int_equal((call), (status));                                    \
        if (!strstr(clv_last_error(), (text)))                                 \
            fail_msg("\"%s\" is not in \"%s\"", (text), clv_last_error());     \
    } while (0)
