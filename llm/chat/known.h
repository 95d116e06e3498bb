/* Chat templates that are known by name. */
#pragma once

/* The template called name; NULL: there is none. */
const char *llm_known_template(const char *name);
/* The names, in order; NULL behind the last. */
const char *llm_known_name(unsigned index);
