#include <endian.h>
#include <string.h>

#include "gateway/catalog/catalog.h"
#include "gateway/catalog/catalog_private.h"

enum { FORGET_MAX = 2048 }; /* pins that are taken off in one count */

/* Little-endian in the database. */
struct pin {
    uint64_t until_ms;
    uint64_t length; /* of the block when it was pinned */
};

static int
take_pin(const MDB_val *value, struct pin *pin)
{
    if (value->mv_size != sizeof(*pin))
        return MDB_CORRUPTED;
    memcpy(pin, value->mv_data, sizeof(*pin));
    pin->until_ms = le64toh(pin->until_ms);
    pin->length = le64toh(pin->length);
    return 0;
}

static int
read_pin(struct gateway_catalog *catalog, MDB_txn *txn, const char *key, struct pin *pin)
{
    MDB_val name = kvt_lmdb_val(key, strlen(key));
    MDB_val value;
    const int rc = mdb_get(txn, catalog->pins, &name, &value);

    return rc != 0 ? rc : take_pin(&value, pin);
}

static int
write_pin(struct gateway_catalog *catalog, MDB_txn *txn, const char *key, const struct pin *pin)
{
    struct pin bytes = {.until_ms = htole64(pin->until_ms), .length = htole64(pin->length)};
    MDB_val name = kvt_lmdb_val(key, strlen(key));
    MDB_val value = kvt_lmdb_val(&bytes, sizeof(bytes));

    return mdb_put(txn, catalog->pins, &name, &value, 0);
}

static bool
ended(const struct pin *pin, uint64_t now_ms)
{
    return pin->until_ms != 0 && pin->until_ms <= now_ms;
}

static void
count_in(struct gateway_pins *pinned, const struct pin *pin)
{
    pinned->blocks++;
    pinned->changes++;
    pinned->bytes += pin->length;
    if (pin->until_ms != 0 && (pinned->end_ms == 0 || pin->until_ms < pinned->end_ms))
        pinned->end_ms = pin->until_ms;
}

/* `end_ms` may be too early from here on, until the next count. */
static void
count_out(struct gateway_pins *pinned, const struct pin *pin)
{
    pinned->blocks--;
    pinned->changes++;
    pinned->bytes -= pin->length;
}

int
gateway_catalog_forget_pin(struct gateway_catalog *catalog, MDB_txn *txn, const char *key)
{
    MDB_val name = kvt_lmdb_val(key, strlen(key));
    struct pin pin;
    int rc;

    if (catalog->pinned.blocks == 0)
        return 0;
    rc = read_pin(catalog, txn, key, &pin);
    if (rc == MDB_NOTFOUND)
        return 0;
    if (rc == 0)
        rc = mdb_del(txn, catalog->pins, &name, NULL);
    if (rc == 0)
        count_out(&catalog->pinned, &pin);
    return rc;
}

/* Does the pin under the cursor still keep something? */
static int
judge(struct gateway_catalog *catalog, MDB_txn *txn, const MDB_val *name, const struct pin *pin,
      uint64_t now_ms, bool *keeps)
{
    MDB_val key = *name;
    MDB_val row;
    int rc;

    *keeps = false;
    if (ended(pin, now_ms))
        return 0;
    rc = mdb_get(txn, catalog->objects, &key, &row); /* a gateway that knows no pins may delete */
    *keeps = rc == 0;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

int
gateway_catalog_count_pins(struct gateway_catalog *catalog, MDB_txn *txn, uint64_t now_ms)
{
    struct gateway_pins pinned = {0};
    MDB_cursor *cursor = NULL;
    unsigned forgotten = 0;
    MDB_val value;
    MDB_val name;
    int rc;

    rc = mdb_cursor_open(txn, catalog->pins, &cursor);
    if (rc != 0)
        return rc;
    for (rc = mdb_cursor_get(cursor, &name, &value, MDB_FIRST); rc == 0;
         rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT)) {
        bool keeps = false;
        struct pin pin;

        rc = take_pin(&value, &pin);
        if (rc == 0)
            rc = judge(catalog, txn, &name, &pin, now_ms, &keeps);
        if (rc != 0)
            break;
        if (keeps || forgotten == FORGET_MAX)
            count_in(&pinned, &pin);
        else if ((rc = mdb_cursor_del(cursor, 0)) != 0)
            break;
        else
            forgotten++;
    }
    mdb_cursor_close(cursor);
    if (rc != MDB_NOTFOUND)
        return rc;
    /* Counting changes nothing; forgetting does. */
    pinned.changes = catalog->pinned.changes + forgotten;
    catalog->pinned = pinned;
    return 0;
}

/* May so many bytes more be pinned? */
static bool
fits(struct gateway_catalog *catalog, uint64_t length)
{
    const uint64_t most = catalog->options.capacity[GATEWAY_TIER_HOT] / GATEWAY_PIN_SHARE;
    const uint64_t used = catalog->pinned.bytes;

    return !atomic_load(&catalog->full) && used <= most && length <= most - used;
}

static int
set_pin(struct gateway_catalog *catalog, MDB_txn *txn, struct gateway_job *job)
{
    const struct gateway_pinning *pinning = job->pinning;
    struct pin pin = {.until_ms = pinning->until_ms};
    struct gateway_record record;
    struct pin old = {0};
    bool found;
    int known;
    int rc;

    rc = gateway_catalog_read_row(catalog, txn, pinning->key, &record, &found);
    if (rc != 0)
        return rc;
    known = read_pin(catalog, txn, pinning->key, &old);
    if (known != 0 && known != MDB_NOTFOUND)
        return known;
    if (!found || record.state != GATEWAY_STORED)
        job->status = KVT_NOTFOUND;
    else if (known == MDB_NOTFOUND && !fits(catalog, record.length))
        job->status = KVT_FULL;
    if (job->status != KVT_OK)
        return 0;
    pin.length = record.length;
    rc = write_pin(catalog, txn, pinning->key, &pin);
    if (rc != 0)
        return rc;
    if (known == 0)
        count_out(&catalog->pinned, &old);
    count_in(&catalog->pinned, &pin);
    return 0;
}

int
gateway_catalog_apply_pinning(struct gateway_catalog *catalog, MDB_txn *txn,
                              struct gateway_job *job)
{
    if (job->pinning->key == NULL)
        return gateway_catalog_count_pins(catalog, txn, job->pinning->until_ms);
    if (job->pinning->off)
        return gateway_catalog_forget_pin(catalog, txn, job->pinning->key);
    return set_pin(catalog, txn, job);
}

/* ---- for others ---- */

enum kvt_err
gateway_catalog_pin(struct gateway_catalog *catalog, const char *key, uint64_t until_ms)
{
    const struct gateway_pinning pinning = {.key = key, .until_ms = until_ms};
    struct gateway_job job = {.pinning = &pinning, .wait = GATEWAY_DURABLE};

    return gateway_catalog_submit(catalog, &job);
}

enum kvt_err
gateway_catalog_unpin(struct gateway_catalog *catalog, const char *key)
{
    const struct gateway_pinning pinning = {.key = key, .off = true};
    struct gateway_job job = {.pinning = &pinning, .wait = GATEWAY_DURABLE};

    return gateway_catalog_submit(catalog, &job);
}

enum kvt_err
gateway_catalog_expire_pins(struct gateway_catalog *catalog, uint64_t now_ms)
{
    const struct gateway_pinning pinning = {.until_ms = now_ms};
    struct gateway_job job = {.pinning = &pinning, .wait = GATEWAY_APPLIED};

    return gateway_catalog_submit(catalog, &job);
}

enum kvt_err
gateway_catalog_pinned(struct gateway_catalog *catalog, const char *key, uint64_t now_ms,
                       uint64_t *until_ms)
{
    struct pin pin = {0};
    MDB_txn *txn = NULL;
    int rc;

    *until_ms = 0;
    if (key[0] == '\0' || strlen(key) >= KVT_KEY_MAX)
        return KVT_NOTFOUND;
    if (mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn) != 0)
        return KVT_IO;
    rc = read_pin(catalog, txn, key, &pin);
    mdb_txn_abort(txn);
    if (rc == 0 && ended(&pin, now_ms))
        rc = MDB_NOTFOUND;
    if (rc == 0)
        *until_ms = pin.until_ms;
    return rc == 0 ? KVT_OK : rc == MDB_NOTFOUND ? KVT_NOTFOUND : KVT_IO;
}

/* One pin to whoever asked; false: no more. */
static bool
tell(const MDB_val *name, const MDB_val *value, uint64_t now_ms, gateway_pin_fn *callback,
     void *arg)
{
    char key[KVT_KEY_MAX];
    struct pin pin;

    if (name->mv_size >= sizeof(key) || take_pin(value, &pin) != 0 || ended(&pin, now_ms))
        return true;
    memcpy(key, name->mv_data, name->mv_size);
    key[name->mv_size] = '\0';
    return callback(arg, key, pin.until_ms);
}

enum kvt_err
gateway_catalog_pins(struct gateway_catalog *catalog, const char *after, uint64_t now_ms,
                     gateway_pin_fn *callback, void *arg)
{
    const size_t size = strlen(after);
    MDB_val name = {.mv_size = size, .mv_data = (void *)(uintptr_t)after};
    MDB_cursor *cursor = NULL;
    MDB_txn *txn = NULL;
    MDB_val value;
    bool more = true;
    int rc;

    if (mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn) != 0)
        return KVT_IO;
    rc = mdb_cursor_open(txn, catalog->pins, &cursor);
    if (rc == 0)
        rc = mdb_cursor_get(cursor, &name, &value, size == 0 ? MDB_FIRST : MDB_SET_RANGE);
    if (rc == 0 && size > 0 && name.mv_size == size && memcmp(name.mv_data, after, size) == 0)
        rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT);
    for (; rc == 0 && more; rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT))
        more = tell(&name, &value, now_ms, callback, arg);
    mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    return rc == 0 || rc == MDB_NOTFOUND ? KVT_OK : KVT_IO;
}
