#include "jinja.h"

#include "callables.h"
#include "eval.h"
#include "parser.h"
#include "text.h"

#define MAX_SOURCE (1u << 20)

struct llm_program {
    llm_jinja memory; /* of the nodes */
    llm_lexemes lexemes;
    llm_node *body;
};

clv_status llm_jinja_compile(llm_str source, llm_program **out)
{
    if (source.size > MAX_SOURCE)
        return clv_error(CLV_ERR_LIMIT,
                         "chat template of %llu bytes: at most %u are read; "
                         "--chat-template takes another one",
                         (unsigned long long)source.size, MAX_SOURCE);
    llm_program *program = calloc(1, sizeof *program);
    if (!program)
        return llm_no_memory("a chat template");
    clv_status status = llm_lex(source, &program->lexemes);
    if (!status) {
        llm_parser parser = {.at = program->lexemes.items,
                             .j = &program->memory};
        status = llm_parse(&parser, &program->body);
    }
    if (status) {
        llm_program_destroy(program);
        return status;
    }
    *out = program;
    return CLV_OK;
}

void llm_program_destroy(llm_program *program)
{
    if (!program)
        return;
    llm_jinja_finish(&program->memory);
    llm_lexemes_finish(&program->lexemes);
    free(program);
}

clv_status llm_jinja_begin(llm_jinja *j, int64_t now)
{
    *j = (llm_jinja){.now = now};
    CLV_TRY(llm_scope_create(j, NULL, &j->globals));
    return llm_functions_define(j);
}

clv_status llm_jinja_define(llm_jinja *j, llm_str name, const llm_value *value)
{
    return llm_scope_set(j, j->globals, name, value);
}

const llm_value *llm_jinja_find(const llm_jinja *j, llm_str name)
{
    return llm_scope_find(j->globals, name);
}

clv_status llm_jinja_run(llm_jinja *j, const llm_program *program,
                         llm_text *out)
{
    llm_scope *scope;
    const uint64_t begin = llm_text_begin(j);
    CLV_TRY(llm_scope_create(j, j->globals, &scope));
    CLV_TRY(llm_exec(j, scope, program->body));
    return llm_text_end(j, begin, out);
}
