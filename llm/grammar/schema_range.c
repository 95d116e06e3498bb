#include "schema_internal.h"

#include <stdio.h>
#include <string.h>

#define MAX_DIGITS 15 /* of numbers without a bound, too */

static void any_digits(llm_writer *w, size_t n)
{
    if (n)
        llm_put(w, " [0-9]{%zu}", n);
}

/* Digits from those of low on to nines, or from zeros to those of high. */
static void one_bound(llm_writer *w, const char *digits, bool at_least)
{
    const char limit = at_least ? '9' : '0', c = *digits;
    const size_t left = strlen(digits);
    if (!left)
        return;
    llm_put(w, " (\"%c\"", c);
    one_bound(w, digits + 1, at_least);
    if (c != limit) {
        llm_put(w, " | [%c-%c]", at_least ? c + 1 : '0',
                at_least ? '9' : c - 1);
        any_digits(w, left - 1);
    }
    llm_put(w, ")");
}

/* Numbers of the same length; low and high are their digits. */
static void same_length(llm_writer *w, const char *low, const char *high)
{
    const size_t left = strlen(low);
    if (!left)
        return;
    if (*low == *high) {
        llm_put(w, " \"%c\"", *low);
        same_length(w, low + 1, high + 1);
        return;
    }
    llm_put(w, " (\"%c\"", *low);
    one_bound(w, low + 1, true);
    if (*high - *low > 1) {
        llm_put(w, " | [%c-%c]", *low + 1, *high - 1);
        any_digits(w, left - 1);
    }
    llm_put(w, " | \"%c\"", *high);
    one_bound(w, high + 1, false);
    llm_put(w, ")");
}

/* 0 <= low <= high; high UINT64_MAX: no bound. */
static void natural(llm_writer *w, uint64_t low, uint64_t high)
{
    char from[24], to[24];
    const size_t first =
        (size_t)snprintf(from, sizeof from, "%llu", (unsigned long long)low);
    size_t last = MAX_DIGITS > first ? MAX_DIGITS : first;
    if (high != UINT64_MAX)
        last =
            (size_t)snprintf(to, sizeof to, "%llu", (unsigned long long)high);
    for (size_t n = first; n <= last; n++) {
        char least[24], most[24];
        snprintf(least, sizeof least, "1%.*s", (int)n - 1,
                 "00000000000000000000");
        snprintf(most, sizeof most, "%.*s", (int)n, "99999999999999999999");
        if (n > first)
            llm_put(w, " |");
        same_length(w, n == first ? from : least,
                    n == last && high != UINT64_MAX ? to : most);
    }
}

void llm_put_integers(llm_writer *w, int64_t low, int64_t high)
{
    if (low < 0) {
        const uint64_t most = low == INT64_MIN ? UINT64_MAX : (uint64_t)-low;
        const uint64_t least = high >= 0 ? 1 : (uint64_t)-high;
        llm_put(w, "\"-\" (");
        natural(w, least, most);
        llm_put(w, ")");
        if (high < 0)
            return;
        llm_put(w, " |");
    }
    natural(w, low > 0 ? (uint64_t)low : 0,
            high == INT64_MAX ? UINT64_MAX : (uint64_t)high);
}
