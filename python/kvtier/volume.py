"""Places blocks are kept in beside the pools, by number (kvtier/volume.h)."""

import enum
import os
import traceback
from typing import Any, Callable, Iterable, List, NamedTuple, Optional, Tuple, Union

from kvtier._abi import CODES, FOREVER, NOTFOUND, TIMEOUT, Resource, check, ffi, library, new_error, sized
from kvtier.memory import LayoutMismatch, StorageMismatch
from kvtier.pool import BlockInfo

_GET, _PUT, _REMOVE = range(3)


class VolumeKind(enum.IntEnum):
    RAM = 1  #: goes with the process
    FILE = 2  #: slots in one file
    DIRECTORY = 3  #: a file a block
    PEER = 4  #: a volume that another process shows (:class:`Peer`)


class Answer(NamedTuple):
    """Of one block: OK, EXISTS (put), NOTFOUND, CORRUPT, FULL, ...; ``data`` of a get that is OK."""

    status: str
    data: Optional[bytearray] = None


class VolumeStats(NamedTuple):
    hits: int
    misses: int
    corrupt: int
    failed: int
    stored: int
    existed: int
    removed: int
    cancelled: int
    waiting: int


class VolumeDriver:
    """A kind of the program's own: what these raise is printed, and the block is an IO error.  One thread at a
    time calls them, not the one that asked."""

    def get(self, name: BlockInfo, into: memoryview) -> bool:
        """Fill ``into``; False: there is no such block."""
        raise NotImplementedError

    def put(self, name: BlockInfo, data: memoryview) -> bool:
        """Keep ``data``; False: it was there.  The view ends with the call."""
        raise NotImplementedError

    def remove(self, name: BlockInfo) -> bool:
        """False: there is no such block."""
        raise NotImplementedError

    def close(self) -> None:
        """Nobody asks any more."""


class Volume(Resource):
    """One place; :meth:`Volumes.register` takes it.  ``path``: of the file, the folder, or a peer's socket, whose
    volume has ``number``; ``timeout`` in seconds."""

    _what = "volume"

    def __init__(self, kind: VolumeKind, blocks: int, block_size: int, *,
                 path: "Union[None, str, os.PathLike[str]]" = None, fingerprint: int = 0, number: int = 0,
                 timeout: float = 0) -> None:
        lib, out, err = library("kvbm"), ffi.new("struct kvt_volume **"), new_error()
        name = ffi.NULL if path is None else ffi.new("char[]", os.fsencode(path))
        options = sized("kvt_volume_options", kind=int(kind), path=name, blocks=blocks, block_size=block_size,
                        fingerprint=fingerprint, number=number, timeout_ms=int(timeout * 1000))
        check(lib, lib.kvt_volume_open(out, options, err), err)
        super().__init__(lib, out[0], lib.kvt_volume_close)
        self.block_size = block_size
        self._keeps: List[Any] = []

    @classmethod
    def of(cls, driver: VolumeDriver, block_size: int) -> "Volume":
        """Over a driver of the program's."""
        lib, out, err = library("kvbm"), ffi.new("struct kvt_volume **"), new_error()

        def each(call: "Callable[[BlockInfo, Any], bool]", no: int) -> Any:
            def run(_: Any, items: Any, count: int) -> None:
                for item in items[0:count]:
                    try:
                        name = BlockInfo(item.id.hash, item.id.parent, item.id.position)
                        item.status = 0 if call(name, item) else no
                    except Exception:
                        traceback.print_exc()
            return ffi.callback("void(void *, struct kvt_volume_item *, size_t)", run)

        def told(call: "Callable[[BlockInfo, memoryview], bool]", name: BlockInfo, item: Any) -> bool:
            with memoryview(ffi.buffer(item.bytes, item.size)) as view:
                return call(name, view)

        keeps = [each(lambda name, item: told(driver.get, name, item), NOTFOUND),
                 each(lambda name, item: told(driver.put, name, item), CODES.index("EXISTS")),
                 each(lambda name, _: driver.remove(name), NOTFOUND),
                 ffi.callback("void(void *)", lambda _: driver.close())]
        table = sized("kvt_volume_driver", get=keeps[0], put=keeps[1], remove=keeps[2], close=keeps[3])
        check(lib, lib.kvt_volume_open_driver(out, table, ffi.NULL, block_size, err), err)
        volume = cls.__new__(cls)
        Resource.__init__(volume, lib, out[0], lib.kvt_volume_close)
        volume.block_size, volume._keeps = block_size, keeps
        return volume


class Volumes(Resource):
    """Volumes by number, each with a thread and a queue of its own.  Calls wait for their answers; threads that
    ask different volumes do not wait for each other."""

    _what = "set of volumes"

    def __init__(self) -> None:
        lib, out, err = library("kvbm"), ffi.new("struct kvt_volumes **"), new_error()
        check(lib, lib.kvt_volumes_new(out, err), err)
        self._volumes: "dict[int, Volume]" = {}
        super().__init__(lib, out[0], lib.kvt_volumes_free)

    def register(self, number: int, volume: Volume, *, queue: int = 8) -> None:
        """Give a volume a number; it is the set's from now on."""
        err = new_error()
        with self._using() as volumes, volume._lock:
            if volume._handle is None:
                raise ValueError("the volume is closed, or registered")
            check(self._lib, self._lib.kvt_volumes_register(volumes, number, volume._handle, queue, err), err)
            volume._handle = None
            self._volumes[number] = volume

    def unregister(self, number: int, *, cancel: bool = False) -> None:
        """Take it away and close it: after what was asked before, or with ``cancel`` without that."""
        with self._using() as volumes:
            check(self._lib, self._lib.kvt_volumes_unregister(volumes, number, cancel), what=f"volume {number}")
        self._volumes.pop(number, None)

    def _run(self, number: int, verb: int, names: "List[BlockInfo]", data: "List[Any]") -> List[str]:
        items, err = ffi.new("struct kvt_volume_item[]", max(len(names), 1)), new_error()
        held = [None if one is None else ffi.from_buffer(one, require_writable=verb == _GET) for one in data]
        for item, name, one in zip(items, names, held):
            item.id.hash, item.id.parent, item.id.position = name.hash, name.parent, name.position
            if one is not None:
                item.bytes, item.size = ffi.cast("void *", one), len(one)
        request = sized("kvt_volume_request", volume=number, verb=verb, items=items, count=len(names))
        ticket = ffi.new("struct kvt_ticket **")
        with self._using() as volumes:
            check(self._lib, self._lib.kvt_volumes_start(volumes, request, FOREVER, ticket, err), err)
            while self._lib.kvt_ticket_wait(ticket[0], FOREVER) == TIMEOUT:
                pass
            self._lib.kvt_ticket_release(ticket[0])
        return [CODES[item.status] for item in items[0:len(names)]]

    def _block_size(self, number: int) -> int:
        volume = self._volumes.get(number)
        if volume is None:
            check(self._lib, NOTFOUND, what=f"volume {number}")
            raise AssertionError("not reached")
        return volume.block_size

    def get(self, number: int, names: Iterable[BlockInfo]) -> List[Answer]:
        """Blocks by name; what is missing or fails its check has no data."""
        rows, size = list(names), self._block_size(number)
        data = [bytearray(size) for _ in rows]
        statuses = self._run(number, _GET, rows, list(data))
        return [Answer(status, one if status == "OK" else None) for status, one in zip(statuses, data)]

    def put(self, number: int, blocks: "Iterable[Tuple[BlockInfo, Any]]") -> List[Answer]:
        """Blocks and their bytes (anything with the buffer protocol, not copied here); first writer wins."""
        rows, size = list(blocks), self._block_size(number)
        for _, data in rows:
            view = memoryview(data)
            if not view.c_contiguous:
                raise StorageMismatch("a buffer must be contiguous")
            if view.nbytes != size:
                raise LayoutMismatch(f"a block of {view.nbytes} bytes, and the volume's have {size}")
        statuses = self._run(number, _PUT, [name for name, _ in rows], [data for _, data in rows])
        return [Answer(status) for status in statuses]

    def remove(self, number: int, names: Iterable[BlockInfo]) -> List[Answer]:
        rows = list(names)
        return [Answer(status) for status in self._run(number, _REMOVE, rows, [None] * len(rows))]

    def stats(self, number: int) -> VolumeStats:
        row = sized("kvt_volume_stats")
        with self._using() as volumes:
            check(self._lib, self._lib.kvt_volumes_stats(volumes, number, row), what=f"volume {number}")
        return VolumeStats(*[int(getattr(row, name)) for name in VolumeStats._fields])


class Peer(Resource):
    """Shows the volumes of a set to other processes of this user; ``timeout`` in seconds."""

    _what = "peer"

    def __init__(self, path: "Union[str, os.PathLike[str]]", volumes: Volumes, *, fingerprint: int = 0,
                 timeout: float = 0) -> None:
        lib, out, err = library("kvbm"), ffi.new("struct kvt_peer **"), new_error()
        name = ffi.new("char[]", os.fsencode(path))
        options = sized("kvt_peer_options", path=name, set=volumes._hold(), fingerprint=fingerprint,
                        timeout_ms=int(timeout * 1000))
        try:
            check(lib, lib.kvt_peer_open(out, options, err), err)
        except BaseException:
            volumes._let_go()
            raise

        def end(peer: Any) -> None:
            lib.kvt_peer_close(peer)
            volumes._let_go()
        super().__init__(lib, out[0], end)
