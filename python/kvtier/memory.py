"""The bytes of blocks.  A pool counts blocks; whoever uses it keeps their memory, for example here."""

import enum
from typing import Any, Optional

#: Bytes of one element, by the names engines use.
DTYPE_BYTES = {"fp8": 1, "int8": 1, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8}


class StorageKind(enum.Enum):
    """Where memory is."""

    SYSTEM = "system"
    PINNED = "pinned"
    DEVICE = "device"
    DISK = "disk"
    REMOTE = "remote"

    @property
    def host(self) -> bool:
        """Can this process read and write it in place?"""
        return self in (StorageKind.SYSTEM, StorageKind.PINNED)


class StorageMismatch(TypeError):
    """Memory is not of the kind that is needed."""


class DtypeMismatch(TypeError):
    """The elements of two memories are not of one type."""


class LayoutMismatch(ValueError):
    """Blocks of two memories do not have one shape."""


class Memory:
    """So many blocks of one shape: ``elements`` of ``dtype`` each.

    ``buffer`` is anything with the buffer protocol, writable and of that size; without one, memory is made.
    Of a kind that is not the host's there is no buffer here: such a memory has a shape only.
    """

    def __init__(self, blocks: int, elements: int, dtype: str, *, kind: StorageKind = StorageKind.SYSTEM,
                 buffer: Optional[Any] = None) -> None:
        if dtype not in DTYPE_BYTES:
            raise DtypeMismatch(f"{dtype!r} is none of {', '.join(DTYPE_BYTES)}")
        if blocks < 1 or elements < 1:
            raise LayoutMismatch("a memory has at least one block of one element")
        self.blocks, self.elements, self.dtype, self.kind = blocks, elements, dtype, StorageKind(kind)
        self.block_bytes = elements * DTYPE_BYTES[dtype]
        self._view: Optional[memoryview] = None
        if not self.kind.host:
            if buffer is not None:
                raise StorageMismatch(f"a buffer is host memory, and cannot be {self.kind.value}")
            return
        view = memoryview(bytearray(blocks * self.block_bytes) if buffer is None else buffer)
        if view.readonly or not view.contiguous:
            raise StorageMismatch("the buffer must be writable and contiguous")
        if view.nbytes != blocks * self.block_bytes:
            raise LayoutMismatch(f"{blocks} blocks of {self.block_bytes} bytes are not {view.nbytes} bytes")
        self._view = view.cast("B")

    def block(self, number: int) -> memoryview:
        """The bytes of a block, in place."""
        if self._view is None:
            raise StorageMismatch(f"{self.kind.value} memory cannot be read in place")
        if not 0 <= number < self.blocks:
            raise IndexError(f"block {number} of {self.blocks}")
        return self._view[number * self.block_bytes:(number + 1) * self.block_bytes]


def copy_block(source: Memory, source_block: int, target: Memory, target_block: int) -> None:
    """Copy one block; nothing is moved between memories that do not fit each other."""
    for memory in (source, target):
        if not memory.kind.host:
            raise StorageMismatch(f"{source.kind.value} to {target.kind.value}: only host memory is copied here")
    if source.dtype != target.dtype:
        raise DtypeMismatch(f"{source.dtype} is not {target.dtype}")
    if source.elements != target.elements:
        raise LayoutMismatch(f"blocks of {source.elements} elements are not blocks of {target.elements}")
    target.block(target_block)[:] = source.block(source_block)
