/* Programs: code lowered from a graph, its pipelines, and its recordings. */
#pragma once

#include "image.h"
#include "kernel.h"
#include "memory.h"

#include <cleave/plugin_program.h>

/* Where a tensor lies: bytes of a Vulkan buffer; or an image as a whole. */
typedef struct vk_place {
    VkBuffer buffer;
    uint64_t address; /* of it, where the device has addresses */
    uint64_t begin, end;
    uint64_t limit;          /* of the Vulkan buffer */
    const vk_private *image; /* NULL: bytes */
} vk_place;

#define VK_RECORDINGS 4u

/* Where the times of a run's kernels go: before the first, and after each. */
typedef struct vk_stamps {
    VkQueryPool pool; /* NULL: nowhere */
    uint32_t first;
} vk_stamps;

/* What else of its submit is in a program's command buffer (device_wait.h). */
typedef struct vk_joined {
    const struct clv_submit *submit; /* read only while recording */
    bool waits;       /* by the device, before it runs what needs that */
    uint32_t signals; /* stored behind all: bits */
} vk_joined;

/* A command buffer that runs the program with some bindings and symbols. */
typedef struct vk_recording {
    VkCommandPool pool;
    VkCommandBuffer cb;
    VkDescriptorPool descriptors; /* where they are not pushed */
    VkDescriptorSet *sets;        /* [n dispatches] of that pool, or NULL */
    vk_place *places; /* [n_tensors] that the descriptors point to */
    bool *waits;      /* [n dispatches] for those before it, by the places */
    int64_t symbols[CLV_MAX_SYMBOLS];
    bool written, recorded; /* the sets, the command buffer */
    bool is_setup;          /* it fills the weights that the program made */
    bool is_part;           /* of a command buffer that others have; the rest of
                               this is not used then */
    vk_stamps stamps;       /* in the command buffer */
    vk_joined joined;       /* if it is a part */
    uint32_t resets;        /* queries of those that it resets itself */
    uint64_t value;         /* of the semaphore after its last run */
} vk_recording;

struct clv_plugin_program {
    clv_program_base base;
    clv_plugin_device *dev;
    vk_place *weights; /* [n_tensors] buffer NULL: bound at submit */
    vk_place *places;  /* [n_tensors] of the run being recorded */
    gpu_code *code;
    vk_kernel **kernels;   /* [code->n_kernels] */
    gpu_privates privates; /* of vk_private */
    vk_recording recordings[VK_RECORDINGS];
    vk_recording part; /* for runs in command buffers that others have */
    uint64_t compile_ns;
    uint64_t run_ns; /* that its runs take at least; 0: not known. Atomic, of
                        the finisher */
};

clv_status vk_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                      clv_op_caps *out, uint32_t stride);
clv_status vk_program_compile(clv_plugin_device *dev,
                              const clv_compile *compile,
                              clv_plugin_program **out);
clv_status vk_program_info(clv_plugin_program *prog, clv_program_info *out);
void vk_program_destroy(clv_plugin_program *prog);

/* Whether a RUN keeps to what was compiled. */
clv_status vk_program_check(const clv_command *command);
/* Where the tensors lie that a run binds, which was checked; places:
 * [n_tensors], where weights are there already. */
void vk_program_places(const clv_command *command, vk_place *places);

/* record.c: space for n dispatches. After a failure, too, it is to be
 * finished. */
VkResult vk_recording_init(clv_plugin_program *prog, vk_recording *rec,
                           const gpu_dispatch *dispatches, uint32_t n);
void vk_recording_finish(clv_plugin_program *prog, vk_recording *rec);
/* Takes the places; points the sets there, and finds what has to wait. */
void vk_recording_write(clv_plugin_program *prog, vk_recording *rec,
                        const gpu_dispatch *dispatches, uint32_t n,
                        const vk_place *places);
/* Records the dispatches, and a barrier; the sets are written. rec->stamps say
 * whether with times, rec->joined what else. */
VkResult vk_recording_record(clv_plugin_program *prog, vk_recording *rec,
                             const gpu_dispatch *dispatches, uint32_t n,
                             const int64_t *symbols);
/* The same into rec->cb, which is being recorded. */
void vk_recording_add(clv_plugin_program *prog, const vk_recording *rec,
                      const gpu_dispatch *dispatches, uint32_t n,
                      const int64_t *symbols);

/* replay.c: the command buffer that runs the program as the command says; it
 * ends with a barrier. value: of the semaphore when the run has ended. By one
 * thread of the queue at a time. */
clv_status vk_program_commands(const clv_command *command, uint64_t value,
                               vk_stamps stamps, VkCommandBuffer *out,
                               char message[CLV_MESSAGE_SIZE]);
/* Records the same into a command buffer, with what is joined. Only where
 * kernels are modules. */
clv_status vk_program_record(const clv_command *command, vk_joined joined,
                             VkCommandBuffer into,
                             char message[CLV_MESSAGE_SIZE]);
/* Runs dispatches of the setup once, and waits for them. */
clv_status vk_program_once(clv_plugin_program *prog,
                           const gpu_dispatch *dispatches, uint32_t n);

/* privates.c */
extern const gpu_privates_plugin vk_privates;
static inline const vk_private *vk_private_of(const clv_plugin_program *prog,
                                              uint32_t i)
{
    return (const vk_private *)prog->privates.memory + i;
}
