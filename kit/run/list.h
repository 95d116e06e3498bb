/* The cases of all groups. */
#pragma once

#include "../plugin/kit.h"

/* In the order they run. */
extern const kit_group *const kit_groups[];
extern const uint32_t kit_n_groups;

struct kit_list {
    kit_case *cases;
    uint32_t *groups; /* [n], index into kit_groups */
    uint32_t n, size;
    uint32_t group; /* that is being listed */
    bool failed;    /* memory ran out, or a name was too long */
};

/* Lists every group; false if memory ran out. */
bool kit_list_all(kit_list *list);
void kit_list_free(kit_list *list);
/* "import of host pointers, ..." for KIT_NEEDS_* bits. */
const char *kit_needs_text(uint32_t needs, char out[KIT_TEXT_SIZE]);
