"""XXH3-64 of short inputs and Dynamo's block hashes, from their published rules.

Written out in Python so that an error in the C side, or in the library it calls, cannot cancel itself
out.  `python3 hashes.py` checks it against the literals that Dynamo's own tests state.
"""

import struct

MASK = (1 << 64) - 1
BLOCK_SEED = 1337  # of Dynamo's local and chain hashes

P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")


def _u32(data, at):
    return struct.unpack_from("<I", data, at)[0]


def _u64(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def _swap32(value):
    return struct.unpack("<I", struct.pack(">I", value))[0]


def _swap64(value):
    return struct.unpack("<Q", struct.pack(">Q", value))[0]


def _rotl(value, bits):
    return ((value << bits) | (value >> (64 - bits))) & MASK


def _fold(left, right):
    product = left * right
    return (product & MASK) ^ (product >> 64)


def _avalanche(value):
    value ^= value >> 37
    value = value * 0x165667919E3779F9 & MASK
    return value ^ (value >> 32)


def _avalanche64(value):
    value ^= value >> 33
    value = value * P64_2 & MASK
    value ^= value >> 29
    value = value * P64_3 & MASK
    return value ^ (value >> 32)


def _mix16(data, at, secret, seed):
    return _fold(_u64(data, at) ^ ((_u64(SECRET, secret) + seed) & MASK),
                 _u64(data, at + 8) ^ ((_u64(SECRET, secret + 8) - seed) & MASK))


def _small(data, seed):
    size = len(data)
    if size == 0:
        return _avalanche64(seed ^ _u64(SECRET, 56) ^ _u64(SECRET, 64))
    if size <= 3:
        mixed = (data[0] << 16) | (data[size >> 1] << 24) | data[-1] | (size << 8)
        flip = ((_u32(SECRET, 0) ^ _u32(SECRET, 4)) + seed) & MASK
        return _avalanche64(mixed ^ flip)
    if size <= 8:
        seed ^= _swap32(seed & 0xFFFFFFFF) << 32
        flip = ((_u64(SECRET, 8) ^ _u64(SECRET, 16)) - seed) & MASK
        keyed = (_u32(data, size - 4) + (_u32(data, 0) << 32)) ^ flip
        keyed ^= _rotl(keyed, 49) ^ _rotl(keyed, 24)
        keyed = keyed * 0x9FB21C651E98DF25 & MASK
        keyed ^= (keyed >> 35) + size
        keyed = keyed * 0x9FB21C651E98DF25 & MASK
        return keyed ^ (keyed >> 28)
    low = _u64(data, 0) ^ (((_u64(SECRET, 24) ^ _u64(SECRET, 32)) + seed) & MASK)
    high = _u64(data, size - 8) ^ (((_u64(SECRET, 40) ^ _u64(SECRET, 48)) - seed) & MASK)
    return _avalanche((size + _swap64(low) + high + _fold(low, high)) & MASK)


def xxh3(data, seed=0):
    """XXH3-64 of at most 240 bytes: the blocks and names of these tests are no longer."""
    size = len(data)
    if size <= 16:
        return _small(data, seed)
    if size > 240:
        raise ValueError("more than 240 bytes")
    total = size * P64_1
    if size <= 128:
        for pair in range((size - 1) // 32, -1, -1):
            total += _mix16(data, 16 * pair, 32 * pair, seed)
            total += _mix16(data, size - 16 * (pair + 1), 32 * pair + 16, seed)
        return _avalanche(total & MASK)
    rounds = size // 16
    for part in range(8):
        total += _mix16(data, 16 * part, 16 * part, seed)
    total = _avalanche(total & MASK)
    for part in range(8, rounds):
        total += _mix16(data, 16 * part, 16 * (part - 8) + 3, seed)
    total += _mix16(data, size - 16, 136 - 17, seed)
    return _avalanche(total & MASK)


def seed(lora=None, salt=None):
    """Of the token hashes of a request with this adapter and cache salt."""
    value = BLOCK_SEED
    if lora:
        value += xxh3(lora.encode(), 0)
    if salt:
        value += xxh3(salt.encode(), 1)
    return value & MASK


def local(tokens, block, lora=None, salt=None, media=None, seeded=None):
    """Dynamo's tokens_hash of each whole block; `media`: a list of mm hashes for each block."""
    seeded, found = seed(lora, salt) if seeded is None else seeded, []
    for number in range(len(tokens) // block):
        part = tokens[number * block:(number + 1) * block]
        data = struct.pack(f"<{block}I", *part)
        for value in sorted(media[number]) if media else ():
            data += struct.pack("<Q", value)
        found.append(xxh3(data, seeded))
    return found


def chain(locals_, parent=None):
    """Dynamo's sequence hash of each block, behind the block whose sequence hash is `parent`."""
    found = []
    for value in locals_:
        parent = value if parent is None else xxh3(struct.pack("<QQ", parent, value), BLOCK_SEED)
        found.append(parent)
    return found


def selftest():
    tokens = list(range(1, 13))
    assert local(tokens, 4) == [14643705804678351452, 16777012769546811212, 483935686894639516]
    assert chain(local(tokens, 4))[1:] == [4945711292740353085, 12583592247330656132]
    assert xxh3(b"test data", BLOCK_SEED) == 13226331709069118873
    first = [0, 1, 2, 3]
    assert local(first, 4) == [9143094415614847814]
    assert seed(lora="adapter-a") == 8842669519798868182
    assert local(first, 4, lora="adapter-a") == [6665157333201000639]
    assert seed(salt="tenant-a") == 1948188790972764086
    assert local(first, 4, salt="tenant-a") == [17009624042690211646]
    assert local(first, 4, lora="adapter-a", salt="tenant-a") == [8269515957840517240]
    assert local(first, 4, media=[[42]]) == [18280081842874931122]
    assert xxh3(b"opaque-renderer-image-0") == 14437604544409538977


if __name__ == "__main__":
    selftest()
