#include "random.h"

/* splitmix64: spreads a seed over the state, which must not be all zero. */
static uint64_t spread(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rotate(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

void llm_random_seed(llm_random *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->s[i] = spread(&seed);
}

uint64_t llm_random_next(llm_random *rng)
{
    uint64_t *s = rng->s;
    const uint64_t result = rotate(s[0] + s[3], 23) + s[0];
    const uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

double llm_random_uniform(llm_random *rng)
{
    return (double)(llm_random_next(rng) >> 11) * 0x1p-53;
}
