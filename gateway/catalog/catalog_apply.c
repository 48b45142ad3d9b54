#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "gateway/catalog/catalog_private.h"

enum { TRIM_MAX = 2048, STATE_VERSION = 3, STREAM_NAME_MAX = 32 };
enum { OWED_WORDS = 2, MORE_WORDS = 4 }; /* of the counters: since versions 2 and 3 */

int
gateway_catalog_read_row(struct gateway_catalog *catalog, MDB_txn *txn, const char *key,
                         struct gateway_record *record, bool *found)
{
    MDB_val name = kvt_lmdb_val(key, strlen(key));
    MDB_val value;
    const int rc = mdb_get(txn, catalog->objects, &name, &value);

    *found = false;
    if (rc == MDB_NOTFOUND)
        return 0;
    if (rc != 0)
        return rc;
    *found = gateway_record_decode(value.mv_data, value.mv_size, record);
    return *found ? 0 : MDB_CORRUPTED;
}

void
gateway_catalog_outbox_key(struct gateway_outbox_key *key, uint32_t stream, uint64_t seq)
{
    const uint32_t stream_bytes = htobe32(stream);
    const uint64_t seq_bytes = htobe64(seq);

    memcpy(key->bytes, &stream_bytes, sizeof(stream_bytes));
    memcpy(key->bytes + sizeof(stream_bytes), &seq_bytes, sizeof(seq_bytes));
}

static int
append_event(struct gateway_catalog *catalog, MDB_txn *txn, uint32_t stream,
             const struct gateway_event *event)
{
    struct gateway_sequence *sequence = &catalog->counters.streams[stream];
    uint8_t bytes[GATEWAY_OUTBOX_MAX];
    struct gateway_outbox_key key = {{0}};
    MDB_val name = kvt_lmdb_val(key.bytes, sizeof(key.bytes));
    MDB_val value = kvt_lmdb_val(bytes, gateway_record_encode_event(event, bytes));
    int rc;

    gateway_catalog_outbox_key(&key, stream, sequence->next);
    rc = mdb_put(txn, catalog->outbox, &name, &value, 0);
    if (rc == 0)
        sequence->next++;
    return rc;
}

static bool
known_stream(const struct gateway_catalog *catalog, const char *namespace_, uint32_t *stream)
{
    for (*stream = 0; *stream < catalog->counters.stream_count; (*stream)++)
        if (strcmp(catalog->names[*stream], namespace_) == 0)
            return true;
    return false;
}

static MDB_val
stream_name(char text[STREAM_NAME_MAX], uint32_t stream)
{
    const int size = snprintf(text, STREAM_NAME_MAX, "stream %02u", (unsigned)stream);

    return kvt_lmdb_val(text, (size_t)size);
}

/* The stream of a namespace, made when it is the first block of it. */
static int
stream_of(struct gateway_catalog *catalog, MDB_txn *txn, const char *namespace_, uint32_t *stream)
{
    char text[STREAM_NAME_MAX];
    MDB_val name;
    MDB_val value = kvt_lmdb_val(namespace_, strlen(namespace_));
    int rc;

    if (known_stream(catalog, namespace_, stream))
        return 0;
    assert(*stream < GATEWAY_STREAMS_MAX); /* reserve() refused the block otherwise */
    name = stream_name(text, *stream);
    rc = mdb_put(txn, catalog->meta, &name, &value, 0);
    if (rc != 0)
        return rc;
    memset(catalog->names[*stream], 0, KVT_NAMESPACE_MAX);
    memcpy(catalog->names[*stream], namespace_, value.mv_size);
    catalog->counters.streams[*stream] = (struct gateway_sequence){.first = 1, .next = 1};
    catalog->counters.stream_count++;
    return 0;
}

/* The identity an event carries is what the key says.  Where the revision shortens the parent, the
 * whole one is not known here: 0, and the advisor keeps what a worker told it. */
static void
event_of(const struct gateway_catalog *catalog, const struct kvt_key *key,
         const struct gateway_record *record, struct gateway_event *event)
{
    *event = (struct gateway_event){0};
    memcpy(event->namespace_, key->namespace_, sizeof(event->namespace_));
    event->event.sequence_hash = key->hash;
    /* The chain above a block is not known to a gateway; right for positions below the depth. */
    event->event.prefix_hash = key->hash;
    event->event.parent = catalog->options.revision == KVT_KEY_KVBM_C ? key->parent_fragment : 0;
    event->event.position = key->position;
    event->event.ranks = key->rank < KVT_RANKS_MAX ? UINT32_C(1) << key->rank : 0;
    event->event.block_size = record->length;
}

static int
append_events(struct gateway_catalog *catalog, MDB_txn *txn, const char *text,
              const struct gateway_record *old, const struct gateway_record *new)
{
    const unsigned before = old == NULL || old->opaque ? 0 : gateway_record_visible(old);
    const unsigned after = new == NULL || new->opaque ? 0 : gateway_record_visible(new);
    struct gateway_event event;
    struct kvt_key key;
    uint32_t stream;
    int rc;

    if (before == after || kvt_key_parse(text, &key) != KVT_OK)
        return 0;
    rc = stream_of(catalog, txn, key.namespace_, &stream);
    if (rc != 0)
        return rc;
    event_of(catalog, &key, new != NULL ? new : old, &event);
    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
        const unsigned bit = 1u << tier;

        if ((before & bit) == (after & bit))
            continue;
        event.event.type = (after & bit) != 0 ? KVT_EVENT_STORE : KVT_EVENT_REMOVE;
        event.event.location = (uint16_t)tier;
        rc = append_event(catalog, txn, stream, &event);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static void
count_row(struct gateway_counters *counters, const struct gateway_record *record, bool add)
{
    const uint64_t one = add ? 1 : UINT64_MAX; /* wraps: subtracts */
    const uint64_t bytes = add ? record->length : 0 - record->length;

    counters->entries += one;
    if (gateway_record_unsettled(record))
        counters->pending += one;
    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
        if ((gateway_record_counted(record) & (1u << tier)) == 0)
            continue;
        *gateway_counters_blocks(counters, tier) += one;
        *gateway_counters_used(counters, tier) += bytes;
    }
    if (record->owed) {
        counters->owed_blocks += one;
        counters->owed_bytes += bytes;
    }
}

/* Is there a stream for the events of this block, or room for one more? */
static bool
has_stream(const struct gateway_catalog *catalog, const char *text)
{
    struct kvt_key key;
    uint32_t stream;

    return kvt_key_parse(text, &key) != KVT_OK || known_stream(catalog, key.namespace_, &stream) ||
           stream < GATEWAY_STREAMS_MAX;
}

/* Would so many bytes more fit? */
static bool
fits(uint64_t length, uint64_t used, uint64_t capacity)
{
    return length <= capacity && used <= capacity - length;
}

/* Would the row fit under the caps?  Old bytes of the same key are replaced, not added. */
static enum kvt_err
reserve(struct gateway_catalog *catalog, struct gateway_change *change,
        const struct gateway_record *old)
{
    struct gateway_record *record = &change->record;
    const bool capped = gateway_adoption_capped(&catalog->adoption);
    const unsigned counted = gateway_record_counted(record);
    uint64_t owed = catalog->counters.owed_bytes;

    if (atomic_load(&catalog->full) || !has_stream(catalog, change->key))
        return KVT_FULL;
    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
        const unsigned bit = 1u << tier;
        const bool bucket = (bit & GATEWAY_BUCKETS) != 0;
        const uint64_t capacity = catalog->options.capacity[tier];
        const bool had = old != NULL && (gateway_record_counted(old) & bit) != 0;
        /* What is to go from there once its bucket is back takes no room that is not taken. */
        const bool there = record->state != GATEWAY_STORED && (record->moving & bit) != 0;
        uint64_t used = *gateway_counters_used(&catalog->counters, tier);

        if (had)
            used -= old->length;
        if ((counted & bit) == 0 || there || (had && record->length <= old->length) ||
            (bucket && (capacity == 0 || !capped)) || fits(record->length, used, capacity))
            continue;
        if (bucket || change->firm)
            return KVT_FULL;
        record->tiers &= ~bit;
    }
    if (old != NULL && old->owed)
        owed -= old->length;
    if ((record->tiers & GATEWAY_VOLUMES) == 0 ||
        !fits(record->length, owed, catalog->options.owed_max))
        record->owed = false;
    return KVT_OK;
}

static int
write_row(struct gateway_catalog *catalog, MDB_txn *txn, const struct gateway_change *change)
{
    uint8_t bytes[GATEWAY_RECORD_MAX];
    MDB_val name = kvt_lmdb_val(change->key, strlen(change->key));
    MDB_val value = kvt_lmdb_val(bytes, gateway_record_encode(&change->record, bytes));
    MDB_val nothing = kvt_lmdb_val("", 0);
    int rc;

    rc = mdb_put(txn, catalog->objects, &name, &value, 0);
    if (rc != 0)
        return rc;
    if (gateway_record_unsettled(&change->record))
        return mdb_put(txn, catalog->pending, &name, &nothing, 0);
    rc = mdb_del(txn, catalog->pending, &name, NULL);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int
erase_row(struct gateway_catalog *catalog, MDB_txn *txn, const char *key)
{
    MDB_val name = kvt_lmdb_val(key, strlen(key));
    int rc = mdb_del(txn, catalog->objects, &name, NULL);

    if (rc == 0)
        rc = mdb_del(txn, catalog->pending, &name, NULL);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* That a block is served says more than that something is there; but that it is on its way out, or
 * comes in, says more still. */
static bool
yields(const struct gateway_record *old, const struct gateway_record *new)
{
    return old->foreign && old->state == GATEWAY_STORED && !new->foreign;
}

int
gateway_catalog_apply(struct gateway_catalog *catalog, MDB_txn *txn, struct gateway_change *change)
{
    struct gateway_record old;
    bool found;
    int rc;

    change->status = KVT_OK;
    if (change->key[0] == '\0' || strlen(change->key) >= KVT_KEY_MAX) {
        change->status = KVT_INVALID;
        return 0;
    }
    rc = gateway_catalog_read_row(catalog, txn, change->key, &old, &found);
    if (rc != 0)
        return rc;
    if (change->erase && !found)
        return 0;
    if (change->only_if_absent && found && !yields(&old, &change->record)) {
        change->status = KVT_EXISTS;
        return 0;
    }
    if (change->reserve && !change->erase) {
        change->status = reserve(catalog, change, found ? &old : NULL);
        if (change->status != KVT_OK)
            return 0;
    } else if (!change->erase && !has_stream(catalog, change->key)) {
        change->status = KVT_FULL;
        return 0;
    }
    rc = change->erase ? erase_row(catalog, txn, change->key) : write_row(catalog, txn, change);
    if (rc == 0 && found)
        rc = gateway_catalog_enlist(catalog, txn, change->key, &old, false);
    if (rc == 0 && !change->erase)
        rc = gateway_catalog_enlist(catalog, txn, change->key, &change->record, true);
    if (rc == 0 && (change->erase || change->record.state == GATEWAY_RETIRING))
        rc = gateway_catalog_forget_pin(catalog, txn, change->key);
    if (rc == 0 && !change->erase && change->unsynced)
        rc = gateway_catalog_note_unsynced(catalog, txn, change->key, change->record.length);
    if (rc != 0)
        return rc;
    if (found)
        count_row(&catalog->counters, &old, false);
    if (!change->erase)
        count_row(&catalog->counters, &change->record, true);
    return append_events(catalog, txn, change->key, found ? &old : NULL,
                         change->erase ? NULL : &change->record);
}

static int
trim_stream(struct gateway_catalog *catalog, MDB_txn *txn, uint32_t stream)
{
    struct gateway_sequence *sequence = &catalog->counters.streams[stream];

    for (unsigned i = 0; i < TRIM_MAX; i++) {
        const uint64_t kept = sequence->next - sequence->first;
        const bool sent = sequence->first <= sequence->acked;
        struct gateway_outbox_key key = {{0}};
        MDB_val name = kvt_lmdb_val(key.bytes, sizeof(key.bytes));
        int rc;

        if (kept <= (sent ? catalog->options.keep : catalog->options.backlog))
            break;
        gateway_catalog_outbox_key(&key, stream, sequence->first);
        rc = mdb_del(txn, catalog->outbox, &name, NULL);
        if (rc != 0 && rc != MDB_NOTFOUND)
            return rc;
        if (!sent) {
            sequence->lost++;
            sequence->acked = sequence->first;
        }
        sequence->first++;
    }
    return 0;
}

int
gateway_catalog_trim(struct gateway_catalog *catalog, MDB_txn *txn)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < catalog->counters.stream_count; i++)
        rc = trim_stream(catalog, txn, i);
    return rc;
}

static const char state_name[] = "state";

int
gateway_catalog_load(struct gateway_catalog *catalog, MDB_txn *txn)
{
    uint64_t words[1 + sizeof(catalog->counters) / sizeof(uint64_t)];
    MDB_val name = kvt_lmdb_val(state_name, sizeof(state_name) - 1);
    MDB_val value;
    size_t size = sizeof(words);
    int rc;

    _Static_assert(sizeof(catalog->counters) % sizeof(uint64_t) == 0, "counters are words");
    rc = mdb_get(txn, catalog->meta, &name, &value);
    if (rc != 0)
        return rc;
    memset(words, 0, sizeof(words));
    memcpy(words, value.mv_data, value.mv_size < size ? value.mv_size : size);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        words[i] = le64toh(words[i]);
    if (words[0] <= 2) /* two tiers */
        size -= MORE_WORDS * sizeof(words[0]);
    if (words[0] == 1) /* nothing was owed */
        size -= OWED_WORDS * sizeof(words[0]);
    if (words[0] == 0 || words[0] > STATE_VERSION || value.mv_size != size)
        return MDB_VERSION_MISMATCH;
    memcpy(&catalog->counters, &words[1], sizeof(catalog->counters));
    if (catalog->counters.stream_count > GATEWAY_STREAMS_MAX)
        return MDB_CORRUPTED;
    for (uint32_t i = 0; i < catalog->counters.stream_count; i++) {
        char text[STREAM_NAME_MAX];

        name = stream_name(text, i);
        rc = mdb_get(txn, catalog->meta, &name, &value);
        if (rc != 0 || value.mv_size >= KVT_NAMESPACE_MAX)
            return rc != 0 ? rc : MDB_CORRUPTED;
        memcpy(catalog->names[i], value.mv_data, value.mv_size);
    }
    return 0;
}

int
gateway_catalog_store(struct gateway_catalog *catalog, MDB_txn *txn)
{
    uint64_t words[1 + sizeof(catalog->counters) / sizeof(uint64_t)];
    MDB_val name = kvt_lmdb_val(state_name, sizeof(state_name) - 1);
    MDB_val value = kvt_lmdb_val(words, sizeof(words));
    bool more = false;

    for (unsigned tier = 2; tier < GATEWAY_TIERS; tier++)
        more = more || *gateway_counters_blocks(&catalog->counters, tier) != 0 ||
               *gateway_counters_used(&catalog->counters, tier) != 0;
    /* What a gateway of two tiers wrote, one of a former version reads. */
    words[0] = more ? STATE_VERSION : STATE_VERSION - 1;
    if (!more)
        value.mv_size -= MORE_WORDS * sizeof(words[0]);
    memcpy(&words[1], &catalog->counters, sizeof(catalog->counters));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        words[i] = htole64(words[i]);
    return mdb_put(txn, catalog->meta, &name, &value, 0);
}
