/* Waiting for what lets runs in flight go on. */
#pragma once

#include "flight.h"

/* Blocks, with the lock released, until one of this thread's runs may go on. */
void core_flight_await(core_flight *flight);
