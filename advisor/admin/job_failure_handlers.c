#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "base/core/alloc.h"

/* What failed of a job.  A gateway tells how many blocks of an order failed, and of the first why;
 * which ones they are is seen in the index, where what was ordered is not so. */

enum { FAILURES_MAX = 256 }; /* batches that are told */

struct seeking {
    const char *name;
    uint32_t ns;
    bool found;
};

static enum kvt_err
seek(void *arg, uint32_t number, const char *name)
{
    struct seeking *seeking = arg;

    if (strcmp(name, seeking->name) != 0)
        return KVT_OK;
    seeking->ns = number;
    seeking->found = true;
    return KVT_CANCELLED;
}

/* Shards of a block: where the order moves it from, where to, and in any tier. */
struct shards {
    uint32_t from;
    uint32_t to;
    uint32_t any;
};

static bool
is_hot_of(const struct index_holder *holder, const char *gateway)
{
    return strncmp(holder->name, "hot@", 4) == 0 && strcmp(holder->name + 4, gateway) == 0;
}

static enum kvt_err
places_of(const struct advisor_txn *txn, const struct advisor_store_block *row,
          const struct advisor_job_batch *batch, struct shards *shards)
{
    *shards = (struct shards){.any = 0};
    for (uint32_t i = 0; i < row->place_count; i++) {
        const uint32_t ranks = row->places[i].ranks;
        struct index_holder holder;
        bool upper;
        const enum kvt_err rc = advisor_store_holder(txn, row->places[i].holder, &holder);

        if (rc != KVT_OK)
            return rc;
        shards->any |= ranks;
        if (batch->from[0] != '\0') {
            shards->from |= strcmp(holder.name, batch->from) == 0 ? ranks : 0;
            shards->to |= strcmp(holder.name, batch->to) == 0 ? ranks : 0;
            continue;
        }
        upper = is_hot_of(&holder, batch->gateway);
        shards->from |= upper == (batch->verb == KVT_ORDER_DEMOTE) ? ranks : 0;
        shards->to |= upper == (batch->verb != KVT_ORDER_DEMOTE) ? ranks : 0;
    }
    return KVT_OK;
}

static bool
is_undone(const struct advisor_job_batch *batch, uint32_t ranks, const struct shards *shards)
{
    switch ((enum kvt_order_verb)batch->verb) {
    case KVT_ORDER_DEMOTE:
        return (batch->flags & ADVISOR_BATCH_KEEP) != 0 ? (shards->to & ranks) != ranks
                                                        : (shards->from & ranks) != 0;
    case KVT_ORDER_DELETE: return (shards->any & ranks) != 0;
    case KVT_ORDER_PROMOTE:
    case KVT_ORDER_WARM: return (shards->to & ranks) != ranks;
    case KVT_ORDER_NONE:
    case KVT_ORDER_COMPACT:
    case KVT_ORDER_PIN:
    case KVT_ORDER_UNPIN: break;
    }
    return batch->failed >= batch->items; /* not seen in the index: all of them, or not told */
}

static enum kvt_err
add_hashes(struct kvt_buffer *out, const struct advisor_txn *txn,
           const struct advisor_job_batch *batch, const struct kvt_order_item *items)
{
    struct seeking seeking = {.name = batch->namespace_};
    struct advisor_store_block row = {.place_count = 0};
    enum kvt_err rc = advisor_store_namespaces(txn, seek, &seeking);
    bool any_told = false;

    kvt_buffer_printf(out, ",\"hashes\":[");
    for (uint32_t i = 0; i < batch->items && (rc == KVT_OK || rc == KVT_CANCELLED); i++) {
        char text[KVT_HASH_TEXT_MAX];
        struct shards shards = {.any = 0};

        rc = seeking.found ? advisor_store_get_block(txn, seeking.ns, items[i].block.hash, &row)
                           : KVT_NOTFOUND;
        if (rc == KVT_OK)
            rc = places_of(txn, &row, batch, &shards);
        rc = rc == KVT_NOTFOUND ? KVT_OK : rc;
        if (rc != KVT_OK || !is_undone(batch, items[i].ranks, &shards))
            continue;
        kvt_hash_format(items[i].block.hash, text);
        kvt_buffer_printf(out, "%s\"%s\"", any_told ? "," : "", text);
        any_told = true;
    }
    kvt_buffer_printf(out, "]");
    advisor_store_block_release(&row);
    return rc == KVT_CANCELLED ? KVT_OK : rc;
}

static enum kvt_err
add_failure(struct kvt_buffer *out, const struct advisor_txn *txn, uint64_t job, uint32_t n)
{
    struct kvt_order_item *items;
    struct advisor_job_batch batch;
    enum kvt_err rc = advisor_store_batch(txn, job, n, &batch, &items);

    if (rc != KVT_OK)
        return rc;
    kvt_buffer_printf(out, "{\"batch\":%u,\"verb\":\"%s\",", n,
                      kvt_order_verb_name((enum kvt_order_verb)batch.verb));
    advisor_admin_text(out, "gateway", batch.gateway);
    kvt_buffer_printf(out, ",");
    advisor_admin_text(out, "namespace", batch.namespace_);
    if (batch.from[0] != '\0') {
        kvt_buffer_printf(out, ",");
        advisor_admin_text(out, "from", batch.from);
        kvt_buffer_printf(out, ",");
        advisor_admin_text(out, "to", batch.to);
    }
    kvt_buffer_printf(out, ",\"blocks\":%u,\"done\":%u,\"failed\":%u,\"attempts\":%u,", batch.items,
                      batch.done, batch.failed, batch.attempts);
    advisor_admin_text(out, "text", batch.text);
    if (items != NULL)
        rc = add_hashes(out, txn, &batch, items);
    kvt_buffer_printf(out, "}");
    kvt_free(items);
    return rc;
}

enum kvt_err
advisor_admin_failures(struct kvt_buffer *out, const struct advisor_txn *txn,
                       const struct advisor_job_row *job)
{
    enum kvt_err rc = KVT_OK;
    unsigned count = 0;

    for (uint32_t n = 0; n < job->batches && count < FAILURES_MAX && rc == KVT_OK; n++) {
        struct advisor_job_batch batch;

        if (job->failed == 0)
            break;
        rc = advisor_store_batch(txn, job->id, n, &batch, NULL);
        if (rc != KVT_OK || batch.finished == 0 || batch.failed == 0)
            continue;
        kvt_buffer_puts(out, count++ == 0 ? "" : ",");
        rc = add_failure(out, txn, job->id, n);
    }
    return rc;
}
