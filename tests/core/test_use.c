/* The note of what is under way, where a thread crashes while another one goes
 * on and changes it. */
#include "../../core/context/use.h"
#include "../plugins/ref/context.h"
#include "tmpdir.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define CRASHES 300

static tmpdir dir;

typedef struct changes {
    core_use *use;
    atomic_int n;
    atomic_bool stop;
} changes;

static void *change(void *arg)
{
    changes *c = arg;
    while (!atomic_load(&c->stop)) {
        core_use_note(c->use, NULL, "submit of device '%s'", "x:0");
        core_use_note(c->use, NULL, "the first run of a plan on %s", "x:0");
        atomic_fetch_add(&c->n, 1);
    }
    return NULL;
}

/* The only file of uses/. */
static void read_note(char *out, size_t size)
{
    char path[1024];
    const struct dirent *entry;
    DIR *d = opendir(tmpdir_file(&dir, "uses"));
    assert_non_null(d);
    while ((entry = readdir(d)) && entry->d_name[0] == '.')
        ;
    assert_non_null(entry);
    snprintf(path, sizeof path, "%s/uses/%s", dir.path, entry->d_name);
    closedir(d);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    out[fread(out, 1, size - 1, f)] = 0;
    fclose(f);
}

static void crash_once(clv_context *ctx)
{
    pthread_t thread;
    char file[2048];
    changes c = {.use = core_use_begin(ctx)};
    assert_non_null(c.use);
    assert_int_equal(pthread_create(&thread, NULL, change, &c), 0);
    while (!atomic_load(&c.n))
        ;
    const char *text = clv_crash_note(SIGSEGV);
    atomic_store(&c.stop, true);
    pthread_join(thread, NULL);
    assert_non_null(text);
    static const char head[] = "it crashed (signal 11, SIGSEGV) in ";
    assert_int_equal(strncmp(text, head, sizeof head - 1), 0);
    const char *what = text + sizeof head - 1;
    assert_true(!strcmp(what, "submit of device 'x:0'") ||
                !strcmp(what, "the first run of a plan on x:0"));
    /* What was under way, then how it ended; nothing came after. */
    read_note(file, sizeof file);
    const char *second = strchr(file, '\n');
    assert_non_null(second);
    assert_int_equal(strncmp(second + 1, what, strlen(what)), 0);
    assert_string_equal(second + 1 + strlen(what) + 1, text);
    core_use_end(c.use);
}

static void test_crash_while_noted(void **state)
{
    (void)state;
    assert_true(tmpdir_make(&dir));
    char settings[512];
    snprintf(settings, sizeof settings, "core.cache_dir=%s", dir.path);
    test_context t = test_context_create(settings);
    for (int i = 0; i < CRASHES; i++)
        crash_once(t.ctx);
    test_context_destroy(&t);
    tmpdir_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crash_while_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
