"""The shape of a block's bytes (kvtier/layout.h), and blocks of it in buffers of the program's."""

import enum
from typing import Any, List, NamedTuple, Optional, Sequence

from kvtier._abi import Error, check, ffi, library, new_error, sized
from kvtier.memory import DTYPE_BYTES, DtypeMismatch, LayoutMismatch, StorageMismatch

DESCRIPTOR_BYTES = 64
_ALL = 2**32 - 1


class Kind(enum.IntEnum):
    """How a block's parts follow each other."""

    CONTIGUOUS = 1  #: [block][layer][outer][page][inner]
    LAYERED = 2  #: one allocation a layer: [block][outer][page][inner]
    UNIVERSAL = 3  #: [block][head][layer][outer][page][dim]


class HeadOrder(enum.IntEnum):
    """How tokens and heads are nested in one layer and outer part."""

    NHD = 0  #: [page][head][dim]
    HND = 1  #: [head][page][dim]


class LayoutInfo(NamedTuple):
    """What a layout means; sizes and strides in bytes."""

    block_size: int
    block_stride: int
    layer_size: int
    region_size: int
    row: int
    fingerprint: int
    parts: int
    heads: int


def _fits(lib: Any, code: int, err: Any) -> None:
    """Raise what a comparison of layouts said."""
    try:
        check(lib, code, err)
    except Error as error:
        if error.code == "PRECONDITION":
            raise LayoutMismatch(str(error)) from None
        raise


class Layout:
    """A geometry that can be: layers, keys and values (``outer`` 2) or fused (1), tokens in a block
    (``page_size``), elements a token has in a layer and outer part (``inner_dim``).  ``heads`` 0: they
    are not told apart.  It never changes, and lives as long as whatever uses it."""

    def __init__(self, kind: Kind, *, layers: int, page_size: int, inner_dim: int, dtype: str, outer: int = 2,
                 alignment: int = 1, tp_size: int = 1, tp_rank: int = 0, heads: int = 0,
                 order: HeadOrder = HeadOrder.NHD) -> None:
        if dtype not in DTYPE_BYTES:
            raise DtypeMismatch(f"{dtype!r} is none of {', '.join(DTYPE_BYTES)}")
        geometry = sized("kvt_geometry", kind=int(kind), layers=layers, outer=outer, page_size=page_size,
                         inner_dim=inner_dim, dtype_bytes=DTYPE_BYTES[dtype], alignment=alignment,
                         tp_size=tp_size, tp_rank=tp_rank, heads=heads, order=int(order))
        lib, out, err = library("kvbm"), ffi.new("struct kvt_layout **"), new_error()
        check(lib, lib.kvt_layout_new(out, geometry, err), err)
        self._take(lib, out[0])

    def _take(self, lib: Any, layout: Any) -> None:
        self._lib, self._layout = lib, ffi.gc(layout, lib.kvt_layout_free)
        info = sized("kvt_layout_info")
        lib.kvt_layout_info(layout, info)
        self.info = LayoutInfo(*[int(getattr(info, name)) for name in LayoutInfo._fields])

    @classmethod
    def deserialize(cls, descriptor: bytes) -> "Layout":
        """What :meth:`serialize` gave, here or elsewhere."""
        lib, out, err = library("kvbm"), ffi.new("struct kvt_layout **"), new_error()
        check(lib, lib.kvt_layout_deserialize(out, descriptor, len(descriptor), err), err)
        layout = cls.__new__(cls)
        layout._take(lib, out[0])
        return layout

    def serialize(self) -> bytes:
        """The portable descriptor."""
        out = ffi.new(f"uint8_t[{DESCRIPTOR_BYTES}]")
        self._lib.kvt_layout_serialize(self._layout, out)
        return bytes(ffi.buffer(out))

    @property
    def kind(self) -> Kind:
        return Kind(self._geometry().kind)

    @property
    def layers(self) -> int:
        return int(self._geometry().layers)

    @property
    def tp(self) -> "tuple[int, int]":
        """Rank and size of the TP group."""
        geometry = self._geometry()
        return int(geometry.tp_rank), int(geometry.tp_size)

    def _geometry(self) -> Any:
        geometry = sized("kvt_geometry")
        self._lib.kvt_layout_geometry(self._layout, geometry)
        return geometry

    def allocation(self, blocks: int) -> int:
        """Bytes of one allocation of so many blocks; a layered layout needs ``info.parts`` of them."""
        return int(self._lib.kvt_layout_allocation(self._layout, blocks))

    def check_compatible(self, other: "Layout") -> None:
        """Raise :class:`LayoutMismatch` unless blocks may be exchanged as they are."""
        err = new_error()
        _fits(self._lib, self._lib.kvt_layout_compatible(self._layout, other._layout, err), err)

    def check_convertible(self, source: "Layout") -> None:
        """Raise :class:`LayoutMismatch` unless both hold the same content, in whatever shape."""
        err = new_error()
        _fits(self._lib, self._lib.kvt_layout_convertible(self._layout, source._layout, err), err)


class Tensors:
    """So many blocks of a layout in buffers: numpy arrays, bytearrays, memoryviews.

    One writable, contiguous buffer for each of ``layout.info.parts``, at least ``layout.allocation(blocks)``
    bytes each.  Nothing is copied; the buffers are kept alive, and cannot be resized meanwhile.
    """

    def __init__(self, layout: Layout, blocks: int, buffers: "Sequence[Any]") -> None:
        self.layout, self.blocks = layout, blocks
        if len(buffers) != layout.info.parts:
            raise LayoutMismatch(f"{len(buffers)} buffers, and the layout has {layout.info.parts} parts")
        self._views: List[memoryview] = []
        for buffer in buffers:
            view = memoryview(buffer)
            if view.readonly or not view.c_contiguous:
                raise StorageMismatch("a buffer must be writable and contiguous")
            if view.nbytes < layout.allocation(blocks):
                raise LayoutMismatch(f"{blocks} blocks need {layout.allocation(blocks)} bytes, not {view.nbytes}")
            self._views.append(view.cast("B"))
        self._data = [ffi.from_buffer(view, require_writable=True) for view in self._views]
        self._parts = ffi.new("uint64_t[]", [int(ffi.cast("uintptr_t", data)) for data in self._data])
        self._memory = sized("kvt_memory", layout=layout._layout, parts=self._parts, part_count=len(buffers),
                             blocks=blocks)
        self._lib = layout._lib

    def view(self, block: int, layer: Optional[int] = None, outer: Optional[int] = None) -> List[memoryview]:
        """Where a block lies, or a layer, or one outer part of a layer: its runs, in place."""
        out, err = ffi.new("struct kvt_view *"), new_error()
        check(self._lib, self._lib.kvt_memory_view(self._memory, block, _ALL if layer is None else layer,
                                                   _ALL if outer is None else outer, out, err), err)
        part = layer if len(self._views) > 1 and layer is not None else 0
        first = out.address - self._parts[part]
        return [self._views[part][first + run * out.stride:first + run * out.stride + out.bytes]
                for run in range(out.count)]

    def copy(self, block: int, source: "Tensors", source_block: int, layer: Optional[int] = None,
             layers: int = 1) -> None:
        """Copy one block, or some layers of it, out of another layout of the same content."""
        err = new_error()
        _fits(self._lib, self._lib.kvt_memory_copy(self._memory, block, source._memory, source_block,
                                                   _ALL if layer is None else layer, layers, err), err)

    def reshape(self, block: int, sources: "Sequence[Optional[Tensors]]", source_block: int) -> None:
        """Put a block together out of those of a group of another TP size, in the order of its ranks."""
        rows = ffi.new("struct kvt_memory *[]", [ffi.NULL if one is None else one._memory for one in sources])
        err = new_error()
        _fits(self._lib, self._lib.kvt_memory_reshape(self._memory, block, rows, len(rows), source_block, err), err)

    def checksum(self, block: int) -> int:
        """crc32c of a block's content, the same in every layout of it."""
        out, err = ffi.new("uint32_t *"), new_error()
        check(self._lib, self._lib.kvt_memory_checksum(self._memory, block, out, err), err)
        return int(out[0])
