/*
 * Programs as bytes: the graph with its bucket. They hold nothing of the
 * weights, so one program serves all layers of a shape.
 */
#include "npu_sim_build_id.h"
#include "program.h"

#include <cleave/plugin_blob.h>

uint64_t npu_maker(const clv_plugin_device *dev, const char *options)
{
    const npu_settings *s = dev->settings;
    uint64_t h = clv_hash_text(CLV_HASH_START, BUILD_ID);
    h = clv_hash_text(h, s->name);
    h = clv_hash(h, &s->hash, sizeof s->hash);
    return clv_hash_text(h, options);
}

clv_status npu_program_serialize(
    clv_plugin_program *prog,
    clv_status (*write)(void *ctx, const void *data, uint64_t size), void *ctx)
{
    CLV_TRY(npu_check_device(prog->dev));
    clv_status status =
        clv_blob_write("npu_sim", prog->maker, prog->graph, write, ctx);
    return status ? clv_fail(prog->dev->base.host, status,
                             "npu_sim"
                             ": the program could not be written")
                  : CLV_OK;
}

clv_status npu_program_validate(clv_plugin_device *dev, const clv_compile *from,
                                const clv_blob *blob, uint32_t *verdict)
{
    clv_compile compile;
    clv_read(&compile, sizeof compile, from);
    CLV_TRY(npu_check_device(dev));
    CLV_TRY(clv_check_chain(dev->base.host, &compile));
    return clv_blob_judge(dev->base.host, "npu_sim",
                          npu_maker(dev, compile.options), compile.graph, blob,
                          verdict);
}

clv_status npu_program_load(clv_plugin_device *dev, const clv_compile *from,
                            const clv_blob *blob, clv_plugin_program **out)
{
    clv_compile compile;
    clv_read(&compile, sizeof compile, from);
    CLV_TRY(npu_check_device(dev));
    CLV_TRY(clv_check_chain(dev->base.host, &compile));
    CLV_TRY(clv_blob_check(dev->base.host, "npu_sim",
                           npu_maker(dev, compile.options), compile.graph,
                           blob));
    return npu_program_make(dev, from, true, out);
}

clv_status npu_program_key(clv_plugin_device *dev, const clv_compile *from,
                           uint8_t key[32])
{
    clv_compile compile;
    clv_read(&compile, sizeof compile, from);
    CLV_TRY(npu_check_device(dev));
    CLV_TRY(clv_check_chain(dev->base.host, &compile));
    return clv_blob_key(dev->base.host, npu_maker(dev, compile.options),
                        compile.graph, key);
}
