#include "wait.h"

#define POLL_NS 5000000u  /* polling is worth a core while it is idle */
#define KNOWN_NS 1000000u /* waits that tell whether the driver polls */

static uint64_t thread_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A polling wait computes all the time, less what other threads had the core
 * for; one that blocks computes next to nothing. */
static bool driver_polls(const ocl_waits *waits)
{
    uint64_t ns = __atomic_load_n(&waits->ns, __ATOMIC_RELAXED);
    uint64_t cpu_ns = __atomic_load_n(&waits->cpu_ns, __ATOMIC_RELAXED);
    return ns > KNOWN_NS && cpu_ns > ns / 4;
}

static cl_int wait_by_driver(clv_plugin_device *dev, cl_event event)
{
    ocl_waits *waits = &dev->waits;
    const uint64_t begin = clv_queue_now(), cpu_begin = thread_time();
    cl_int error = dev->cl->WaitForEvents(1, &event);
    __atomic_fetch_add(&waits->cpu_ns, thread_time() - cpu_begin,
                       __ATOMIC_RELAXED);
    __atomic_fetch_add(&waits->ns, clv_queue_now() - begin, __ATOMIC_RELAXED);
    return error;
}

bool ocl_has_ended(clv_plugin_device *dev, cl_event event)
{
    cl_int status;
    return dev->cl->GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                 sizeof status, &status, NULL) ||
           status <= CL_COMPLETE;
}

cl_int ocl_wait(clv_plugin_device *dev, cl_event event)
{
    clv_spin spin = {0, 0};
    if (!driver_polls(&dev->waits))
        return wait_by_driver(dev, event);
    while (!ocl_has_ended(dev, event))
        clv_spin_or_sleep(&spin, &dev->base.queue->spin, POLL_NS);
    return dev->cl->WaitForEvents(1, &event); /* what the device wrote is seen
                                                 only after a wait */
}
