#include "pieces.h"
#include "memory.h"
#include "wait.h"

#include <string.h>

/* 160 us at 50 GB/s; to begin a copy takes some 10 us. */
#define PIECE ((uint64_t)8 << 20)

static bool is_of_rows(const clv_command *copy)
{
    return clv_copy_rows(copy) > 1;
}

/* Bytes, or rows. */
static uint64_t length_of(const clv_command *copy)
{
    return is_of_rows(copy) ? copy->n_rows : copy->size;
}

static uint64_t most_of(const clv_command *copy)
{
    if (!is_of_rows(copy))
        return PIECE;
    return copy->size < PIECE ? PIECE / copy->size : 1;
}

uint32_t ocl_count_pieces(const clv_command *copy)
{
    const uint64_t most = most_of(copy);
    return (uint32_t)((length_of(copy) + most - 1) / most);
}

clv_command ocl_piece_of(const clv_command *copy, uint32_t i)
{
    const bool rows = is_of_rows(copy);
    const uint64_t most = most_of(copy), at = i * most;
    const uint64_t left = length_of(copy) - at, n = left < most ? left : most;
    clv_command piece = *copy;
    piece.src_offset += at * (rows ? copy->src_pitch : 1);
    piece.dst_offset += at * (rows ? copy->dst_pitch : 1);
    *(rows ? &piece.n_rows : &piece.size) = n;
    return piece;
}

/* ------------------------------------------------------------------------ */
/* Under way                                                                */

static void wait_for_first(ocl_queue *q)
{
    clv_spin spin = {0, 0};
    while (!ocl_has_ended(q->dev, q->pieces[0].event))
        clv_spin_or_sleep(&spin, &q->dev->base.queue->spin, 0);
    q->dev->cl->ReleaseEvent(q->pieces[0].event);
    q->pieces_bytes -= q->pieces[0].size;
    q->n_pieces--;
    memmove(q->pieces, q->pieces + 1, q->n_pieces * sizeof *q->pieces);
}

/* That may be under way. */
static uint64_t most_bytes(const ocl_queue *q)
{
    return __atomic_load_n(&q->dev->n_uploads, __ATOMIC_RELAXED) ? PIECE
                                                                 : 2 * PIECE;
}

void ocl_pieces_wait(ocl_queue *q, uint64_t size)
{
    while (q->n_pieces == OCL_MAX_PIECES ||
           (q->n_pieces && q->pieces_bytes + size > most_bytes(q)))
        wait_for_first(q);
}

void ocl_pieces_add(ocl_queue *q, cl_event event, uint64_t size)
{
    if (q->dev->cl->RetainEvent(event))
        return;
    q->pieces[q->n_pieces++] = (ocl_under_way){event, size};
    q->pieces_bytes += size;
}

void ocl_pieces_finish(ocl_queue *q)
{
    while (q->n_pieces)
        q->dev->cl->ReleaseEvent(q->pieces[--q->n_pieces].event);
}
