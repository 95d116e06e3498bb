/* --set NAME.key=VALUE, against the options that the plugin declares. */
#pragma once

#include "under_test.h"

/* Ends the process with a message about the command line if a setting is not
 * one of the plugin's or its value is not what the option takes. */
void kit_settings_check(kit *k, const clv_plugin_api *api);
/* Whether value is one that the option takes; if not, what would be. */
bool kit_option_takes(const clv_option *option, const char *value,
                      char wanted[128]);
