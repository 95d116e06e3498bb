#pragma once

#include <cleave/plugin.h>

/* Checks a submit, resolves it to addresses and queues it. */
clv_status cpu_submit(clv_plugin_device *dev, const clv_submit *submit);
