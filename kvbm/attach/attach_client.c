/* The engine's side: kvtier/attach.h. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "kvbm/attach/attach_protocol.h"
#include "kvbm/attach/channel.h"
#include "kvbm/attach/sealed_memory.h"
#include "kvtier/attach.h"

static_assert(KVT_ATTACH_REQUEST_MAX == KVBM_ATTACH_REQUEST_MAX, "one limit");

struct kvt_attach {
    int socket;
    int memory;
    bool lost;
    uint32_t block_count;
    uint64_t timeout_ms;
    struct kvbm_layout layout;
    uint8_t *blocks; /* block_count of them */
    void *shared;    /* KVBM_ATTACH_MEMORY bytes */
    struct kvbm_ring requests;
    struct kvbm_ring completions;
    uint64_t id; /* of the last request */
    struct kvbm_attach_message request;
    struct kvbm_attach_message answer;
};

static size_t
memory_size(const struct kvt_attach *attach)
{
    return (size_t)attach->block_count * attach->layout.block_size;
}

/* ---- coming in ---- */

static enum kvt_err
dial(struct kvt_attach *attach, const char *path, struct kvt_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t size = path != NULL ? strlen(path) : 0;

    if (size == 0 || size >= sizeof(address.sun_path))
        return kvt_error_set(err, KVT_INVALID, "attach: no path of 1 to %zu bytes",
                             sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, size);
    attach->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (attach->socket < 0)
        return kvt_error_sys(err, errno, "attach");
    if (connect(attach->socket, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return KVT_OK;
    if (errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN)
        return kvt_error_set(err, KVT_UNAVAILABLE, "attach: nobody listens at %s", path);
    return kvt_error_sys(err, errno, "attach: %s", path);
}

/* What the worker says instead of a greeting, or after the hello. */
static enum kvt_err
read_answer(const struct kvbm_attach_answer *answer, size_t size, struct kvt_error *err)
{
    const enum kvt_err rc =
        kvbm_attach_head_check(&answer->head, KVBM_ATTACH_ANSWER, sizeof(*answer), size);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "attach: no worker of version %u", KVBM_ATTACH_VERSION);
    if (answer->status >= KVT_ERR_COUNT)
        return kvt_error_set(err, KVT_UNSUPPORTED, "attach: status %u", answer->status);
    if (answer->status != KVT_OK)
        return kvt_error_set(err, (enum kvt_err)answer->status, "attach: %.*s",
                             (int)sizeof(answer->text) - 32, answer->text);
    return KVT_OK;
}

static enum kvt_err
choose_geometry(struct kvt_attach *attach, const struct kvt_attach_options *options,
                const struct kvbm_attach_greeting *greeting, struct kvt_error *err)
{
    enum kvt_err rc;

    rc = kvbm_layout_deserialize(&attach->layout, greeting->layout, sizeof(greeting->layout), err);
    if (rc == KVT_OK && options->geometry != NULL)
        rc = kvbm_layout_make(&attach->layout, options->geometry, err);
    if (rc != KVT_OK)
        return rc;
    /* More than that is said by the worker; this is what sizes are computed from here. */
    if (attach->block_count == 0 || attach->block_count > greeting->blocks_max)
        return kvt_error_set(err, KVT_RANGE, "attach: %u blocks, not 1 to %u", attach->block_count,
                             greeting->blocks_max);
    return KVT_OK;
}

static enum kvt_err
hear_greeting(struct kvt_attach *attach, const struct kvt_attach_options *options,
              uint64_t until_ms, struct kvt_error *err)
{
    union {
        struct kvbm_attach_head head;
        struct kvbm_attach_greeting greeting;
        struct kvbm_attach_answer answer;
    } message;
    size_t size;
    enum kvt_err rc;

    rc = kvbm_channel_receive(attach->socket, &message, sizeof(message), until_ms, &size, NULL);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "attach: no greeting");
    rc =
        kvbm_attach_head_check(&message.head, KVBM_ATTACH_GREETING, sizeof(message.greeting), size);
    if (rc != KVT_OK) {
        rc = read_answer(&message.answer, size, err);
        return rc != KVT_OK ? rc : kvt_error_set(err, KVT_INVALID, "attach: no greeting");
    }
    if (message.greeting.memory != KVBM_ATTACH_MEMORY ||
        message.greeting.ring != KVBM_ATTACH_RING ||
        message.greeting.request_max != KVBM_ATTACH_REQUEST_MAX)
        return kvt_error_set(err, KVT_UNSUPPORTED, "attach: rings of other sizes");
    return choose_geometry(attach, options, &message.greeting, err);
}

static enum kvt_err
pass_memory(struct kvt_attach *attach, struct kvt_error *err)
{
    struct kvbm_attach_hello hello = {
        .head = kvbm_attach_head(KVBM_ATTACH_HELLO, sizeof(hello)),
        .block_count = attach->block_count,
    };
    void *bytes;
    enum kvt_err rc;

    attach->memory = kvbm_sealed_make("kvtier-blocks", memory_size(attach));
    if (attach->memory < 0)
        return kvt_error_sys(err, errno, "attach: memory of %zu bytes", memory_size(attach));
    rc = kvbm_sealed_map(&bytes, attach->memory, memory_size(attach), err);
    if (rc != KVT_OK)
        return rc;
    attach->blocks = bytes;
    kvbm_layout_serialize(&attach->layout, hello.layout);
    rc = kvbm_channel_send(attach->socket, &hello, sizeof(hello), attach->memory);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "attach: the worker left");
}

static enum kvt_err
hear_answer(struct kvt_attach *attach, uint64_t until_ms, struct kvt_error *err)
{
    struct kvbm_attach_answer answer;
    struct kvbm_attach_control *control;
    uint8_t *bytes;
    size_t size;
    int rings;
    enum kvt_err rc;

    rc = kvbm_channel_receive(attach->socket, &answer, sizeof(answer), until_ms, &size, &rings);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "attach: no answer");
    rc = read_answer(&answer, size, err);
    if (rc == KVT_OK && rings < 0)
        rc = kvt_error_set(err, KVT_INVALID, "attach: an answer without rings");
    if (rc == KVT_OK)
        rc = kvbm_sealed_map(&attach->shared, rings, KVBM_ATTACH_MEMORY, err);
    if (rings >= 0)
        (void)close(rings);
    if (rc != KVT_OK)
        return rc;
    control = attach->shared;
    bytes = (uint8_t *)attach->shared + KVBM_ATTACH_CONTROL;
    kvbm_ring_init(&attach->requests, &control->requests, bytes, KVBM_ATTACH_RING);
    kvbm_ring_init(&attach->completions, &control->completions, bytes + KVBM_ATTACH_RING,
                   KVBM_ATTACH_RING);
    return KVT_OK;
}

enum kvt_err
kvt_attach_open(struct kvt_attach **out, const struct kvt_attach_options *options,
                struct kvt_error *err)
{
    const size_t least =
        offsetof(struct kvt_attach_options, timeout_ms) + sizeof(options->timeout_ms);
    struct kvt_attach *attach;
    uint64_t until_ms;
    enum kvt_err rc;

    assert(out != NULL && options != NULL);
    *out = NULL;
    if (options->size != least)
        return kvt_error_set(err, options->size < least ? KVT_INVALID : KVT_UNSUPPORTED,
                             "attach: options of %zu bytes", options->size);
    attach = kvt_calloc(1, sizeof(*attach));
    if (attach == NULL)
        return kvt_error_set(err, KVT_NOMEM, "attach");
    attach->socket = -1;
    attach->memory = -1;
    attach->block_count = options->block_count;
    attach->timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : KVT_ATTACH_TIMEOUT;
    until_ms = kvt_clock_mono_ms() + attach->timeout_ms;
    rc = dial(attach, options->socket, err);
    if (rc == KVT_OK)
        rc = hear_greeting(attach, options, until_ms, err);
    if (rc == KVT_OK)
        rc = pass_memory(attach, err);
    if (rc == KVT_OK)
        rc = hear_answer(attach, until_ms, err);
    if (rc != KVT_OK) {
        kvt_attach_close(attach);
        return rc;
    }
    *out = attach;
    return KVT_OK;
}

void
kvt_attach_close(struct kvt_attach *attach)
{
    if (attach == NULL)
        return;
    if (attach->blocks != NULL)
        (void)munmap(attach->blocks, memory_size(attach));
    if (attach->shared != NULL)
        (void)munmap(attach->shared, KVBM_ATTACH_MEMORY);
    if (attach->memory >= 0)
        (void)close(attach->memory);
    if (attach->socket >= 0)
        (void)close(attach->socket);
    kvt_free(attach);
}

void
kvt_attach_geometry(const struct kvt_attach *attach, struct kvt_geometry *geometry)
{
    *geometry = attach->layout.geometry;
}

size_t
kvt_attach_block_bytes(const struct kvt_attach *attach)
{
    return (size_t)attach->layout.block_size;
}

void *
kvt_attach_block(const struct kvt_attach *attach, uint32_t block)
{
    if (block >= attach->block_count)
        return NULL;
    return attach->blocks + (size_t)block * attach->layout.block_size;
}

int
kvt_attach_memory(const struct kvt_attach *attach)
{
    return attach->memory;
}

bool
kvt_attach_lost(const struct kvt_attach *attach)
{
    return attach->lost;
}

/* ---- asking ---- */

/* The worker's answer, or the end. */
static enum kvt_err
await(struct kvt_attach *attach, uint64_t until_ms, size_t *size)
{
    enum kvt_err rc;
    bool over = false;

    for (;;) {
        rc = kvbm_ring_take(&attach->completions, &attach->answer, sizeof(attach->answer), size);
        if (rc != KVT_AGAIN)
            return rc;
        if (over) /* what it put before it left is taken, too */
            return KVT_UNAVAILABLE;
        rc = KVT_OK;
        if (kvbm_ring_sleep(&attach->completions))
            rc = kvbm_channel_wait(attach->socket, -1, until_ms);
        kvbm_ring_rouse(&attach->completions);
        if (rc == KVT_TIMEOUT)
            return rc;
        over = rc == KVT_UNAVAILABLE;
    }
}

static enum kvt_err
ask(struct kvt_attach *attach, size_t request_size, size_t item, uint64_t wait_ms)
{
    const struct kvbm_attach_record *head = &attach->answer.head;
    const uint64_t until_ms = kvt_clock_mono_ms() + attach->timeout_ms + wait_ms;
    size_t size;
    enum kvt_err rc;

    rc = kvbm_ring_put(&attach->requests, &attach->request, request_size);
    if (rc != KVT_OK) /* one request at a time: there is room for any */
        return KVT_CORRUPT;
    if (kvbm_ring_wake(&attach->requests))
        kvbm_channel_nudge(attach->socket);
    rc = await(attach, until_ms, &size);
    if (rc != KVT_OK)
        return rc;
    if (size < sizeof(*head) || head->id != attach->request.head.id ||
        head->op != attach->request.head.op || head->status >= KVT_ERR_COUNT ||
        head->count > KVBM_ATTACH_REQUEST_MAX || size != sizeof(*head) + head->count * item)
        return KVT_CORRUPT;
    return KVT_OK;
}

/*
 * One request whose items are in attach->request already, and its completion.
 *
 * @param items  bytes of the request's items
 * @param item   bytes of one item of the completion
 * @return the attachment's end, or KVT_OK: the completion's status is in *status
 */
static enum kvt_err
call(struct kvt_attach *attach, struct kvbm_attach_record head, size_t items, size_t item,
     enum kvt_err *status)
{
    enum kvt_err rc;

    *status = KVT_UNAVAILABLE;
    if (attach->lost)
        return KVT_UNAVAILABLE;
    head.id = ++attach->id;
    attach->request.head = head;
    rc = ask(attach, sizeof(head) + items, item,
             head.op == KVBM_ATTACH_ONBOARD || head.op == KVBM_ATTACH_DRAIN ? head.value : 0);
    if (rc != KVT_OK) {
        /* What the worker may still give is given back when the socket ends. */
        attach->lost = true;
        (void)shutdown(attach->socket, SHUT_RDWR);
        return rc;
    }
    *status = (enum kvt_err)attach->answer.head.status;
    return KVT_OK;
}

/* A call without items either way. */
static enum kvt_err
call_plain(struct kvt_attach *attach, enum kvbm_attach_op op, uint64_t value)
{
    enum kvt_err status;
    const enum kvt_err rc = call(
        attach, (struct kvbm_attach_record){.op = (uint32_t)op, .value = value}, 0, 0, &status);

    return rc == KVT_OK ? status : rc;
}

/* The handles of a completion, which are at most as many as were asked for and ours. */
static enum kvt_err
read_handles(struct kvt_attach *attach, size_t most, struct kvt_handle *handles, size_t *count)
{
    *count = attach->answer.head.count;
    for (size_t i = 0; i < *count && *count <= most; i++) {
        handles[i] = attach->answer.handles[i];
        if (handles[i].block >= attach->block_count || handles[i].generation == 0)
            *count = SIZE_MAX;
    }
    if (*count <= most)
        return KVT_OK;
    *count = 0;
    attach->lost = true;
    return KVT_CORRUPT;
}

enum kvt_err
kvt_attach_allocate(struct kvt_attach *attach, size_t count, struct kvt_unique *handles)
{
    const struct kvbm_attach_record head = {.op = KVBM_ATTACH_ALLOCATE, .value = count};
    enum kvt_err status;
    enum kvt_err rc;
    size_t got;

    memset(handles, 0, count * sizeof(*handles));
    if (count > KVBM_ATTACH_REQUEST_MAX)
        return KVT_RANGE;
    if (count == 0)
        return KVT_OK;
    rc = call(attach, head, 0, sizeof(struct kvt_handle), &status);
    if (rc == KVT_OK)
        rc = read_handles(attach, count, &handles->handle, &got);
    if (rc != KVT_OK || status != KVT_OK)
        return rc != KVT_OK ? rc : status;
    if (got == count)
        return KVT_OK;
    attach->lost = true;
    return KVT_CORRUPT;
}

static bool
write_name(struct kvbm_attach_name *name, const struct kvt_block_info *info)
{
    *name = (struct kvbm_attach_name){
        .hash = info->id.hash,
        .parent = info->id.parent,
        .prefix_hash = info->prefix_hash,
        .tokens_hash = info->tokens_hash,
        .position = info->id.position,
    };
    return info->size == sizeof(*info);
}

static enum kvt_err
write_names(struct kvt_attach *attach, const struct kvt_block_info *infos, size_t count)
{
    if (count > KVBM_ATTACH_REQUEST_MAX)
        return KVT_RANGE;
    for (size_t i = 0; i < count; i++)
        if (!write_name(&attach->request.names[i], &infos[i]))
            return KVT_INVALID;
    return KVT_OK;
}

enum kvt_err
kvt_attach_register(struct kvt_attach *attach, const struct kvt_unique *handles,
                    const struct kvt_block_info *infos, size_t count, bool offload,
                    struct kvt_shared *out, enum kvt_err *results)
{
    const struct kvbm_attach_record head = {
        .op = KVBM_ATTACH_REGISTER, .count = (uint32_t)count, .value = offload ? 1 : 0};
    enum kvt_err status;
    enum kvt_err rc;

    memset(out, 0, count * sizeof(*out));
    for (size_t i = 0; i < count; i++)
        results[i] = KVT_CANCELLED;
    if (count > KVBM_ATTACH_REQUEST_MAX)
        return KVT_RANGE;
    for (size_t i = 0; i < count; i++) {
        attach->request.entries[i].handle = handles[i].handle;
        if (!write_name(&attach->request.entries[i].name, &infos[i]))
            return KVT_INVALID;
    }
    rc = call(attach, head, count * sizeof(struct kvbm_attach_entry),
              sizeof(struct kvbm_attach_result), &status);
    if (rc != KVT_OK || status != KVT_OK)
        return rc != KVT_OK ? rc : status;
    if (attach->answer.head.count != count) {
        attach->lost = true;
        return KVT_CORRUPT;
    }
    for (size_t i = 0; i < count; i++) {
        const struct kvbm_attach_result *result = &attach->answer.results[i];
        const bool held = result->status == KVT_OK || result->status == KVT_EXISTS;

        if (result->status >= KVT_ERR_COUNT || (held && result->handle.generation == 0) ||
            result->handle.block >= attach->block_count) {
            attach->lost = true;
            return KVT_CORRUPT;
        }
        results[i] = (enum kvt_err)result->status;
        if (held)
            out[i].handle = result->handle;
    }
    return KVT_OK;
}

static enum kvt_err
drop(struct kvt_attach *attach, const struct kvt_handle *handles, size_t count)
{
    enum kvt_err status;
    enum kvt_err rc;

    if (count > KVBM_ATTACH_REQUEST_MAX)
        return KVT_RANGE;
    memcpy(attach->request.handles, handles, count * sizeof(*handles));
    rc = call(attach, (struct kvbm_attach_record){.op = KVBM_ATTACH_DROP, .count = (uint32_t)count},
              count * sizeof(*handles), 0, &status);
    return rc == KVT_OK ? status : rc;
}

enum kvt_err
kvt_attach_abandon(struct kvt_attach *attach, const struct kvt_unique *handles, size_t count)
{
    return drop(attach, &handles->handle, count);
}

enum kvt_err
kvt_attach_drop(struct kvt_attach *attach, const struct kvt_shared *handles, size_t count)
{
    return drop(attach, &handles->handle, count);
}

enum kvt_err
kvt_attach_match(struct kvt_attach *attach, const uint64_t *hashes, size_t count,
                 struct kvt_shared *handles, size_t *held, size_t *known)
{
    enum kvt_err status;
    enum kvt_err rc;

    *held = 0;
    if (known != NULL)
        *known = 0;
    memset(handles, 0, count * sizeof(*handles));
    if (count > KVBM_ATTACH_REQUEST_MAX)
        return KVT_RANGE;
    memcpy(attach->request.numbers, hashes, count * sizeof(*hashes));
    rc =
        call(attach, (struct kvbm_attach_record){.op = KVBM_ATTACH_MATCH, .count = (uint32_t)count},
             count * sizeof(*hashes), sizeof(struct kvt_handle), &status);
    if (rc == KVT_OK && count > 0)
        rc = read_handles(attach, count, &handles->handle, held);
    if (rc != KVT_OK)
        return rc;
    if (known != NULL && attach->answer.head.value <= count)
        *known = (size_t)attach->answer.head.value;
    return status;
}

enum kvt_err
kvt_attach_onboard(struct kvt_attach *attach, const struct kvt_block_info *infos, size_t count,
                   uint64_t wait_ms, struct kvt_shared *handles, size_t *held)
{
    const struct kvbm_attach_record head = {
        .op = KVBM_ATTACH_ONBOARD, .count = (uint32_t)count, .value = wait_ms};
    enum kvt_err status;
    enum kvt_err rc;

    *held = 0;
    memset(handles, 0, count * sizeof(*handles));
    rc = write_names(attach, infos, count);
    if (rc != KVT_OK)
        return rc;
    rc = call(attach, head, count * sizeof(struct kvbm_attach_name), sizeof(struct kvt_handle),
              &status);
    if (rc == KVT_OK && count > 0)
        rc = read_handles(attach, count, &handles->handle, held);
    return rc == KVT_OK ? status : rc;
}

enum kvt_err
kvt_attach_prefetch(struct kvt_attach *attach, const struct kvt_block_info *infos, size_t count)
{
    enum kvt_err status;
    enum kvt_err rc = write_names(attach, infos, count);

    if (rc != KVT_OK)
        return rc;
    rc = call(attach,
              (struct kvbm_attach_record){.op = KVBM_ATTACH_PREFETCH, .count = (uint32_t)count},
              count * sizeof(struct kvbm_attach_name), 0, &status);
    return rc == KVT_OK ? status : rc;
}

/* What the last completion's value says, where there is one. */
static void
tell_value(const struct kvt_attach *attach, enum kvt_err rc, uint64_t *value)
{
    if (value != NULL)
        *value = rc == KVT_OK ? attach->answer.head.value : 0;
}

enum kvt_err
kvt_attach_step(struct kvt_attach *attach, uint64_t *waiting)
{
    const enum kvt_err rc = call_plain(attach, KVBM_ATTACH_STEP, 0);

    tell_value(attach, rc, waiting);
    return rc;
}

enum kvt_err
kvt_attach_drain(struct kvt_attach *attach, uint64_t wait_ms)
{
    return call_plain(attach, KVBM_ATTACH_DRAIN, wait_ms);
}

enum kvt_err
kvt_attach_clear(struct kvt_attach *attach, uint64_t *cleared)
{
    const enum kvt_err rc = call_plain(attach, KVBM_ATTACH_CLEAR, 0);

    tell_value(attach, rc, cleared);
    return rc;
}

enum kvt_err
kvt_attach_stats(struct kvt_attach *attach, struct kvt_attach_stats *stats)
{
    const size_t room = stats->size;
    struct kvt_attach_stats known = {.size = room};
    enum kvt_err status;
    enum kvt_err rc;

    assert(room >= sizeof(size_t));
    memset((uint8_t *)stats + sizeof(size_t), 0, room - sizeof(size_t));
    rc = call(attach, (struct kvbm_attach_record){.op = KVBM_ATTACH_STATS}, 0, sizeof(uint64_t),
              &status);
    if (rc != KVT_OK || status != KVT_OK)
        return rc != KVT_OK ? rc : status;
    for (uint32_t i = 0; i < attach->answer.head.count && i < KVBM_ATTACH_STATS_COUNT; i++) {
        const uint64_t number = attach->answer.numbers[i];

        switch (i) {
#define X(name)                                                                                    \
    case KVBM_ATTACH_STAT_##name: known.name = number; break;
            KVBM_ATTACH_STATS_MAP(X)
#undef X
        default: break;
        }
    }
    memcpy((uint8_t *)stats + sizeof(size_t), (const uint8_t *)&known + sizeof(size_t),
           (room < sizeof(known) ? room : sizeof(known)) - sizeof(size_t));
    return KVT_OK;
}
