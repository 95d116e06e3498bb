#include "plugin_inspect.h"

#include "../base/sanitizer.h"
#include "plugin_elf.h"

#include <stdio.h>
#include <string.h>

/* Sanitizers add symbols and constructors of their own to every object. */
static void check_contents(const core_plugin_facts *facts, char problem[256])
{
    if (core_sanitizers())
        return;
    if (facts->n_others)
        snprintf(problem, 256,
                 "it exports '%s'%s beside " CLV_PLUGIN_QUERY_SYMBOL "(), so "
                 "symbols of it could clash with others; link it with hidden "
                 "visibility",
                 facts->other, facts->n_others > 1 ? " and more" : "");
    else if (facts->n_constructors)
        snprintf(problem, 256,
                 "it has constructors (%u), code that would run before it is "
                 "asked; move what they do into create()",
                 facts->n_constructors);
}

clv_status core_plugin_inspect(const core_plugin_file *file, const char *name,
                               core_manifest *manifest, char problem[256])
{
    core_plugin_facts facts;
    problem[0] = 0;
    CLV_TRY(
        core_plugin_elf_read(file->fd, (uint64_t)file->stat.st_size, &facts));
    if (!facts.has_query)
        return clv_error(CLV_ERR_NOT_FOUND,
                         "it exports no " CLV_PLUGIN_QUERY_SYMBOL
                         "(); it is no plugin");
    if (!facts.has_manifest)
        return clv_error(CLV_ERR_REFUSED,
                         "it has no manifest; add CLV_PLUGIN_MANIFEST of "
                         "cleave/plugin.h to it and rebuild it");
    CLV_TRY(core_manifest_parse(facts.manifest, facts.manifest_size, manifest));
    CLV_TRY(core_manifest_check(manifest, name));
    check_contents(&facts, problem);
    return CLV_OK;
}
