/* Schemas of lists, strings and integers. */
#include "schema_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A whole number under keyword, else *out unchanged. */
static clv_status read_count(const llm_schema *c, const cJSON *schema,
                             const char *keyword, uint64_t *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(schema, keyword);
    if (!item)
        return CLV_OK;
    const double value = item->valuedouble;
    if (!cJSON_IsNumber(item) || !(value >= 0 && value <= 1e15) ||
        value != floor(value))
        return llm_schema_fail(c, keyword,
                               "it must be a whole number of 0 or more");
    *out = (uint64_t)value;
    return CLV_OK;
}

static clv_status read_bounds(const llm_schema *c, const cJSON *schema,
                              const char *min, const char *max, uint64_t *low,
                              uint64_t *high)
{
    *low = 0;
    *high = UINT64_MAX;
    CLV_TRY(read_count(c, schema, min, low));
    CLV_TRY(read_count(c, schema, max, high));
    if (*low > *high)
        return llm_schema_fail(c, max, "it is less than the minimum");
    return CLV_OK;
}

static void put_bounds(llm_writer *w, uint64_t low, uint64_t high)
{
    if (high == UINT64_MAX)
        llm_put(w, "{%llu,}", (unsigned long long)low);
    else
        llm_put(w, "{%llu,%llu}", (unsigned long long)low,
                (unsigned long long)high);
}

clv_status llm_schema_array(llm_schema *c, const cJSON *schema, llm_writer *out)
{
    const cJSON *tuple =
        cJSON_GetObjectItemCaseSensitive(schema, "prefixItems");
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(schema, "items");
    uint64_t low, high;
    uint32_t rule;
    CLV_TRY(read_bounds(c, schema, "minItems", "maxItems", &low, &high));
    llm_put(out, "\"[\" ws ");
    if (tuple) {
        if (!cJSON_IsArray(tuple) || (items && !cJSON_IsFalse(items)) || low ||
            high != UINT64_MAX)
            return llm_schema_fail(
                c, "prefixItems",
                "it must be a list, with neither items beside it nor a "
                "number of them");
        for (const cJSON *i = tuple->child; i; i = i->next) {
            CLV_TRY(llm_schema_convert_at(c, i, "prefixItems", &rule));
            llm_put(out, "%sr%u ", i == tuple->child ? "" : "\",\" ws ", rule);
        }
    } else if (high) {
        CLV_TRY(llm_schema_convert_at(c, items ? items : &llm_schema_any,
                                      "items", &rule));
        llm_put(out, "(r%u (\",\" ws r%u)", rule, rule);
        put_bounds(out, low ? low - 1 : 0,
                   high == UINT64_MAX ? high : high - 1);
        llm_put(out, ")%s ", low ? "" : "?");
    }
    llm_put(out, "ws \"]\"");
    return out->status;
}

clv_status llm_schema_string(llm_schema *c, const cJSON *schema,
                             llm_writer *out)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(schema, "pattern");
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(schema, "format");
    uint64_t low, high;
    CLV_TRY(read_bounds(c, schema, "minLength", "maxLength", &low, &high));
    const bool bounded = low || high != UINT64_MAX;
    if (!!pattern + !!format + bounded > 1)
        return llm_schema_fail(c, pattern ? "pattern" : "format",
                               "it cannot stand beside a format or a length");
    llm_put(out, "\"\\\"\" ");
    if (pattern) {
        const char *text = cJSON_GetStringValue(pattern);
        const char *problem =
            text ? llm_put_pattern(out, text) : "what is no text";
        char message[160];
        snprintf(message, sizeof message, "there is %s in it",
                 problem ? problem : "");
        if (problem)
            return llm_schema_fail(c, "pattern", message);
    } else if (format) {
        static const char *const names[] = {"date", "time", "date-time",
                                            "uuid"};
        const char *text = cJSON_GetStringValue(format);
        uint32_t i = 0;
        while (i < 4 && (!text || strcmp(text, names[i])))
            i++;
        if (i == 4)
            return llm_schema_fail(c, "format",
                                   "it can be date, time, date-time or uuid");
        llm_put(out, "%s", i == 2 ? "date \"T\" time" : names[i]);
    } else {
        llm_put(out, "char");
        put_bounds(out, low, high);
    }
    llm_put(out, " \"\\\"\"");
    return out->status;
}

/* A bound of an integer; fractions round to the inside. step: 1 for a minimum,
 * -1 for a maximum. */
static clv_status read_integer(const llm_schema *c, const cJSON *schema,
                               const char *keyword, int exclusive, int step,
                               int64_t *bound)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(schema, keyword);
    if (!item)
        return CLV_OK;
    if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) <= 1e15))
        return llm_schema_fail(c, keyword,
                               "it must be a number of at most 15 digits");
    const double x = item->valuedouble;
    const double whole = step > 0 ? ceil(x) : floor(x);
    const int64_t value = (int64_t)whole + (exclusive && whole == x ? step : 0);
    if (step > 0 ? value > *bound : value < *bound)
        *bound = value;
    return CLV_OK;
}

clv_status llm_schema_integer(llm_schema *c, const cJSON *schema,
                              llm_writer *out)
{
    int64_t low = INT64_MIN, high = INT64_MAX;
    CLV_TRY(read_integer(c, schema, "minimum", 0, 1, &low));
    CLV_TRY(read_integer(c, schema, "exclusiveMinimum", 1, 1, &low));
    CLV_TRY(read_integer(c, schema, "maximum", 0, -1, &high));
    CLV_TRY(read_integer(c, schema, "exclusiveMaximum", 1, -1, &high));
    if (low > high)
        return llm_schema_fail(c, "minimum", "no whole number is in the range");
    llm_put_integers(out, low, high);
    return out->status;
}
