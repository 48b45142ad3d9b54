"""The C libraries as cffi sees them: declarations, loading, errors.

The declarations repeat include/kvtier; python/tests/test_abi.py compares every size and offset with what a
C compiler makes of the installed headers.
"""

import contextlib
import functools
import os
import threading
from typing import Any, Callable, Iterator, Optional

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
/* kvtier/layout.h */
struct kvt_layout;
struct kvt_geometry {
    size_t size;
    int kind;
    uint32_t layers;
    uint32_t outer;
    uint32_t page_size;
    uint32_t inner_dim;
    uint32_t dtype_bytes;
    uint32_t alignment;
    uint32_t tp_size;
    uint32_t tp_rank;
    uint32_t heads;
    int order;
    uint32_t reserved;
};
struct kvt_layout_info {
    size_t size;
    uint64_t block_size;
    uint64_t block_stride;
    uint64_t layer_size;
    uint64_t region_size;
    uint64_t row;
    uint64_t fingerprint;
    uint32_t parts;
    uint32_t heads;
};
struct kvt_memory {
    size_t size;
    const struct kvt_layout *layout;
    const uint64_t *parts;
    uint32_t part_count;
    uint32_t blocks;
};
struct kvt_view { uint64_t address; uint64_t bytes; uint64_t stride; uint32_t count; };
int kvt_layout_new(struct kvt_layout **out, const struct kvt_geometry *geometry,
                   struct kvt_error *err);
void kvt_layout_free(struct kvt_layout *layout);
void kvt_layout_geometry(const struct kvt_layout *layout, struct kvt_geometry *geometry);
void kvt_layout_info(const struct kvt_layout *layout, struct kvt_layout_info *info);
uint64_t kvt_layout_allocation(const struct kvt_layout *layout, uint32_t blocks);
void kvt_layout_serialize(const struct kvt_layout *layout, uint8_t *bytes);
int kvt_layout_deserialize(struct kvt_layout **out, const uint8_t *bytes, size_t size,
                           struct kvt_error *err);
int kvt_layout_compatible(const struct kvt_layout *ours, const struct kvt_layout *theirs,
                          struct kvt_error *err);
int kvt_layout_convertible(const struct kvt_layout *target, const struct kvt_layout *source,
                           struct kvt_error *err);
int kvt_memory_view(const struct kvt_memory *memory, uint32_t block, uint32_t layer, uint32_t outer,
                    struct kvt_view *view, struct kvt_error *err);
int kvt_memory_copy(const struct kvt_memory *target, uint32_t target_block,
                    const struct kvt_memory *source, uint32_t source_block, uint32_t layer,
                    uint32_t layers, struct kvt_error *err);
int kvt_memory_checksum(const struct kvt_memory *memory, uint32_t block, uint32_t *crc,
                        struct kvt_error *err);
int kvt_memory_reshape(const struct kvt_memory *target, uint32_t target_block,
                       const struct kvt_memory *const *sources, size_t source_count,
                       uint32_t source_block, struct kvt_error *err);

/* kvtier/storage.h */
struct kvt_device;
struct kvt_storage;
struct kvt_volumes;
struct kvt_device_info { size_t size; int ordinal; int driver; bool kernels; char name[128]; };
struct kvt_memory_options {
    size_t size;
    int kind;
    uint32_t block_count;
    uint64_t block_size;
    struct kvt_device *device;
};
struct kvt_disk_options {
    size_t size;
    const char *path;
    uint32_t block_count;
    uint32_t depth;
    uint64_t block_size;
    uint64_t part_size;
    bool buffered;
    bool keep;
    bool trust_index;
    uint64_t fingerprint;
};
struct kvt_storage_info {
    size_t size;
    int kind;
    uint32_t block_count;
    uint64_t block_size;
    uint64_t reads;
    uint64_t writes;
    uint64_t corrupt;
    uint64_t failed;
    uint32_t found;
    uint32_t dropped;
};
struct kvt_storage_name {
    struct kvt_block_id id;
    uint64_t prefix_hash;
    uint64_t tokens_hash;
    uint32_t block;
    int status;
};
int kvt_device_open(struct kvt_device **out, const char *library, int ordinal,
                    struct kvt_error *err);
void kvt_device_close(struct kvt_device *device);
void kvt_device_info(const struct kvt_device *device, struct kvt_device_info *info);
int kvt_storage_open_memory(struct kvt_storage **out, const struct kvt_memory_options *options,
                            struct kvt_error *err);
int kvt_storage_open_engine(struct kvt_storage **out, int kind, const struct kvt_memory *memory,
                            struct kvt_device *device, struct kvt_error *err);
int kvt_storage_open_disk(struct kvt_storage **out, const struct kvt_disk_options *options,
                          struct kvt_error *err);
struct kvt_volume_storage_options {
    size_t size;
    struct kvt_volumes *set;
    uint64_t volume;
    uint32_t block_count;
    bool own;
    uint64_t block_size;
    uint64_t first;
};
int kvt_storage_open_volume(struct kvt_storage **out,
                            const struct kvt_volume_storage_options *options,
                            struct kvt_error *err);
int kvt_storage_bind(struct kvt_storage *storage, const struct kvt_storage_name *names,
                     size_t count);
void kvt_storage_close(struct kvt_storage *storage);
void kvt_storage_info(struct kvt_storage *storage, struct kvt_storage_info *info);
int kvt_storage_commit(struct kvt_storage *storage, struct kvt_storage_name *names, size_t count);
int kvt_storage_forget(struct kvt_storage *storage, const uint32_t *blocks, size_t count);
size_t kvt_storage_found(struct kvt_storage *storage, uint32_t *at, struct kvt_storage_name *names,
                         size_t capacity);

/* kvtier/ticket.h, kvtier/transfer.h */
struct kvt_ticket;
struct kvt_transfer;
struct kvt_transfer_options { size_t size; size_t queue_max; struct kvt_storage *bounce; };
struct kvt_copy { uint32_t source; uint32_t target; int status; };
struct kvt_copy_request {
    size_t size;
    struct kvt_storage *source;
    struct kvt_storage *target;
    struct kvt_copy *copies;
    size_t count;
    int priority;
    const struct kvt_layout *source_layout;
    const struct kvt_layout *target_layout;
    uint32_t layer;
    uint32_t layers;
    int event_fd;
    void (*done)(void *arg);
    void *arg;
};
struct kvt_transfer_stats {
    size_t size;
    uint64_t blocks;
    uint64_t bytes;
    uint64_t failed;
    uint64_t cancelled;
    uint64_t waiting;
};
struct kvt_relay { uint32_t source; uint32_t middle; uint32_t target; int status; };
struct kvt_pipeline_request {
    size_t size;
    struct kvt_storage *source;
    struct kvt_storage *middle;
    struct kvt_storage *target;
    struct kvt_relay *relays;
    size_t count;
    const struct kvt_layout *source_layout;
    const struct kvt_layout *target_layout;
    uint32_t step;
    int priority;
    void (*landed)(void *arg, uint32_t layers);
    void *arg;
};
int kvt_ticket_wait(struct kvt_ticket *ticket, uint64_t wait_ms);
int kvt_ticket_cancel(struct kvt_ticket *ticket);
void kvt_ticket_release(struct kvt_ticket *ticket);
int kvt_transfer_new(struct kvt_transfer **out, const struct kvt_transfer_options *options,
                     struct kvt_error *err);
void kvt_transfer_free(struct kvt_transfer *transfer);
int kvt_transfer_start(struct kvt_transfer *transfer, const struct kvt_copy_request *request,
                       uint64_t wait_ms, struct kvt_ticket **ticket, struct kvt_error *err);
int kvt_transfer_pipeline(struct kvt_transfer *transfer, const struct kvt_pipeline_request *request,
                          struct kvt_error *err);
void kvt_transfer_stats(struct kvt_transfer *transfer, int path, struct kvt_transfer_stats *stats);
int kvt_path_between(struct kvt_storage *source, struct kvt_storage *target);

/* kvtier/volume.h */
struct kvt_volume;
struct kvt_volume_item { struct kvt_block_id id; void *bytes; size_t size; int status; };
struct kvt_volume_options {
    size_t size;
    int kind;
    const char *path;
    uint32_t blocks;
    uint64_t block_size;
    uint64_t fingerprint;
    uint64_t number;
    uint64_t timeout_ms;
};
struct kvt_peer;
struct kvt_peer_options {
    size_t size;
    const char *path;
    struct kvt_volumes *set;
    uint64_t fingerprint;
    uint64_t timeout_ms;
};
struct kvt_volume_driver {
    size_t size;
    void (*get)(void *context, struct kvt_volume_item *items, size_t count);
    void (*put)(void *context, struct kvt_volume_item *items, size_t count);
    void (*remove)(void *context, struct kvt_volume_item *items, size_t count);
    void (*stop)(void *context);
    void (*close)(void *context);
    void (*has)(void *context, struct kvt_volume_item *items, size_t count);
};
struct kvt_volume_request {
    size_t size;
    uint64_t volume;
    int verb;
    struct kvt_volume_item *items;
    size_t count;
    int event_fd;
    void (*done)(void *arg);
    void *arg;
};
struct kvt_volume_stats {
    size_t size;
    uint64_t hits;
    uint64_t misses;
    uint64_t corrupt;
    uint64_t failed;
    uint64_t stored;
    uint64_t existed;
    uint64_t removed;
    uint64_t cancelled;
    uint64_t waiting;
};
int kvt_volume_open(struct kvt_volume **out, const struct kvt_volume_options *options,
                    struct kvt_error *err);
int kvt_volume_open_driver(struct kvt_volume **out, const struct kvt_volume_driver *driver,
                           void *context, uint64_t block_size, struct kvt_error *err);
void kvt_volume_close(struct kvt_volume *volume);
int kvt_volumes_new(struct kvt_volumes **out, struct kvt_error *err);
void kvt_volumes_free(struct kvt_volumes *set);
int kvt_volumes_register(struct kvt_volumes *set, uint64_t id, struct kvt_volume *volume,
                         size_t queue_max, struct kvt_error *err);
int kvt_volumes_unregister(struct kvt_volumes *set, uint64_t id, bool cancel);
int kvt_volumes_start(struct kvt_volumes *set, const struct kvt_volume_request *request,
                      uint64_t wait_ms, struct kvt_ticket **ticket, struct kvt_error *err);
int kvt_peer_open(struct kvt_peer **out, const struct kvt_peer_options *options,
                  struct kvt_error *err);
void kvt_peer_close(struct kvt_peer *peer);
int kvt_volumes_stats(struct kvt_volumes *set, uint64_t id, struct kvt_volume_stats *stats);
""")

# enum kvt_err, in its order: values never change their meaning.
CODES = ("OK", "AGAIN", "TIMEOUT", "UNAVAILABLE", "IO", "NOMEM", "BUSY", "FULL", "NOTFOUND", "EXISTS",
         "PRECONDITION", "INVALID", "RANGE", "CORRUPT", "DENIED", "UNSUPPORTED", "CANCELLED")
OK, EXISTS, NOTFOUND, TIMEOUT, AGAIN = (CODES.index(name) for name in
                                        ("OK", "EXISTS", "NOTFOUND", "TIMEOUT", "AGAIN"))
FOREVER = 2**64 - 1  #: milliseconds


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


def sized(name: str, **members: Any) -> Any:
    """A structure that begins with its size."""
    return ffi.new(f"struct {name} *", {"size": ffi.sizeof(f"struct {name}"), **members})


class Resource:
    """Something of a library's that must not end while it is used.

    ``using()`` is held over each call and by whatever needs it for longer; ``close()`` meanwhile is a
    :class:`ValueError`.
    """

    _what = ""

    def __init__(self, lib: Any, handle: Any, end: Callable[[Any], None]) -> None:
        self._lib, self._handle, self._end = lib, handle, end
        self._count, self._lock = 0, threading.RLock()
        self._forgotten = False  # garbage, but used by other garbage that has not ended yet

    def _hold(self) -> Any:
        with self._lock:
            if self._handle is None:
                raise ValueError(f"the {self._what} is closed")
            self._count += 1
            return self._handle

    def _let_go(self) -> None:
        with self._lock:
            self._count -= 1
            last = self._forgotten and self._count == 0
        if last:
            self.close()

    @contextlib.contextmanager
    def _using(self) -> Iterator[Any]:
        handle = self._hold()
        try:
            yield handle
        finally:
            self._let_go()

    def close(self) -> None:
        """End it; while it is used this is a :class:`ValueError`."""
        with self._lock:
            handle = self._handle
            if handle is None:
                return
            if self._count > 0:
                raise ValueError(f"the {self._what} is used")
            self._handle = None
        self._end(handle)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is None:
            return
        with self._lock:
            self._forgotten = self._count > 0
        if not self._forgotten:
            self.close()
