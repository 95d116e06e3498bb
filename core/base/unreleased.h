/*
 * What stays in the process for good. A plugin that cannot be torn down, since
 * a device of it may still be working or since it crashes on the way out, keeps
 * what its threads may touch: its module, instance and host table, the context
 * and configuration behind that table, and memory that was shared with it. All
 * of it is listed here, so that it stays reachable and counts as no leak.
 */
#pragma once

/* Keeps memory, and all it points to, until the process ends. NULL is legal. */
void core_unreleased_add(void *memory);
