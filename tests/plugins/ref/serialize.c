/* Programs as bytes. */
#include "ref.h"

#include <cleave/plugin_blob.h>

uint64_t ref_hash_maker(const clv_plugin_device *dev, const char *options)
{
    uint64_t h = clv_hash_text(CLV_HASH_START, ref_api.build_id);
    h = clv_hash_text(h, dev->settings->driver);
    h = clv_hash(h, &dev->index, sizeof dev->index);
    h = clv_hash(h, &dev->settings->hide, sizeof dev->settings->hide);
    return clv_hash_text(h, options);
}

clv_status ref_program_serialize(
    clv_plugin_program *prog,
    clv_status (*write)(void *ctx, const void *data, uint64_t size), void *ctx)
{
    CLV_TRY(ref_check_device(prog->dev));
    clv_status status =
        clv_blob_write(REF_NAME, prog->maker, prog->graph, write, ctx);
    return status ? clv_fail(prog->dev->host, status,
                             REF_NAME ": the program could not be written")
                  : CLV_OK;
}

clv_status ref_program_validate(clv_plugin_device *dev, const clv_compile *from,
                                const clv_blob *blob, uint32_t *verdict)
{
    clv_compile compile;
    clv_read(&compile, sizeof compile, from);
    CLV_TRY(ref_check_device(dev));
    CLV_TRY(clv_check_chain(dev->host, &compile));
    return clv_blob_judge(dev->host, REF_NAME,
                          ref_hash_maker(dev, compile.options), compile.graph,
                          blob, verdict);
}

clv_status ref_program_load(clv_plugin_device *dev, const clv_compile *from,
                            const clv_blob *blob, clv_plugin_program **out)
{
    clv_compile compile;
    clv_read(&compile, sizeof compile, from);
    CLV_TRY(ref_check_device(dev));
    CLV_TRY(clv_check_chain(dev->host, &compile));
    CLV_TRY(clv_blob_check(dev->host, REF_NAME,
                           ref_hash_maker(dev, compile.options), compile.graph,
                           blob));
    return ref_program_compile(dev, from, out);
}

clv_status ref_program_key(clv_plugin_device *dev, const clv_compile *from,
                           uint8_t key[32])
{
    clv_compile compile;
    clv_read(&compile, sizeof compile, from);
    CLV_TRY(ref_check_device(dev));
    CLV_TRY(clv_check_chain(dev->host, &compile));
    return clv_blob_key(dev->host, ref_hash_maker(dev, compile.options),
                        compile.graph, key);
}
