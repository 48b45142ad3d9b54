/*
 * advisor/source/inbox_chunk.h -- memory that many items lie in, for inbox.c and item.c alone.
 *
 * Why: an item does not know its inbox, but whoever frees the last item of a chunk gives it back.
 * Ownership: the inbox's; `live` items in it are somebody's.
 * Threads:   filled under the inbox's lock, then the taker's.
 * Limits:    as advisor/source/inbox.h.
 */
#ifndef ADVISOR_SOURCE_INBOX_CHUNK_H
#define ADVISOR_SOURCE_INBOX_CHUNK_H

#include <stdalign.h>

#include "advisor/source/inbox.h"

struct advisor_chunk {
    struct advisor_chunk *next;
    struct advisor_inbox *inbox;
    uint32_t count; /* items, those that only pass through included */
    uint32_t live;  /* items that lie in `bytes` and were not freed */
    size_t used;
    size_t payload; /* sum of the items' sizes */
    struct advisor_inbox_item *items[ADVISOR_INBOX_CHUNK_ITEMS];
    alignas(alignof(struct advisor_inbox_item)) uint8_t bytes[ADVISOR_INBOX_CHUNK_BYTES];
};

/** An item that lies in it was freed. */
void advisor_chunk_drop(struct advisor_chunk *chunk);

#endif /* ADVISOR_SOURCE_INBOX_CHUNK_H */
