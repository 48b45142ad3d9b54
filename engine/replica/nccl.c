#include "engine/replica/nccl.h"

#include <assert.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/cuda/cuda_memory.h"
#include "kvtier/block.h"

enum {
    OK = 0,
    BYTES = 0, /* ncclInt8 */
    ROOT = 0,
    UNIQUE_BYTES = 128,
    GROUP_MAX = 1024 /* calls of one group; NCCL takes 2,048 */
};

/* NCCL's own types: ncclResult_t and ncclDataType_t are int, a communicator is opaque. */
struct ncclComm;

struct unique_id {
    char bytes[UNIQUE_BYTES];
};

#define FUNCTIONS(X)                                                                               \
    X(unique_id, "ncclGetUniqueId", int, (struct unique_id * id))                                  \
    X(comm_init, "ncclCommInitRank", int,                                                          \
      (struct ncclComm * *comm, int ranks, struct unique_id id, int rank))                         \
    X(comm_destroy, "ncclCommDestroy", int, (struct ncclComm * comm))                              \
    X(comm_abort, "ncclCommAbort", int, (struct ncclComm * comm))                                  \
    X(group_start, "ncclGroupStart", int, (void))                                                  \
    X(group_end, "ncclGroupEnd", int, (void))                                                      \
    X(broadcast, "ncclBroadcast", int,                                                             \
      (const void *source, void *target, size_t count, int type, int root, struct ncclComm *comm,  \
       void *stream))                                                                              \
    X(error_text, "ncclGetErrorString", const char *, (int result))

struct engine_nccl {
    void *library;
    uint32_t count;
    struct kvbm_storage *storages[KVT_RANKS_MAX];
    struct ncclComm *comms[KVT_RANKS_MAX]; /* NULL: aborted, or not made */
    bool over;
    /* NOLINTBEGIN(bugprone-macro-parentheses): these are declarations */
#define X(id, symbol, result, arguments) result(*id) arguments;
    FUNCTIONS(X)
#undef X
    /* NOLINTEND(bugprone-macro-parentheses) */
};

/* dlsym() gives a data pointer; POSIX lets it be copied into a function pointer. */
static bool
look_up(const struct engine_nccl *nccl, const char *symbol, void *function)
{
    void *found = dlsym(nccl->library, symbol);

    memcpy(function, &found, sizeof(found));
    return found != NULL;
}

static enum kvt_err
load(struct engine_nccl *nccl, const char *library, struct kvt_error *err)
{
    nccl->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (nccl->library == NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "nccl: %s", dlerror());
#define X(id, symbol, result, arguments)                                                           \
    if (!look_up(nccl, symbol, &nccl->id))                                                         \
        return kvt_error_set(err, KVT_UNSUPPORTED, "nccl: %s has no %s", library, symbol);
    FUNCTIONS(X)
#undef X
    return KVT_OK;
}

static void
abort_all(struct engine_nccl *nccl)
{
    for (uint32_t r = 0; r < nccl->count; r++) {
        if (nccl->comms[r] != NULL && kvbm_cuda_device_enter(nccl->storages[r]) == KVT_OK)
            (void)nccl->comm_abort(nccl->comms[r]);
        nccl->comms[r] = NULL;
    }
    nccl->over = true;
}

/* A group that ends with some ranks missing waits for them.  One call that NCCL refuses makes an
 * error of it. */
static void
spoil_group(struct engine_nccl *nccl, struct unique_id id)
{
    struct ncclComm *none = NULL;

    (void)nccl->comm_init(&none, (int)nccl->count, id, -1);
    (void)nccl->group_end();
}

/* All ranks of one process join within one group, or each would wait for the next. */
static enum kvt_err
join(struct engine_nccl *nccl, struct kvt_error *err)
{
    struct unique_id id;
    int result = nccl->unique_id(&id);
    int ended;

    if (result == OK)
        result = nccl->group_start();
    if (result != OK)
        return kvt_error_set(err, KVT_UNSUPPORTED, "nccl: %s", nccl->error_text(result));
    for (uint32_t r = 0; r < nccl->count && result == OK; r++) {
        if (kvbm_cuda_device_enter(nccl->storages[r]) != KVT_OK) {
            spoil_group(nccl, id);
            return kvt_error_set(err, KVT_UNSUPPORTED, "nccl: the device of rank %" PRIu32, r);
        }
        result = nccl->comm_init(&nccl->comms[r], (int)nccl->count, id, (int)r);
    }
    ended = nccl->group_end();
    if (result == OK)
        result = ended;
    return result == OK ? KVT_OK
                        : kvt_error_set(err, KVT_UNSUPPORTED, "nccl: %s", nccl->error_text(result));
}

enum kvt_err
engine_nccl_open(struct engine_nccl **out, const char *library,
                 struct kvbm_storage *const *storages, uint32_t count, struct kvt_error *err)
{
    struct engine_nccl *nccl;
    enum kvt_err rc;

    *out = NULL;
    assert(count <= KVT_RANKS_MAX);
    if (count < 2)
        return kvt_error_set(err, KVT_UNSUPPORTED, "nccl: there is one rank");
    for (uint32_t r = 0; r < count; r++)
        if (!kvbm_cuda_is_device(storages[r]))
            return kvt_error_set(err, KVT_UNSUPPORTED, "nccl: rank %" PRIu32 " is %s memory", r,
                                 kvbm_storage_kind_name(storages[r]->kind));
    nccl = kvt_calloc(1, sizeof(*nccl));
    if (nccl == NULL)
        return kvt_error_set(err, KVT_NOMEM, "nccl");
    nccl->count = count;
    memcpy(nccl->storages, storages, count * sizeof(nccl->storages[0]));
    rc = load(nccl, library, err);
    if (rc == KVT_OK) {
        rc = join(nccl, err);
        if (rc != KVT_OK)
            abort_all(nccl);
    }
    if (rc != KVT_OK) {
        engine_nccl_close(nccl);
        return rc;
    }
    *out = nccl;
    return KVT_OK;
}

void
engine_nccl_close(struct engine_nccl *nccl)
{
    if (nccl == NULL)
        return;
    for (uint32_t r = 0; r < nccl->count; r++)
        if (nccl->comms[r] != NULL && kvbm_cuda_device_enter(nccl->storages[r]) == KVT_OK)
            (void)nccl->comm_destroy(nccl->comms[r]);
    if (nccl->library != NULL)
        (void)dlclose(nccl->library);
    kvt_free(nccl);
}

/* How much of a part lies together on every rank. */
static size_t
common_run(const struct engine_nccl *nccl, const struct engine_nccl_part *part, size_t done)
{
    size_t common = part->size - done;

    for (uint32_t r = 0; r < nccl->count; r++) {
        size_t run;

        (void)kvbm_cuda_device_address(nccl->storages[r], part->block, part->offset + done, &run);
        common = run < common ? run : common;
    }
    return common;
}

/* One collective: the same run of bytes on every rank's stream.  Within a group NCCL knows which
 * device is whose. */
static int
put_run(struct engine_nccl *nccl, const struct engine_nccl_part *part, size_t done, size_t run,
        void *const *streams)
{
    int result = OK;

    for (uint32_t r = 0; r < nccl->count && result == OK; r++) {
        size_t unused;
        void *here = (void *)(uintptr_t)kvbm_cuda_device_address(nccl->storages[r], part->block,
                                                                 part->offset + done, &unused);

        result = nccl->broadcast(here, here, run, BYTES, ROOT, nccl->comms[r], streams[r]);
    }
    return result;
}

/* True: every rank's stream has all of it. */
static bool
put_all(struct engine_nccl *nccl, const struct engine_nccl_part *parts, size_t count,
        void *const *streams)
{
    int result = nccl->group_start();
    uint32_t calls = 0;
    int ended;

    if (result != OK)
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t run;

        for (size_t done = 0; done < parts[i].size && result == OK; done += run) {
            run = common_run(nccl, &parts[i], done);
            if (calls + nccl->count > GROUP_MAX) {
                result = nccl->group_end();
                if (result == OK)
                    result = nccl->group_start();
                if (result != OK)
                    return false;
                calls = 0;
            }
            result = put_run(nccl, &parts[i], done, run, streams);
            calls += nccl->count;
        }
    }
    ended = nccl->group_end();
    return result == OK && ended == OK;
}

enum kvt_err
engine_nccl_spread(struct engine_nccl *nccl, const struct engine_nccl_part *parts, size_t count)
{
    void *streams[KVT_RANKS_MAX];
    enum kvt_err rc = KVT_OK;
    uint32_t taken = 0;

    assert(count > 0 && count <= ENGINE_NCCL_PARTS_MAX);
    if (nccl->over)
        return KVT_UNAVAILABLE;
    while (taken < nccl->count) {
        streams[taken] = kvbm_cuda_device_begin(nccl->storages[taken]);
        if (streams[taken] == NULL) {
            rc = KVT_IO;
            break;
        }
        taken++;
    }
    if (rc == KVT_OK && !put_all(nccl, parts, count, streams)) {
        abort_all(nccl); /* before anybody waits for what cannot end */
        rc = KVT_UNAVAILABLE;
    }
    while (taken > 0)
        if (kvbm_cuda_device_end(nccl->storages[--taken]) != KVT_OK)
            rc = KVT_IO;
    if (rc == KVT_IO && !nccl->over)
        abort_all(nccl);
    return rc;
}
