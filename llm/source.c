#include "source.h"

void llm_source_destroy(llm_source *source)
{
    if (source)
        source->destroy(source);
}
