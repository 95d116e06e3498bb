/* What is done to the process: leaks, and calls that are not allowed. */
#include "hostile.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static clv_status leak_block(const clv_host_api *host,
                             clv_plugin_instance **out)
{
    if (!host->alloc(host->host, 100, 16))
        return clv_no_memory(host, 100);
    return ref_create(host, out);
}

static clv_status leak_fd(const clv_host_api *host, clv_plugin_instance **out)
{
    if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
        return clv_fail(host, CLV_ERR_LIMIT, "hostile: no descriptor to lose");
    return ref_create(host, out);
}

static void *idle(void *arg)
{
    (void)arg;
    for (;;)
        hostile_sleep(1000000000);
    return NULL;
}

static clv_status leak_thread(const clv_host_api *host,
                              clv_plugin_instance **out)
{
    pthread_t thread;
    if (!pthread_create(&thread, NULL, idle, NULL))
        pthread_detach(thread);
    return ref_create(host, out);
}

static clv_status leak_program(clv_plugin_device *dev,
                               const clv_compile *compile,
                               clv_plugin_program **out)
{
    if (!dev->host->alloc(dev->host->host, 100, 16))
        return clv_no_memory(dev->host, 100);
    return ref_program_compile(dev, compile, out);
}

/* A block that the host never gave. */
static clv_status free_foreign(const clv_host_api *host,
                               clv_plugin_instance **out)
{
    static _Alignas(64) char block[256];
    host->free(host->host, block + 64);
    return ref_create(host, out);
}

static clv_status free_twice(const clv_host_api *host,
                             clv_plugin_instance **out)
{
    void *block = host->alloc(host->host, 100, 16);
    host->free(host->host, block);
    host->free(host->host, block);
    return ref_create(host, out);
}

static clv_status write_past_block(const clv_host_api *host,
                                   clv_plugin_instance **out)
{
    char *block = host->alloc(host->host, 100, 16);
    if (block)
        block[100] = 1;
    host->free(host->host, block);
    return ref_create(host, out);
}

static void calls_late(clv_plugin_instance *inst)
{
    ref_destroy(inst);
    hostile_host->log(hostile_host->host, CLV_LOG_INFO, NULL, 0,
                      "hostile: am I still heard?");
}

/* Memory never runs out, it believes. */
static clv_host_api believed;
static const clv_host_api *asked;

static void *alloc_or_crash(clv_host *host, uint64_t size, uint64_t alignment)
{
    void *block = asked->alloc(host, size, alignment);
    memset(block, 0, size < 16 ? size : 16);
    return block;
}

static clv_status alloc_crashes(const clv_host_api *host,
                                clv_plugin_instance **out)
{
    asked = host;
    believed = *host;
    believed.alloc = alloc_or_crash;
    return ref_create(&believed, out);
}

/* Half made where memory runs out: the first block is lost. */
static clv_status alloc_leaks(const clv_host_api *host,
                              clv_plugin_instance **out)
{
    void *first = host->alloc(host->host, 64, 16);
    void *second = first ? host->alloc(host->host, 64, 16) : NULL;
    if (!second)
        return clv_no_memory(host, 200);
    host->free(host->host, first);
    host->free(host->host, second);
    return ref_create(host, out);
}

static bool crash_at_end;

__attribute__((destructor)) static void unmapped(void)
{
    if (crash_at_end)
        hostile_crash();
}

static clv_status crash_unload(const clv_host_api *host,
                               clv_plugin_instance **out)
{
    crash_at_end = true;
    return ref_create(host, out);
}

static clv_status stays_silent(const clv_host_api *host,
                               clv_plugin_instance **out)
{
    host->set_error(host->host, CLV_ERR_INTERNAL, 0, "");
    return ref_create(host, out);
}

static void handle(int number)
{
    (void)number;
}

static clv_status signal_handler(const clv_host_api *host,
                                 clv_plugin_instance **out)
{
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGSEGV, &action, NULL);
    return ref_create(host, out);
}

static clv_status leak_heap(clv_plugin_device *dev, const clv_submit *submit)
{
    static void *volatile lost; /* or the compiler would leave it out */
    lost = malloc(1 << 20);
    if (lost)
        memset(lost, 1, 1 << 20);
    return ref_submit(dev, submit);
}

const hostile_mode hostile_processes[] = {
    {"leak_heap", "memory past the host, a submit", {.submit = leak_heap}},
    {"leak_block", "a block of the host's a cycle", {.create = leak_block}},
    {"leak_fd", "a descriptor a cycle", {.create = leak_fd}},
    {"leak_thread", "a thread a cycle", {.create = leak_thread}},
    {"leak_program", "a block a program", {.program_compile = leak_program}},
    {"free_foreign", "frees what is not the host's", {.create = free_foreign}},
    {"free_twice", "frees twice", {.create = free_twice}},
    {"write_past_block", "a byte behind a block", {.create = write_past_block}},
    {"calls_late", "the host, after destroy", {.destroy = calls_late}},
    {"alloc_crashes", "where memory runs out", {.create = alloc_crashes}},
    {"alloc_leaks", "where memory runs out", {.create = alloc_leaks}},
    {"crash_unload", "when it is unmapped", {.create = crash_unload}},
    {"message_empty", "an error that says nothing", {.create = stays_silent}},
    {"signal_handler", "installs one", {.create = signal_handler}},
    {0},
};
