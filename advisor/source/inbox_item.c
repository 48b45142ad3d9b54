#include "advisor/source/inbox_item.h"

#include <string.h>

#include "advisor/source/inbox_chunk.h"
#include "base/core/alloc.h"

enum kvt_err
advisor_inbox_item_new(struct advisor_inbox_item **out, enum advisor_inbox_item_kind kind,
                       const char *subject, const void *bytes, size_t size)
{
    struct advisor_inbox_item *item = kvt_calloc(1, sizeof(*item));

    *out = NULL;
    if (item == NULL)
        return KVT_NOMEM;
    item->kind = kind;
    item->size = size;
    item->subject = kvt_strdup(subject);
    item->bytes = kvt_calloc(size == 0 ? 1 : size, 1);
    if (item->subject == NULL || item->bytes == NULL) {
        advisor_inbox_item_free(item);
        return KVT_NOMEM;
    }
    if (size > 0)
        memcpy(item->bytes, bytes, size);
    *out = item;
    return KVT_OK;
}

void
advisor_inbox_item_number(struct advisor_inbox_item *item, const struct advisor_inbox_item *like)
{
    item->stream_seq = like->stream_seq;
    item->time_ms = like->time_ms;
    item->created_ms = like->created_ms;
    item->sequence = like->sequence;
    item->epoch = like->epoch;
    item->worker_id = like->worker_id;
    item->endpoint = like->endpoint;
    item->has_sequence = like->has_sequence;
    item->new_life = like->new_life;
}

struct advisor_inbox_item *
advisor_inbox_item_keep(struct advisor_inbox_item *item)
{
    struct advisor_inbox_item *own;

    if (item->chunk == NULL)
        return item;
    if (advisor_inbox_item_new(&own, item->kind, item->subject, item->bytes, item->size) != KVT_OK)
        return NULL;
    advisor_inbox_item_number(own, item);
    advisor_inbox_item_free(item);
    return own;
}

void
advisor_inbox_item_free(struct advisor_inbox_item *item)
{
    if (item == NULL)
        return;
    if (item->chunk != NULL) {
        advisor_chunk_drop(item->chunk);
        return;
    }
    kvt_free(item->subject);
    kvt_free(item->bytes);
    kvt_free(item);
}
