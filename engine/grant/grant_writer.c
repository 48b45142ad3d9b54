#include "engine/grant/grant_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/deadline.h"

#include "engine/grant/grant_wire.h"
#include "engine/rpc/rpc.h"

struct engine_writer {
    struct engine_fabric *fabric;
    const struct engine_import *import;
    struct engine_rpc_client *client;
    struct engine_window *window; /* their landing */
};

/* Calls ------------------------------------------------------------------------------------ */

/* `question` is released. */
static enum kvt_err
call(struct engine_writer *writer, enum engine_grant_method method, struct kvt_buffer *question,
     struct kvt_buffer *answer, uint64_t wait_ms)
{
    enum kvt_err rc = KVT_NOMEM;

    kvt_buffer_init(answer, ENGINE_GRANT_WIRE_MAX);
    if (kvt_buffer_ok(question))
        rc = engine_rpc_run(writer->client,
                            &(struct engine_rpc_request){.method = method,
                                                         .bytes = question->data,
                                                         .size = question->size,
                                                         .wait_ms = wait_ms},
                            answer, NULL);
    kvt_buffer_release(question);
    return rc;
}

static enum kvt_err
open_window(struct engine_writer *writer, const struct engine_grant_about *about,
            struct kvt_error *err)
{
    const struct engine_import *import = writer->import;
    enum kvt_err rc;

    if (about->nonce != engine_import_nonce(import))
        return kvt_error_set(err, KVT_NOTFOUND, "writer: who grants there has another block set");
    rc = engine_window_open(&writer->window, writer->fabric, about->description, about->size, err);
    if (rc == KVT_OK && engine_window_size(writer->window) !=
                            about->places * engine_import_shape(import)->block_size)
        rc = kvt_error_set(err, KVT_INVALID, "writer: %zu bytes to put into, not %zu",
                           engine_window_size(writer->window),
                           about->places * engine_import_shape(import)->block_size);
    return rc;
}

static enum kvt_err
ask_about(struct engine_writer *writer, uint64_t wait_ms, struct kvt_error *err)
{
    struct engine_grant_about about;
    struct kvt_buffer question;
    struct kvt_buffer answer;
    enum kvt_err rc;

    kvt_buffer_init(&question, ENGINE_GRANT_WIRE_MAX);
    engine_grant_write_version(&question);
    rc = call(writer, ENGINE_GRANT_ABOUT, &question, &answer, wait_ms);
    if (rc == KVT_OK)
        rc = engine_grant_read_about(&about, answer.data, answer.size);
    if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "writer: the set's owner says nothing of grants: %s",
                            kvt_err_text(rc));
    else
        rc = open_window(writer, &about, err);
    kvt_buffer_release(&answer);
    return rc;
}

enum kvt_err
engine_writer_open(struct engine_writer **out, struct engine_fabric *fabric,
                   struct engine_import *import, const char *endpoint, uint64_t wait_ms,
                   struct kvt_error *err)
{
    const struct engine_rpc_client_options options = {.endpoint = endpoint};
    struct engine_writer *writer = kvt_calloc(1, sizeof(*writer));
    enum kvt_err rc;

    *out = NULL;
    if (writer == NULL)
        return kvt_error_set(err, KVT_NOMEM, "writer: out of memory");
    writer->fabric = fabric;
    writer->import = import;
    rc = engine_rpc_client_open(&writer->client, &options, err);
    if (rc == KVT_OK)
        rc = ask_about(writer, wait_ms, err);
    if (rc != KVT_OK) {
        engine_writer_close(writer);
        return rc;
    }
    *out = writer;
    return KVT_OK;
}

void
engine_writer_close(struct engine_writer *writer)
{
    if (writer == NULL)
        return;
    engine_rpc_client_close(writer->client);
    engine_window_close(writer->window);
    kvt_free(writer);
}

/* Acquire ---------------------------------------------------------------------------------- */

static enum kvt_err
read_given(const struct engine_writer *writer, struct engine_grant *grant, size_t count,
           const struct kvt_buffer *answer)
{
    const size_t places =
        engine_window_size(writer->window) / engine_import_shape(writer->import)->block_size;
    struct engine_grant_given given;

    if (engine_grant_read_given(&given, answer->data, answer->size) != KVT_OK ||
        given.count != count)
        return KVT_INVALID;
    for (size_t i = 0; i < count; i++) {
        if (given.places[i] > places || (given.places[i] != 0 && given.number == 0))
            return KVT_INVALID;
        grant->blocks[i].status = given.places[i] == 0 ? KVT_EXISTS : KVT_OK;
        grant->blocks[i].place = given.places[i] == 0 ? 0 : given.places[i] - 1;
    }
    grant->number = given.number;
    grant->count = count;
    grant->deadline_ms += given.hold_ms; /* from before it was asked for */
    return KVT_OK;
}

enum kvt_err
engine_writer_acquire(struct engine_writer *writer, const struct kvbm_label *labels, size_t count,
                      uint64_t hold_ms, struct engine_grant *grant, struct kvt_error *err)
{
    struct engine_grant_wish wish = {
        .nonce = engine_import_nonce(writer->import), .hold_ms = hold_ms, .count = count};
    struct kvt_buffer question;
    struct kvt_buffer answer;
    enum kvt_err rc;

    memset(grant, 0, sizeof(*grant));
    if (count == 0 || count > ENGINE_GRANT_BLOCKS_MAX)
        return kvt_error_set(err, KVT_RANGE, "grant: of %zu blocks, at most %d", count,
                             ENGINE_GRANT_BLOCKS_MAX);
    memcpy(wish.labels, labels, count * sizeof(*labels));
    grant->deadline_ms = kvt_clock_mono_ms();
    kvt_buffer_init(&question, ENGINE_GRANT_WIRE_MAX);
    engine_grant_write_wish(&question, &wish);
    rc = call(writer, ENGINE_GRANT_ACQUIRE, &question, &answer, ENGINE_WRITER_CALL_MS);
    if (rc == KVT_OK)
        rc = read_given(writer, grant, count, &answer);
    kvt_buffer_release(&answer);
    for (size_t i = 0; i < count; i++)
        grant->blocks[i].hash = labels[i].id.hash;
    if (rc == KVT_OK)
        return KVT_OK;
    memset(grant, 0, sizeof(*grant));
    return kvt_error_set(err, rc, "grant: of %zu blocks: %s", count, kvt_err_text(rc));
}

/* Put -------------------------------------------------------------------------------------- */

/* One part a block, which is summed on its way. */
static enum kvt_err
plan_put(const struct engine_writer *writer, struct engine_grant *grant, const void *const *blocks,
         struct engine_fabric_part *parts, size_t *count)
{
    const struct engine_blockset_shape *shape = engine_import_shape(writer->import);
    uint32_t *grains = kvt_calloc(shape->grains, sizeof(*grains));
    enum kvt_err rc = grains == NULL ? KVT_NOMEM : KVT_OK;

    *count = 0;
    for (size_t i = 0; i < grant->count && rc == KVT_OK; i++) {
        struct engine_grant_block *block = &grant->blocks[i];

        if (blocks[i] == NULL)
            continue;
        if (block->status != KVT_OK) {
            rc = KVT_PRECONDITION;
            continue;
        }
        block->filled = false;
        block->sum = engine_blockset_sums(shape, blocks[i], grains);
        parts[(*count)++] = (struct engine_fabric_part){
            .host = (void *)(uintptr_t)blocks[i], /* only read */
            .offset = block->place * shape->block_size,
            .size = shape->layout.block_size,
        };
    }
    kvt_free(grains);
    return rc == KVT_OK && *count == 0 ? KVT_PRECONDITION : rc;
}

enum kvt_err
engine_writer_put(struct engine_writer *writer, struct engine_grant *grant,
                  const void *const *blocks, struct kvt_error *err)
{
    struct engine_fabric_part parts[ENGINE_GRANT_BLOCKS_MAX];
    struct engine_fabric_move move = {.window = writer->window, .parts = parts, .put = true};
    enum kvt_err rc =
        grant->number == 0 ? KVT_PRECONDITION : plan_put(writer, grant, blocks, parts, &move.count);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "put: %s", kvt_err_text(rc));
    move.wait_ms = kvt_deadline_left(grant->deadline_ms);
    if (move.wait_ms == 0)
        return kvt_error_set(err, KVT_TIMEOUT, "put: the grant is over");
    rc = engine_fabric_run(writer->fabric, &move);
    for (size_t i = 0, part = 0; i < grant->count; i++)
        if (blocks[i] != NULL)
            grant->blocks[i].filled = parts[part++].status == KVT_OK;
    if (rc == KVT_OK)
        return KVT_OK;
    grant->unsettled = true;
    return kvt_error_set(err, rc, "put: %s", kvt_err_text(rc));
}

/* Commit ----------------------------------------------------------------------------------- */

static void
take_result(struct engine_grant_block *block, const struct engine_grant_result *result,
            struct engine_block_ref *ref)
{
    block->status = result->status;
    if (ref != NULL && result->status == KVT_OK) {
        ref->block = result->block;
        ref->generation = result->generation;
        ref->sum = block->sum;
        ref->hash = block->hash;
    }
}

static enum kvt_err
end_grant(struct engine_writer *writer, const struct engine_grant *grant, bool wanted,
          struct engine_grant_result *results)
{
    struct engine_grant_end end = {
        .number = grant->number, .settled = !grant->unsettled, .count = grant->count};
    struct kvt_buffer question;
    struct kvt_buffer answer;
    enum kvt_err rc;

    for (size_t i = 0; i < grant->count; i++)
        end.sums[i] = wanted && grant->blocks[i].filled ? UINT64_C(1) + grant->blocks[i].sum : 0;
    kvt_buffer_init(&question, ENGINE_GRANT_WIRE_MAX);
    engine_grant_write_end(&question, &end);
    rc = call(writer, ENGINE_GRANT_COMMIT, &question, &answer, ENGINE_WRITER_CALL_MS);
    if (rc == KVT_OK)
        rc = engine_grant_read_results(results, grant->count, answer.data, answer.size);
    kvt_buffer_release(&answer);
    return rc;
}

enum kvt_err
engine_writer_commit(struct engine_writer *writer, struct engine_grant *grant,
                     struct engine_block_ref *refs, struct kvt_error *err)
{
    struct engine_grant_result results[ENGINE_GRANT_BLOCKS_MAX];
    enum kvt_err rc;

    if (refs != NULL)
        memset(refs, 0, grant->count * sizeof(*refs));
    if (grant->number == 0)
        return KVT_OK; /* there is nothing that the owner lacks */
    rc = end_grant(writer, grant, true, results);
    grant->number = 0;
    for (size_t i = 0; i < grant->count; i++)
        if (rc == KVT_OK)
            take_result(&grant->blocks[i], &results[i], refs == NULL ? NULL : &refs[i]);
        else if (grant->blocks[i].status == KVT_OK)
            grant->blocks[i].status = rc;
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "commit: %s", kvt_err_text(rc));
}

void
engine_writer_abort(struct engine_writer *writer, struct engine_grant *grant)
{
    struct engine_grant_result results[ENGINE_GRANT_BLOCKS_MAX];

    if (grant->number != 0)
        (void)end_grant(writer, grant, false, results);
    memset(grant, 0, sizeof(*grant));
}
