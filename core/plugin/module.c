#include "module.h"

#include "../base/error.h"
#include <dlfcn.h>
#include <link.h>
#include <ltdl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct core_module {
    core_module *next;
    char *path;
    dev_t device; /* of the file: it may be replaced while the process runs */
    ino_t inode;
    lt_dlhandle handle;
    bool stays;
    uint32_t users;
};

/* libltdl is not safe to use from two threads; protects the list too. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static core_module *modules;

/* Once a process, and for good: libltdl forgets, and leaks, the modules that
 * stay when it is shut down. */
static clv_status start_libltdl(void)
{
    static bool started;
    if (!started)
        started = !lt_dlinit();
    return started ? CLV_OK
                   : clv_error(CLV_ERR_INTERNAL, "libltdl does not start: %s",
                               lt_dlerror());
}

static core_module *find(const core_plugin_file *file)
{
    for (core_module *m = modules; m; m = m->next)
        if (!strcmp(m->path, file->path) && m->device == file->stat.st_dev &&
            m->inode == file->stat.st_ino)
            return m;
    return NULL;
}

static clv_status dl_error(const char *path)
{
    const char *text = dlerror();
    size_t n = strlen(path);
    if (text && !strncmp(text, path, n) && !strncmp(text + n, ": ", 2))
        text += n + 2;
    return clv_error(CLV_ERR_FORMAT, "%s; rebuild the plugin, or remove it",
                     text ? text : "it cannot be loaded");
}

static clv_status open_handle(core_module *m)
{
    lt_dladvise advise;
    if (lt_dladvise_init(&advise))
        return core_no_memory("to load it");
    lt_dladvise_local(&advise);
    if (m->stays)
        lt_dladvise_resident(&advise);
    m->handle = lt_dlopenadvise(m->path, advise);
    lt_dladvise_destroy(&advise);
    if (!m->handle)
        return clv_error(CLV_ERR_FORMAT, "libltdl cannot load it: %s",
                         lt_dlerror());
    return CLV_OK;
}

/* libltdl binds lazily and hides why a file cannot be loaded, so dlopen() goes
 * first, which binds everything and says why. */
static clv_status map(core_module *m, const core_plugin_file *file,
                      bool (*stays)(void *, void *), void *arg)
{
    struct link_map *linked;
    CLV_TRY(core_plugin_file_recheck(file));
    void *dl = dlopen(m->path, RTLD_NOW | RTLD_LOCAL);
    if (!dl)
        return dl_error(m->path);
    clv_status st = dlinfo(dl, RTLD_DI_LINKMAP, &linked)
                        ? dl_error(m->path)
                        : core_plugin_file_check_mapped(file, linked->l_ld);
    if (st == CLV_OK)
        st = start_libltdl();
    if (st == CLV_OK) {
        m->stays = stays(arg, dlsym(dl, CLV_PLUGIN_QUERY_SYMBOL));
        st = open_handle(m);
    }
    dlclose(dl);
    return st;
}

static clv_status add(const core_plugin_file *file,
                      bool (*stays)(void *, void *), void *arg,
                      core_module **out)
{
    core_module *m = calloc(1, sizeof *m);
    if (!m || !(m->path = strdup(file->path))) {
        free(m);
        return core_no_memory("to load it");
    }
    m->device = file->stat.st_dev;
    m->inode = file->stat.st_ino;
    clv_status st = map(m, file, stays, arg);
    if (st != CLV_OK) {
        free(m->path);
        free(m);
        return st;
    }
    m->next = modules;
    modules = m;
    *out = m;
    return CLV_OK;
}

clv_status core_module_open(const core_plugin_file *file,
                            bool (*stays)(void *, void *), void *arg,
                            core_module **out)
{
    clv_status st = CLV_OK;
    pthread_mutex_lock(&mutex);
    core_module *m = find(file);
    if (!m)
        st = add(file, stays, arg, &m);
    if (st == CLV_OK) {
        m->users++;
        *out = m;
    }
    pthread_mutex_unlock(&mutex);
    return st;
}

void *core_module_symbol(core_module *module, const char *name)
{
    pthread_mutex_lock(&mutex);
    void *symbol = lt_dlsym(module->handle, name);
    pthread_mutex_unlock(&mutex);
    return symbol;
}

void core_module_close(core_module *module)
{
    if (!module)
        return;
    pthread_mutex_lock(&mutex);
    if (!--module->users && !module->stays) {
        core_module **link = &modules;
        while (*link != module)
            link = &(*link)->next;
        *link = module->next;
        lt_dlclose(module->handle);
        free(module->path);
        free(module);
    }
    pthread_mutex_unlock(&mutex);
}
