/*
 * base/thread/wake.h -- waking a thread that sleeps on files.
 *
 * Why: a thread in poll() hears of other threads by a file, too.  An eventfd(2) counts: to ring
 * twice before it is heard is to ring once.
 * Ownership: the caller closes the file.
 * Threads:   any may ring, and more than one may hear; who hears nothing was not the first.
 * Limits:    none: a counter that is full wakes its reader all the same.
 */
#ifndef BASE_THREAD_WAKE_H
#define BASE_THREAD_WAKE_H

/** A file to be polled for reading; -1 with errno: the system has no more. */
int kvt_wake_open(void);

/** Make it readable.  Of any eventfd(2), also one that others made; one whose counter is full and
 *  that blocks is waited for.  May be called in a handler of signals. */
void kvt_wake_signal(int file);

/** It is readable no more, until it is rung again.  Of a file of kvt_wake_open(), which does not
 *  block. */
void kvt_wake_clear(int file);

#endif /* BASE_THREAD_WAKE_H */
