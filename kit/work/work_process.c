/* What a process has: threads, descriptors, mappings. */
#include "work.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

int kit_count_entries(kit *k, const char *path)
{
    DIR *dir = opendir(path);
    KIT_CHECK(k, dir, "%s cannot be read: %s", path, strerror(errno));
    int n = 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2; /* but itself and its parent */
}

int kit_count_lines(kit *k, const char *path, const char *text)
{
    char line[8192];
    FILE *file = fopen(path, "re");
    KIT_CHECK(k, file, "%s cannot be read: %s", path, strerror(errno));
    int n = 0;
    while (fgets(line, sizeof line, file))
        n += !text || strstr(line, text);
    fclose(file);
    return n;
}

int kit_count_threads(kit *k, int expected)
{
    /* A thread that was joined stays listed for a moment. */
    int n = 0;
    for (int i = 0; i < 1000; i++) {
        n = kit_count_entries(k, "/proc/self/task");
        if (n <= expected)
            break;
        kit_sleep(KIT_MS);
    }
    return n;
}

static void *run(void *ctx)
{
    kit_thread *t = ctx;
    t->main(t->k, t->ctx);
    atomic_store(&t->done, true);
    return NULL;
}

void kit_thread_start(kit *k, kit_thread *t, void (*main)(kit *k, void *ctx),
                      void *ctx)
{
    t->k = k;
    t->main = main;
    t->ctx = ctx;
    atomic_init(&t->done, false);
    int error = pthread_create(&t->handle, NULL, run, t);
    KIT_CHECK(k, !error, "no thread can be started for the case: %s",
              strerror(error));
}

void kit_thread_join(kit_thread *t, const char *what)
{
    uint64_t end = kit_now() + KIT_PATIENCE_NS;
    while (!atomic_load(&t->done)) {
        KIT_CHECK(t->k, kit_now() < end, "%s has not ended after %llu s", what,
                  (unsigned long long)(KIT_PATIENCE_NS / 1000000000u));
        kit_sleep(KIT_MS / 20);
    }
    pthread_join(t->handle, NULL);
}
