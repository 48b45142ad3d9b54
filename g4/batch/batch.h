/*
 * g4/batch/batch.h -- one request of the batch API and its answer, byte by byte (docs/formats.md).
 *
 * Why: bodies go straight between the caller's memory and the transfer: nothing is assembled or
 * kept twice, whatever pieces the transfer asks for and delivers.
 *
 * Ownership: entries and items are borrowed.
 * Threads:   none; one owner.
 * Limits:    G4_BATCH_CLIENT_BATCH_MAX entries; keys below 2^16 bytes.
 */
#ifndef G4_BATCH_BATCH_H
#define G4_BATCH_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define G4_BATCH_CLIENT_BATCH_MAX 4096

struct g4_batch_client_item {
    const char *key;
    uint64_t fingerprint; /* put */
    const void *body;     /* put */
    void *buffer;         /* get */
    size_t size;          /* put: bytes of body; get: in room, out bytes received; has: out */
    uint32_t crc32c;      /* put: computed by the call; get, has: out */
    enum kvt_err status;  /* get, has: OK or NOTFOUND, or why it could not be asked */
};

enum g4_batch_verb { G4_BATCH_HAS, G4_BATCH_GET, G4_BATCH_PUT };

struct g4_batch_entry {
    struct g4_batch_client_item *item;
    size_t room; /* GET: what item->size was before the answer overwrote it */
};

#define G4_BATCH_HEAD_MAX 28

struct g4_batch {
    enum g4_batch_verb verb;
    struct g4_batch_entry *entries;
    size_t count;

    /* Going out: the part of the entry that is being sent, and how much of it is. */
    size_t out_entry;
    unsigned out_part;
    size_t out_sent;
    uint8_t out_head[G4_BATCH_HEAD_MAX];

    /* Coming in. */
    size_t in_entry;
    uint8_t in_head[G4_BATCH_HEAD_MAX];
    size_t in_head_size;
    uint64_t in_body_size;
    uint64_t in_body_had;
    bool in_body;
    bool malformed;
};

/** Ready to send from the start and to read an answer; at least one entry. */
void g4_batch_begin(struct g4_batch *batch, enum g4_batch_verb verb, struct g4_batch_entry *entries,
                    size_t count);

/** Bytes of the whole request. */
uint64_t g4_batch_size(const struct g4_batch *batch);

/** The next bytes of the request; 0 at its end. */
size_t g4_batch_read(struct g4_batch *batch, void *out, size_t room);

/** The next bytes of the answer; false when it cannot be one. */
bool g4_batch_write(struct g4_batch *batch, const void *bytes, size_t size);

/** Was every entry answered? */
bool g4_batch_complete(const struct g4_batch *batch);

#endif /* G4_BATCH_BATCH_H */
