/*
 * A virtual tensor: its dtype and shape, and the memories that hold it.
 *
 * The host memory has a reference count: the tensor holds one reference, and
 * every device that imported it another. So wrapped memory is released only
 * when no plugin uses it any more. An object holds the tensor, or some ranges
 * of its bytes, on one device. It is made on the first request and destroyed
 * with the tensor; a copy of a weight that no exec uses may go before.
 */
#pragma once

#include "../device/memory.h"
#include "form.h"

/* Host memory with a count of those who use it. */
typedef struct core_memory {
    void *data;
    uint64_t size;
    uint32_t access; /* CLV_ACCESS_* */
    _Atomic uint32_t refs;
    uint64_t reserved;       /* bytes mapped here; 0: wrapped */
    void (*release)(void *); /* of wrapped memory, may be NULL */
    void *release_ctx;
    clv_device *mapped_by; /* whose buffer's it is; NULL: no device's */
} core_memory;

/* How a device gets at a tensor's memory. */
typedef enum core_holding {
    CORE_HOLD_IMPORT = 0,  /* it uses the host's memory in place */
    CORE_HOLD_COPY = 1,    /* its own memory, filled once: weights only */
    CORE_HOLD_LOCAL = 2,   /* memory of its own or a form of its own, kept up to
                              date: see below */
    CORE_HOLD_STREAM = 3,  /* memory of its own that the host sees, filled once,
                              from which runs copy: weights only */
    CORE_HOLD_PRIVATE = 4, /* as COPY, in CLV_LAYOUT_PRIVATE: whole rows, or
                              parts of rows, of weights */
} core_holding;

typedef struct core_object {
    core_buffer *buffer;   /* owned; names the device */
    uint64_t offset, size; /* of the elements in the buffer */
    uint32_t holding;      /* core_holding */
    core_form form;        /* of its elements; LOCAL alone has others */
    core_memory *image;    /* LOCAL: the host's memory that it imports, of a
                              device without memory of its own; or NULL */
    core_runs range;       /* of the tensor's bytes: the ranges it holds,
                              without gaps */
    uint32_t memory;       /* LOCAL: its bit in clv_tensor.regions */
    uint32_t users;        /* of what is filled once: execs; 0: it may go */
    bool mapped;           /* the tensor's memory is the buffer's: see
                              core_tensor_create_seen() */
    struct core_object *next;
} core_object;

/* Part of a weight that execs use in place on a device of a limited address
 * space. */
typedef struct core_reach {
    clv_device *dev;
    core_runs range;
    uint32_t users; /* at least 1 */
    struct core_reach *next;
} core_reach;

struct clv_tensor {
    clv_context *ctx;
    uint32_t dtype, rank;
    int64_t dims[CLV_MAX_RANK];
    uint64_t size;
    uint32_t quant, quant_group; /* clv_quant */
    clv_tensor *scales;          /* not owned; NULL: none */
    float *popularity;           /* [dims[0]]; NULL: unknown */
    core_memory *memory;
    pthread_mutex_t mutex; /* protects objects: sessions share weights */
    core_object *objects;
    core_reach *reaches;
    /* Where the newest contents are, once there is an object with
     * CORE_HOLD_LOCAL: bit 0 is the host's memory. */
    core_regions regions;
    uint32_t n_local;
    bool zero; /* as made: nobody has been able to write to it yet */
};

/* What n rows are expected to use of the weights of experts first .. end - 1:
 * different experts, and products of a row. False where chances are not known.
 */
bool core_tensor_expected(const clv_tensor *tensor, int64_t first, int64_t end,
                          double n, double *experts, double *products);

/* The hash with the chances of its experts, if it has any. */
uint64_t core_tensor_mix_popularity(uint64_t hash, const clv_tensor *tensor);

/* What it takes for dev to hold the tensor at addresses that are multiples of
 * align. Fails, naming device, limit and remedy, where it cannot, or where only
 * a copy would do and none is allowed. Changes nothing. */
clv_status core_tensor_holding(const clv_tensor *tensor, const clv_device *dev,
                               uint64_t align, bool may_copy,
                               uint32_t *holding);
static inline core_runs core_tensor_whole(const clv_tensor *tensor)
{
    return (core_runs){0, tensor->size, tensor->size, 1};
}
/* The object on dev that holds these ranges of the tensor's bytes; NULL: all of
 * them. align and holding: as core_tensor_holding() was asked and answered. The
 * object is made now if there is none yet. Owned by the tensor. */
clv_status core_tensor_object(clv_tensor *tensor, clv_device *dev,
                              uint64_t align, uint32_t holding,
                              const core_runs *range, const core_object **out);
/* Whether there is such a copy of these ranges on dev already, or one that some
 * exec uses; IMPORT: whether one reaches them. */
bool core_tensor_has_copy(clv_tensor *tensor, const clv_device *dev,
                          uint64_t align, uint32_t holding,
                          const core_runs *range);
bool core_tensor_has_used_copy(clv_tensor *tensor, const clv_device *dev,
                               uint64_t align, uint32_t holding,
                               const core_runs *range);
/* The index-th copy in dev's own memory that some exec uses, by its ranges, or
 * of a device of a limited address space the index-th part that it reaches;
 * false: there are no more. */
bool core_tensor_copy_at(clv_tensor *tensor, const clv_device *dev,
                         uint32_t index, core_runs *range);
/* core_tensor_object() for an exec, which uses it until it leaves it. */
clv_status core_tensor_use(clv_tensor *tensor, clv_device *dev, uint64_t align,
                           uint32_t holding, const core_runs *range,
                           const core_object **out);
void core_tensor_leave(clv_tensor *tensor, const core_object *object);
/* One more exec uses these ranges in place on dev, whose address space is
 * limited, and one less. CLV_ERR_NO_MEMORY where it does not reach so much. */
clv_status core_tensor_reach(clv_tensor *tensor, clv_device *dev,
                             const core_runs *range);
void core_tensor_unreach(clv_tensor *tensor, const clv_device *dev,
                         const core_runs *range);
/* Bytes of dev's own memory in copies that no exec uses. */
uint64_t core_tensor_unused_bytes(clv_tensor *tensor, const clv_device *dev);
/* Destroys the copies on dev that no exec uses. */
void core_tensor_drop_unused(clv_tensor *tensor, const clv_device *dev);
/* Whether dev can use host memory of this size made by clv_tensor_create();
 * coherent: other devices use it during the same run. The same errors. */
clv_status core_tensor_can_share(const clv_device *dev, uint64_t size,
                                 bool coherent);

/* Of a tensor that is destroyed, or does without it. */
void core_object_destroy(core_object *object);

/* As clv_tensor_create(), in memory of dev that the host sees, which is
 * coherent: dev reaches it as if it had imported it, others as they do any
 * memory of the host's. */
clv_status core_tensor_create_seen(clv_context *ctx, clv_device *dev,
                                   uint32_t dtype, uint32_t rank,
                                   const int64_t *dims, clv_tensor **out);

/* Memory of the host's that devices may import, zeros; holds one reference. */
clv_status core_memory_make(const clv_context *ctx, uint64_t size,
                            core_memory **out);
void core_memory_release(void *memory);
/* Has dev import all of it; it holds a reference then. */
clv_status core_memory_import(core_memory *memory, clv_device *dev,
                              core_object *object);

/*
 * tensor_local.c: memory of devices for tensors whose contents change: the
 * states of graphs. Runs say which boxes they need where, and which they have
 * written. A box is copied, or its layout changed, only when a device or the
 * host needs it.
 */
/* The object of the whole tensor in the device's own memory, or in memory of
 * the host's for this form alone where it has none; made now if there is none
 * yet. Its contents are whatever core_tensor_bring() brought. */
clv_status core_tensor_local(clv_tensor *tensor, clv_device *dev,
                             const core_form *form, const core_object **out);
/* The newest contents of a box come to a device's own memory; object: NULL for
 * the host's. CLV_ERR_DEVICE_LOST where only a lost device has them. */
clv_status core_tensor_bring(clv_tensor *tensor, const core_object *object,
                             const core_bounds *box);
/* Whether they are there already. */
bool core_tensor_is_there(clv_tensor *tensor, const core_object *object,
                          const core_bounds *box);
/* A run writes the box: these memories will have it. */
clv_status core_tensor_wrote(clv_tensor *tensor, const core_bounds *box,
                             uint64_t memories);
/* The bytes of a box of a dense tensor; false if they are not ranges of one
 * length at equal distances. */
bool core_bounds_runs(uint32_t dtype, uint32_t rank, const int64_t *dims,
                      const core_bounds *box, core_runs *out);
