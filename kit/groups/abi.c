#include "abi.h"

static void list(kit_list *l)
{
    abi_list_file(l);
    abi_list_query(l);
    abi_list_table(l);
    abi_list_arrays(l);
    abi_list_structs(l);
    abi_list_values(l);
}

const kit_group kit_group_abi = {
    .name = "abi",
    .title = "ABI: the file, the query, the table, structs of other sizes",
    .list = list,
};
