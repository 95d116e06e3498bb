#include "protobuf.h"

#include <string.h>

clv_status llm_message_damaged(const llm_message *m)
{
    return clv_error(CLV_ERR_FORMAT,
                     "%s: not a SentencePiece model, or damaged; download it "
                     "again",
                     m->name);
}

static bool take_varint(llm_message *m, uint64_t *out)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const uint8_t byte = *m->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool take_bytes(llm_message *m, uint64_t n, llm_str *out)
{
    if (n > (uint64_t)(m->end - m->at))
        return false;
    *out = (llm_str){(const char *)m->at, n};
    m->at += n;
    return true;
}

clv_status llm_message_next(llm_message *m, llm_field *out, bool *more)
{
    uint64_t tag = 0, size = 0;
    *more = m->at < m->end;
    if (!*more)
        return CLV_OK;
    *out = (llm_field){0};
    bool good = take_varint(m, &tag);
    out->number = (uint32_t)(tag >> 3 & UINT32_MAX);
    switch (tag & 7) {
    case 0:
        good = good && take_varint(m, &out->value);
        break;
    case 2:
        good =
            good && take_varint(m, &size) && take_bytes(m, size, &out->bytes);
        break;
    case 1:
    case 5:
        size = (tag & 7) == 1 ? 8 : 4;
        good = good && take_bytes(m, size, &out->bytes);
        if (good)
            memcpy(&out->value, out->bytes.data, size);
        break;
    default:
        good = false;
    }
    return good ? CLV_OK : llm_message_damaged(m);
}

llm_message llm_message_inside(const llm_message *m, llm_str bytes)
{
    const uint8_t *at = (const uint8_t *)bytes.data;
    return (llm_message){at, at + bytes.size, m->name};
}
