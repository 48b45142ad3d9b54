/*
 * wire/message/query.h -- questions over the bus and their answers (docs/formats.md, "Queries").
 *
 * Why: find and match are answered by the advisor, dump and range by each publisher; one codec for
 * both sides.
 * Ownership: decoders copy into the caller's arrays.
 * Limits:    WIRE_QUERY_HASHES_MAX hashes in a question, WIRE_QUERY_HOLDERS_MAX rows in an answer.
 */
#ifndef WIRE_MESSAGE_QUERY_H
#define WIRE_MESSAGE_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/block.h"
#include "kvtier/error.h"

#define WIRE_QUERY_HASHES_MAX  65536
#define WIRE_QUERY_HOLDERS_MAX 4096
#define WIRE_QUERY_MAX         (1u << 20) /* encoded bytes */

/* find and match ask the same way: which of these blocks, root first, are where? */
struct wire_query {
    char namespace_[KVT_NAMESPACE_MAX];
    uint64_t *hashes; /* sequence hashes, or local token hashes */
    uint32_t hash_count;
    bool by_tokens;  /* find: `hashes` are local token hashes (kvtier/token.h) */
    bool early_exit; /* find: stop as soon as one holder is ahead of all others */
};

struct wire_query_holder {
    char name[KVT_NAME_MAX]; /* worker, or the G4 holder's name */
    uint32_t dp_rank;
    enum kvt_tier tier;
    uint32_t blocks; /* length of the longest prefix this holder has */
    bool uncertain;  /* it may hold more or less: events of it are missing */
};

KVT_NODISCARD enum kvt_err wire_query_encode(const struct wire_query *query,
                                             struct kvt_buffer *out);
KVT_NODISCARD enum kvt_err wire_query_decode(const void *bytes, size_t size,
                                             struct wire_query *query, size_t capacity,
                                             struct kvt_error *err);

/** Any question's answer when it failed: [1, status, text].  The decoders of answers give `status`
 * as their own result (page: as its status) and the text in `err`; a status of a later version is
 *  KVT_UNSUPPORTED. */
KVT_NODISCARD enum kvt_err wire_query_encode_failure(enum kvt_err status, const char *text,
                                                     struct kvt_buffer *out);

/** What an answer failed with, its text in `err`; KVT_OK: it is no failure.  For answers of other
 *  codecs, which fail in the same way. */
KVT_NODISCARD enum kvt_err wire_query_failed(const void *bytes, size_t size, struct kvt_error *err);

/** Answer to find: holders with at least one block, longest first.
 *  @param loading  the advisor still reads its index: the answer is of the store, and complete */
KVT_NODISCARD enum kvt_err wire_query_encode_holders(const struct wire_query_holder *holders,
                                                     size_t count, bool loading,
                                                     struct kvt_buffer *out);
KVT_NODISCARD enum kvt_err wire_query_decode_holders(const void *bytes, size_t size,
                                                     struct wire_query_holder *holders,
                                                     size_t capacity, size_t *count,
                                                     struct kvt_error *err);

/** Answer to match: per block a mask of KVT_TIER_MASK() bits, 0 = nowhere; `loading` as above. */
KVT_NODISCARD enum kvt_err wire_query_encode_masks(const uint8_t *masks, size_t count, bool loading,
                                                   struct kvt_buffer *out);
KVT_NODISCARD enum kvt_err wire_query_decode_masks(const void *bytes, size_t size, uint8_t *masks,
                                                   size_t capacity, size_t *count,
                                                   struct kvt_error *err);

/** Does an answer to find or match say that the advisor was still reading its index?  False for
 *  what is no such answer. */
bool wire_query_loading(const void *bytes, size_t size);

/* dump: all a publisher holds, in pages.  Cursor 0 starts (and fixes the snapshot); the answer is
 * an event batch of Stores whose first_seq is the last sequence the snapshot includes, preceded by
 * the next cursor (0 = that was the last page).  Applying the pages and then every event after the
 * first page's first_seq gives the publisher's present state. */
struct wire_query_dump {
    uint64_t cursor;
    uint32_t limit; /* events wanted in a page */
};

/* range: events [from, to] again, as one event batch per answer; the asker continues after what it
 * got.  KVT_NOTFOUND in the answer: the ring no longer has `from`; dump instead. */
struct wire_query_range {
    uint64_t incarnation;
    uint64_t from;
    uint64_t to;
};

KVT_NODISCARD enum kvt_err wire_query_encode_dump(const struct wire_query_dump *dump,
                                                  struct kvt_buffer *out);
KVT_NODISCARD enum kvt_err wire_query_decode_dump(const void *bytes, size_t size,
                                                  struct wire_query_dump *dump,
                                                  struct kvt_error *err);
KVT_NODISCARD enum kvt_err wire_query_encode_range(const struct wire_query_range *range,
                                                   struct kvt_buffer *out);
KVT_NODISCARD enum kvt_err wire_query_decode_range(const void *bytes, size_t size,
                                                   struct wire_query_range *range,
                                                   struct kvt_error *err);

/** Answer to dump and range: status, next cursor, and the encoded event batch as bytes. */
KVT_NODISCARD enum kvt_err wire_query_encode_page(enum kvt_err status, uint64_t next_cursor,
                                                  const void *batch, size_t batch_size,
                                                  struct kvt_buffer *out);
KVT_NODISCARD enum kvt_err wire_query_decode_page(const void *bytes, size_t size,
                                                  enum kvt_err *status, uint64_t *next_cursor,
                                                  const void **batch, size_t *batch_size,
                                                  struct kvt_error *err);

#endif /* WIRE_MESSAGE_QUERY_H */
