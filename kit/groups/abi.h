/* Between the files of the group abi. Each adds its cases. */
#pragma once

#include "../plugin/under_test.h"

void abi_list_file(kit_list *list);    /* what stands in the shared object */
void abi_list_query(kit_list *list);   /* versions, structs of the query */
void abi_list_table(kit_list *list);   /* slots, names, options */
void abi_list_arrays(kit_list *list);  /* arrays that the plugin fills */
void abi_list_structs(kit_list *list); /* structs that the plugin reads */
void abi_list_values(kit_list *list);  /* values of enums that are none */
