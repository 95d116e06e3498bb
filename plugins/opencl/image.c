#include "image.h"

#include <options.h>

#include <string.h>

static uint32_t limit_of(const ocl_api *cl, const ocl_properties *d,
                         cl_device_info what)
{
    size_t value = 0;
    if (cl->GetDeviceInfo(d->id, what, sizeof value, &value, NULL))
        return 0;
    return value > INT32_MAX ? INT32_MAX : (uint32_t)value;
}

static void set(ocl_properties *d, uint32_t storage, uint32_t x, uint32_t y,
                uint32_t z)
{
    d->image[storage][0] = x;
    d->image[storage][1] = y;
    d->image[storage][2] = z;
}

void ocl_image_limits(const ocl_api *cl, ocl_properties *d)
{
    cl_bool images = CL_FALSE;
    memset(d->image, 0, sizeof d->image);
    if (cl->GetDeviceInfo(d->id, CL_DEVICE_IMAGE_SUPPORT, sizeof images,
                          &images, NULL) ||
        !images)
        return;
    const uint32_t x = limit_of(cl, d, CL_DEVICE_IMAGE2D_MAX_WIDTH);
    const uint32_t y = limit_of(cl, d, CL_DEVICE_IMAGE2D_MAX_HEIGHT);
    set(d, CLV_STORAGE_IMAGE_BUFFER,
        limit_of(cl, d, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE), 1, 1);
    set(d, CLV_STORAGE_TEXTURE_2D, x, y, 1);
    set(d, CLV_STORAGE_TEXTURE_ARRAY, x, y,
        limit_of(cl, d, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE));
    if (ocl_has_extension(d, "cl_khr_3d_image_writes"))
        set(d, CLV_STORAGE_TEXTURE_3D,
            limit_of(cl, d, CL_DEVICE_IMAGE3D_MAX_WIDTH),
            limit_of(cl, d, CL_DEVICE_IMAGE3D_MAX_HEIGHT),
            limit_of(cl, d, CL_DEVICE_IMAGE3D_MAX_DEPTH));
}

/* Images that a kernel may read, and write: those of one tensor, and others. */
static bool has_arguments(clv_plugin_device *dev)
{
    return limit_of(dev->cl, dev->props, CL_DEVICE_MAX_READ_IMAGE_ARGS) >=
               GPU_MAX_BINDINGS &&
           limit_of(dev->cl, dev->props, CL_DEVICE_MAX_WRITE_IMAGE_ARGS) >= 4;
}

clv_status ocl_image_choose(clv_plugin_device *dev, const char *key,
                            uint32_t *choice)
{
    return gpu_choose_storage(dev->base.host, dev->label, key,
                              dev->props->image, has_arguments(dev), choice);
}

static const cl_mem_object_type types[] = {
    [CLV_STORAGE_IMAGE_BUFFER] = CL_MEM_OBJECT_IMAGE1D_BUFFER,
    [CLV_STORAGE_TEXTURE_2D] = CL_MEM_OBJECT_IMAGE2D,
    [CLV_STORAGE_TEXTURE_ARRAY] = CL_MEM_OBJECT_IMAGE2D_ARRAY,
    [CLV_STORAGE_TEXTURE_3D] = CL_MEM_OBJECT_IMAGE3D};

void ocl_image_halves(clv_plugin_device *dev, bool halves[5])
{
    enum { MOST = 256 };
    cl_image_format formats[MOST];
    for (uint32_t s = CLV_STORAGE_IMAGE_BUFFER; s <= CLV_STORAGE_TEXTURE_3D;
         s++) {
        cl_uint n = 0;
        if (!dev->props->image[s][0] ||
            dev->cl->GetSupportedImageFormats(dev->context, CL_MEM_READ_WRITE,
                                              types[s], MOST, formats, &n))
            continue;
        for (cl_uint i = 0; i < n && i < MOST; i++)
            if (formats[i].image_channel_order == CL_RGBA &&
                formats[i].image_channel_data_type == CL_HALF_FLOAT)
                halves[s] = true;
    }
}

cl_int ocl_image_create(const clv_plugin_device *dev, const gpu_private *p,
                        cl_mem *image, cl_mem *behind)
{
    const cl_image_format format = {
        CL_RGBA, p->dtype == CLV_DTYPE_F16   ? CL_HALF_FLOAT
                 : p->dtype == CLV_DTYPE_I32 ? CL_UNSIGNED_INT32
                                             : CL_FLOAT};
    cl_image_desc desc = {.image_type = types[p->storage],
                          .image_width = p->extent[0]};
    cl_int error = CL_SUCCESS;
    if (p->storage == CLV_STORAGE_IMAGE_BUFFER) {
        *behind = dev->cl->CreateBuffer(dev->context, CL_MEM_READ_WRITE,
                                        p->size, NULL, &error);
        if (!*behind)
            return error;
        desc.buffer = *behind;
    } else {
        desc.image_height = p->extent[1];
    }
    if (p->storage == CLV_STORAGE_TEXTURE_ARRAY)
        desc.image_array_size = p->extent[2];
    else if (p->storage == CLV_STORAGE_TEXTURE_3D)
        desc.image_depth = p->extent[2];
    *image = dev->cl->CreateImage(dev->context, CL_MEM_READ_WRITE, &format,
                                  &desc, NULL, &error);
    return error;
}
