/*
 * A device's own memory, as a graphics card has, and transfers between it and
 * the host.
 */
#pragma once

#include "buffer.h"

/* Whether the device works in memory of its own: it has local memory, and none
 * of it is the host's too (visible, coherent and cached). *type is the memory
 * type to use then. */
bool core_device_has_local(const clv_device *dev, uint32_t *type);
/* Whether what it can reach of the host's memory is limited, which it works in:
 * to info.address_size. */
bool core_device_is_windowed(const clv_device *dev);
/* Memory through which the host and the device exchange bytes; false if there
 * is none that the host sees. */
bool core_device_staging_type(const clv_device *dev, uint32_t *type);
/* Whether the device can copy from and to host memory of so many bytes while
 * others use it: it imports it, coherently. */
bool core_device_reaches_host(const clv_device *dev, uint64_t size);
/* Fails, naming the remedy, where it has neither of the two. */
clv_status core_device_can_exchange(const clv_device *dev);
/* Whether the device can copy from and to memory that owner, a device of the
 * same plugin, has mapped. *type is the memory type that imports it. */
bool core_device_imports_mapped(const clv_device *dev, const clv_device *owner,
                                uint32_t *type);
/* Whether so many bytes more fit there; else an error with the figures. */
clv_status core_device_has_room(clv_device *dev, uint64_t size,
                                const char *what);
/* Its own memory, for `what`; the error says how to need less. */
clv_status core_device_alloc_local(clv_device *dev, uint64_t size,
                                   const char *what, core_buffer **out);

/* The memory type for a copy of that size at multiples of align, which the host
 * fills: the device's own memory, else memory that both see. Fails, naming
 * device, limit and remedy. */
clv_status core_device_copy_type(const clv_device *dev, uint64_t size,
                                 uint64_t align, uint32_t *type);

/* n ranges of `bytes` each, pitch bytes apart. */
typedef struct core_runs {
    uint64_t offset, bytes, pitch, n;
} core_runs;
bool core_same_runs(const core_runs *a, const core_runs *b);

/*
 * exchange.c. Transfers between host memory and a buffer of the device; they
 * are done on return. at: the ranges, relative to host[0] and to base in the
 * buffer. The bytes pass through a small buffer that both see: the host fills
 * one half of it while the device empties the other.
 */
clv_status core_buffer_write(core_buffer *buf, uint64_t base,
                             const core_runs *at, const void *host);
/* The ranges of the host's bytes, one behind the other, from the buffer's begin
 * on. */
clv_status core_buffer_pack(core_buffer *buf, const core_runs *at,
                            const void *host);
clv_status core_buffer_read(core_buffer *buf, uint64_t base,
                            const core_runs *at, void *host);
clv_status core_buffer_zero(core_buffer *buf, uint64_t base,
                            const core_runs *at);
/* A buffer of that memory type with a copy of a weight: the ranges of the
 * host's bytes, one behind the other. visible: in memory that the host sees. */
clv_status core_device_copy(clv_device *dev, uint64_t align,
                            const core_runs *at, const void *host, bool visible,
                            core_buffer **out);
/* Between the two calls, transfers share one such buffer, made for that many
 * bytes in all; otherwise each makes its own. */
void core_device_hold_staging(clv_device *dev, uint64_t bytes);
void core_device_release_staging(clv_device *dev);
bool core_device_holds_staging(clv_device *dev);
