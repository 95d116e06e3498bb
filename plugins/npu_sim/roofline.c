#include "roofline.h"

#include <math.h>

double npu_roofline_compute_ns(const npu_roofline *r, double operations)
{
    return operations / r->rate * 1e9;
}

double npu_roofline_ns(const npu_roofline *r, double operations, double bytes)
{
    return fmax(npu_roofline_compute_ns(r, operations),
                bytes / r->bandwidth * 1e9);
}
