/*
 * wire/message/key_ring.h -- the keys that messages are signed with, as their file has them
 * (docs/formats.md, "Keys and signatures").
 *
 * Why: only the advisor has the master.  A gateway has keys of its own, derived from it by name and
 * direction, so it can neither sign for another name nor in the other direction.
 * Ownership: plain values; forget them with wire_key_ring_wipe().
 * Limits:    WIRE_KEYS_MAX lines of a file of WIRE_KEY_FILE_MAX bytes; a master of 16..64 bytes.
 */
#ifndef WIRE_MESSAGE_KEY_RING_H
#define WIRE_MESSAGE_KEY_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

#define WIRE_KEY_MIN      16
#define WIRE_KEY_MAX      64
#define WIRE_KEYS_MAX     4
#define WIRE_KEY_FILE_MAX 1024
#define WIRE_KEY_LINE_MAX (WIRE_KEY_FILE_MAX / WIRE_KEYS_MAX)

/* X(name, text, label): what a derived key is for, its word in a file, and what the name is hashed
 * behind. */
#define WIRE_KEY_USES_TABLE(X)                                                                     \
    X(ORDERS, "orders", "kvtier-orders-v1")                                                        \
    X(REPORTS, "reports", "kvtier-reports-v1")

enum wire_key_use {
#define X(name, text, label) WIRE_KEY_##name,
    WIRE_KEY_USES_TABLE(X)
#undef X
        WIRE_KEY_USES
};

struct wire_key {
    uint8_t bytes[WIRE_KEY_MAX];
    size_t size; /* 0: none */
};

/* One line of a key file. */
struct wire_key_line {
    struct wire_key master;               /* size 0: the line has keys of one name */
    char name[KVT_NAME_MAX];              /* whose keys; "" with a master */
    struct wire_key owned[WIRE_KEY_USES]; /* of `name` */
};

struct wire_key_ring {
    struct wire_key_line lines[WIRE_KEYS_MAX]; /* the first signs, all verify */
    size_t count;                              /* 0: no key is set */
};

/**
 * Read a key file: a line is a master (32..128 hex digits, or 16..64 bytes of anything else) or
 * what wire_key_line_format() made.
 *
 * @param setting  named in the error, as "orders.key_file"
 * @return KVT_OK or KVT_INVALID; then the ring is empty
 */
KVT_NODISCARD enum kvt_err wire_key_ring_parse(struct wire_key_ring *ring, const char *text,
                                               const char *setting, struct kvt_error *err);

/** KVT_NOTFOUND: the line has no key of that use and name. */
KVT_NODISCARD enum kvt_err wire_key_of(const struct wire_key_line *line, enum wire_key_use use,
                                       const char *name, struct wire_key *key);

/** Is there a master among them?  Then its holder can speak for any name. */
bool wire_key_ring_has_master(const struct wire_key_ring *ring);

/** Can the first line sign as `name`? */
bool wire_key_ring_signs(const struct wire_key_ring *ring, enum wire_key_use use, const char *name);

/**
 * The line of a key file with all keys of one name, without a line feed.
 *
 * @return KVT_OK, KVT_NOTFOUND as wire_key_of(), KVT_INVALID: the name is empty or has a control
 *         character, KVT_RANGE: no room
 */
KVT_NODISCARD enum kvt_err wire_key_line_format(const struct wire_key_line *line, const char *name,
                                                char *text, size_t size);

void wire_key_ring_wipe(struct wire_key_ring *ring);

#endif /* WIRE_MESSAGE_KEY_RING_H */
