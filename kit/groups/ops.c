/*
 * Every op in every dtype, in shapes of real models and in small ones around
 * the sizes that kernels are made of, dense, padded, as views, by symbol,
 * imported and at odd offsets, with NaN and infinity. Here: what these cases
 * are made of.
 */
#include "ops.h"
#include "../work/element.h"

#include <string.h>

/* ------------------------------------------------------------------------ */
/* Specs as cases                                                            */

#define MAX_SPECS 4096

/* Valid until the program ends; a group may be listed more than once. */
static kit_spec stored[MAX_SPECS];
static uint32_t n_stored;

const kit_spec *kit_store_spec(const kit_spec *spec)
{
    for (uint32_t i = 0; i < n_stored; i++)
        if (!memcmp(&stored[i], spec, sizeof *spec))
            return &stored[i];
    if (n_stored == MAX_SPECS)
        return NULL;
    memcpy(&stored[n_stored], spec, sizeof *spec);
    return &stored[n_stored++];
}

static void run_spec(kit *k, const void *arg)
{
    KIT_CHECK(k, arg, "the kit has more specs than it keeps");
    kit_judge_case(k, arg);
}

void kit_add_spec(kit_list *list, const kit_spec *spec)
{
    char name[KIT_NAME_SIZE];
    kit_spec_name(spec, name);
    kit_add(list, KIT_PER_DEVICE,
            spec->form & KIT_FORM_IMPORT ? KIT_NEEDS_IMPORT : 0, run_spec,
            kit_store_spec(spec), "%s.%s", clv_op_name(spec->op), name);
}

/* A field of the spec at one value after the other. */
typedef struct series {
    kit_spec base;
    size_t field; /* of an int64_t in kit_spec */
    const int64_t *values;
    uint32_t n_values;
    int64_t unit; /* the values are multiplied by it */
} series;

#define MAX_SERIES 1024
static series all_series[MAX_SERIES];
static uint32_t n_series;

static void run_series(kit *k, const void *arg)
{
    const series *s = arg;
    uint32_t right = 0;
    kit_judgement judgement = {.verdict = KIT_RIGHT};
    KIT_CHECK(k, arg, "the kit has more series than it keeps");
    for (uint32_t i = 0; i < s->n_values; i++) {
        kit_spec spec = s->base;
        int64_t value = s->values[i] * s->unit;
        memcpy((char *)&spec + s->field, &value, sizeof value);
        spec.pad = s->values[i] % 3;
        right += kit_judge_spec(k, &spec, &judgement) == KIT_RIGHT;
    }
    if (!right)
        kit_skip(k, "%s", judgement.reason);
    else
        kit_note(k, "%u of %u shapes", right, s->n_values);
}

void kit_add_series(kit_list *list, const char *what, const kit_spec *base,
                    size_t field, const int64_t *values, uint32_t n,
                    int64_t unit)
{
    series *s = NULL;
    for (uint32_t i = 0; !s && i < n_series; i++)
        if (!memcmp(&all_series[i].base, base, sizeof *base) &&
            all_series[i].field == field && all_series[i].values == values)
            s = &all_series[i];
    if (!s && n_series < MAX_SERIES) {
        s = &all_series[n_series++];
        memcpy(&s->base, base, sizeof *base);
        s->field = field;
        s->values = values;
        s->n_values = n;
        s->unit = unit;
    }
    char name[KIT_NAME_SIZE];
    kit_spec_name(base, name);
    kit_add(list, KIT_PER_DEVICE, 0, run_series, s, "%s.%s.%s",
            clv_op_name(base->op), what, name);
}

/* Around the sizes of vectors, tiles and blocks. */
const int64_t kit_tails[] = {1,  2,  3,  4,  5,  7,   8,   9,   12, 15,
                             16, 17, 20, 24, 31, 32,  33,  40,  47, 48,
                             49, 63, 64, 65, 96, 100, 127, 128, 129};
const int64_t kit_every[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                             11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                             21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
                             31, 32, 33, 34, 35, 36, 37, 38, 39, 40};
const int64_t kit_blocks[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33};
const uint32_t kit_n_tails = KIT_COUNT(kit_tails);
const uint32_t kit_n_every = KIT_COUNT(kit_every);
const uint32_t kit_n_blocks = KIT_COUNT(kit_blocks);

void kit_add_forms(kit_list *list, const kit_spec *base)
{
    static const int64_t values[] = {1, 5, 16, 37};
    kit_spec s = *base;
    kit_add_spec(list, &s);
    s.pad = 3;
    kit_add_spec(list, &s);
    s.form = base->form | KIT_FORM_VIEW;
    kit_add_spec(list, &s);
    s = *base;
    static const uint32_t forms[] = {
        KIT_FORM_SPECIAL, KIT_FORM_IMPORT, KIT_FORM_OFFSET,
        KIT_FORM_IMPORT | KIT_FORM_OFFSET, KIT_FORM_OFFSET | KIT_FORM_VIEW};
    for (uint32_t i = 0; i < KIT_COUNT(forms); i++) {
        s.form = base->form | forms[i];
        kit_add_spec(list, &s);
    }
    s.form = base->form | KIT_FORM_SYMBOL;
    s.n = 37;
    for (uint32_t i = 0; i < KIT_COUNT(values); i++) {
        s.value = values[i];
        kit_add_spec(list, &s);
    }
}

void kit_add_aliases(kit_list *list, const kit_spec *base, uint32_t inputs)
{
    kit_spec s = *base;
    for (uint32_t i = 0; i < inputs; i++) {
        uint32_t alias = i ? KIT_FORM_ALIAS_1 : KIT_FORM_ALIAS_0;
        s.form = base->form | alias;
        kit_add_spec(list, &s);
        s.form |= KIT_FORM_OVERLAY;
        kit_add_spec(list, &s);
    }
}

/* ------------------------------------------------------------------------ */

static void list_ops(kit_list *list)
{
    kit_list_matmul(list);
    kit_list_experts(list);
    kit_list_rows(list);
    kit_list_elements(list);
    kit_list_heads(list);
    kit_list_limits(list);
    kit_list_graphs(list);
    kit_list_layouts(list);
    kit_list_private(list);
    kit_list_malformed(list);
    kit_list_random(list);
}

const kit_group kit_group_ops = {"ops", "Ops: results equal the reference's",
                                 list_ops};
