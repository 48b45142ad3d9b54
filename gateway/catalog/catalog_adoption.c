#include <endian.h>
#include <string.h>

#include "gateway/catalog/catalog.h"
#include "gateway/catalog/catalog_private.h"

enum { MARK_VERSION = 1 };

/* Numbers of a mark that are kept as they are, in the row's order. */
#define NUMBERS(X)                                                                                 \
    X(rate)                                                                                        \
    X(began_ms)                                                                                    \
    X(ended_ms)                                                                                    \
    X(listed)                                                                                      \
    X(known)                                                                                       \
    X(adopted)                                                                                     \
    X(adopted_bytes)                                                                               \
    X(adopted_foreign)                                                                             \
    X(adopted_opaque)                                                                              \
    X(passed)                                                                                      \
    X(damaged)                                                                                     \
    X(refused)

/* Little-endian; the key follows, without its NUL. */
struct mark_value {
    uint64_t version;
    uint64_t state;
    uint64_t whole;
    uint64_t why;
#define X(name) uint64_t name;
    NUMBERS(X)
#undef X
};

#define WORDS (sizeof(struct mark_value) / sizeof(uint64_t))

static const char mark_name[] = "adoption";

/* Between the machine's order of bytes and the file's, in place; both ways are the same. */
static void
swap_words(struct mark_value *value)
{
    uint64_t words[WORDS];

    memcpy(words, value, sizeof(words));
    for (size_t i = 0; i < WORDS; i++)
        words[i] = htole64(words[i]);
    memcpy(value, words, sizeof(words));
}

int
gateway_catalog_store_mark(struct gateway_catalog *catalog, MDB_txn *txn,
                           const struct gateway_adoption_mark *mark)
{
    const size_t size = strlen(mark->after);
    struct mark_value value = {.version = MARK_VERSION,
                               .state = mark->state,
                               .whole = mark->whole,
                               .why = mark->why,
#define X(name) .name = mark->name,
                               NUMBERS(X)
#undef X
    };
    uint8_t bytes[sizeof(value) + KVT_KEY_MAX];
    MDB_val name = kvt_lmdb_val(mark_name, sizeof(mark_name) - 1);
    MDB_val row = kvt_lmdb_val(bytes, sizeof(value) + size);
    int rc;

    swap_words(&value);
    memcpy(bytes, &value, sizeof(value));
    memcpy(bytes + sizeof(value), mark->after, size);
    rc = mdb_put(txn, catalog->meta, &name, &row, 0);
    if (rc == 0)
        catalog->adoption = *mark;
    return rc;
}

int
gateway_catalog_load_mark(struct gateway_catalog *catalog, MDB_txn *txn)
{
    struct gateway_adoption_mark *mark = &catalog->adoption;
    MDB_val name = kvt_lmdb_val(mark_name, sizeof(mark_name) - 1);
    struct mark_value value;
    MDB_val row;
    int rc;

    *mark = (struct gateway_adoption_mark){.state = GATEWAY_ADOPTION_DONE, .whole = true};
    rc = mdb_get(txn, catalog->meta, &name, &row);
    if (rc != 0) /* a gateway wrote it that knew of no adoption: its caps held */
        return rc == MDB_NOTFOUND ? 0 : rc;
    if (row.mv_size < sizeof(value) || row.mv_size >= sizeof(value) + KVT_KEY_MAX)
        return MDB_CORRUPTED;
    memcpy(&value, row.mv_data, sizeof(value));
    swap_words(&value);
    if (value.version != MARK_VERSION || value.state >= GATEWAY_ADOPTION_STATES ||
        value.why >= KVT_ERR_COUNT)
        return MDB_VERSION_MISMATCH;
    *mark = (struct gateway_adoption_mark){.state = (enum gateway_adoption_state)value.state,
                                           .whole = value.whole != 0,
                                           .why = (enum kvt_err)value.why,
#define X(name) .name = value.name,
                                           NUMBERS(X)
#undef X
    };
    memcpy(mark->after, (const uint8_t *)row.mv_data + sizeof(value), row.mv_size - sizeof(value));
    return 0;
}

int
gateway_catalog_mark(struct gateway_catalog *catalog, MDB_txn *txn, const struct gateway_job *job)
{
    struct gateway_adoption_mark mark = *job->mark;

    for (size_t i = 0; i < job->count; i++) {
        const struct gateway_change *change = &job->changes[i];

        if (change->status == KVT_EXISTS) {
            mark.known++;
        } else if (change->status != KVT_OK) {
            mark.refused++;
        } else {
            mark.adopted++;
            mark.adopted_bytes += change->record.length;
            mark.adopted_foreign += change->record.foreign ? 1 : 0;
            mark.adopted_opaque += change->record.opaque ? 1 : 0;
        }
    }
    return gateway_catalog_store_mark(catalog, txn, &mark);
}

void
gateway_catalog_adoption(struct gateway_catalog *catalog, struct gateway_adoption_mark *mark)
{
    (void)pthread_mutex_lock(&catalog->shared.lock);
    *mark = catalog->shared.adoption;
    (void)pthread_mutex_unlock(&catalog->shared.lock);
}
