#include "relayout.h"
#include "../base/grow.h"
#include "../context/context.h"
#include "answer.h"
#include "loss.h"
#include "program_cache.h"
#include "subgraph.h"
#include "submit.h"

#include <stdlib.h>

/* Bytes of the rows that pass at once. */
#define PART_SIZE ((uint64_t)32 << 20)

/* For rows of one dtype and length. */
typedef struct relayout_program {
    uint32_t dtype;
    int64_t length; /* elements of a row */
    int64_t rows;   /* at once, at most: a multiple of CLV_MAX_PRIVATE_ROWS, so
                       whole blocks of any layout */
    core_program *program;
} relayout_program;

struct core_relayout {
    relayout_program *programs;
    uint32_t n_programs, capacity;
    core_buffer *linear; /* for rows before they are brought into the layout */
    core_timeline *timeline;
    uint64_t value; /* of the timeline after all that was submitted */
};

/* ------------------------------------------------------------------------ */
/* What is kept                                                              */

static void relayout_free(core_relayout *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < r->n_programs; i++)
        core_program_destroy(r->programs[i].program);
    core_buffer_free(r->linear);
    core_timeline_destroy(r->timeline);
    free(r->programs);
    free(r);
}

static clv_status relayout_make(clv_device *dev, core_relayout **out)
{
    core_relayout *r = calloc(1, sizeof *r);
    if (!r)
        return core_device_error(dev, CLV_ERR_NO_MEMORY,
                                 "no memory to copy weights");
    const clv_status status = core_timeline_create(dev, 0, &r->timeline);
    if (status)
        free(r);
    else
        *out = r;
    return status;
}

void core_device_release_relayout(clv_device *dev)
{
    pthread_mutex_lock(&dev->relayout_mutex);
    relayout_free(dev->relayout);
    dev->relayout = NULL;
    pthread_mutex_unlock(&dev->relayout_mutex);
}

/* ------------------------------------------------------------------------ */
/* Programs                                                                  */

/* One CONVERT of at most p->rows rows, whose number is a symbol. */
static clv_status compile(clv_device *dev, relayout_program *p)
{
    const clv_symbol_range rows = {.min = 1, .max = p->rows};
    clv_tensor_desc tensors[2];
    clv_node node = CLV_INIT(clv_node, CLV_STRUCT_NODE);
    clv_subgraph graph = CLV_INIT(clv_subgraph, CLV_STRUCT_SUBGRAPH);
    for (uint32_t i = 0; i < 2; i++) {
        clv_tensor_desc t = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
        t.dtype = p->dtype;
        t.usage = i ? CLV_USAGE_OUTPUT : CLV_USAGE_INPUT;
        t.layout = i ? CLV_LAYOUT_PRIVATE : CLV_LAYOUT_LINEAR;
        t.rank = 2;
        t.dims[0] = p->rows;
        t.dims[1] = p->length;
        t.symbols[0] = 1;
        tensors[i] = t;
    }
    node.op = CLV_OP_CONVERT;
    node.revision = 1;
    node.n_inputs = node.n_outputs = 1;
    node.outputs[0] = 1;
    graph.tensors = tensors;
    graph.nodes = &node;
    graph.symbols = &rows;
    graph.n_tensors = 2;
    graph.tensor_stride = sizeof *tensors;
    graph.n_nodes = graph.n_symbols = 1;
    graph.node_stride = sizeof node;
    const core_compile request = {.graph = &graph};
    return core_program_get(dev, &request, &p->program);
}

static clv_status find_program(clv_device *dev, core_relayout *r,
                               uint32_t dtype, int64_t length, uint64_t row,
                               const relayout_program **out)
{
    for (uint32_t i = 0; i < r->n_programs; i++)
        if (r->programs[i].dtype == dtype && r->programs[i].length == length) {
            *out = &r->programs[i];
            return CLV_OK;
        }
    const uint64_t step = CLV_MAX_PRIVATE_ROWS;
    const uint64_t rows = PART_SIZE / row / step * step;
    relayout_program p = {dtype, length, (int64_t)(rows ? rows : step), NULL};
    if (!core_grow(&r->programs, &r->capacity, r->n_programs + UINT64_C(1),
                   sizeof *r->programs))
        return core_device_error(dev, CLV_ERR_NO_MEMORY,
                                 "no memory to copy weights");
    CLV_TRY(compile(dev, &p));
    *out = &r->programs[r->n_programs];
    r->programs[r->n_programs++] = p;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Work                                                                      */

/* Memory for so many bytes of rows. */
static clv_status reserve(clv_device *dev, core_relayout *r, uint64_t size)
{
    if (r->linear && r->linear->size >= size)
        return CLV_OK;
    core_buffer_free(r->linear);
    r->linear = NULL;
    return core_device_alloc_local(dev, size, "a weight to be copied",
                                   &r->linear);
}

/* Runs the program on the rows in r->linear; they are at offset in `to` then.
 */
static clv_status run(core_relayout *r, const relayout_program *p, int64_t rows,
                      uint64_t size, core_buffer *to, uint64_t offset)
{
    clv_device *dev = to->dev;
    const core_binding bindings[] = {
        {.tensor = 0, .buffer = r->linear, .size = size},
        {.tensor = 1, .buffer = to, .offset = offset, .size = size}};
    const core_command command = {.kind = CLV_COMMAND_RUN,
                                  .program = p->program,
                                  .bindings = bindings,
                                  .n_bindings = 2,
                                  .symbols = &rows};
    const core_point signal = {r->timeline, r->value + 1};
    const core_submit submit = {.commands = &command,
                                .n_commands = 1,
                                .signals = &signal,
                                .n_signals = 1};
    const uint64_t wait_ns = core_context_wait_ns(dev->ctx);
    clv_status status;
    while ((status = core_device_submit(dev, &submit)) == CLV_ERR_LIMIT)
        CLV_TRY(core_device_settle(dev, wait_ns));
    CLV_TRY(status);
    r->value++;
    status = core_timeline_wait(r->timeline, r->value, 0, wait_ns);
    if (status)
        core_device_settle(dev, wait_ns);
    return status;
}

/* Rows first .. first + n - 1 of the weight. */
static core_runs rows_of(const core_runs *at, uint64_t row, uint64_t first,
                         uint64_t n)
{
    return at->n == 1
               ? (core_runs){at->offset + first * row, n * row, 0, 1}
               : (core_runs){at->offset + first * at->pitch, row, at->pitch, n};
}

static clv_status move_all(core_relayout *r, const relayout_program *p,
                           uint64_t row, const core_runs *at, const void *host,
                           core_buffer *to)
{
    const uint64_t n = to->size / row, most = (uint64_t)p->rows;
    CLV_TRY(reserve(to->dev, r, (n < most ? n : most) * row));
    for (uint64_t first = 0; first < n; first += most) {
        const uint64_t rows = n - first < most ? n - first : most;
        const core_runs part = rows_of(at, row, first, rows);
        CLV_TRY(core_buffer_pack(r->linear, &part, host));
        CLV_TRY(run(r, p, (int64_t)rows, rows * row, to, first * row));
    }
    return CLV_OK;
}

/* What failed is not used again, and nothing is kept that nobody releases. */
clv_status core_device_relayout(clv_device *dev, uint32_t dtype, int64_t length,
                                const core_runs *at, const void *host,
                                core_buffer **out)
{
    const relayout_program *p = NULL;
    core_buffer *buf = NULL;
    const uint64_t row = core_row_bytes(dtype, length);
    pthread_mutex_lock(&dev->relayout_mutex);
    clv_status status =
        dev->relayout ? CLV_OK : relayout_make(dev, &dev->relayout);
    if (!status)
        status = find_program(dev, dev->relayout, dtype, length, row, &p);
    if (!status)
        status =
            core_device_alloc_local(dev, at->bytes * at->n, "a weight", &buf);
    if (!status)
        status = move_all(dev->relayout, p, row, at, host, buf);
    if (status)
        core_buffer_free(buf);
    else
        *out = buf;
    if (status || !core_device_holds_staging(dev)) {
        relayout_free(dev->relayout);
        dev->relayout = NULL;
    }
    pthread_mutex_unlock(&dev->relayout_mutex);
    return status;
}
