"""KVTier from Python: blocks, storages, transfers, volumes and a worker's tiers (libkvbm), and KV events
(libkvtier-publisher).

    >>> from kvtier import Publisher, Location, Tier, Block
    >>> with Publisher("nats://127.0.0.1:4222", "engine-0", [Location(Tier.G2, "host")]) as publisher:
    ...     publisher.stored(0, [Block(sequence_hash=17, bytes=65536)])

The libraries are loaded when they are first needed: from the folder that KVTIER_LIBRARY_DIR names, else
beside this package's prefix, else from where the system looks.
"""

from kvtier._abi import Error, LibraryError
from kvtier.attach import Attachment, AttachStats, Fresh, Held
from kvtier.layout import HeadOrder, Kind, Layout, LayoutInfo, Tensors
from kvtier.memory import DtypeMismatch, LayoutMismatch, Memory, StorageKind, StorageMismatch, copy_block
from kvtier.pool import BlockInfo, Dedup, Order, Pool, PoolUsage, Sequence, Shared, Unique, Weak
from kvtier.publisher import Block, Location, Mode, Publisher, PublisherStats, Tier
from kvtier.storage import Device, Found, Storage, StorageInfo
from kvtier.transfer import Path, Priority, Ticket, Transfer, TransferError, TransferStats
from kvtier.volume import Answer, Peer, Volume, VolumeDriver, VolumeKind, Volumes, VolumeStats

__all__ = [
    "Answer", "AttachStats", "Attachment", "Block", "BlockInfo", "Dedup", "Device", "DtypeMismatch", "Error",
    "Found", "Fresh", "HeadOrder", "Held", "Kind", "Layout", "LayoutInfo", "LayoutMismatch", "LibraryError",
    "Location", "Memory", "Mode", "Order", "Path", "Peer", "Pool", "PoolUsage", "Priority", "Publisher",
    "PublisherStats", "Sequence", "Shared", "Storage", "StorageInfo", "StorageKind", "StorageMismatch",
    "Tensors", "Ticket", "Tier", "Transfer", "TransferError", "TransferStats", "Unique", "Volume",
    "VolumeDriver", "VolumeKind", "VolumeStats", "Volumes", "Weak", "copy_block",
]
