/*
 * Memory that a device has for itself, as a graphics card does, and moving
 * bytes between it and the host.
 */
#pragma once

#include "buffer.h"

/* Whether the device keeps what it works on in memory of its own: it has local
 * memory, and none of it is the host's too (visible, coherent and cached). Then
 * *type is the memory type to use. */
bool core_device_has_local(const clv_device *dev, uint32_t *type);
/* Memory through which the host and the device exchange bytes; false if there
 * is none that the host sees. */
bool core_device_staging_type(const clv_device *dev, uint32_t *type);
/* Whether the device can copy from and to host memory of so many bytes while
 * others use it: it imports it, coherently. */
bool core_device_reaches_host(const clv_device *dev, uint64_t size);
/* Fails, naming the remedy, where it has neither of the two. */
clv_status core_device_can_exchange(const clv_device *dev);
/* Bytes of its own memory that were free when it was opened and that the
 * context does not use; UINT64_MAX: it has none of its own, or nobody knows. */
uint64_t core_device_room(const clv_device *dev);
/* Whether so many bytes more fit there; else an error with the figures. */
clv_status core_device_has_room(clv_device *dev, uint64_t size,
                                const char *what);
/* Its own memory, for `what`; the error says how to need less. */
clv_status core_device_alloc_local(clv_device *dev, uint64_t size,
                                   const char *what, core_buffer **out);

/* n stretches of `bytes` each, pitch bytes apart. */
typedef struct core_runs {
    uint64_t offset, bytes, pitch, n;
} core_runs;

/*
 * exchange.c. Between host memory and a buffer of the device, done when they
 * return; nothing else uses those bytes meanwhile. at: of the host's bytes and
 * of the buffer's alike, whose first byte is host[0] and base. Fill writes
 * zeros. Bytes pass through a small buffer that both see, half of which the
 * host fills while the device empties the other.
 */
clv_status core_buffer_write(core_buffer *buf, uint64_t base,
                             const core_runs *at, const void *host);
clv_status core_buffer_read(core_buffer *buf, uint64_t base,
                            const core_runs *at, void *host);
clv_status core_buffer_zero(core_buffer *buf, uint64_t base,
                            const core_runs *at);
/* The stretches lie one behind the other in the buffer, from its begin. */
clv_status core_buffer_pack(core_buffer *buf, const core_runs *at,
                            const void *host);
/* Between the two, exchanges with the device share one such buffer, for so many
 * bytes in all; without, each makes one for itself. */
void core_device_hold_staging(clv_device *dev, uint64_t bytes);
void core_device_release_staging(clv_device *dev);
