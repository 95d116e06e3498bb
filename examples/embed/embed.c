/*
 * embed - a host program: text from a model, streamed as it comes
 *
 *     make && ./embed model.gguf "Once upon a time" 100
 */
#include <cleave/llm.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static clv_session *running;

static void on_interrupt(int signal)
{
    (void)signal;
    clv_session_cancel(running);
}

static int on_token(void *ctx, int32_t id, const char *text, uint32_t length)
{
    (void)ctx;
    (void)id;
    const int failed = fwrite(text, 1, length, stdout) != length;
    return failed || fflush(stdout);
}

/* Generates n tokens after prompt. */
static clv_status write_text(clv_model *model, const char *prompt, int n)
{
    const clv_tokenizer *tok = clv_model_tokenizer(model);
    clv_sampler *sampler = NULL;
    int32_t *ids = NULL;
    uint64_t n_ids;
    if (!tok)
        return clv_error(CLV_ERR_UNSUPPORTED, "the model has no tokenizer");
    clv_status status =
        clv_tokenize(tok, prompt, strlen(prompt),
                     clv_tokenizer_describe(tok).add_bos ? CLV_TOKENIZE_BOS : 0,
                     &ids, &n_ids);
    if (!status)
        status = clv_session_create(model, NULL, &running);
    if (!status)
        status = clv_sampler_create(NULL, clv_model_describe(model)->n_vocab,
                                    &sampler);
    if (!status) {
        const clv_generate_params params = {
            .prompt = ids,
            .n_prompt = (uint32_t)n_ids,
            .n_predict = n,
            .on_token = on_token,
        };
        signal(SIGINT, on_interrupt);
        fputs(prompt, stdout);
        status = clv_generate(running, sampler, &params, NULL);
        signal(SIGINT, SIG_DFL);
        putchar('\n');
    }
    clv_sampler_destroy(sampler);
    clv_session_destroy(running);
    clv_tokens_free(ids);
    return status;
}

int main(int argc, char **argv)
{
    clv_context *ctx = NULL;
    clv_model *model = NULL;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: %s MODEL PROMPT [TOKENS]\n", argv[0]);
        return 2;
    }
    clv_status status = clv_context_create(&(clv_context_params){0}, &ctx);
    if (!status)
        status = clv_model_load(ctx, argv[1], NULL, &model);
    if (!status)
        status = write_text(model, argv[2], argc == 4 ? atoi(argv[3]) : 100);
    if (status)
        fprintf(stderr, "%s: %s\n", argv[0], clv_last_error());
    clv_model_destroy(model);
    clv_context_destroy(ctx);
    return status ? 1 : 0;
}
