/*
 * Copies to the device in pieces.
 *
 * Some drivers give all copies to the device to one engine, in the order in
 * which they are enqueued, whatever their queue: with NVIDIA's, 8 MB of queue 0
 * took 4.7 ms behind 256 MB of the copy queue, and so did the news that a
 * kernel had ended. So the copies of a copy queue are enqueued in pieces, two
 * of which are under way, or one while queue 0 has a copy to the device.
 */
#pragma once

#include "queue.h"

/* How many pieces a copy of some bytes has: of its one row, or of some rows. */
uint32_t ocl_count_pieces(const clv_command *copy);
/* The i-th alone. */
clv_command ocl_piece_of(const clv_command *copy, uint32_t i);

/* All by the thread that enqueues. Waits until the queue may have a piece of so
 * many bytes under way. */
void ocl_pieces_wait(ocl_queue *queue, uint64_t size);
/* The piece of the event is under way. */
void ocl_pieces_add(ocl_queue *queue, cl_event event, uint64_t size);
/* Forgets all of them. */
void ocl_pieces_finish(ocl_queue *queue);
