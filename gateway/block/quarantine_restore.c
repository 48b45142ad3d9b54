#include "gateway/block/quarantine_restore.h"

#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"
#include "gateway/block/put.h"
#include "gateway/tier/quarantine.h"

/* A row's word is the only one: what the object says of itself may be as bad as its bytes. */
static enum kvt_err
verify(const struct gateway_quarantine_entry *entry, struct kvt_error *err)
{
    struct kvt_error why = {.code = KVT_OK};

    if (!entry->expected.present || entry->expected.length == 0)
        return kvt_error_set(err, KVT_UNSUPPORTED,
                             "nothing says what its bytes should be: put the block anew");
    if (g4_check_body(&entry->expected, NULL, entry->body, entry->size, &why) != KVT_OK)
        return kvt_error_set(err, KVT_CORRUPT, "it is bad: %.200s", why.text);
    return KVT_OK;
}

static enum kvt_err
put(struct gateway_context *context, const struct gateway_quarantine_entry *entry,
    struct kvt_error *err)
{
    struct gateway_put_item item = {.key = entry->key,
                                    .body = entry->body,
                                    .size = entry->size,
                                    .crc32c = entry->expected.crc32c,
                                    .fingerprint = entry->expected.fingerprint};

    gateway_put_blocks(context, &item, 1);
    if (item.status == KVT_PRECONDITION)
        return kvt_error_set(err, item.status, "other bytes are stored under its key");
    return item.status == KVT_OK ? KVT_OK
                                 : kvt_error_set(err, item.status, "it could not be stored: %s",
                                                 kvt_err_text(item.status));
}

enum kvt_err
gateway_quarantine_restore(struct gateway_context *context, uint64_t id, bool act,
                           char key[KVT_KEY_MAX], struct kvt_error *err)
{
    struct gateway_quarantine_entry entry;
    enum kvt_err rc;

    key[0] = '\0';
    if (context->body_limits.budget != NULL &&
        !gateway_budget_take(context->body_limits.budget, context->body_limits.object_max))
        return kvt_error_set(err, KVT_AGAIN, "memory.max is taken");
    rc = gateway_quarantine_read(context->quarantine, id, context->body_limits.object_max, &entry);
    if (rc == KVT_OK) {
        memcpy(key, entry.key, sizeof(entry.key));
        rc = verify(&entry, err);
    } else {
        (void)kvt_error_set(err, rc, "%s", kvt_err_text(rc));
    }
    if (rc == KVT_OK && act)
        rc = put(context, &entry, err);
    if (rc == KVT_OK && act)
        (void)!gateway_quarantine_drop(context->quarantine, id); /* gone by itself is as good */
    kvt_free(entry.body);
    if (context->body_limits.budget != NULL)
        gateway_budget_give(context->body_limits.budget, context->body_limits.object_max);
    return rc;
}
