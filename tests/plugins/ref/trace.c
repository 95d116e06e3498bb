#include "ref.h"

#include <stdio.h>
#include <string.h>

uint64_t ref_ticks(const clv_plugin_device *dev)
{
    return dev->host->now_ns(dev->host->host) / dev->settings->tick_ns;
}

/* When nobody reads, the newest are lost. */
void ref_record(clv_plugin_device *dev, const ref_job *job, uint32_t command,
                uint32_t node, const char *name, uint64_t begin, uint64_t end)
{
    if (!job->correlation)
        return;
    pthread_mutex_lock(&dev->mutex);
    if (dev->n_records < REF_MAX_RECORDS) {
        clv_trace_record *r = &dev->records[dev->n_records++];
        memset(r, 0, sizeof *r);
        r->correlation = job->correlation;
        r->begin = begin;
        r->end = end;
        r->node = node;
        r->command = command;
        snprintf(r->name, sizeof r->name, "%s", name);
    }
    pthread_mutex_unlock(&dev->mutex);
}

clv_status ref_trace_read(clv_plugin_device *dev, uint32_t *count,
                          clv_trace_record *out, uint32_t stride)
{
    CLV_TRY(ref_check_device(dev));
    pthread_mutex_lock(&dev->mutex);
    uint32_t n = *count < dev->n_records ? *count : dev->n_records;
    for (uint32_t i = 0; i < n; i++)
        clv_write(clv_at(out, i, stride), &dev->records[i],
                  sizeof dev->records[i]);
    dev->n_records -= n;
    memmove(dev->records, dev->records + n,
            dev->n_records * sizeof *dev->records);
    pthread_mutex_unlock(&dev->mutex);
    *count = n;
    return CLV_OK;
}

clv_status ref_calibrate(clv_plugin_device *dev, clv_calibration *out)
{
    CLV_TRY(ref_check_device(dev));
    clv_calibration c;
    memset(&c, 0, sizeof c);
    c.host_ns = dev->host->now_ns(dev->host->host);
    c.device_tick = c.host_ns / dev->settings->tick_ns;
    c.max_error_ns = dev->settings->tick_ns;
    c.tick_ns = dev->settings->tick_ns;
    clv_write(out, &c, sizeof c);
    return CLV_OK;
}
