/*
 * tests/support/alone.c -- what stands in for pthread_create() in tests that run alone.
 *
 * Why: tests with the label `alone` are left out where races are looked for.  One that begins to
 * start threads would be left out wrongly, and nobody would notice: so it is ended, everywhere.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                      void *arg)
{
    (void)thread;
    (void)attributes;
    (void)run;
    (void)arg;
    (void)fprintf(stderr, "this test starts a thread: it cannot be ALONE\n");
    abort();
}
