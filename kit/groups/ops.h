/*
 * Lists of cases that make up the group of ops, one a file, and what they are
 * made of.
 */
#pragma once

#include "../work/element.h"
#include "../reference/judge.h"

#define KIT_COUNT(list) (uint32_t)(sizeof(list) / sizeof(list)[0])

/* Adds a case that judges a copy of this spec. */
void kit_add_spec(kit_list *list, const kit_spec *spec);
/* A copy of the spec that stays valid until the program ends; NULL if there are
 * too many. */
const kit_spec *kit_store_spec(const kit_spec *spec);
/* Adds the spec with every placement in memory and every kind of rows: dense,
 * padded, a view, imported, off alignment, by symbol; and with NaN and
 * infinity. */
void kit_add_forms(kit_list *list, const kit_spec *base);
/* With the output over each of its first inputs. */
void kit_add_aliases(kit_list *list, const kit_spec *base, uint32_t inputs);

/* A case that judges the spec with a field at one value after the other; the
 * values, which must stay, are multiplied by unit. */
void kit_add_series(kit_list *list, const char *what, const kit_spec *base,
                    size_t field, const int64_t *values, uint32_t n,
                    int64_t unit);
#define KIT_SERIES(list, what, base, field, values, n, unit)                   \
    kit_add_series(list, what, base, offsetof(kit_spec, field), values, n, unit)

/* Around the sizes of vectors, tiles and blocks; every length up to 40; and
 * numbers of blocks. */
extern const int64_t kit_tails[], kit_every[], kit_blocks[];
extern const uint32_t kit_n_tails, kit_n_every, kit_n_blocks;
/* A dtype and scheme of a weight. False past the last. */
typedef struct kit_weight {
    uint32_t dtype, quant, group; /* clv_quant */
} kit_weight;
bool kit_weight_at(uint32_t i, kit_weight *out);

void kit_list_matmul(kit_list *list);    /* ops_matmul.c */
void kit_list_experts(kit_list *list);   /* ops_experts.c */
void kit_list_rows(kit_list *list);      /* ops_rows.c: and conversion */
void kit_list_elements(kit_list *list);  /* ops_elements.c: and norms */
void kit_list_heads(kit_list *list);     /* ops_heads.c */
void kit_list_limits(kit_list *list);    /* ops_limits.c */
void kit_list_graphs(kit_list *list);    /* ops_graphs.c */
void kit_list_layouts(kit_list *list);   /* ops_layouts.c */
void kit_list_private(kit_list *list);   /* ops_private.c */
void kit_list_malformed(kit_list *list); /* ops_malformed.c */
void kit_list_random(kit_list *list);    /* ops_random.c */
