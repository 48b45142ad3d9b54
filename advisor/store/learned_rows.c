#include <string.h>

#include "advisor/store/durable_store_private.h"
#include "kvtier/ordering.h"

/* Keys are "<tier>\0<ordering>\0". */

enum { KEY_MAX = KVT_NAME_MAX + KVT_ORDERING_NAME_MAX };

enum kvt_err
advisor_store_put_learned(const struct advisor_txn *txn, const char *tier, const char *ordering,
                          const void *bytes, size_t size)
{
    char text[KEY_MAX];
    const size_t tier_size = strlen(tier) + 1;
    const size_t ordering_size = strlen(ordering) + 1;

    if (tier_size > KVT_NAME_MAX || ordering_size > KVT_ORDERING_NAME_MAX)
        return KVT_RANGE;
    memcpy(text, tier, tier_size);
    memcpy(text + tier_size, ordering, ordering_size);
    return advisor_table_put(txn, ADVISOR_TABLE_LEARNED,
                             advisor_val(text, tier_size + ordering_size), bytes, size);
}

struct walk {
    advisor_store_learned_fn *callback;
    void *arg;
};

static enum kvt_err
emit(void *arg, MDB_val key, MDB_val value)
{
    const struct walk *walk = arg;
    const char *tier = key.mv_data;
    const char *end = memchr(tier, '\0', key.mv_size);
    const size_t left = end == NULL ? 0 : key.mv_size - (size_t)(end + 1 - tier);

    if (left == 0 || memchr(end + 1, '\0', left) != end + left)
        return KVT_CORRUPT;
    return walk->callback(walk->arg, tier, end + 1, value.mv_data, value.mv_size);
}

enum kvt_err
advisor_store_learned(const struct advisor_txn *txn, advisor_store_learned_fn *callback, void *arg)
{
    struct walk walk = {callback, arg};

    return advisor_table_walk(txn, ADVISOR_TABLE_LEARNED, MDB_FIRST, emit, &walk);
}
