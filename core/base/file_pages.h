/*
 * Which pages of mapped files are in memory, where it holds less than the
 * files. Bytes of no mapped file, such as those of a copy, are left alone.
 */
#pragma once

#include <cleave/cleave.h>

/* Has the system begin to read the bytes; it may block while the disk has much
 * to do. */
void core_file_ask(const void *data, uint64_t size);
/* The pages that lie in these bytes altogether may go from memory. Whoever uses
 * them again reads the file. */
void core_file_give_up(const void *data, uint64_t size);
/* Bytes a ns at which so many bytes, or those up to the end of the file, are
 * read, by giving them up and reading them; 0: not known. *size: how many. */
double core_file_speed(const void *data, uint64_t *size);
