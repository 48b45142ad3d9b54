"""Names and checksums of blocks, written from docs/formats.md alone: a second opinion on the C code."""

import ctypes

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
WIDTHS = {"kvbm-a": (59, 55, 51), "kvbm-b": (54, 46, 38), "kvbm-c": (64, 64, 64)}


def base58(value):
    raw = value.to_bytes(8, "big")
    text = ""
    while value:
        value, digit = divmod(value, 58)
        text = ALPHABET[digit] + text
    return "1" * (len(raw) - len(raw.lstrip(b"\0"))) + text


def base58_value(text):
    value = 0
    for char in text:
        value = value * 58 + ALPHABET.index(char)
    return value


def key(hash_, position=0, parent=0, namespace="", rank=0, revision="kvbm-b"):
    """The object key of a block (revisions b and c, whose hash part is the full hash)."""
    prefix = f"{namespace}/" if namespace else ""
    text = f"{prefix}{rank}/{position}:{base58(hash_)}"
    if position == 0:
        return text
    widths = WIDTHS[revision]
    width = widths[0] if position < 1 << 8 else widths[1] if position < 1 << 16 else widths[2]
    return f"{text}:{base58(parent & ((1 << width) - 1))}"


def parse_key(text):
    """(namespace, rank, position, hash, parent fragment), or None when it is no block's key."""
    parts = text.split("/")
    if len(parts) < 2 or not parts[-2].isdigit():
        return None
    fields = parts[-1].split(":")
    if len(fields) not in (2, 3) or not fields[0].isdigit():
        return None
    try:
        values = [base58_value(field) for field in fields[1:]]
    except ValueError:
        return None
    return ("/".join(parts[:-2]), int(parts[-2]), int(fields[0]), values[0],
            values[1] if len(values) > 1 else 0)


def _library_crc32c():
    """libisal's routine when it is there and right; the project's packages bring it."""
    try:
        function = ctypes.CDLL("libisal.so.2").crc32_iscsi
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_uint32
    function.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32)

    def crc(data):
        return function(bytes(data), len(data), 0xFFFFFFFF) ^ 0xFFFFFFFF

    return crc if crc(b"123456789") == 0xE3069283 else None


def _table_crc32c():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)

    def crc(data):
        state = 0xFFFFFFFF
        for byte in data:
            state = table[(state ^ byte) & 255] ^ state >> 8
        return state ^ 0xFFFFFFFF

    assert crc(b"123456789") == 0xE3069283
    return crc


crc32c = _library_crc32c() or _table_crc32c()
