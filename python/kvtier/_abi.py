"""The C libraries as cffi sees them: declarations, loading, errors.

The declarations repeat include/kvtier; python/tests/test_abi.py compares every size and offset with what a
C compiler makes of the installed headers.
"""

import functools
import os
from typing import Any, Optional

import cffi

ffi = cffi.FFI()

ffi.cdef("""
enum { KVT_ERROR_TEXT_MAX = 256, KVT_NAME_MAX = 64 };

struct kvt_error { int code; int sys; char text[256]; };
const char *kvt_err_name(int code);
const char *kvt_err_text(int code);

/* kvtier/publisher.h */
struct kvt_publisher;
struct kvt_location { int tier; uint32_t dp_rank; char name[64]; };
struct kvt_publisher_options {
    size_t size;
    const char *url;
    const char *namespace_;
    const char *worker;
    const struct kvt_location *locations;
    uint32_t location_count;
    uint32_t mode;
    uint32_t partitions;
    uint32_t flush_events;
    uint64_t flush_ms;
    uint64_t heartbeat_ms;
    uint64_t blocks_max;
    uint32_t buffer_events;
    uint32_t ring_events;
    const char *user_file;
    const char *token_file;
    const char *creds_file;
    const char *ca_file;
    uint32_t connect_now;
};
struct kvt_publisher_block {
    uint64_t sequence_hash;
    uint64_t parent;
    uint64_t prefix_hash;
    uint64_t tokens_hash;
    uint64_t bytes;
    uint32_t position;
    uint32_t ranks;
};
struct kvt_publisher_stats {
    size_t size;
    uint64_t incarnation;
    uint64_t next_seq;
    uint64_t acked_seq;
    uint64_t lost;
    uint64_t buffered;
    uint64_t batches;
    uint64_t blocks;
    uint64_t repeated;
    uint32_t connected;
};
int kvt_publisher_open(struct kvt_publisher **out, const struct kvt_publisher_options *options,
                       struct kvt_error *err);
void kvt_publisher_close(struct kvt_publisher *publisher, bool bye);
int kvt_publisher_stored(struct kvt_publisher *publisher, uint32_t location,
                         const struct kvt_publisher_block *blocks, size_t count);
int kvt_publisher_removed(struct kvt_publisher *publisher, uint32_t location,
                          const uint64_t *sequence_hashes, size_t count, uint32_t ranks);
int kvt_publisher_cleared(struct kvt_publisher *publisher, uint32_t location);
uint32_t kvt_publisher_holds(struct kvt_publisher *publisher, uint32_t location,
                             uint64_t sequence_hash);
int kvt_publisher_flush(struct kvt_publisher *publisher, uint64_t timeout_ms);
void kvt_publisher_stats(struct kvt_publisher *publisher, struct kvt_publisher_stats *stats);

/* kvtier/kvbm.h */
struct kvt_sequence;
struct kvt_pool;
struct kvt_block_id { uint64_t hash; uint64_t parent; uint32_t position; };
struct kvt_handle { uint32_t block; uint32_t generation; };
struct kvt_unique { struct kvt_handle handle; };
struct kvt_shared { struct kvt_handle handle; };
struct kvt_weak { struct kvt_handle handle; };
struct kvt_block_info {
    size_t size;
    struct kvt_block_id id;
    uint64_t prefix_hash;
    uint64_t tokens_hash;
};
struct kvt_pool_options {
    size_t size;
    uint32_t block_count;
    uint32_t block_tokens;
    uint32_t prefix_depth;
    int dedup;
    int order;
    const void *ordering;
    uint64_t block_bytes;
    void (*on_store)(void *arg, const struct kvt_block_info *info);
    void (*on_remove)(void *arg, const struct kvt_block_info *info);
    void *arg;
};
struct kvt_pool_usage {
    size_t size;
    uint32_t blocks;
    uint32_t free;
    uint32_t active;
    uint32_t inactive;
    uint64_t registered;
    uint64_t duplicates;
    uint64_t sought;
    uint64_t found;
    uint64_t evicted;
};
uint64_t kvt_token_seed(const char *adapter, size_t adapter_size, const char *salt,
                        size_t salt_size);
int kvt_sequence_new(struct kvt_sequence **out, uint32_t block_tokens, uint64_t seed,
                     struct kvt_error *err);
void kvt_sequence_free(struct kvt_sequence *sequence);
int kvt_sequence_append(struct kvt_sequence *sequence, const uint32_t *tokens, size_t count,
                        struct kvt_error *err);
int kvt_sequence_truncate(struct kvt_sequence *sequence, size_t count, struct kvt_error *err);
const uint32_t *kvt_sequence_tokens(const struct kvt_sequence *sequence, size_t *count);
const uint64_t *kvt_sequence_hashes(const struct kvt_sequence *sequence, size_t *count);
int kvt_sequence_block(const struct kvt_sequence *sequence, size_t position,
                       struct kvt_block_id *id, uint64_t *tokens_hash);
int kvt_pool_new(struct kvt_pool **out, const struct kvt_pool_options *options,
                 struct kvt_error *err);
void kvt_pool_free(struct kvt_pool *pool);
int kvt_pool_allocate(struct kvt_pool *pool, size_t count, struct kvt_unique *handles,
                      uint64_t wait_ms);
size_t kvt_pool_match(struct kvt_pool *pool, const uint64_t *hashes, size_t count,
                      struct kvt_shared *handles);
size_t kvt_pool_scan(struct kvt_pool *pool, const uint64_t *hashes, size_t count,
                     struct kvt_shared *handles);
bool kvt_pool_has(struct kvt_pool *pool, uint64_t hash);
size_t kvt_pool_clear(struct kvt_pool *pool);
void kvt_pool_usage(struct kvt_pool *pool, struct kvt_pool_usage *usage);
int kvt_unique_state(struct kvt_pool *pool, struct kvt_unique handle);
int kvt_unique_begin(struct kvt_pool *pool, struct kvt_unique handle, struct kvt_error *err);
int kvt_unique_complete(struct kvt_pool *pool, struct kvt_unique handle,
                        const struct kvt_block_info *info, struct kvt_error *err);
int kvt_unique_reset(struct kvt_pool *pool, struct kvt_unique handle, struct kvt_error *err);
int kvt_unique_register(struct kvt_pool *pool, struct kvt_unique handle, struct kvt_shared *out,
                        struct kvt_error *err);
void kvt_unique_drop(struct kvt_pool *pool, struct kvt_unique handle);
void kvt_shared_info(struct kvt_pool *pool, struct kvt_shared handle, struct kvt_block_info *info);
struct kvt_shared kvt_shared_copy(struct kvt_pool *pool, struct kvt_shared handle);
int kvt_shared_set_priority(struct kvt_pool *pool, struct kvt_shared handle, uint32_t priority);
void kvt_shared_drop(struct kvt_pool *pool, const struct kvt_shared *handles, size_t count);
void kvt_shared_discard(struct kvt_pool *pool, struct kvt_shared handle);
struct kvt_weak kvt_shared_weak(struct kvt_shared handle);
int kvt_weak_upgrade(struct kvt_pool *pool, struct kvt_weak handle, struct kvt_shared *out);

/* kvtier/attach.h */
struct kvt_attach;
struct kvt_attach_options {
    size_t size;
    const char *socket;
    const void *geometry;
    uint32_t block_count;
    uint64_t timeout_ms;
};
struct kvt_attach_stats {
    size_t size;
    uint64_t blocks;
    uint64_t free;
    uint64_t active;
    uint64_t inactive;
    uint64_t registered;
    uint64_t waiting;
    uint64_t offloaded;
    uint64_t present;
    uint64_t failed;
    uint64_t onboarded;
    uint64_t prefetched;
    uint64_t refused;
};
int kvt_attach_open(struct kvt_attach **out, const struct kvt_attach_options *options,
                    struct kvt_error *err);
void kvt_attach_close(struct kvt_attach *attach);
size_t kvt_attach_block_bytes(const struct kvt_attach *attach);
void *kvt_attach_block(const struct kvt_attach *attach, uint32_t block);
int kvt_attach_allocate(struct kvt_attach *attach, size_t count, struct kvt_unique *handles);
int kvt_attach_register(struct kvt_attach *attach, const struct kvt_unique *handles,
                        const struct kvt_block_info *infos, size_t count, bool offload,
                        struct kvt_shared *out, int *results);
int kvt_attach_abandon(struct kvt_attach *attach, const struct kvt_unique *handles, size_t count);
int kvt_attach_drop(struct kvt_attach *attach, const struct kvt_shared *handles, size_t count);
int kvt_attach_match(struct kvt_attach *attach, const uint64_t *hashes, size_t count,
                     struct kvt_shared *handles, size_t *held, size_t *known);
int kvt_attach_onboard(struct kvt_attach *attach, const struct kvt_block_info *infos, size_t count,
                       uint64_t wait_ms, struct kvt_shared *handles, size_t *held);
int kvt_attach_prefetch(struct kvt_attach *attach, const struct kvt_block_info *infos,
                        size_t count);
int kvt_attach_step(struct kvt_attach *attach, uint64_t *waiting);
int kvt_attach_drain(struct kvt_attach *attach, uint64_t wait_ms);
int kvt_attach_clear(struct kvt_attach *attach, uint64_t *cleared);
int kvt_attach_stats(struct kvt_attach *attach, struct kvt_attach_stats *stats);
bool kvt_attach_lost(const struct kvt_attach *attach);
""")

# enum kvt_err, in its order: values never change their meaning.
CODES = ("OK", "AGAIN", "TIMEOUT", "UNAVAILABLE", "IO", "NOMEM", "BUSY", "FULL", "NOTFOUND", "EXISTS",
         "PRECONDITION", "INVALID", "RANGE", "CORRUPT", "DENIED", "UNSUPPORTED", "CANCELLED")
OK, EXISTS, NOTFOUND, TIMEOUT, AGAIN = (CODES.index(name) for name in
                                        ("OK", "EXISTS", "NOTFOUND", "TIMEOUT", "AGAIN"))


class Error(Exception):
    """A call of KVTier failed; ``code`` is the name of the reason ("FULL", "INVALID", ...)."""

    def __init__(self, code: int, text: str) -> None:
        self.code: str = CODES[code] if code < len(CODES) else str(code)
        super().__init__(f"{self.code}: {text}")


class LibraryError(ImportError):
    """A library of KVTier is not where it is looked for."""


def _folders() -> "list[str]":
    named = os.environ.get("KVTIER_LIBRARY_DIR")
    if named:
        return [named]
    # <prefix>/lib/python3/dist-packages/kvtier/_abi.py
    here = os.path.dirname(os.path.abspath(__file__))
    return [os.path.normpath(os.path.join(here, *[".."] * up)) for up in (3, 4)]


@functools.lru_cache(maxsize=None)
def library(name: str) -> Any:
    """The functions of lib<name>.so.0."""
    file = f"lib{name}.so.0"
    tried = [os.path.join(folder, file) for folder in _folders()]
    found = [path for path in tried if os.path.exists(path)]
    if os.environ.get("KVTIER_LIBRARY_DIR") and not found:
        raise LibraryError(f"no {file} in KVTIER_LIBRARY_DIR ({os.environ['KVTIER_LIBRARY_DIR']})")
    try:
        return ffi.dlopen(found[0] if found else file)
    except OSError as error:
        raise LibraryError(f"{file} is neither in {', '.join(_folders())} nor where the system looks: "
                           f"{error}") from None


def check(lib: Any, code: int, err: Optional[Any] = None, what: str = "") -> None:
    """Raise what a call returned, unless it is OK."""
    if code == OK:
        return
    text = ffi.string(err.text).decode("utf-8", "replace") if err is not None else ""
    if not text:
        text = ffi.string(lib.kvt_err_text(code)).decode()
        text = f"{what}: {text}" if what else text
    raise Error(code, text)


def new_error() -> Any:
    return ffi.new("struct kvt_error *")
