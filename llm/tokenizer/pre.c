#include "pre.h"

#include <string.h>

/*
 * How the published tokenizers of these families cut a text, by the names that
 * GGUF files give them. The expressions are those of the models' own
 * tokenizers, as Oniguruma or Rust's regex crate read them.
 */

#define CONTRACTION "'s|'t|'re|'ve|'m|'ll|'d"
#define ANY_CASE "(?i:" CONTRACTION ")"
#define SPACES "\\s+(?!\\S)|\\s+"
#define LINES "\\s*[\\r\\n]+|" SPACES
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SIGNS " ?[^\\s\\p{L}\\p{N}]+"
#define GPT2 CONTRACTION "| ?\\p{L}+| ?\\p{N}+|" SIGNS "|" SPACES
#define LLAMA3 ANY_CASE "|" WORD "|\\p{N}{1,3}|" SIGNS "[\\r\\n]*|" LINES
#define QWEN2 ANY_CASE "|" WORD "|\\p{N}|" SIGNS "[\\r\\n]*|" LINES
/* Words with a capital only in front. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define FRONT "[^\\r\\n\\p{L}\\p{N}]?"
#define CASED(suffix)                                                          \
    FRONT UPPER "*" LOWER "+" suffix "|" FRONT UPPER "+" LOWER "*" suffix
#define CJK "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
#define SENTENCE_ENDS "\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c"
#define BLOOM " ?[^(\\s|.,!?" SENTENCE_ENDS ")]+"
#define DEEPSEEK3                                                              \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"                   \
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "                            \
    "?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES
#define KANA "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"

/* The cased letters that DeepSeek LLM lists. */
#define CASED_LETTERS                                                          \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}"              \
    "\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}"     \
    "\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}"       \
    "\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}"              \
    "\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"                    \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}"                \
    "\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}"                \
    "\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}"                \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"       \
    "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}"                 \
    "\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}"       \
    "\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"                \
    "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"                 \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}"        \
    "\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}"                 \
    "\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}"        \
    "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}"       \
    "\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"       \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}"                \
    "\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}"                \
    "\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"            \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"          \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

const char llm_pattern_gpt2[] = GPT2;

static const llm_pre known[] = {
    {.names = "gpt-2 phi-2 mpt olmo jais jina-es jina-de jina-v2-es "
              "jina-v2-de gigachat a.x-4.0 mellum modern-bert exaone4 trillion "
              "granite-docling roberta-bpe jina-v1-en jina-v2-code",
     .patterns = {GPT2}},
    {.names = "default",
     .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+",
                  "[0-9][0-9][0-9]"}},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 "
              "lfm2 jina-v5-nano",
     .patterns = {LLAMA3},
     .whole_first = true,
     .add_bos = true},
    {.names = "dbrx smaug-bpe chatglm-bpe glm4", .patterns = {LLAMA3}},
    {.names = "qwen2 stablelm2 deepseek-r1-qwen megrez hunyuan solar-open "
              "grok-2 kormo f2llmv2",
     .patterns = {QWEN2}},
    {.names = "qwen35",
     .patterns = {ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
                           " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES}},
    {.names = "starcoder refact command-r smollm codeshell exaone minerva-7b "
              "mellum2",
     .patterns = {"\\p{N}", GPT2}},
    {.names = "falcon",
     .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = "deepseek-llm",
     .patterns = {"[\\r\\n]", "\\s?[" CASED_LETTERS "]+",
                  "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f"
                  "\u3000-\u3002]+",
                  "\\s+$", CJK, "\\p{N}"}},
    {.names = "deepseek-coder",
     .patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}"}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm",
     .patterns = {"\\p{N}{1,3}", KANA, DEEPSEEK3}},
    {.names = "tekken",
     .patterns = {CASED("") "|\\p{N}|" SIGNS "[\\r\\n/]*|" LINES},
     .whole_first = true,
     .add_bos = true},
    {.names = "gpt-4o llama4 kanana2 minimax-m2",
     .patterns = {CASED(ANY_CASE "?") "|\\p{N}{1,3}|" SIGNS
                                      "[\\r\\n/]*|" LINES}},
    {.names = "poro-chat bloom gpt3-finnish", .patterns = {BLOOM}},
    {.names = "viking", .patterns = {BLOOM, "\\p{N}"}},
    {.names = "chameleon",
     .patterns = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
                  "([\\t\\n]|    |  )", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]",
                  GPT2},
     .add_bos = true},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     .patterns =
         {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|"
          "\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|" SPACES}},
    {.names = "seed-coder",
     .patterns = {ANY_CASE "|" WORD
                           "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES}},
    {.names = "minicpm5",
     .patterns = {"\\p{N}{1,3}",
                  ANY_CASE "|" WORD "|\\p{N}+|" SIGNS "[\\r\\n]*|" LINES},
     .whole_first = true},
};

static bool has_name(const char *names, llm_str name)
{
    while (*names) {
        size_t n = strcspn(names, " ");
        if (llm_str_equal((llm_str){names, n}, name))
            return true;
        names += n + (names[n] == ' ');
    }
    return false;
}

clv_status llm_pre_find(llm_str name, const llm_pre **out)
{
    char list[1024] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (has_name(known[i].names, name)) {
            *out = &known[i];
            return CLV_OK;
        }
        size_t n = strlen(known[i].names);
        if (used + n + 2 < sizeof list) {
            if (used)
                list[used++] = ' ';
            memcpy(list + used, known[i].names, n + 1);
            used += n;
        }
    }
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "pre-tokenizer '%s' is not known; "
                     "known are %s",
                     llm_str_show(name).text, list);
}

static bool has_patterns(const llm_pre *pre, const char *const *patterns,
                         uint64_t n)
{
    const uint64_t most = sizeof pre->patterns / sizeof *pre->patterns;
    for (uint64_t i = 0; i < n; i++)
        if (i == most || !pre->patterns[i] ||
            strcmp(pre->patterns[i], patterns[i]))
            return false;
    return n == most || !pre->patterns[n];
}

const char *llm_pre_name(const char *const *patterns, uint64_t n,
                         bool whole_first)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].whole_first == whole_first &&
            has_patterns(&known[i], patterns, n))
            return known[i].names;
    return NULL;
}
