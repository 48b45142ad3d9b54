/*
 * NCCL without GPUs: the functions of engine/replica/nccl.c over the device memory of
 * tests/unit/kvbm's driver.
 *
 * It is stricter than a real one where that finds mistakes: what a real one would wait for without
 * end is asserted not to be (a rank that joins alone, ranks whose calls differ), bytes move when
 * their stream is waited for and not before, and a communicator that was given back may not be
 * used.  fake_nccl_fail_at() lets one call fail by its number; fake_nccl_live() counts
 * communicators.
 */
#include <assert.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INTERNAL = 3, BAD_ARGUMENT = 4, BAD_USAGE = 5 };
enum { RANKS_MAX = 32, CALLS_MAX = 512 * RANKS_MAX, ID_BYTES = 128 };

struct unique_id {
    char bytes[ID_BYTES];
};

struct ncclComm {
    uint64_t id;
    int ranks;
    int rank;
};

struct call {
    struct ncclComm *comm;
    const void *source;
    void *target;
    size_t count;
    int root;
    void *stream;
};

typedef int copy_fn(uint64_t target, uint64_t source, size_t size, void *stream);

static _Atomic long calls_left = -1; /* until one fails; below 0: none does */
static _Atomic long live;
static _Atomic long spread; /* broadcasts that were done */
static _Atomic uint64_t last_id;

/* The group that this thread has open. */
static _Thread_local struct {
    int depth;
    bool failed;
    struct ncclComm **joining[RANKS_MAX];
    struct ncclComm wanted[RANKS_MAX];
    int joins;
    struct call calls[CALLS_MAX];
    int count;
} group;

void
fake_nccl_fail_at(long number)
{
    atomic_store(&calls_left, number);
}

bool
fake_nccl_failed(void)
{
    return atomic_load(&calls_left) < 0;
}

long
fake_nccl_live(void)
{
    return atomic_load(&live);
}

long
fake_nccl_spread(void)
{
    return atomic_load(&spread);
}

static bool
told_to_fail(void)
{
    return atomic_load(&calls_left) >= 0 && atomic_fetch_sub(&calls_left, 1) == 0;
}

const char *
ncclGetErrorString(int result)
{
    return result == OK ? "no error" : result == INTERNAL ? "internal error" : "invalid usage";
}

int
ncclGetUniqueId(struct unique_id *id)
{
    const uint64_t number = atomic_fetch_add(&last_id, 1) + 1;

    if (told_to_fail())
        return INTERNAL;
    memset(id, 0x5A, sizeof(*id));
    memcpy(id->bytes, &number, sizeof(number));
    return OK;
}

int
ncclGroupStart(void)
{
    if (told_to_fail())
        return INTERNAL;
    if (group.depth++ == 0) {
        group.failed = false;
        group.joins = 0;
        group.count = 0;
    }
    return OK;
}

int
ncclCommInitRank(struct ncclComm **comm, int ranks, struct unique_id id, int rank)
{
    struct ncclComm *wanted = &group.wanted[group.joins];

    if (told_to_fail()) {
        group.failed = true;
        return INTERNAL;
    }
    if (group.depth == 0 || rank < 0 || rank >= ranks || ranks > RANKS_MAX) {
        group.failed = true;
        return BAD_ARGUMENT;
    }
    *wanted = (struct ncclComm){.ranks = ranks, .rank = rank};
    memcpy(&wanted->id, id.bytes, sizeof(wanted->id));
    group.joining[group.joins++] = comm;
    return OK;
}

int
ncclBroadcast(const void *source, void *target, size_t count, int type, int root,
              struct ncclComm *comm, void *stream)
{
    if (told_to_fail()) {
        group.failed = true;
        return INTERNAL;
    }
    if (group.depth == 0 || type != 0 || count == 0 || group.count == CALLS_MAX)
        return BAD_ARGUMENT;
    assert(comm->id != 0 && "a communicator that was given back");
    group.calls[group.count++] = (struct call){comm, source, target, count, root, stream};
    return OK;
}

static int
join_all(void)
{
    if (group.joins == 0)
        return OK;
    for (int i = 0; i < group.joins; i++)
        assert(group.wanted[i].ranks == group.joins && group.wanted[i].rank == i &&
               group.wanted[i].id == group.wanted[0].id);
    for (int i = 0; i < group.joins; i++) {
        *group.joining[i] = malloc(sizeof(struct ncclComm)); /* tidy-allow: raw-heap, a library */
        assert(*group.joining[i] != NULL);
        **group.joining[i] = group.wanted[i];
        atomic_fetch_add(&live, 1);
    }
    return OK;
}

static copy_fn *
find_copy(void)
{
    void *library = dlopen(KVBM_FAKE_CUDA, RTLD_NOW | RTLD_NOLOAD);
    void *found;
    copy_fn *copy;

    assert(library != NULL);
    found = dlsym(library, "cuMemcpyDtoDAsync_v2");
    assert(found != NULL);
    memcpy(&copy, &found, sizeof(copy));
    (void)dlclose(library);
    return copy;
}

/* Calls come rank by rank: every `ranks` of them are one collective. */
static int
spread_all(void)
{
    copy_fn *copy = group.count > 0 ? find_copy() : NULL;

    for (int i = 0; i < group.count; i += group.calls[i].comm->ranks) {
        const struct call *first = &group.calls[i];
        const int ranks = first->comm->ranks;

        assert(i + ranks <= group.count);
        for (int r = 0; r < ranks; r++)
            assert(first[r].comm->rank == r && first[r].comm->id == first->comm->id &&
                   first[r].count == first->count && first[r].root == first->root);
        for (int r = 0; r < ranks; r++)
            if (r != first->root && copy((uint64_t)(uintptr_t)first[r].target,
                                         (uint64_t)(uintptr_t)first[first->root].source,
                                         first->count, first[r].stream) != 0)
                return INTERNAL;
        atomic_fetch_add(&spread, 1);
    }
    return OK;
}

int
ncclGroupEnd(void)
{
    int result;

    if (group.depth == 0 || --group.depth > 0)
        return group.depth == 0 ? BAD_USAGE : OK;
    if (told_to_fail() || group.failed)
        return INTERNAL;
    result = join_all();
    return result == OK ? spread_all() : result;
}

static int
give_back(struct ncclComm *comm)
{
    assert(comm->id != 0 && "given back twice");
    comm->id = 0;
    free(comm); /* tidy-allow: raw-heap, a library */
    atomic_fetch_sub(&live, 1);
    return OK;
}

int
ncclCommDestroy(struct ncclComm *comm)
{
    return give_back(comm);
}

int
ncclCommAbort(struct ncclComm *comm)
{
    return give_back(comm);
}
