#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"
#include "g4/packed/packed_store_internal.h"

/* ---- answers ---- */

/* The request may be gone as soon as whoever asked has heard. */
static void
call_free(struct g4_packed_call *call)
{
    struct g4_packed_store *store = call->store;
    struct g4_request *request = call->request;

    kvt_free(call);
    request->done(request, request->arg);
    pthread_mutex_lock(&store->shared.lock);
    if (--store->shared.calls == 0)
        pthread_cond_broadcast(&store->shared.changed);
    pthread_mutex_unlock(&store->shared.lock);
}

/* Nobody has heard of it yet. */
static void
take_answer(struct g4_packed_call *call)
{
    const struct g4_request *child = &call->child;
    struct g4_request *request = call->request;

    memcpy(request->etag, child->etag, sizeof(request->etag));
    request->meta = child->meta;
    request->buffer = child->buffer;
    request->buffer_size = child->buffer_size;
    request->object_size = child->object_size;
    request->summed = child->summed;
    request->body_crc32c = child->body_crc32c;
    request->listed_count = child->listed_count;
    memcpy(request->token, child->token, sizeof(request->token));
    request->status = child->status;
    request->http = child->http;
    request->modified_ms = child->modified_ms;
    request->server_ms = child->server_ms;
    request->error = child->error;
}

/* Answer with what the child found, and free the call. */
static void
pass_answer(struct g4_packed_call *call)
{
    take_answer(call);
    call_free(call);
}

/* Answer with `text`, and free the call. */
static void
end_call(struct g4_packed_call *call, enum kvt_err status, const char *text)
{
    call->request->status = status;
    if (status != KVT_OK)
        (void)kvt_error_set(&call->request->error, status, "%.80s: %s", call->request->key, text);
    call_free(call);
}

void
g4_packed_call_wait(struct g4_packed_call *call)
{
    /* It has room for all calls there may be. */
    const enum kvt_err rc = kvt_queue_put(call->store->waiting, call);

    assert(rc == KVT_OK);
    (void)rc;
}

/* ---- reading ---- */

static bool
is_packed(const struct g4_packed_call *call, struct g4_packed_place *place)
{
    return g4_packed_find(call->space->packed, &call->key, place) &&
           place->block.state == G4_MANIFEST_PACKED;
}

/* What a HEAD of the block's own object said when it had one. */
static void
describe(struct g4_request *request, const struct g4_segment_entry *entry)
{
    request->meta = g4_segment_entry_meta(entry);
    request->modified_ms = entry->modified_ms / 1000 * 1000; /* as Last-Modified has it */
    request->object_size = entry->length;
    g4_segment_entry_etag(entry, request->etag);
}

static void
read_packed(struct g4_packed_call *call)
{
    const struct g4_segment_entry *entry = &call->place.block.entry;
    struct g4_request *request = call->request;
    char etag[G4_ETAG_MAX];

    g4_segment_entry_etag(entry, etag);
    if (request->condition == G4_IF_MATCH && strcmp(etag, request->etag) != 0) {
        end_call(call, KVT_PRECONDITION, "another ETag");
        return;
    }
    describe(request, entry);
    if (request->verb == G4_HEAD) {
        request->buffer_size = entry->length;
        end_call(call, KVT_OK, "");
        return;
    }
    call->child = (struct g4_request){.verb = G4_GET,
                                      .key = call->child_key,
                                      .deadline_ms = request->deadline_ms,
                                      .buffer = request->buffer,
                                      .sum = request->range_size == 0,
                                      .range_at = entry->offset,
                                      .range_size = entry->length};
    if (request->range_size != 0) {
        const uint64_t rest =
            request->range_at < entry->length ? entry->length - request->range_at : 0;

        call->child.range_at += request->range_at;
        call->child.range_size = rest < request->range_size ? (size_t)rest : request->range_size;
    }
    if (call->child.range_size == 0 || call->child.range_size > request->buffer_capacity) {
        end_call(call, KVT_RANGE, "not so many bytes");
        return;
    }
    call->child.buffer_capacity = call->child.range_size;
    call->in_segment = true;
    if (g4_segment_key(call->child_key, call->space->name, &call->place.segment) != KVT_OK)
        end_call(call, KVT_CORRUPT, "a segment without a name");
    else
        g4_packed_call_send(call);
}

/* By its own key, as if nothing was packed. */
static void
send_own(struct g4_packed_call *call)
{
    call->in_segment = false;
    call->child = *call->request;
    g4_packed_call_send(call);
}

void
g4_packed_call_read(struct g4_packed_call *call)
{
    const bool packed = is_packed(call, &call->place);

    if (packed &&
        (!call->has_bad || g4_segment_name_compare(&call->place.segment, &call->bad) != 0)) {
        if (call->tries++ == G4_PACKED_TRIES)
            end_call(call, KVT_UNAVAILABLE, "segments go faster than they can be read");
        else
            read_packed(call);
    } else if (!call->own_missing) {
        send_own(call);
    } else if (packed) {
        describe(call->request, &call->place.block.entry);
        end_call(call, KVT_CORRUPT, "lost or damaged in its segment");
    } else {
        end_call(call, KVT_NOTFOUND, "not there");
    }
}

/* The bytes of a part are checked by whoever knows the crc of the part. */
static enum kvt_err
check_bytes(struct g4_packed_call *call, struct kvt_error *err)
{
    struct g4_request *child = &call->child;

    child->meta = g4_segment_entry_meta(&call->place.block.entry); /* not the segment's */
    if (child->buffer_size != child->range_size)
        return kvt_error_set(err, KVT_CORRUPT, "a segment ends within a block");
    if (call->request->range_size != 0)
        return KVT_OK;
    return g4_check_answer(child, NULL, err);
}

static void
landed_in_segment(struct g4_packed_call *call)
{
    struct g4_request *child = &call->child;
    struct g4_request *request = call->request;
    enum kvt_err rc = child->status;
    struct kvt_error err;

    if (rc == KVT_OK)
        rc = check_bytes(call, &err);
    if (rc == KVT_OK) {
        request->buffer = child->buffer;
        request->buffer_size = child->buffer_size;
        request->summed = child->summed;
        request->body_crc32c = child->body_crc32c;
        request->http = child->http;
        request->server_ms = child->server_ms;
        end_call(call, KVT_OK, "");
        return;
    }
    if (request->buffer == NULL)
        kvt_free(child->buffer);
    child->buffer = request->buffer;
    if (rc == KVT_CORRUPT || rc == KVT_RANGE || rc == KVT_NOTFOUND) {
        call->has_bad = true;
        call->bad = call->place.segment;
        g4_packed_call_wait(call);
        return;
    }
    request->http = child->http;
    request->error = child->error;
    request->status = rc;
    call_free(call);
}

static void
landed_read(struct g4_packed_call *call)
{
    if (call->in_segment) {
        landed_in_segment(call);
    } else if (call->child.status == KVT_NOTFOUND && call->unseen.code != KVT_OK) {
        end_call(call, call->unseen.code, call->unseen.text);
    } else if (call->child.status == KVT_NOTFOUND) {
        call->own_missing = true; /* packed since the manifest was looked for? */
        g4_packed_call_wait(call);
    } else {
        pass_answer(call);
    }
}

/* ---- changing ---- */

static void
retire(struct g4_packed_call *call)
{
    const enum kvt_err rc = kvt_queue_put(call->store->retiring, call);

    assert(rc == KVT_OK);
    (void)rc;
}

/* Is this the very block that a condition names? */
static bool
is_meant(const struct g4_packed_call *call, const struct g4_packed_place *place)
{
    char etag[G4_ETAG_MAX];

    g4_segment_entry_etag(&place->block.entry, etag);
    return strcmp(etag, call->request->etag) == 0;
}

/* Is this what was put?  An ETag alone is not enough: it need not be of the bytes.  What clients
 * say of a block is in no segment. */
static bool
is_what_was_put(const struct g4_packed_call *call, const struct g4_packed_place *place)
{
    const struct g4_segment_entry *entry = &place->block.entry;
    const struct g4_request *request = call->request;

    return is_meant(call, place) && request->meta.present && request->body_size == entry->length &&
           request->meta.crc32c == entry->crc32c &&
           request->meta.fingerprint == entry->fingerprint &&
           (request->attributes == NULL || request->attributes[0] == '\0');
}

/* It was put where the manifest has the block, or may have it since.  What is in the manifest is
 * read in place of the object, or will be; and who packs may remove the object for what was in its
 * place.  So the block is taken out, and put again if need be.  Whoever packs after this look sees
 * the object that was put. */
static void
look_behind(struct g4_packed_call *call)
{
    if (!g4_packed_find(call->space->packed, &call->key, &call->place) ||
        is_what_was_put(call, &call->place))
        end_call(call, KVT_OK, "");
    else
        retire(call);
}

/* What is packed stays until what takes its place is there.  If-Match would meet nothing where the
 * block is packed: its condition is judged by what is packed, and what is put meets no object. */
static void
write_block(struct g4_packed_call *call)
{
    const enum g4_condition condition = call->request->condition;
    bool packed;

    if (call->stored) {
        look_behind(call);
        return;
    }
    call->met = g4_packed_find(call->space->packed, &call->key, &call->place);
    packed = call->met && call->place.block.state == G4_MANIFEST_PACKED;
    call->child = *call->request;
    if (packed && condition == G4_IF_ABSENT) {
        end_call(call, KVT_EXISTS, "packed");
    } else if (packed && condition == G4_IF_MATCH && is_meant(call, &call->place)) {
        call->child.condition = G4_IF_ABSENT;
        if (call->tries++ == G4_PACKED_TRIES)
            end_call(call, KVT_AGAIN, "packed as often as it is written");
        else
            g4_packed_call_send(call);
    } else if (packed && call->own_missing) {
        end_call(call, KVT_PRECONDITION, "packed, with another ETag");
    } else if (call->own_missing) {
        end_call(call, KVT_NOTFOUND, "not there");
    } else {
        g4_packed_call_send(call);
    }
}

static void
landed_write(struct g4_packed_call *call)
{
    const enum g4_condition condition = call->request->condition;
    struct g4_request *child = &call->child;

    if (child->status == KVT_OK && (condition != G4_IF_ABSENT || call->met)) {
        take_answer(call);
        call->stored = true;
        g4_packed_call_wait(call);
    } else if (child->status == KVT_EXISTS && condition == G4_IF_MATCH) {
        *child = *call->request; /* packed, and its object is there still, or another's */
        g4_packed_call_send(call);
    } else if (child->status == KVT_NOTFOUND && condition == G4_IF_MATCH) {
        call->own_missing = true; /* packed since the manifest was looked for? */
        g4_packed_call_wait(call);
    } else {
        pass_answer(call);
    }
}

/* Its object is gone, or there was none.  A pending block is not there without its object; of one
 * that is packed the condition is judged by what is packed. */
static void
delete_block(struct g4_packed_call *call)
{
    const bool found = g4_packed_find(call->space->packed, &call->key, &call->place);

    if (found && (call->request->condition != G4_IF_MATCH || is_meant(call, &call->place)))
        retire(call);
    else if (found && call->place.block.state == G4_MANIFEST_PACKED)
        end_call(call, KVT_PRECONDITION, "packed, with another ETag");
    else
        pass_answer(call);
}

static void
landed_delete(struct g4_packed_call *call)
{
    if (call->child.status == KVT_OK || call->child.status == KVT_NOTFOUND)
        g4_packed_call_wait(call); /* the manifest is looked for after the object is gone */
    else
        pass_answer(call);
}

struct g4_compaction_retirement
g4_packed_call_retirement(struct g4_packed_call *call)
{
    struct g4_compaction_retirement one = {.block = call->place.block.entry,
                                           .only_this = call->step == G4_PACKED_WRITE ||
                                                        call->request->condition == G4_IF_MATCH};

    if (call->step == G4_PACKED_WRITE) {
        call->child = *call->request;
        call->child.status = KVT_EXISTS; /* until it is found to be missing */
        one.put = &call->child;
    }
    return one;
}

void
g4_packed_call_retired(struct g4_packed_call *call, enum kvt_err rc, const struct kvt_error *err)
{
    const bool writes = call->step == G4_PACKED_WRITE;

    if (rc == KVT_BUSY || rc == KVT_PRECONDITION || rc == KVT_CANCELLED)
        rc = KVT_AGAIN;
    if (rc != KVT_OK) {
        end_call(call, rc, err->text);
    } else if (call->outcome == KVT_PRECONDITION) { /* another was put since */
        end_call(call, writes ? KVT_OK : KVT_PRECONDITION, "packed, with another ETag");
    } else if (call->outcome != KVT_OK) {
        end_call(call, call->outcome, call->child.error.text);
    } else {
        if (writes && call->child.status == KVT_OK)
            take_answer(call);
        end_call(call, KVT_OK, "");
    }
}

/* ---- going on ---- */

static void
landed(struct g4_request *child, void *arg)
{
    struct g4_packed_call *call = arg;

    switch (call->step) {
    case G4_PACKED_READ: landed_read(call); break;
    case G4_PACKED_DELETE: landed_delete(call); break;
    case G4_PACKED_LIST:
        if (child->status == KVT_OK)
            g4_packed_call_wait(call); /* what was packed since the page was made is in a segment */
        else
            pass_answer(call);
        break;
    case G4_PACKED_WRITE: landed_write(call); break;
    }
}

void
g4_packed_call_send(struct g4_packed_call *call)
{
    enum kvt_err rc;

    call->child.done = landed;
    call->child.arg = call;
    rc = g4_store_submit(call->store->inner, &call->child);
    if (rc != KVT_OK)
        end_call(call, rc, "the store below takes no request");
}

void
g4_packed_call_unseen(struct g4_packed_call *call, enum kvt_err rc, const struct kvt_error *err)
{
    const bool reads = call->step == G4_PACKED_READ && !call->own_missing;
    const bool adds =
        call->step == G4_PACKED_WRITE && !call->stored && call->request->condition == G4_IF_ABSENT;

    if (!reads && !adds) {
        end_call(call, rc, err->text);
        return;
    }
    (void)kvt_error_set(&call->unseen, rc, "%.200s", err->text);
    send_own(call);
}

void
g4_packed_call_resume(struct g4_packed_call *call)
{
    enum kvt_err rc = KVT_OK;

    switch (call->step) {
    case G4_PACKED_READ: g4_packed_call_read(call); break;
    case G4_PACKED_WRITE: write_block(call); break;
    case G4_PACKED_DELETE: delete_block(call); break;
    case G4_PACKED_LIST:
        rc = g4_packed_call_merge(call);
        if (rc == KVT_AGAIN)
            g4_packed_call_send(call);
        else if (rc == KVT_OK)
            pass_answer(call);
        else
            end_call(call, rc, "no memory for a listing");
        break;
    }
}
