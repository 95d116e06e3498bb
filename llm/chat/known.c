#include "known.h"

#include <stddef.h>
#include <string.h>

/* Jinja2 drops a line end behind a tag: there, one is written twice. */
#define MESSAGES(body) "{% for message in messages %}" body "{% endfor %}"
#define ANSWER(text) "{% if add_generation_prompt %}" text "{% endif %}"
#define IF_ROLE(role) "{% if message.role == '" role "' %}"
#define ELIF_ROLE(role) "{% elif message.role == '" role "' %}"
#define CONTENT "{{ message.content }}"
#define TRIMMED "{{ message.content | trim }}"
/* The system message, if it is first, goes into `system`; the others into
 * `talk`. */
#define TAKE_SYSTEM                                                            \
    "{% if messages and messages[0].role == 'system' %}"                       \
    "{% set system = messages[0].content %}{% set talk = messages[1:] %}"      \
    "{% else %}{% set system = '' %}{% set talk = messages %}{% endif %}"
#define TALK(body) "{% for message in talk %}" body "{% endfor %}"

/* [INST] with the system message inside the first one. */
#define LLAMA2(before_system, after_system)                                    \
    TAKE_SYSTEM TALK(                                                          \
        IF_ROLE("assistant") " {{ message.content | trim }} {{ eos_token }}"   \
                             "{% else %}{{ bos_token }}[INST] "                \
                             "{% if loop.first and system %}" before_system    \
                             "{{ system }}" after_system "{% endif %}" TRIMMED \
                             " [/INST]{% endif %}")

/* Mistral's: [INST] and the answer, with spaces that differ by version. */
#define MISTRAL(open, close, answer)                                           \
    TAKE_SYSTEM "{{ bos_token }}" TALK(                                        \
        IF_ROLE("assistant") answer                                            \
        "{{ message.content }}{{ eos_token }}{% else %}" open                  \
        "{% if loop.first and system %}{{ system }}\n\n{% endif %}" CONTENT    \
            close "{% endif %}")

#define VICUNA(system)                                                         \
    TAKE_SYSTEM                                                                \
    "{{ system or '" system "' }}\n\n" TALK(                                   \
        IF_ROLE("assistant") "ASSISTANT: {{ message.content }}"                \
                             "{{ eos_token or '</s>' }}\n{% else %}"           \
                             "USER: {{ message.content }}\n{% endif %}")       \
        ANSWER("ASSISTANT:")

#define DEEPSEEK_BEGIN "<\uff5cbegin\u2581of\u2581sentence\uff5c>"
#define DEEPSEEK_END "<\uff5cend\u2581of\u2581sentence\uff5c>"

static const struct {
    const char *name, *text;
} known[] = {
    {"chatml", MESSAGES("<|im_start|>{{ message.role }}\n" CONTENT
                        "<|im_end|>\n") ANSWER("<|im_start|>assistant\n")},
    {"command-r",
     "{{ bos_token }}" MESSAGES("<|START_OF_TURN_TOKEN|>" IF_ROLE(
         "system") "<|SYSTEM_TOKEN|>" ELIF_ROLE("assistant") "<|CHATBOT_TOKEN|>"
                                                             "{% else "
                                                             "%}<|USER_TOKEN|>"
                                                             "{% endif "
                                                             "%}" TRIMMED
                                                             "<|END_OF_TURN_"
                                                             "TOKEN|>")
         ANSWER("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>")},
    {"deepseek",
     "{{ bos_token }}" MESSAGES(
         IF_ROLE("system") CONTENT
         "\n{% elif message.role == 'user' %}"
         "### Instruction:\n" CONTENT "\n{% else %}### Response:\n" CONTENT
         "\n<|EOT|>\n{% endif %}") ANSWER("### Response:\n")},
    {"deepseek2",
     "{{ bos_token }}" MESSAGES(IF_ROLE("system") CONTENT "\n\n" ELIF_ROLE(
         "assistant") "Assistant: " CONTENT "{{ eos_token }}"
                      "{% else %}User: " CONTENT "\n\n{% endif %}")
         ANSWER("Assistant:")},
    {"deepseek3",
     "{{ bos_token or '" DEEPSEEK_BEGIN
     "' }}" MESSAGES(IF_ROLE("system") CONTENT "\n\n" ELIF_ROLE(
         "assistant") "<\uff5cAssistant\uff5c>" CONTENT DEEPSEEK_END
                      "{% else %}<\uff5cUser\uff5c>" CONTENT "{% endif %}")
         ANSWER("<\uff5cAssistant\uff5c>")},
    {"falcon3", MESSAGES("<|{{ message.role }}|>\n" CONTENT "\n")
                    ANSWER("<|assistant|>\n")},
    {"gemma", "{{ bos_token }}" TAKE_SYSTEM TALK("<start_of_turn>" IF_ROLE(
                  "assistant") "model{% else %}user"
                               "{% endif %}\n\n{% if loop.first and system "
                               "%}{{ system | trim }}"
                               "\n\n{% endif %}" TRIMMED "<end_of_turn>\n")
                  ANSWER("<start_of_turn>model\n")},
    {"glm4", "[gMASK]<sop>" MESSAGES("<|{{ message.role }}|>\n" CONTENT)
                 ANSWER("<|assistant|>\n")},
    {"granite",
     MESSAGES("<|start_of_role|>{{ message.role }}<|end_of_role|>" CONTENT
              "<|end_of_text|>\n")
         ANSWER("<|start_of_role|>assistant<|end_of_role|>")},
    {"llama2", LLAMA2("<<SYS>>\n", "\n<</SYS>>\n\n")},
    {"llama3",
     "{{ bos_token }}" MESSAGES(
         "<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n" TRIMMED
         "<|eot_id|>")
         ANSWER("<|start_header_id|>assistant<|end_header_id|>\n\n")},
    {"llama4",
     "{{ bos_token }}" MESSAGES(
         "<|header_start|>{{ message.role }}<|header_end|>\n\n" TRIMMED
         "<|eot|>") ANSWER("<|header_start|>assistant<|header_end|>\n\n")},
    {"minicpm",
     MESSAGES(IF_ROLE("user") "<\u7528\u6237>" TRIMMED "<AI>{% else %}" TRIMMED
                              "{% endif %}")},
    {"mistral-v1", MISTRAL(" [INST] ", " [/INST]", " ")},
    {"mistral-v3", MISTRAL("[INST] ", "[/INST]", " ")},
    {"mistral-v3-tekken", MISTRAL("[INST]", "[/INST]", "")},
    {"mistral-v7",
     "{{ bos_token }}" MESSAGES(IF_ROLE(
         "system") "[SYSTEM_PROMPT] " CONTENT
                   "[/SYSTEM_PROMPT]" ELIF_ROLE(
                       "user") "[INST] " CONTENT "[/INST]{% else %} " CONTENT
                               "{{ eos_token }}{% endif %}")},
    {"openchat",
     "{{ bos_token }}" MESSAGES(
         IF_ROLE("system") CONTENT
         "<|end_of_turn|>{% else %}"
         "GPT4 Correct {{ message.role | title }}: " CONTENT
         "<|end_of_turn|>{% endif %}") ANSWER("GPT4 Correct Assistant:")},
    {"phi3", MESSAGES("<|{{ message.role }}|>\n" CONTENT "<|end|>\n")
                 ANSWER("<|assistant|>\n")},
    {"phi4", MESSAGES("<|im_start|>{{ message.role }}<|im_sep|>" CONTENT
                      "<|im_end|>") ANSWER("<|im_start|>assistant<|im_sep|>")},
    {"vicuna",
     VICUNA("A chat between a curious user and an artificial intelligence "
            "assistant. The assistant gives helpful, detailed, and polite "
            "answers to the user\\'s questions.")},
    {"zephyr", MESSAGES("<|{{ message.role }}|>\n" CONTENT
                        "{{ eos_token or '<|endoftext|>' }}\n")
                   ANSWER("<|assistant|>\n")},
};

#define N_KNOWN (sizeof known / sizeof *known)

const char *llm_known_template(const char *name)
{
    for (size_t i = 0; i < N_KNOWN; i++)
        if (!strcmp(known[i].name, name))
            return known[i].text;
    return NULL;
}

const char *llm_known_name(unsigned index)
{
    return index < N_KNOWN ? known[index].name : NULL;
}
