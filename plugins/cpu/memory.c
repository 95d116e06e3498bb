#include "memory.h"
#include "device.h"
#include "machine.h"

#include <cleave/plugin_memory.h>

clv_status cpu_mem_types(clv_plugin_device *dev, uint32_t *count,
                         clv_mem_type *out, uint32_t stride)
{
    (void)dev;
    (void)stride;
    return clv_host_memory(cpu_memory_free(), count, out);
}

clv_status cpu_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                            uint64_t size, clv_plugin_buffer **out)
{
    CLV_TRY(clv_queue_usable(dev));
    return clv_buffer_alloc(dev, mem_type, size, out);
}

clv_status cpu_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                             const clv_import *import, clv_plugin_buffer **out)
{
    CLV_TRY(clv_queue_usable(dev));
    return clv_buffer_import(dev, mem_type, import, out);
}
