/*
 * A session goes on without devices that it loses: its runners are made again
 * for the others, and its cache is brought to memory that they see.
 */
#pragma once

#include "session.h"

uint32_t llm_session_count_devices(const clv_session *s);
uint32_t llm_session_count_lost(const clv_session *s);
/* Logs the last error. */
void llm_session_tell_of_loss(const clv_session *s);
/* If devices were lost since the runners were made, makes new ones for the
 * other devices and for memory that no lost device writes. */
clv_status llm_session_leave_lost_out(clv_session *s);
