/* Lists of cases that make up the group of ops, one a file. */
#pragma once

#include "../judge.h"

/* A case that judges this spec; it is kept. */
void kit_add_spec(kit_list *list, const kit_spec *spec);
/* A copy of the spec that lives as long as the program; NULL: no room. */
const kit_spec *kit_keep_spec(const kit_spec *spec);

void kit_list_limits(kit_list *list); /* ops_limits.c */
void kit_list_graphs(kit_list *list); /* ops_graphs.c */
void kit_list_random(kit_list *list); /* ops_random.c */
