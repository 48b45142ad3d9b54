"""An engine in this process that uses the tiers of a kvtier-worker in another (kvtier/attach.h)."""

import threading
from types import TracebackType
from typing import Any, Iterable, List, NamedTuple, Optional, Tuple, Type

from kvtier._abi import AGAIN, EXISTS, NOTFOUND, OK, TIMEOUT, Error, check, ffi, library, new_error
from kvtier.pool import BlockInfo


class Fresh(NamedTuple):
    """A block that is being filled."""

    block: int
    generation: int


class Held(NamedTuple):
    """A block that can be found, and is not taken for another as long as it is held."""

    block: int
    generation: int


class AttachStats(NamedTuple):
    blocks: int
    free: int
    active: int
    inactive: int
    registered: int
    waiting: int
    offloaded: int
    present: int
    failed: int
    onboarded: int
    prefetched: int
    refused: int


def _names(infos: Iterable[BlockInfo]) -> Any:
    rows = list(infos)
    names = ffi.new("struct kvt_block_info[]", max(len(rows), 1))
    for name, info in zip(names, rows):
        name.size = ffi.sizeof("struct kvt_block_info")
        name.id.hash, name.id.parent, name.id.position = info.hash, info.parent, info.position
        name.prefix_hash, name.tokens_hash = info.prefix_hash, info.tokens_hash
    return names, len(rows)


def _handles(kind: str, rows: Iterable[Tuple[int, int]]) -> Any:
    rows = list(rows)
    handles = ffi.new(f"struct {kind}[]", max(len(rows), 1))
    for handle, (block, generation) in zip(handles, rows):
        handle.handle.block, handle.handle.generation = block, generation
    return handles, len(rows)


class Attachment:
    """So many blocks of the worker's geometry, and what is below them.

    Calls of several threads wait for each other.  When the worker has gone, every call raises an ``Error`` whose
    code is ``UNAVAILABLE``, ``TIMEOUT`` or ``CORRUPT``, ``lost`` is true, and only ``close`` has an effect.
    """

    def __init__(self, socket: str, blocks: int, *, timeout_ms: int = 0) -> None:
        self._attach: Optional[Any] = None
        self._lock = threading.Lock()
        self._lib = library("kvbm")
        path = ffi.new("char[]", socket.encode())
        options = ffi.new("struct kvt_attach_options *", {
            "size": ffi.sizeof("struct kvt_attach_options"), "socket": path, "block_count": blocks,
            "timeout_ms": timeout_ms})
        out, err = ffi.new("struct kvt_attach **"), new_error()
        check(self._lib, self._lib.kvt_attach_open(out, options, err), err)
        self._attach = out[0]
        self.blocks = blocks
        self.block_bytes: int = self._lib.kvt_attach_block_bytes(self._attach)

    def _open(self) -> Any:
        if self._attach is None:
            raise ValueError("the attachment is closed")
        return self._attach

    def block(self, number: int) -> memoryview:
        """The bytes of a block; not to be used once the attachment is closed."""
        with self._lock:
            address = self._lib.kvt_attach_block(self._open(), number)
        if address == ffi.NULL:
            raise ValueError(f"there is no block {number}")
        return memoryview(ffi.buffer(address, self.block_bytes))

    def allocate(self, count: int) -> List[Fresh]:
        """All of them or none: an ``Error`` AGAIN."""
        handles = ffi.new("struct kvt_unique[]", max(count, 1))
        with self._lock:
            check(self._lib, self._lib.kvt_attach_allocate(self._open(), count, handles), None, "allocate")
        return [Fresh(handles[i].handle.block, handles[i].handle.generation) for i in range(count)]

    def register(self, fresh: Iterable[Fresh], infos: Iterable[BlockInfo], *, offload: bool = True) -> List[Held]:
        """Name filled blocks.  Of a name that is known, the block that has it is held instead."""
        handles, count = _handles("kvt_unique", fresh)
        names, named = _names(infos)
        if named != count:
            raise ValueError(f"{count} blocks and {named} names")
        out = ffi.new("struct kvt_shared[]", max(count, 1))
        results = ffi.new("int[]", max(count, 1))
        with self._lock:
            check(self._lib, self._lib.kvt_attach_register(self._open(), handles, names, count, offload, out, results),
                  None, "register")
        refused = [results[i] for i in range(count) if results[i] not in (OK, EXISTS)]
        held = self._held(out, count)
        if refused:
            self.drop(row for row in held if row.generation != 0)
            raise Error(refused[0], f"register: {len(refused)} of {count} blocks are refused")
        return held

    @staticmethod
    def _held(out: Any, count: int) -> List[Held]:
        return [Held(out[i].handle.block, out[i].handle.generation) for i in range(count)]

    def match(self, hashes: Iterable[int]) -> Tuple[List[Held], int]:
        """The prefix that is in this engine's memory, and the length of the one that is on this machine."""
        rows = list(hashes)
        out = ffi.new("struct kvt_shared[]", max(len(rows), 1))
        held, known = ffi.new("size_t *"), ffi.new("size_t *")
        with self._lock:
            check(self._lib, self._lib.kvt_attach_match(self._open(), ffi.new("uint64_t[]", rows), len(rows), out,
                                                        held, known), None, "match")
        return self._held(out, held[0]), known[0]

    def onboard(self, infos: Iterable[BlockInfo], *, wait_ms: int = 10000) -> List[Held]:
        """The longest prefix that any tier has, in this engine's memory."""
        names, count = _names(infos)
        out, held = ffi.new("struct kvt_shared[]", max(count, 1)), ffi.new("size_t *")
        with self._lock:
            code = self._lib.kvt_attach_onboard(self._open(), names, count, wait_ms, out, held)
            lost = self._lib.kvt_attach_lost(self._attach)
        if code not in (OK, NOTFOUND, AGAIN, TIMEOUT) or lost:
            check(self._lib, code, None, "onboard")
        return self._held(out, held[0])

    def prefetch(self, infos: Iterable[BlockInfo]) -> bool:
        """Have it brought some time soon; false: enough is being brought."""
        names, count = _names(infos)
        with self._lock:
            code = self._lib.kvt_attach_prefetch(self._open(), names, count)
        if code != AGAIN:
            check(self._lib, code, None, "prefetch")
        return bool(code == OK)

    def drop(self, held: Iterable[Held]) -> None:
        handles, count = _handles("kvt_shared", held)
        with self._lock:
            check(self._lib, self._lib.kvt_attach_drop(self._open(), handles, count), None, "drop")

    def abandon(self, fresh: Iterable[Fresh]) -> None:
        """The blocks are free again."""
        handles, count = _handles("kvt_unique", fresh)
        with self._lock:
            check(self._lib, self._lib.kvt_attach_abandon(self._open(), handles, count), None, "abandon")

    def step(self) -> int:
        """An iteration is over; so many blocks wait for their way down."""
        number = ffi.new("uint64_t *")
        with self._lock:
            check(self._lib, self._lib.kvt_attach_step(self._open(), number), None, "step")
        return int(number[0])

    def drain(self, wait_ms: int = 10000) -> None:
        """Have all that waits go down."""
        with self._lock:
            check(self._lib, self._lib.kvt_attach_drain(self._open(), wait_ms), None, "drain")

    def clear(self) -> int:
        """Forget what nobody holds; how many blocks that were."""
        number = ffi.new("uint64_t *")
        with self._lock:
            check(self._lib, self._lib.kvt_attach_clear(self._open(), number), None, "clear")
        return int(number[0])

    @property
    def stats(self) -> AttachStats:
        row = ffi.new("struct kvt_attach_stats *", {"size": ffi.sizeof("struct kvt_attach_stats")})
        with self._lock:
            check(self._lib, self._lib.kvt_attach_stats(self._open(), row), None, "stats")
        return AttachStats(*(getattr(row, name) for name in AttachStats._fields))

    @property
    def lost(self) -> bool:
        """Has the attachment come to its end?"""
        with self._lock:
            return self._attach is None or bool(self._lib.kvt_attach_lost(self._attach))

    def close(self) -> None:
        """Give everything back; the memory goes too.  More than once is no harm."""
        with self._lock:
            attach, self._attach = self._attach, None
            if attach is not None:
                self._lib.kvt_attach_close(attach)

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
