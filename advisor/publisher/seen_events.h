/*
 * advisor/publisher/seen_events.h -- digests of a publisher's newest events, by number.
 *
 * Why: a number that comes twice with the same event is a repeated message.  With another event
 * somebody else used the number, and what the publisher itself sent under it would be lost.  The
 * digests are durable with the group that applied the events, so that a restart does not hide it.
 *
 * Ownership: the publisher owns its digests.
 * Threads:   one at a time; the writer's thread.
 * Limits:    ADVISOR_SEEN_EVENTS_MAX events of a publisher; what is older is ADVISOR_SEEN_UNKNOWN.
 *            A digest has 32 bits and is keyed with a secret of the store, so that nobody can look
 *            for an event that has the digest of another.
 */
#ifndef ADVISOR_PUBLISHER_SEEN_EVENTS_H
#define ADVISOR_PUBLISHER_SEEN_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "advisor/store/durable_store.h"
#include "kvtier/event.h"

#define ADVISOR_SEEN_CHUNKS     16
#define ADVISOR_SEEN_EVENTS_MAX (ADVISOR_SEEN_CHUNKS * ADVISOR_SEEN_CHUNK_EVENTS)

struct advisor_seen_events {
    uint64_t key;       /* of the digests */
    uint64_t vouched;   /* the publisher itself told all up to this number */
    uint64_t conflicts; /* numbers that came twice with other content */
    uint32_t dirty;     /* chunks that differ from the store's, a bit each */
    struct advisor_seen_row *chunks[ADVISOR_SEEN_CHUNKS];
};

enum advisor_seen {
    ADVISOR_SEEN_SAME,
    ADVISOR_SEEN_OTHER,   /* one of the numbers had another event */
    ADVISOR_SEEN_UNKNOWN, /* too long ago to tell */
};

void advisor_seen_events_release(struct advisor_seen_events *seen);

/** Remember the events of a batch from the number `from` on.  `unknown` of them the decoder left
 *  out.  Without memory they are UNKNOWN later. */
void advisor_seen_events_add(struct advisor_seen_events *seen, const struct kvt_event_batch *batch,
                             uint32_t unknown, uint64_t from);

/** Compare the batch's numbers in (`above`, `to`]; all others are left out. */
enum advisor_seen advisor_seen_events_compare(const struct advisor_seen_events *seen,
                                              const struct kvt_event_batch *batch, uint32_t unknown,
                                              uint64_t above, uint64_t to);

/** The same for one number and the digest of what came under it, which is made by the caller. */
void advisor_seen_events_add_digest(struct advisor_seen_events *seen, uint64_t number,
                                    uint64_t digest);
enum advisor_seen advisor_seen_events_compare_digest(const struct advisor_seen_events *seen,
                                                     uint64_t number, uint64_t digest);

/** What was seen up to `number` is right, whatever came under it: it is not compared any more. */
void advisor_seen_events_vouch(struct advisor_seen_events *seen, uint64_t number);
void advisor_seen_events_count(struct advisor_seen_events *seen, uint64_t conflicts);

/** A chunk that the store has. */
KVT_NODISCARD enum kvt_err advisor_seen_events_load(struct advisor_seen_events *seen,
                                                    const struct advisor_seen_row *row);
/** Write what changed, as the publisher `number`'s. */
KVT_NODISCARD enum kvt_err advisor_seen_events_save(const struct advisor_seen_events *seen,
                                                    const struct advisor_txn *txn, uint32_t number);

#endif /* ADVISOR_PUBLISHER_SEEN_EVENTS_H */
