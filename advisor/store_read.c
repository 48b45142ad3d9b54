#include "advisor/store_read.h"

#include <string.h>

#include "base/alloc.h"

enum { PAGE = 10000 };

struct advisor_store_reader {
    struct advisor_store *store;
    struct advisor_finder finder;
};

enum kvt_err
advisor_store_read_open(struct advisor_store_reader **out, const char *path, struct kvt_error *err)
{
    const struct advisor_store_options options = {.path = path, .read_only = true};
    struct advisor_store_reader *reader = kvt_calloc(1, sizeof(*reader));
    enum kvt_err rc;

    *out = NULL;
    if (reader == NULL)
        return kvt_error_set(err, KVT_NOMEM, "index in %s", path);
    rc = advisor_store_open(&reader->store, &options, err);
    if (rc != KVT_OK) {
        advisor_store_read_close(reader);
        return rc;
    }
    reader->finder.store = reader->store;
    *out = reader;
    return KVT_OK;
}

void
advisor_store_read_close(struct advisor_store_reader *reader)
{
    if (reader == NULL)
        return;
    advisor_store_close(reader->store);
    kvt_free(reader);
}

const struct advisor_finder *
advisor_store_read_finder(const struct advisor_store_reader *reader)
{
    return &reader->finder;
}

struct count {
    struct advisor_store_stats *stats;
    struct advisor_store_holder_stats *holders;
};

static enum kvt_err
count_holder(void *arg, uint32_t number, const struct index_holder *key)
{
    struct count *count = arg;
    struct advisor_store_holder_stats *more =
        kvt_realloc(count->holders, (size_t)number + 1, sizeof(*more));

    if (more == NULL)
        return KVT_NOMEM;
    memset(&more[number], 0, sizeof(*more));
    more[number].holder = *key;
    count->holders = more;
    count->stats->holders = (uint64_t)number + 1;
    return KVT_OK;
}

static enum kvt_err
count_namespace(void *arg, uint32_t number, const char *name)
{
    struct count *count = arg;

    (void)number;
    (void)name;
    count->stats->namespaces++;
    return KVT_OK;
}

static enum kvt_err
count_publisher(void *arg, const struct advisor_publisher_row *row)
{
    struct count *count = arg;

    count->stats->publishers += row->gone == 0 ? 1 : 0;
    return KVT_OK;
}

static enum kvt_err
count_block(void *arg, const struct advisor_store_block *block)
{
    struct count *count = arg;

    count->stats->blocks++;
    for (uint32_t i = 0; i < block->place_count; i++) {
        struct advisor_store_holder_stats *holder;

        count->stats->places++;
        /* One that came after the holders were listed is counted as a place only. */
        if (block->places[i].holder >= count->stats->holders)
            continue;
        holder = &count->holders[block->places[i].holder];
        holder->blocks++;
        holder->bytes += block->size * (uint64_t)__builtin_popcount(block->places[i].ranks);
    }
    return KVT_OK;
}

static enum kvt_err
count_names(struct advisor_store_reader *reader, struct count *count)
{
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(reader->store, &txn, NULL);

    if (rc == KVT_OK)
        rc = advisor_store_holders(&txn, count_holder, count);
    if (rc == KVT_OK)
        rc = advisor_store_namespaces(&txn, count_namespace, count);
    if (rc == KVT_OK)
        rc = advisor_store_publishers(&txn, count_publisher, count);
    if (rc == KVT_OK)
        rc = advisor_store_number(&txn, ADVISOR_META_EVENTS_SEQ, &count->stats->committed_seq);
    if (rc == KVT_OK)
        rc = advisor_store_number(&txn, ADVISOR_META_EPOCH, &count->stats->epoch);
    advisor_store_end(&txn);
    return rc;
}

enum kvt_err
advisor_store_read_stats(struct advisor_store_reader *reader, struct advisor_store_stats *stats,
                         struct advisor_store_holder_stats **holders)
{
    struct count count = {.stats = stats};
    uint64_t cursor = 0;
    enum kvt_err rc;

    memset(stats, 0, sizeof(*stats));
    *holders = NULL;
    advisor_store_size(reader->store, &stats->db_bytes, &stats->db_max_bytes);
    rc = count_names(reader, &count);
    do {
        struct advisor_txn txn;

        if (rc == KVT_OK)
            rc = advisor_store_read(reader->store, &txn, NULL);
        if (rc != KVT_OK)
            break;
        rc = advisor_store_blocks(&txn, cursor, PAGE, &cursor, count_block, &count);
        advisor_store_end(&txn);
    } while (rc == KVT_OK && cursor != 0);
    if (rc != KVT_OK) {
        kvt_free(count.holders);
        return rc;
    }
    *holders = count.holders;
    return KVT_OK;
}

enum kvt_err
advisor_store_read_orders(struct advisor_store_reader *reader, advisor_store_order_fn *callback,
                          void *arg)
{
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(reader->store, &txn, NULL);

    if (rc == KVT_OK)
        rc = advisor_store_orders(&txn, callback, arg);
    advisor_store_end(&txn);
    return rc;
}
