/* How the items of a group reduce a number together: in local memory, or by
 * subgroups first. */
#include "language.h"

static const char portable[] =
    "#define GROUP_REDUCE(v, part, JOIN) { \\\n"
    "    part[LOCAL_ID(0)] = v; \\\n"
    "    BARRIER; \\\n"
    "    for (int k_ = GROUP / 2; k_ > 0; k_ >>= 1) { \\\n"
    "        if (LOCAL_ID(0) < k_) \\\n"
    "            part[LOCAL_ID(0)] = \\\n"
    "                JOIN(part[LOCAL_ID(0)], part[LOCAL_ID(0) + k_]); \\\n"
    "        BARRIER; \\\n"
    "    } \\\n"
    "    v = part[0]; \\\n"
    "    BARRIER; }\n"
    "#define GROUP_ADD(v, part) GROUP_REDUCE(v, part, SUM_OF)\n"
    "#define GROUP_MAX(v, part) GROUP_REDUCE(v, part, MAX_OF)\n";

static const char glsl_subgroups[] =
    "#define SUBGROUP_ADD(v) subgroupAdd(v)\n"
    "#define SUBGROUP_MAX(v) subgroupMax(v)\n"
    "#define SUBGROUP_FIRST subgroupElect()\n"
    "#define SUBGROUP_ID int(gl_SubgroupID)\n"
    "#define SUBGROUP_COUNT int(gl_NumSubgroups)\n"
    "#define SUBGROUPS\n"
    "#define GROUP_REDUCE(v, part, SUBGROUP, JOIN) { \\\n"
    "    v = SUBGROUP(v); \\\n"
    "    if (SUBGROUP_FIRST) \\\n"
    "        part[SUBGROUP_ID] = v; \\\n"
    "    BARRIER; \\\n"
    "    v = part[0]; \\\n"
    "    for (int k_ = 1; k_ < SUBGROUP_COUNT; k_++) \\\n"
    "        v = JOIN(v, part[k_]); \\\n"
    "    BARRIER; }\n"
    "#define GROUP_ADD(v, part) GROUP_REDUCE(v, part, SUBGROUP_ADD, SUM_OF)\n"
    "#define GROUP_MAX(v, part) GROUP_REDUCE(v, part, SUBGROUP_MAX, MAX_OF)\n";

void gpu_language_reductions(gpu_text *out, bool subgroups)
{
    gpu_puts(out, "#define SUM_OF(a, b) ((a) + (b))\n"
                  "#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))\n");
    if (!subgroups) {
        gpu_puts(out, portable);
        return;
    }
    gpu_puts(out, glsl_subgroups);
}
