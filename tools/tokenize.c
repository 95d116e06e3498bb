/* cleave tokenize: a text to token ids, and back. */
#include "commands.h"
#include "env.h"
#include "table.h"
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tok_args {
    tool_common common;
    const char *model, *text, *file, *format;
    bool escape, bos, special, decode;
} tok_args;

#define AT(member) offsetof(tok_args, member)

static const tool_option options[] = {
    TOOL_OPT_STRING('m', "model", "PATH", AT(model),
                    "GGUF file, tokenizer.json, or a directory with one "
                    "(default: the bundled model)"),
    TOOL_OPT_STRING('p', "prompt", "TEXT", AT(text), "the text"),
    TOOL_OPT_STRING('f', "file", "FILE", AT(file),
                    "take the text from a file, '-' for standard input"),
    TOOL_OPT_FLAG('e', "escape", AT(escape),
                  "read \\n, \\t, \\\\, \\xHH and the like in -p as the "
                  "characters they stand for"),
    TOOL_OPT_FLAG(0, "bos", AT(bos),
                  "put the beginning-of-text token in front"),
    TOOL_OPT_FLAG(0, "special|parse-special", AT(special),
                  "recognise special tokens in the text; with --decode, show "
                  "them"),
    TOOL_OPT_FLAG('d', "decode", AT(decode),
                  "the text is ids, with spaces or commas between them: print "
                  "what they stand for, no byte more"),
    TOOL_OPT_CHOICE('o', "output", "FORMAT", AT(format), "text|json",
                    "text or json"),
    {0},
};

static int run(int argc, char **argv);

const tool_command tool_tokenize = {
    .name = "tokenize",
    .title = "cleave tokenize",
    .operands = "(-p TEXT | -f FILE)",
    .summary = "Turns a text into token ids, or ids into text.",
    .details = "Ids are printed on one line with spaces between them.",
    .examples = "  cleave tokenize -m model.gguf -p \"Hello world\"\n"
                "  cleave tokenize -m tokenizer.json -f notes.txt --bos\n"
                "  cleave tokenize -f a.txt | cleave tokenize -d -f - >b.txt\n",
    .options = options,
    .no_devices = true,
    .run = run,
};

/* ------------------------------------------------------------------------ */

static clv_status parse_ids(const char *text, uint64_t length, int32_t n_vocab,
                            int32_t **out, uint64_t *n)
{
    static const char between[] = " \t\r\n,";
    uint64_t count = 0;
    int32_t *ids = malloc((length / 2 + 1) * sizeof *ids);
    if (!ids)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for %" PRIu64 " ids",
                         length / 2 + 1);
    for (const char *p = text + strspn(text, between); *p;
         p += strspn(p, between)) {
        size_t word = strcspn(p, between);
        char *end;
        errno = 0;
        long id = strtol(p, &end, 10);
        if (end != p + word || errno || id < 0 || id >= n_vocab) {
            free(ids);
            return clv_error(CLV_ERR_INVALID,
                             "'%.*s' is not a token id; ids "
                             "are whole numbers in 0..%d",
                             word > 40 ? 40 : (int)word, p, n_vocab - 1);
        }
        ids[count++] = (int32_t)id;
        p += word;
    }
    *out = ids;
    *n = count;
    return CLV_OK;
}

static int decode(const tok_args *args, const clv_tokenizer *tok,
                  const char *text, uint64_t length)
{
    int32_t *ids = NULL;
    uint64_t n = 0, size = 0;
    char *out = NULL;
    int32_t n_vocab = (int32_t)clv_tokenizer_describe(tok).n_vocab;
    if (parse_ids(text, length, n_vocab, &ids, &n))
        return tool_fail();
    clv_status status = clv_detokenize(tok, ids, n, args->special, &out, &size);
    free(ids);
    if (status)
        return tool_fail();
    bool good;
    if (!strcmp(args->format, "json")) {
        tool_record record = tool_record_begin();
        tool_record_string(&record, "text", out);
        good = tool_record_print(record);
    } else {
        good = tool_write(out, size);
    }
    clv_string_free(out);
    return good ? TOOL_OK : TOOL_FAILED;
}

static bool print_json(const int32_t *ids, uint64_t n)
{
    printf("{\"count\":%" PRIu64 ",\"tokens\":[", n);
    for (uint64_t i = 0; i < n; i++)
        printf("%s%d", i ? "," : "", ids[i]);
    return tool_write("]}\n", 3);
}

static bool print_ids(const int32_t *ids, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        printf("%s%d", i ? " " : "", ids[i]);
    return tool_write("\n", 1);
}

static int encode(const tok_args *args, const clv_tokenizer *tok,
                  const char *text, uint64_t length)
{
    int32_t *ids = NULL;
    uint64_t n = 0;
    uint32_t flags = (args->bos ? CLV_TOKENIZE_BOS : 0) |
                     (args->special ? CLV_TOKENIZE_SPECIAL : 0);
    if (clv_tokenize(tok, text, length, flags, &ids, &n))
        return tool_fail();
    bool good =
        strcmp(args->format, "json") ? print_ids(ids, n) : print_json(ids, n);
    clv_tokens_free(ids);
    return good ? TOOL_OK : TOOL_FAILED;
}

static clv_status read_text(const tok_args *args, char **text, uint64_t *length)
{
    if (args->file)
        return tool_read_file(args->file, text, length);
    *text = strdup(args->text);
    if (!*text)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for the text");
    *length = strlen(*text);
    if (args->escape)
        *length = tool_unescape(*text, *length);
    return CLV_OK;
}

static int run(int argc, char **argv)
{
    tok_args args = {.format = "text"};
    uint32_t n;
    int code = tool_parse(&tool_tokenize, &args, argc, argv, &n);
    if (code >= 0)
        return code;
    if (!args.text == !args.file)
        return tool_usage("give the text with -p TEXT or with -f FILE%s",
                          args.text ? ", not both" : "");
    char *path = NULL, *text = NULL;
    uint64_t length = 0;
    clv_tokenizer *tok = NULL;
    clv_status status = read_text(&args, &text, &length);
    if (!status)
        status = tool_model_path(args.model, &path);
    if (!status)
        status = clv_tokenizer_load(path, &tok);
    if (status)
        code = tool_fail();
    else
        code = args.decode ? decode(&args, tok, text, length)
                           : encode(&args, tok, text, length);
    clv_tokenizer_destroy(tok);
    free(path);
    free(text);
    return code;
}
