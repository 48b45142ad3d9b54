"""Sequences of tokens and pools of blocks (kvtier/kvbm.h).

What ends a C program (a handle that is used after its end) is an exception here.
"""

import contextlib
import enum
import threading
from typing import Any, Callable, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from kvtier._abi import AGAIN, EXISTS, NOTFOUND, check, ffi, library, new_error


class Order(enum.IntEnum):
    """Which of the blocks that nobody holds goes first."""

    LRU = 0
    PRIORITY = 1
    LINEAGE = 2


class Dedup(enum.IntEnum):
    """What registering a known name does."""

    REJECT = 0  #: the block that has it is given
    ALLOW = 1  #: both stay


class BlockInfo(NamedTuple):
    """What a block is called."""

    hash: int
    parent: int = 0
    position: int = 0
    prefix_hash: int = 0
    tokens_hash: int = 0


class PoolUsage(NamedTuple):
    blocks: int
    free: int
    active: int
    inactive: int
    registered: int
    duplicates: int
    sought: int
    found: int
    evicted: int


def _info(row: Any) -> BlockInfo:
    return BlockInfo(row.id.hash, row.id.parent, row.id.position, row.prefix_hash, row.tokens_hash)


class Sequence:
    """Tokens, cut into blocks; every full block has its name.  One thread at a time."""

    def __init__(self, block_tokens: int, tokens: Iterable[int] = (), *, adapter: str = "", salt: str = "") -> None:
        self._sequence = None
        self._lib = library("kvbm")
        names = adapter.encode(), salt.encode()
        seed = self._lib.kvt_token_seed(names[0], len(names[0]), names[1], len(names[1]))
        out, err = ffi.new("struct kvt_sequence **"), new_error()
        check(self._lib, self._lib.kvt_sequence_new(out, block_tokens, seed, err), err)
        self._sequence = ffi.gc(out[0], self._lib.kvt_sequence_free)
        self.append(tokens)

    def append(self, tokens: Iterable[int]) -> None:
        """All of them or none."""
        rows, err = list(tokens), new_error()
        check(self._lib, self._lib.kvt_sequence_append(self._sequence, ffi.new("uint32_t[]", rows), len(rows), err),
              err)

    def truncate(self, count: int) -> None:
        """Keep the first ``count`` tokens."""
        err = new_error()
        check(self._lib, self._lib.kvt_sequence_truncate(self._sequence, count, err), err)

    def __len__(self) -> int:
        count = ffi.new("size_t *")
        self._lib.kvt_sequence_tokens(self._sequence, count)
        return int(count[0])

    @property
    def hashes(self) -> List[int]:
        """The sequence hashes of all full blocks."""
        count = ffi.new("size_t *")
        rows = self._lib.kvt_sequence_hashes(self._sequence, count)
        return list(ffi.unpack(rows, count[0])) if count[0] > 0 else []

    def block(self, position: int, prefix_depth: int = 8) -> BlockInfo:
        """Who full block ``position`` is; :class:`IndexError` where there is none."""
        row, local = ffi.new("struct kvt_block_id *"), ffi.new("uint64_t *")
        if position < 0 or self._lib.kvt_sequence_block(self._sequence, position, row, local) == NOTFOUND:
            raise IndexError(f"the sequence has no full block {position}")
        prefix = self.hashes[min(position, prefix_depth - 1)]
        return BlockInfo(row.hash, row.parent, row.position, prefix, local[0])


class _Handle:
    """What is common to the handles: a pool that lives as long as they, and one end.

    ``_lock`` is held over every call that is made with the handle, so that none runs beside its end.  It may
    be held already: a collection of garbage can end another handle at any time, and callbacks run inside a
    call.  Inside it only the pool's lock is taken.
    """

    _kind = ""

    def __init__(self, pool: "Pool", row: Any) -> None:
        """Inside a call that the pool counts, so that it is not closed before the block is."""
        self._pool, self._lock = pool, threading.RLock()
        self._row = ffi.new(f"struct {self._kind} *", row)
        pool._held(1)

    @property
    def block(self) -> int:
        """The number of the block, in the pool and in its memory."""
        with self._using() as (_, row):
            return int(row.handle.block)

    @contextlib.contextmanager
    def _using(self) -> Iterator[Tuple[Any, Any]]:
        """The pool and the handle for one call.  The block is held, so nobody closes the pool."""
        with self._lock:
            row = self._row
            if row is None:
                raise ValueError("the handle has ended")
            yield self._pool._pool, row[0]

    @contextlib.contextmanager
    def _ending(self) -> Iterator[Tuple[Any, Any]]:
        """For a call that ends the handle, unless it raises.  A callback finds it ended."""
        with self._lock:
            row = self._row
            if row is None:
                raise ValueError("the handle has ended")
            self._row = None
            try:
                yield self._pool._pool, row[0]
            except BaseException:
                self._row = row
                raise
            self._pool._held(-1)

    def drop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> "Any":
        return self

    def __exit__(self, *_: object) -> None:
        if self._row is not None:
            self.drop()

    def __del__(self) -> None:
        if getattr(self, "_row", None) is not None:
            self.drop()


class Unique(_Handle):
    """The one holder of a block that is being written."""

    _kind = "kvt_unique"

    def begin(self) -> None:
        """Its bytes are being written now."""
        err = new_error()
        with self._using() as (pool, handle):
            check(self._pool._lib, self._pool._lib.kvt_unique_begin(pool, handle, err), err)

    def complete(self, info: BlockInfo) -> None:
        """They are written, and this is its name."""
        err, row = new_error(), self._pool._new_info()
        row.id.hash, row.id.parent, row.id.position = info.hash, info.parent, info.position
        row.prefix_hash, row.tokens_hash = info.prefix_hash, info.tokens_hash
        with self._using() as (pool, handle):
            check(self._pool._lib, self._pool._lib.kvt_unique_complete(pool, handle, row, err), err)

    def reset(self) -> None:
        err = new_error()
        with self._using() as (pool, handle):
            check(self._pool._lib, self._pool._lib.kvt_unique_reset(pool, handle, err), err)

    def register(self) -> "Shared":
        """Let it be found.  Ends this handle; where the name is known, the block that has it is given."""
        err, out = new_error(), ffi.new("struct kvt_shared *")
        with self._ending() as (pool, handle):
            code = self._pool._lib.kvt_unique_register(pool, handle, out, err)
            if code != EXISTS:
                check(self._pool._lib, code, err)
            return Shared(self._pool, out[0])

    def drop(self) -> None:
        """The block is free."""
        with self._ending() as (pool, handle):
            self._pool._lib.kvt_unique_drop(pool, handle)


class Shared(_Handle):
    """One of several holders of a registered block."""

    _kind = "kvt_shared"

    @property
    def info(self) -> BlockInfo:
        row = self._pool._new_info()
        with self._using() as (pool, handle):
            self._pool._lib.kvt_shared_info(pool, handle, row)
        return _info(row)

    def copy(self) -> "Shared":
        with self._using() as (pool, handle):
            return Shared(self._pool, self._pool._lib.kvt_shared_copy(pool, handle))

    def set_priority(self, priority: int) -> None:
        with self._using() as (pool, handle):
            check(self._pool._lib, self._pool._lib.kvt_shared_set_priority(pool, handle, priority), what="priority")

    def weak(self) -> "Weak":
        with self._using() as (_, handle):
            return Weak(self._pool, self._pool._lib.kvt_shared_weak(handle))

    def drop(self) -> None:
        """Hold it no longer."""
        with self._ending() as (pool, handle):
            self._pool._lib.kvt_shared_drop(pool, ffi.addressof(handle), 1)

    def discard(self) -> None:
        """Hold it no longer, and let nobody find it any more: its content is wrong."""
        with self._ending() as (pool, handle):
            self._pool._lib.kvt_shared_discard(pool, handle)


class Weak:
    """Holds nothing, and finds the block again while it has its name."""

    def __init__(self, pool: "Pool", row: Any) -> None:
        self._pool, self._row = pool, row

    def upgrade(self) -> Optional[Shared]:
        out = ffi.new("struct kvt_shared *")
        with self._pool._call() as pool:
            code = self._pool._lib.kvt_weak_upgrade(pool, self._row, out)
            if code == NOTFOUND:
                return None
            check(self._pool._lib, code, what="upgrade")
            return Shared(self._pool, out[0])


class Pool:
    """The blocks of one tier: numbers, names and holders.  Thread-safe.

    ``on_store`` and ``on_remove`` hear of every name that can be found, or no longer; they must not call the
    pool, and what they raise is printed and forgotten.
    """

    def __init__(self, block_count: int, *, order: Order = Order.LRU, dedup: Dedup = Dedup.REJECT,
                 on_store: Optional[Callable[[BlockInfo], None]] = None,
                 on_remove: Optional[Callable[[BlockInfo], None]] = None) -> None:
        self._pool = None
        self._count, self._lock = 0, threading.RLock()  # blocks held and calls under way
        self._lib = library("kvbm")
        options = ffi.new("struct kvt_pool_options *")
        options.size = ffi.sizeof("struct kvt_pool_options")
        options.block_count, options.order, options.dedup = block_count, int(order), int(dedup)
        self._callbacks = [self._callback(on_store), self._callback(on_remove)]
        options.on_store, options.on_remove = self._callbacks
        out, err = ffi.new("struct kvt_pool **"), new_error()
        check(self._lib, self._lib.kvt_pool_new(out, options, err), err)
        self._pool = out[0]

    @staticmethod
    def _callback(function: Optional[Callable[[BlockInfo], None]]) -> Any:
        if function is None:
            return ffi.NULL
        told = function
        return ffi.callback("void(void *, const struct kvt_block_info *)", lambda _, row: told(_info(row)))

    def _new_info(self) -> Any:
        return ffi.new("struct kvt_block_info *", {"size": ffi.sizeof("struct kvt_block_info")})

    def _held(self, by: int) -> None:
        with self._lock:
            self._count += by

    @contextlib.contextmanager
    def _call(self) -> Iterator[Any]:
        """The pool for one call; it is not closed before the call is over."""
        with self._lock:
            pool = self._pool
            self._count += pool is not None
        if pool is None:
            raise ValueError("the pool is closed")
        try:
            yield pool
        finally:
            self._held(-1)

    def close(self) -> None:
        """Free the pool; with blocks still held, or a call under way, it is a :class:`ValueError`."""
        with self._lock:
            pool, count = self._pool, self._count
            if count == 0:
                self._pool = None
        if pool is None:
            return
        if count > 0:
            raise ValueError(f"{count} blocks are held, or asked for just now")
        self._lib.kvt_pool_free(pool)

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None:
            self.close()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def allocate(self, count: int, wait: float = 0) -> List[Unique]:
        """``count`` blocks, all or none; :class:`BlockingIOError` while there is no room."""
        rows = ffi.new("struct kvt_unique[]", max(count, 1))
        with self._call() as pool:
            code = self._lib.kvt_pool_allocate(pool, count, rows, int(wait * 1000))
            if code == AGAIN:
                raise BlockingIOError(f"there is no room for {count} blocks")
            check(self._lib, code, what="allocate")
            return [Unique(self, rows[at]) for at in range(count)]

    def match(self, hashes: Iterable[int]) -> List[Shared]:
        """Hold the longest prefix of ``hashes`` that is registered."""
        names = list(hashes)
        rows = ffi.new("struct kvt_shared[]", max(len(names), 1))
        with self._call() as pool:
            found = self._lib.kvt_pool_match(pool, ffi.new("uint64_t[]", names), len(names), rows)
            return [Shared(self, rows[at]) for at in range(found)]

    def scan(self, hashes: Iterable[int]) -> List[Optional[Shared]]:
        """Hold each of ``hashes`` that is registered; None for the others."""
        names = list(hashes)
        rows = ffi.new("struct kvt_shared[]", max(len(names), 1))
        with self._call() as pool:
            self._lib.kvt_pool_scan(pool, ffi.new("uint64_t[]", names), len(names), rows)
            return [Shared(self, rows[at]) if rows[at].handle.generation != 0 else None for at in range(len(names))]

    def __contains__(self, sequence_hash: int) -> bool:
        with self._call() as pool:
            return bool(self._lib.kvt_pool_has(pool, sequence_hash))

    def clear(self) -> int:
        """Evict every block that nobody holds; how many went."""
        with self._call() as pool:
            return int(self._lib.kvt_pool_clear(pool))

    def usage(self) -> PoolUsage:
        row = ffi.new("struct kvt_pool_usage *", {"size": ffi.sizeof("struct kvt_pool_usage")})
        with self._call() as pool:
            self._lib.kvt_pool_usage(pool, row)
        return PoolUsage(*[getattr(row, name) for name in PoolUsage._fields])
