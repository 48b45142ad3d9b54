#include "advisor/answer/offline_answer.h"

#include <string.h>

#include "advisor/index/index_image.h"
#include "base/core/alloc.h"

struct advisor_store_reader {
    struct advisor_store *store;
    struct advisor_index_image *image; /* NULL: not loaded */
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
    advisor_index_image_free(reader->image);
    advisor_store_close(reader->store);
    kvt_free(reader);
}

const struct advisor_finder *
advisor_store_read_finder(const struct advisor_store_reader *reader)
{
    return &reader->finder;
}

/* In the transaction that what is counted with it is read in. */
static enum kvt_err
load(struct advisor_store_reader *reader, const struct advisor_txn *txn, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    if (reader->image == NULL)
        rc = advisor_index_image_new(&reader->image, txn, err);
    if (rc == KVT_OK)
        reader->finder.memory = advisor_index_image_memory(reader->image);
    return rc;
}

enum kvt_err
advisor_store_read_load(struct advisor_store_reader *reader, struct kvt_error *err)
{
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(reader->store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    rc = load(reader, &txn, err);
    advisor_store_end(&txn);
    return rc;
}

static enum kvt_err
count_publisher(void *arg, const void *data)
{
    const struct advisor_publisher_row *row = data;
    struct advisor_store_stats *stats = arg;

    stats->publishers += row->gone == 0 ? 1 : 0;
    return KVT_OK;
}

static enum kvt_err
count_rows(const struct advisor_txn *txn, struct advisor_store_stats *stats)
{
    enum kvt_err rc = advisor_store_walk(txn, ADVISOR_ROW_PUBLISHER, count_publisher, stats);

    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_EVENTS_SEQ, &stats->committed_seq);
    if (rc == KVT_OK)
        rc = advisor_store_number(txn, ADVISOR_META_EPOCH, &stats->epoch);
    return rc;
}

static enum kvt_err
count_holders(struct index *index, struct advisor_store_stats *stats,
              struct advisor_store_holder_stats **holders)
{
    const uint32_t count = index_holder_count(index);

    *holders = kvt_calloc((size_t)count + 1, sizeof(**holders));
    if (*holders == NULL)
        return KVT_NOMEM;
    for (uint32_t i = 0; i < count; i++) {
        struct advisor_store_holder_stats *holder = &(*holders)[stats->holders];

        index_holder_info(index, i, &holder->holder, &holder->blocks, &holder->bytes);
        /* One without a name is nobody: see advisor/index/index_load.c. */
        stats->holders += holder->holder.name[0] != '\0' ? 1 : 0;
    }
    return KVT_OK;
}

enum kvt_err
advisor_store_read_stats(struct advisor_store_reader *reader, struct advisor_store_stats *stats,
                         struct advisor_store_holder_stats **holders, struct kvt_error *err)
{
    struct index_stats counted;
    struct advisor_txn txn;
    enum kvt_err rc;

    memset(stats, 0, sizeof(*stats));
    *holders = NULL;
    advisor_store_size(reader->store, &stats->db_bytes, &stats->db_max_bytes);
    rc = advisor_store_read(reader->store, &txn, err);
    if (rc != KVT_OK)
        return rc;
    rc = load(reader, &txn, err);
    if (rc == KVT_OK) {
        rc = count_rows(&txn, stats);
        if (rc == KVT_OK)
            rc = count_holders(reader->finder.memory->index, stats, holders);
        if (rc != KVT_OK)
            rc = kvt_error_set(err, rc, "index: %s", kvt_err_text(rc));
    }
    advisor_store_end(&txn);
    if (rc != KVT_OK)
        return rc;
    index_stats(reader->finder.memory->index, &counted);
    stats->blocks = counted.blocks;
    stats->places = counted.places;
    stats->namespaces = counted.namespaces;
    return KVT_OK;
}
