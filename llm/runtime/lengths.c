#include "lengths.h"

/* The least sum >= n of at most `terms` lengths; 0: there is none. */
static int64_t least_sum(const int64_t *lengths, uint32_t n_lengths, int64_t n,
                         uint32_t terms)
{
    int64_t best = 0;
    for (uint32_t i = 0; i < n_lengths; i++) {
        int64_t sum = lengths[i];
        if (sum < n) {
            const int64_t rest =
                terms > 1 ? least_sum(lengths, n_lengths, n - sum, terms - 1)
                          : 0;
            sum = rest ? sum + rest : 0;
        }
        if (sum && (!best || sum < best))
            best = sum;
        if (lengths[i] >= n)
            break;
    }
    return best;
}

uint32_t llm_lengths_to_try(const int64_t *lengths, uint32_t n_lengths,
                            uint32_t n, uint32_t most,
                            uint32_t tried[LLM_MAX_TRIED])
{
    uint32_t count = 0;
    tried[count++] = n;
    if (!n_lengths)
        return count;
    const int64_t largest = lengths[n_lengths - 1];
    const int64_t whole = (n - 1) / largest * largest;
    for (uint32_t terms = 1; terms < LLM_MAX_TRIED; terms++) {
        const int64_t sum =
            whole + least_sum(lengths, n_lengths, n - whole, terms);
        if (sum == whole || sum > most)
            continue;
        uint32_t i = 0;
        while (i < count && tried[i] != sum)
            i++;
        if (i == count)
            tried[count++] = (uint32_t)sum;
    }
    return count;
}
