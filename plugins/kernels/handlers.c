#include "handlers.h"

void gpu_handlers_keep(gpu_handlers *h)
{
    for (int s = 1; s < NSIG; s++)
        h->known[s] = !sigaction(s, NULL, &h->of[s]);
}

void gpu_handlers_restore(const gpu_handlers *h)
{
    struct sigaction now;
    for (int s = 1; s < NSIG; s++)
        if (h->known[s] && !sigaction(s, NULL, &now) &&
            (now.sa_handler != h->of[s].sa_handler ||
             now.sa_flags != h->of[s].sa_flags))
            sigaction(s, &h->of[s], NULL);
}
