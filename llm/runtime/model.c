#include "model.h"

#include "../base/str.h"

#include <stdlib.h>
#include <string.h>

static void describe(clv_model *model)
{
    const llm_hparams *hp = model->hp;
    const llm_weight_list *list = &model->list;
    uint32_t most = CLV_DTYPE_F32;
    for (uint32_t i = 0; i < CLV_DTYPE_COUNT; i++)
        if (list->by_dtype[i] > list->by_dtype[most])
            most = i;
    model->info = (clv_model_info){
        .architecture = hp->arch->name,
        .name = hp->name,
        .quant = clv_dtype_name(most),
        .n_layers = hp->n_layers,
        .n_embd = hp->n_embd,
        .n_ff = hp->n_ff,
        .n_vocab = hp->n_vocab,
        .n_heads = hp->n_heads,
        .n_kv_heads = hp->n_kv_heads,
        .head_dim = hp->head_dim,
        .n_ctx_train = hp->n_ctx_train,
        .n_params = list->n_params,
        .size = list->size,
    };
}

static clv_status tell_popularity(const clv_model *model)
{
    for (uint32_t l = 0; l < model->hp->n_layers && model->popularity; l++)
        CLV_TRY(llm_popularity_tell(model->popularity, l,
                                    model->weights.layers[l]));
    return CLV_OK;
}

clv_status llm_model_create(clv_context *ctx, llm_source *source,
                            llm_popularity *popularity, clv_model **out)
{
    clv_status status;
    clv_model *model = calloc(1, sizeof *model);
    if (!model || pthread_mutex_init(&model->lock, NULL)) {
        free(model);
        llm_popularity_destroy(popularity);
        llm_source_destroy(source);
        return llm_no_memory("a model");
    }
    model->ctx = ctx;
    model->popularity = popularity;
    model->source = source;
    model->hp = &source->hparams;
    status = llm_weights_load(ctx, source, &model->weights, &model->list);
    if (!status)
        status = tell_popularity(model);
    if (status)
        goto fail;
    if (source->check_all_used)
        status = source->check_all_used(source);
    if (status)
        goto fail;
    status = source->tokenizer(source, &model->tokenizer);
    if (status)
        goto fail;
    status = llm_source_check(source, CLV_OK);
    if (status)
        goto fail;
    describe(model);
    *out = model;
    return CLV_OK;

fail:
    clv_model_destroy(model);
    return status;
}

clv_status clv_model_load(clv_context *ctx, const char *path,
                          const clv_model_params *params, clv_model **out)
{
    if (!out)
        return clv_error(CLV_ERR_INVALID, "clv_model_load: out is NULL");
    *out = NULL;
    if (!ctx || !path)
        return clv_error(CLV_ERR_INVALID,
                         "clv_model_load: context or path is NULL");
    llm_source *source;
    params = params ? params : &(clv_model_params){0};
    CLV_TRY(
        llm_source_open(path, params->progress, params->progress_ctx, &source));
    llm_popularity *popularity = NULL;
    clv_status status = llm_popularity_create(ctx, source, &popularity);
    if (!status)
        status = llm_source_hold_files(source, params);
    if (status) {
        llm_popularity_destroy(popularity);
        llm_source_destroy(source);
    } else {
        status = llm_model_create(ctx, source, popularity, out);
    }
    /* Some messages name a file already, one of a directory perhaps. */
    if (status && strncmp(clv_last_error(), path, strlen(path)) != 0)
        clv_error_prefix(status, "%s", path);
    return status;
}

void clv_model_destroy(clv_model *model)
{
    if (!model)
        return;
    llm_weights_finish(&model->weights, &model->list);
    clv_tokenizer_destroy(model->tokenizer);
    llm_popularity_destroy(model->popularity);
    llm_source_destroy(model->source);
    pthread_mutex_destroy(&model->lock);
    free(model);
}

const clv_model_info *clv_model_describe(const clv_model *model)
{
    return &model->info;
}

const clv_tokenizer *clv_model_tokenizer(const clv_model *model)
{
    return model->tokenizer;
}

bool llm_model_is_end(const clv_model *model, int32_t id)
{
    if (model->tokenizer)
        return clv_token_is_end(model->tokenizer, id);
    return id >= 0 && id == model->hp->eos;
}
