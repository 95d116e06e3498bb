/*
 * Memory that is never freed. A plugin is not unloaded if a device of it may
 * still be working, or if it crashes while it is closed. Then all that its
 * threads may use must stay: its module, instance and host table, the context
 * and configuration behind that table, and memory shared with it. It is listed
 * here, so that leak checkers find it reachable.
 */
#pragma once

/* Keeps memory, and all it points to, until the process ends. NULL is legal. */
void core_unreleased_add(void *memory);
