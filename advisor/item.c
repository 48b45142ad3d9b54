#include "advisor/item.h"

#include <string.h>

#include "base/alloc.h"

enum kvt_err
advisor_item_new(struct advisor_item **out, enum advisor_item_kind kind, const char *subject,
                 const void *bytes, size_t size)
{
    struct advisor_item *item = kvt_calloc(1, sizeof(*item));

    *out = NULL;
    if (item == NULL)
        return KVT_NOMEM;
    item->kind = kind;
    item->size = size;
    item->subject = kvt_strdup(subject);
    item->bytes = kvt_calloc(size == 0 ? 1 : size, 1);
    if (item->subject == NULL || item->bytes == NULL) {
        advisor_item_free(item);
        return KVT_NOMEM;
    }
    if (size > 0)
        memcpy(item->bytes, bytes, size);
    *out = item;
    return KVT_OK;
}

void
advisor_item_free(struct advisor_item *item)
{
    if (item == NULL)
        return;
    kvt_free(item->subject);
    kvt_free(item->bytes);
    kvt_free(item);
}
