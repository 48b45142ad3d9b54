#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/packed/packed_store_internal.h"

/* Rows of a page while packed blocks are put among them. */
struct page {
    struct g4_listed *rows; /* G4_LIST_KEYS_MAX */
    size_t count;
    bool cut; /* there was no room for what follows */
};

/* Merge `added` into the page; a key that both have is the object's.  `out` has room for a page. */
static void
merge(struct page *page, const struct g4_listed *added, size_t count, struct g4_listed *out)
{
    size_t used = 0;
    size_t at = 0;
    size_t i = 0;

    while ((at < page->count || i < count) && used < G4_LIST_KEYS_MAX) {
        const int order = at == page->count ? 1
                          : i == count      ? -1
                                            : strcmp(page->rows[at].key, added[i].key);

        out[used++] = order <= 0 ? page->rows[at] : added[i];
        at += order <= 0;
        i += order >= 0;
    }
    page->cut = page->cut || at < page->count || i < count;
    memcpy(page->rows, out, used * sizeof(*out));
    page->count = used;
}

/* What belongs to the packer is not listed. */
static void
leave_out(const struct g4_packed_store *store, struct page *page)
{
    size_t used = 0;

    for (size_t i = 0; i < page->count; i++) {
        if (g4_packed_store_reserved(store, page->rows[i].key))
            continue;
        if (used != i)
            page->rows[used] = page->rows[i];
        used++;
    }
    page->count = used;
}

/* Set the child to go on behind the packer's folder in which the page ended: '0' follows '/'. */
static void
leap(struct g4_packed_call *call, const char *last)
{
    const char *folder = strstr(last, G4_SEGMENT_FOLDER);
    const int size = (int)(folder - last) + (int)strlen(G4_SEGMENT_FOLDER) - 1;

    (void)snprintf(call->child_key, sizeof(call->child_key), "%.*s0", size, last);
    call->child = *call->request;
    call->child.after = call->child_key;
    call->child.token[0] = '\0';
}

enum kvt_err
g4_packed_call_merge(struct g4_packed_call *call)
{
    struct g4_packed_store *store = call->store;
    struct g4_request *child = &call->child;
    struct page page = {.rows = child->listed, .count = child->listed_count};
    const char *after = child->after == NULL ? "" : child->after;
    const bool more = child->token[0] != '\0';
    struct g4_listed *room;
    char last[KVT_KEY_MAX] = "";
    enum kvt_err rc = KVT_OK;

    if (more && page.count == 0)
        return KVT_AGAIN; /* all its keys were too long: behind its token there may be others */
    room = kvt_calloc(2 * (size_t)G4_LIST_KEYS_MAX, sizeof(*room));
    if (room == NULL)
        return KVT_NOMEM;
    if (more)
        memcpy(last, page.rows[page.count - 1].key, sizeof(last));
    leave_out(store, &page);
    for (size_t i = 0; i < store->space_count && rc == KVT_OK; i++) {
        size_t count = 0;

        if (!g4_packed_space_overlaps(&store->spaces[i], child->key))
            continue;
        rc = g4_packed_list(store->spaces[i].packed, child->key, after, more ? last : NULL, room,
                            G4_LIST_KEYS_MAX, &count);
        page.cut = page.cut || count == G4_LIST_KEYS_MAX;
        merge(&page, room, count, room + G4_LIST_KEYS_MAX);
    }
    kvt_free(room);
    if (rc == KVT_OK && more && page.count == 0) {
        leap(call, last);
        return KVT_AGAIN;
    }
    child->listed_count = page.count;
    child->token[0] = '\0';
    if (page.cut)
        memcpy(last, page.rows[page.count - 1].key, sizeof(last));
    if (page.cut || more)
        (void)snprintf(child->token, sizeof(child->token), "%s", last);
    return rc;
}
