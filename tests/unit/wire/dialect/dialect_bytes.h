/*
 * tests/unit/wire/dialect/dialect_bytes.h -- messages for tests of the decoders.
 *
 * Why: a message in a test should be readable, and every message that decodes should also be cut
 * and changed at every place.
 * Ownership: the caller gives the buffers.
 * Threads:   one.
 * Limits:    DIALECT_BYTES_MAX bytes a message.
 */
#ifndef TESTS_UNIT_WIRE_DIALECT_DIALECT_BYTES_H
#define TESTS_UNIT_WIRE_DIALECT_DIALECT_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "wire/dialect/dialect.h"

#define DIALECT_BYTES_MAX 65536

struct dialect_bytes {
    uint8_t bytes[DIALECT_BYTES_MAX];
    size_t size;
};

/** A group's set-up and tear-down: its state is a batch. */
int dialect_bytes_set_up(void **state);
int dialect_bytes_tear_down(void **state);

/** From hex digits. */
void dialect_bytes_hex(struct dialect_bytes *out, const char *hex);

/** JSON text as msgpack, written as msgpack-c does; single quotes stand for double ones, and a
 * string that starts with "bin:" is the bytes whose hex follows. */
void dialect_bytes_pack(struct dialect_bytes *out, const char *text);

/** The text itself, with double quotes. */
void dialect_bytes_json(struct dialect_bytes *out, const char *text);

/** Decode, which must go well and keep raw.h's promises. */
void dialect_bytes_decode(enum wire_dialect dialect, const struct dialect_bytes *message,
                          struct wire_raw_batch *batch);

/** Decode, which must fail with `code` and leave nothing. */
void dialect_bytes_refuse(enum wire_dialect dialect, const struct dialect_bytes *message,
                          struct wire_raw_batch *batch, enum kvt_err code);

/** Every prefix must be refused; seeded changes may come to anything but a broken promise. */
void dialect_bytes_hurt(enum wire_dialect dialect, const struct dialect_bytes *message,
                        struct wire_raw_batch *batch);

#endif /* TESTS_UNIT_WIRE_DIALECT_DIALECT_BYTES_H */
