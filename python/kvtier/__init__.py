"""KVTier from Python: blocks, pools and a worker's tiers (libkvbm), KV events (libkvtier-publisher).

    >>> from kvtier import Publisher, Location, Tier, Block
    >>> with Publisher("nats://127.0.0.1:4222", "engine-0", [Location(Tier.G2, "host")]) as publisher:
    ...     publisher.stored(0, [Block(sequence_hash=17, bytes=65536)])

The libraries are loaded when they are first needed: from the folder that KVTIER_LIBRARY_DIR names, else
beside this package's prefix, else from where the system looks.
"""

from kvtier._abi import Error, LibraryError
from kvtier.attach import Attachment, AttachStats, Fresh, Held
from kvtier.memory import DtypeMismatch, LayoutMismatch, Memory, StorageKind, StorageMismatch, copy_block
from kvtier.pool import BlockInfo, Dedup, Order, Pool, PoolUsage, Sequence, Shared, Unique, Weak
from kvtier.publisher import Block, Location, Mode, Publisher, PublisherStats, Tier

__all__ = [
    "AttachStats", "Attachment", "Block", "BlockInfo", "Dedup", "DtypeMismatch", "Error", "Fresh", "Held", "LayoutMismatch", "LibraryError", "Location",
    "Memory", "Mode", "Order", "Pool", "PoolUsage", "Publisher", "PublisherStats", "Sequence", "Shared",
    "StorageKind", "StorageMismatch", "Tier", "Unique", "Weak", "copy_block",
]
