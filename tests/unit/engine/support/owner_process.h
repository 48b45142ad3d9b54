/*
 * tests/unit/engine/support/owner_process.h -- a process that owns a region others read.
 *
 * Why: one-sided reads are only worth testing between processes: the owner may be stopped or dead.
 * The program that tests is its own owner: owner_main() is called first in its main().
 * Ownership: owner_end() after owner_start(), whatever became of the process.
 * Threads:   the test's.
 */
#ifndef TESTS_UNIT_ENGINE_SUPPORT_OWNER_PROCESS_H
#define TESTS_UNIT_ENGINE_SUPPORT_OWNER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "engine/memory/blockset.h"

struct owner {
    pid_t pid;
    int in;  /* what it says */
    int out; /* closed: it ends */
    uint8_t description[ENGINE_BLOCKSET_DESCRIPTION_MAX];
    size_t size;
};

/** The owner's part, when the arguments say so: then it does not return. */
void owner_main(int argc, char **argv);

/** In a process that was started so: end with who started it, however that ends. */
void owner_follow(void);

/** This program again, with other arguments; it says the size of its description, and that. */
void owner_spawn(struct owner *owner, char *const *arguments);

/** The next bytes that it says. */
void owner_hear(struct owner *owner, void *bytes, size_t size);

/** In the process: end it when that is not so; say bytes. */
void owner_need(bool right, const char *what);
void owner_say(const void *bytes, size_t size);

/** A process with one region of `bytes`, which has owner_byte(seed, at) at each place. */
void owner_start(struct owner *owner, const char *near, const char *far, size_t bytes,
                 uint64_t seed);

/** Let it change all bytes to those of `seed`, and wait until it has. */
void owner_change(struct owner *owner, uint64_t seed);

/** It runs no further until owner_resume(). */
void owner_stop(struct owner *owner);
void owner_resume(struct owner *owner);

void owner_end(struct owner *owner);

uint8_t owner_byte(uint64_t seed, size_t at);

#endif /* TESTS_UNIT_ENGINE_SUPPORT_OWNER_PROCESS_H */
