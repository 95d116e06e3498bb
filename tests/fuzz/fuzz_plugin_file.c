/* A plugin's file before it is mapped: an ELF file, or, where the data does not
 * begin as one, a manifest's text alone. */
#include "../../core/plugin/plugin_inspect.h"

#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MACHINE_AT offsetof(ElfW(Ehdr), e_machine)

/* The seeds are of one machine; they get past the check on every one. */
static void set_machine(int fd)
{
    static uint16_t machine;
    if (!machine) {
        int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        if (self < 0 || pread(self, &machine, 2, MACHINE_AT) != 2)
            abort();
        close(self);
    }
    if (pwrite(fd, &machine, 2, MACHINE_AT) != 2)
        abort();
}

static void parse(const uint8_t *data, size_t size)
{
    core_manifest m;
    if (size > CLV_MANIFEST_MAX ||
        core_manifest_parse((const char *)data, size, &m) != CLV_OK)
        return;
    if (!m.name[0] || !m.kinds || m.abi_min < 1 || m.abi_max < m.abi_min)
        abort();
    core_manifest_check(&m, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (size < MACHINE_AT + 2 || memcmp(data, ELFMAG, SELFMAG)) {
        parse(data, size);
        return 0;
    }
    if (fd < 0)
        fd = memfd_create("plugin", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) ||
        pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    set_machine(fd);
    core_plugin_file file = {.fd = fd, .stat = {.st_size = (off_t)size}};
    core_manifest manifest;
    char problem[256];
    core_plugin_inspect(&file, NULL, &manifest, problem);
    return 0;
}
