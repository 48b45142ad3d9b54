"""What an engine's KV cache holds, told to KVTier (kvtier/publisher.h)."""

import enum
from types import TracebackType
from typing import Iterable, NamedTuple, Optional, Sequence, Type

from kvtier._abi import TIMEOUT, check, ffi, library, new_error


class Tier(enum.IntEnum):
    """The levels of a KV cache."""

    G1 = 1  #: GPU memory
    G2 = 2  #: host memory
    G3 = 3  #: local disk
    G4 = 4  #: object tier


class Mode(enum.IntEnum):
    """How batches travel."""

    JETSTREAM = 0  #: acknowledged, and repeated until they are
    CORE = 1  #: at most once


class Location(NamedTuple):
    """A place blocks can be in; a publisher's calls name it by its index."""

    tier: Tier
    name: str = ""
    dp_rank: int = 0


class Block(NamedTuple):
    """One block that is stored; see ``struct kvt_publisher_block``."""

    sequence_hash: int
    parent: int = 0
    position: int = 0
    bytes: int = 0
    prefix_hash: int = 0  #: 0: found out from the parent
    tokens_hash: int = 0
    ranks: int = 1  #: bitmap of tensor-parallel shards


class PublisherStats(NamedTuple):
    incarnation: int
    next_seq: int
    acked_seq: int
    lost: int
    buffered: int
    batches: int
    blocks: int
    repeated: int
    connected: bool


class Publisher:
    """Publishes stored, removed and cleared blocks, and answers what is held.

    Thread-safe but for :meth:`close`.  Use it as a context manager, or close it.
    """

    def __init__(self, url: str, worker: str, locations: Sequence[Location], *, namespace: str = "",
                 mode: Mode = Mode.JETSTREAM, partitions: int = 0, flush_events: int = 0, flush_ms: int = 0,
                 heartbeat_ms: int = 0, blocks_max: int = 0, buffer_events: int = 0, ring_events: int = 0,
                 user_file: Optional[str] = None, token_file: Optional[str] = None,
                 creds_file: Optional[str] = None, ca_file: Optional[str] = None,
                 connect_now: bool = False) -> None:
        self._publisher = None
        self._lib = library("kvtier-publisher")
        options = ffi.new("struct kvt_publisher_options *")
        kept = []  # cffi frees what nobody holds

        def text(value: Optional[str]) -> object:
            if value is None:
                return ffi.NULL
            if "\0" in value:
                raise ValueError("a name with a NUL in it")
            kept.append(ffi.new("char[]", value.encode()))
            return kept[-1]

        places = ffi.new("struct kvt_location[]", max(len(locations), 1))
        for at, location in enumerate(locations):
            name = location.name.encode()
            if len(name) >= 64 or b"\0" in name:
                raise ValueError(f"location {location.name!r}: a name has at most 63 bytes")
            places[at].tier, places[at].dp_rank, places[at].name = int(location.tier), location.dp_rank, name
        options.size = ffi.sizeof("struct kvt_publisher_options")
        options.url, options.worker, options.namespace_ = text(url), text(worker), text(namespace)
        options.locations, options.location_count = places, len(locations)
        options.mode, options.partitions = int(mode), partitions
        options.flush_events, options.flush_ms, options.heartbeat_ms = flush_events, flush_ms, heartbeat_ms
        options.blocks_max, options.buffer_events, options.ring_events = blocks_max, buffer_events, ring_events
        options.user_file, options.token_file = text(user_file), text(token_file)
        options.creds_file, options.ca_file = text(creds_file), text(ca_file)
        options.connect_now = int(connect_now)
        out, err = ffi.new("struct kvt_publisher **"), new_error()
        check(self._lib, self._lib.kvt_publisher_open(out, options, err), err)
        self._publisher = out[0]

    def __enter__(self) -> "Publisher":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        self.close(bye=False)

    def _open(self) -> object:
        if self._publisher is None:
            raise ValueError("the publisher is closed")
        return self._publisher

    def close(self, bye: bool = True) -> None:
        """Send what is buffered, for 3 s at most; ``bye``: the advisor forgets what was held."""
        publisher, self._publisher = getattr(self, "_publisher", None), None
        if publisher is not None:
            self._lib.kvt_publisher_close(publisher, bye)

    def stored(self, location: int, blocks: Iterable[Block]) -> None:
        """Blocks can now be read at a location: all of them are published, or an an error."""
        rows = [(b.sequence_hash, b.parent, b.prefix_hash, b.tokens_hash, b.bytes, b.position, b.ranks)
                for b in blocks]
        check(self._lib, self._lib.kvt_publisher_stored(
            self._open(), location, ffi.new("struct kvt_publisher_block[]", rows), len(rows)), what="stored")

    def removed(self, location: int, sequence_hashes: Iterable[int], ranks: int = 0) -> None:
        """Blocks can no longer be read at a location; of each, the shards in ``ranks`` (0: all)."""
        hashes = list(sequence_hashes)
        check(self._lib, self._lib.kvt_publisher_removed(
            self._open(), location, ffi.new("uint64_t[]", hashes), len(hashes), ranks), what="removed")

    def cleared(self, location: int) -> None:
        """Every block at a location is gone."""
        check(self._lib, self._lib.kvt_publisher_cleared(self._open(), location), what="cleared")

    def holds(self, location: int, sequence_hash: int) -> int:
        """The shards of a block that are held at a location, as a bitmap; 0: none."""
        return int(self._lib.kvt_publisher_holds(self._open(), location, sequence_hash))

    def flush(self, timeout: float = 10.0) -> None:
        """Wait until everything said so far is acknowledged; :class:`TimeoutError` where it is not."""
        code = self._lib.kvt_publisher_flush(self._open(), int(timeout * 1000))
        if code == TIMEOUT:
            raise TimeoutError(f"not acknowledged within {timeout} s")
        check(self._lib, code, what="flush")

    def stats(self) -> PublisherStats:
        stats = ffi.new("struct kvt_publisher_stats *")
        stats.size = ffi.sizeof("struct kvt_publisher_stats")
        self._lib.kvt_publisher_stats(self._open(), stats)
        values = [getattr(stats, name) for name in PublisherStats._fields]
        return PublisherStats(*values[:-1], connected=bool(values[-1]))


__all__ = ["Block", "Location", "Mode", "Publisher", "PublisherStats", "Tier"]
