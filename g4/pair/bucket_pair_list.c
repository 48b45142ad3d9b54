#include "g4/pair/bucket_pair_list.h"

#include <string.h>

#include "g4/object/kind.h"

/* Behind the end of what one of them told, it may have more. */
static bool
is_behind(const struct g4_bucket_pair_page *page, const char *key)
{
    return page->more && strcmp(key, page->rows[page->count - 1].key) > 0;
}

static void
lower(const struct g4_bucket_pair_page *page, const char **end)
{
    const char *last = page->more ? page->rows[page->count - 1].key : NULL;

    if (last != NULL && (*end == NULL || strcmp(last, *end) < 0))
        *end = last;
}

static void
copy_key(char out[KVT_KEY_MAX], const char *key)
{
    memcpy(out, key, strlen(key) + 1);
}

size_t
g4_bucket_pair_merge(const struct g4_bucket_pair_page *near, const struct g4_bucket_pair_page *far,
                     struct g4_listed *out, char next[KVT_KEY_MAX])
{
    const char *end = NULL;
    size_t used = 0;
    size_t i = 0;
    size_t at = 0;

    lower(near, &end);
    lower(far, &end);
    next[0] = '\0';
    if (end != NULL)
        copy_key(next, end);
    while (i < near->count || at < far->count) {
        const int order = i == near->count   ? 1
                          : at == far->count ? -1
                                             : strcmp(near->rows[i].key, far->rows[at].key);
        const struct g4_listed *row = order <= 0 ? &near->rows[i] : &far->rows[at];

        if (is_behind(near, row->key) || is_behind(far, row->key))
            break;
        if (order == 0 && row->size == 0)
            row = &far->rows[at];
        i += order <= 0;
        at += order >= 0;
        if (order > 0 && g4_kind_of_key(row->key, NULL) != G4_KIND_BLOCK)
            continue;
        if (used == G4_LIST_KEYS_MAX) {
            copy_key(next, out[used - 1].key);
            break;
        }
        out[used++] = *row;
    }
    return used;
}
