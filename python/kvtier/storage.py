"""The memory of one tier (kvtier/storage.h): so many blocks of one size."""

import mmap
import os
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Union

from kvtier._abi import Resource, check, ffi, library, new_error, sized
from kvtier.layout import Kind, Layout, Tensors
from kvtier.memory import LayoutMismatch, StorageKind, StorageMismatch
from kvtier.pool import BlockInfo
from kvtier.volume import Volumes

ALIGN = 4096
_KINDS = [StorageKind.DEVICE, StorageKind.PINNED, StorageKind.SYSTEM, StorageKind.DISK, StorageKind.REMOTE]


class StorageInfo(NamedTuple):
    """Counts of a disk: operations, those that failed their checksum or altogether, blocks of an earlier process."""

    reads: int
    writes: int
    corrupt: int
    failed: int
    found: int
    dropped: int


class Found(NamedTuple):
    """A block of an earlier process."""

    block: int
    info: BlockInfo


def _table(names: "Iterable[tuple[int, BlockInfo]]") -> "tuple[Any, int]":
    rows = list(names)
    table = ffi.new("struct kvt_storage_name[]", max(len(rows), 1))
    for row, (block, info) in zip(table, rows):
        row.block, row.prefix_hash, row.tokens_hash = block, info.prefix_hash, info.tokens_hash
        row.id.hash, row.id.parent, row.id.position = info.hash, info.parent, info.position
    return table, len(rows)


class Device(Resource):
    """A GPU, by NVIDIA's driver; :class:`kvtier.Error` UNSUPPORTED where there is none."""

    _what = "device"

    def __init__(self, ordinal: int = 0, *, library_file: Optional[str] = None) -> None:
        lib, out, err = library("kvbm"), ffi.new("struct kvt_device **"), new_error()
        file = ffi.NULL if library_file is None else ffi.new("char[]", os.fsencode(library_file))
        check(lib, lib.kvt_device_open(out, file, ordinal, err), err)
        super().__init__(lib, out[0], lib.kvt_device_close)


class Storage(Resource):
    """Made by :meth:`memory`, :meth:`tensors`, :meth:`disk`, :meth:`volume` or :meth:`on_device`.

    ``layout`` says what lies where in its blocks; without one they are moved as they are.  What moves its
    blocks keeps it open: :meth:`close` meanwhile is a :class:`ValueError`.
    """

    _what = "storage"

    def __init__(self, lib: Any, storage: Any, layout: Optional[Layout], keeps: Any = None,
                 below: Optional[Resource] = None) -> None:
        """Not by programs.  ``below`` is held, and let go of at the end."""
        def end(handle: Any) -> None:
            lib.kvt_storage_close(handle)
            if below is not None:
                below._let_go()
        super().__init__(lib, storage, end)
        info = self._info()
        self.layout, self._keeps = layout, keeps
        self.kind, self.blocks, self.block_size = _KINDS[info.kind], int(info.block_count), int(info.block_size)

    @classmethod
    def memory(cls, blocks: int, block_size: int, *, layout: Optional[Layout] = None) -> "Storage":
        """Host memory, all zero.  Views of it (:meth:`block`) keep it alive, also after :meth:`close`."""
        if blocks < 1 or block_size < 1 or block_size % ALIGN != 0:
            raise LayoutMismatch(f"{blocks} blocks of {block_size} bytes: a block is a multiple of {ALIGN}")
        bytes_of = Layout(Kind.CONTIGUOUS, layers=1, outer=1, page_size=ALIGN, inner_dim=block_size // ALIGN,
                          dtype="int8")
        return cls._over(Tensors(bytes_of, blocks, [mmap.mmap(-1, blocks * block_size)]), layout)

    @classmethod
    def tensors(cls, tensors: Tensors) -> "Storage":
        """Memory that an engine laid out, in place; its layout is the tensors'."""
        return cls._over(tensors, tensors.layout)

    @classmethod
    def _over(cls, tensors: Tensors, layout: Optional[Layout]) -> "Storage":
        lib, out, err = library("kvbm"), ffi.new("struct kvt_storage **"), new_error()
        check(lib, lib.kvt_storage_open_engine(out, _KINDS.index(StorageKind.SYSTEM), tensors._memory, ffi.NULL, err),
              err)
        return cls(lib, out[0], layout, keeps=tensors)

    @classmethod
    def on_device(cls, device: Device, blocks: int, block_size: int, *, pinned: bool = False,
                  layout: Optional[Layout] = None) -> "Storage":
        """Memory of a GPU, or of the host that it reaches directly."""
        lib, out, err = library("kvbm"), ffi.new("struct kvt_storage **"), new_error()
        kind = StorageKind.PINNED if pinned else StorageKind.DEVICE
        options = sized("kvt_memory_options", kind=_KINDS.index(kind), block_count=blocks, block_size=block_size,
                        device=device._hold())
        try:
            check(lib, lib.kvt_storage_open_memory(out, options, err), err)
        except BaseException:
            device._let_go()
            raise
        return cls(lib, out[0], layout, below=device)

    @classmethod
    def device_tensors(cls, device: Device, layout: Layout, blocks: int, addresses: Sequence[int],
                       keeps: Any = None) -> "Storage":
        """A GPU's memory that an engine laid out: an address for each part.  ``keeps`` is kept alive as long."""
        parts = ffi.new("uint64_t[]", list(addresses))
        memory = sized("kvt_memory", layout=layout._layout, parts=parts, part_count=len(parts), blocks=blocks)
        lib, out, err = library("kvbm"), ffi.new("struct kvt_storage **"), new_error()
        handle = device._hold()
        try:
            check(lib, lib.kvt_storage_open_engine(out, _KINDS.index(StorageKind.DEVICE), memory, handle, err), err)
        except BaseException:
            device._let_go()
            raise
        return cls(lib, out[0], layout, keeps=keeps, below=device)

    @classmethod
    def disk(cls, path: "Union[str, os.PathLike[str]]", blocks: int, block_size: int, *, part_size: int = 0,
             buffered: bool = False, keep: bool = False, trust_index: bool = False, fingerprint: int = 0,
             depth: int = 0, layout: Optional[Layout] = None) -> "Storage":
        """A file; with ``keep`` the next process finds in it what was committed (:meth:`commit`, :meth:`found`)."""
        lib, out, err = library("kvbm"), ffi.new("struct kvt_storage **"), new_error()
        name = ffi.new("char[]", os.fsencode(path))
        options = sized("kvt_disk_options", path=name, block_count=blocks, block_size=block_size, part_size=part_size,
                        buffered=buffered, keep=keep, trust_index=trust_index, fingerprint=fingerprint, depth=depth)
        check(lib, lib.kvt_storage_open_disk(out, options, err), err)
        return cls(lib, out[0], layout)

    @classmethod
    def volume(cls, volumes: Volumes, number: int, blocks: int, *, own_names_from: Optional[int] = None,
               layout: Optional[Layout] = None) -> "Storage":
        """A volume as a tier: a folder, another process's memory, a program's own.  :meth:`bind` says what a block
        is called there before it is moved; with ``own_names_from`` block n is called that + n."""
        lib, out, err = library("kvbm"), ffi.new("struct kvt_storage **"), new_error()
        size = volumes._block_size(number)
        options = sized("kvt_volume_storage_options", set=volumes._hold(), volume=number, block_count=blocks,
                        own=own_names_from is not None, block_size=size, first=own_names_from or 0)
        try:
            check(lib, lib.kvt_storage_open_volume(out, options, err), err)
        except BaseException:
            volumes._let_go()
            raise
        return cls(lib, out[0], layout, below=volumes)

    def _info(self) -> Any:
        info = sized("kvt_storage_info")
        with self._using() as storage:
            self._lib.kvt_storage_info(storage, info)
        return info

    @property
    def info(self) -> StorageInfo:
        info = self._info()
        return StorageInfo(*[int(getattr(info, name)) for name in StorageInfo._fields])

    def block(self, number: int) -> memoryview:
        """The bytes of a block, in place: host memory in one piece."""
        if not isinstance(self._keeps, Tensors) or len(self._keeps._views) != 1:
            raise StorageMismatch(f"a block of this {self.kind.value} storage is not one piece of host memory")
        if not 0 <= number < self.blocks:
            raise IndexError(f"block {number} of {self.blocks}")
        return self._keeps.view(number)[0]

    def bind(self, names: "Iterable[tuple[int, BlockInfo]]") -> None:
        """Say what blocks of a volume are called."""
        table, count = _table(names)
        with self._using() as storage:
            check(self._lib, self._lib.kvt_storage_bind(storage, table, count), what="bind")

    def commit(self, names: "Iterable[tuple[int, BlockInfo]]") -> None:
        """Make written blocks last under their names; :class:`kvtier.Error` when one could not."""
        table, count = _table(names)
        with self._using() as storage:
            check(self._lib, self._lib.kvt_storage_commit(storage, table, count), what="commit")

    def forget(self, blocks: Iterable[int]) -> None:
        """Durably forget blocks."""
        rows = list(blocks)
        with self._using() as storage:
            check(self._lib, self._lib.kvt_storage_forget(storage, ffi.new("uint32_t[]", rows), len(rows)),
                  what="forget")

    def found(self) -> List[Found]:
        """Blocks of an earlier process; once."""
        at, out, room = ffi.new("uint32_t *"), [], 256
        table = ffi.new("struct kvt_storage_name[]", room)
        with self._using() as storage:
            while True:
                count = self._lib.kvt_storage_found(storage, at, table, room)
                out += [Found(row.block, BlockInfo(row.id.hash, row.id.parent, row.id.position, row.prefix_hash,
                                                   row.tokens_hash)) for row in table[0:count]]
                if count < room:
                    return out
