/*
 * gateway/catalog/catalog_record.h -- what the catalog knows about one object, as a struct and as
 * bytes.
 *
 * Why: one codec for the rows of the catalog and of the event outbox, versioned, so that a catalog
 * written by an older gateway is read or refused, never misread.
 * Limits:    GATEWAY_RECORD_MAX and GATEWAY_OUTBOX_MAX encoded bytes.
 */
#ifndef GATEWAY_CATALOG_CATALOG_RECORD_H
#define GATEWAY_CATALOG_CATALOG_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "kvtier/block.h"
#include "kvtier/event.h"

#define GATEWAY_RECORD_MAX 320
#define GATEWAY_OUTBOX_MAX 256

/* Tiers of an object; bits of `tiers`. */
#define GATEWAY_HOT   1u
#define GATEWAY_COLD  2u
#define GATEWAY_WARM  4u /* the second volume */
#define GATEWAY_FAR   8u /* the second bucket */
#define GATEWAY_TIERS 4

#define GATEWAY_VOLUMES (GATEWAY_HOT | GATEWAY_WARM)
#define GATEWAY_BUCKETS (GATEWAY_COLD | GATEWAY_FAR)

/* The same as numbers: of a bit, and of an event's location. */
enum gateway_tier {
    GATEWAY_TIER_HOT,
    GATEWAY_TIER_COLD,
    GATEWAY_TIER_WARM,
    GATEWAY_TIER_FAR,
};

enum gateway_state {
    GATEWAY_INTENT = 1,   /* a PUT began; `tiers` are what it reserved */
    GATEWAY_STORED = 2,   /* readable where `tiers` say */
    GATEWAY_RETIRING = 3, /* a removal began: a miss for every reader */
};

struct gateway_record {
    enum gateway_state state;
    unsigned tiers;
    bool opaque;  /* not a block: no events, never hot */
    bool foreign; /* a block's key, written by others without our metadata: it counts and has its
                     events; a miss for every reader unless it is `summed` */
    bool summed;  /* foreign only: `length` and `crc32c` are of the object with this ETag, which was
                     read whole */
    bool overwritten; /* foreign only: `length` and `crc32c` are of a block that was acknowledged,
                         and an object without our metadata and with other bytes took its place: a
                         miss until the block's own bytes are put again */
    bool kept; /* INTENT only: the hot copy is of an acknowledged block, whatever the PUT does */
    bool owed; /* STORED: acknowledged from its hot copy, the bucket is still to get one.  INTENT:
                    it is to become so, and nothing was sent to the bucket */
    /* STORED: on its way between the buckets, to GATEWAY_COLD or GATEWAY_FAR; 0: not.  While that
     * is not among `tiers` a copy may be there that nobody looked at; once it is, the other
     * bucket's is to go.  Such a row is settled like an intent (gateway/move/move.h).
     * RETIRING, INTENT: GATEWAY_FAR, that bucket may have a copy that is to go, for the block's
     * removal was noted while it was away (gateway/move/bucket_move.h); the PUT came behind that.
     * */
    unsigned moving;
    uint64_t length;
    uint32_t crc32c;
    uint64_t fingerprint;
    uint64_t modified_ms;      /* Unix */
    char etag[G4_ETAG_MAX];    /* of the copy in the bucket; while that is owed, of the hot one */
    char shown[G4_ETAG_MAX];   /* the ETag that clients see; "" = the same */
    char writer[KVT_NAME_MAX]; /* gateway that wrote it first */
};

/** Tiers a reader may find it on. */
static inline unsigned
gateway_record_visible(const struct gateway_record *record)
{
    return record->state == GATEWAY_STORED ? record->tiers : 0;
}

/** Tiers whose bytes it takes or has reserved: what is owed to the bucket counts there already. */
static inline unsigned
gateway_record_counted(const struct gateway_record *record)
{
    return record->tiers | record->moving | (record->owed ? GATEWAY_COLD : 0u);
}

/** Is there something to be settled: a PUT, a removal or a move that did not come to its end? */
static inline bool
gateway_record_unsettled(const struct gateway_record *record)
{
    return record->state != GATEWAY_STORED || record->moving != 0;
}

/** Which bucket's bit is it, as `place` of an answer (g4/pair/bucket_pair.h) tells it? */
static inline unsigned
gateway_record_bucket(const struct g4_request *answer)
{
    return answer->place == 0 ? GATEWAY_COLD : GATEWAY_FAR;
}

/** Is it acknowledged, and still to be uploaded? */
static inline bool
gateway_record_waits(const struct gateway_record *record)
{
    return record->owed && record->state == GATEWAY_STORED;
}

/** Does it speak of a copy that this gateway knows to be in the bucket?  One that the bucket is
 *  owed knows nothing of what lies there, and its ETag is the hot file's. */
static inline bool
gateway_record_in_bucket(const struct gateway_record *record)
{
    return record->state == GATEWAY_STORED && !record->owed &&
           (record->tiers & GATEWAY_BUCKETS) != 0;
}

/** Did another bucket answer than those the row speaks of? */
static inline bool
gateway_record_elsewhere(const struct gateway_record *record, const struct g4_request *answer)
{
    return gateway_record_in_bucket(record) && record->moving == 0 &&
           (record->tiers & gateway_record_bucket(answer)) == 0;
}

/** "intent", "stored", "retiring". */
const char *gateway_record_state_name(enum gateway_state state);

/** "block", "foreign", "opaque". */
const char *gateway_record_kind_name(const struct gateway_record *record);

/** STORED in its bucket alone, as a HEAD or GET that was answered tells it. */
void gateway_record_of_head(const struct g4_request *head, bool opaque,
                            struct gateway_record *record);

/** The object as a g4 expectation. */
void gateway_record_meta(const struct gateway_record *record, struct g4_meta *meta);

/** Bytes written; never more than GATEWAY_RECORD_MAX. */
size_t gateway_record_encode(const struct gateway_record *record, uint8_t out[GATEWAY_RECORD_MAX]);
/** False on anything that is not a record of this version. */
bool gateway_record_decode(const void *bytes, size_t size, struct gateway_record *record);

/* One event waiting for, or already on, the bus.  `event.location`: enum gateway_tier. */
struct gateway_event {
    uint64_t seq;
    char namespace_[KVT_NAMESPACE_MAX];
    struct kvt_event event;
};

size_t gateway_record_encode_event(const struct gateway_event *event,
                                   uint8_t out[GATEWAY_OUTBOX_MAX]);
bool gateway_record_decode_event(const void *bytes, size_t size, struct gateway_event *event);

#endif /* GATEWAY_CATALOG_CATALOG_RECORD_H */
