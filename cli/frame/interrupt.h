/*
 * cli/frame/interrupt.h -- waiting that Ctrl-C ends.
 *
 * Why: commands that go on until they are told to stop must end with status 0 and a clean terminal,
 * so signals are blocked and asked for instead of caught.
 * Ownership: process-wide signal mask, set once by cli_interrupt_begin().
 * Threads:   the main thread, before others start.
 */
#ifndef CLI_FRAME_INTERRUPT_H
#define CLI_FRAME_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

/** Block SIGINT, SIGTERM and SIGHUP for this and all later threads. */
void cli_interrupt_begin(void);

/** Wait up to `wait_ms`; true when one of them came. */
bool cli_interrupt_wait(uint64_t wait_ms);

/** In a child before exec: take signals the usual way again. */
void cli_interrupt_end(void);

#endif /* CLI_FRAME_INTERRUPT_H */
