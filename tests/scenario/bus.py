"""A minimal NATS client and msgpack codec: enough to listen to orders and to publish rubbish."""

import contextlib
import json
import socket
import struct
import threading
import time
import urllib.parse


class Nats:
    """One connection with a reader thread; subscriptions come back after a reconnect."""

    def __init__(self, url, timeout=5):
        parts = urllib.parse.urlsplit(url)
        self.address, self.timeout = (parts.hostname, parts.port), timeout
        self.lock = threading.Lock()
        self.callbacks = {}
        self.stopping = False
        self.socket = None
        self.connect()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def connect(self):
        sock = socket.create_connection(self.address, timeout=self.timeout)
        sock.settimeout(self.timeout)
        with self.lock:
            self.socket = sock
            self.send_locked(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\nPING\r\n')
            for number, (subject, _) in self.callbacks.items():
                self.send_locked(f"SUB {subject} {number}\r\n".encode())

    def send_locked(self, data):
        self.socket.sendall(data)

    def subscribe(self, subject, callback):
        with self.lock:
            number = len(self.callbacks) + 1
            self.callbacks[number] = (subject, callback)
            self.send_locked(f"SUB {subject} {number}\r\nPING\r\n".encode())

    def serve(self, subject, answer):
        """Answer requests: `answer(payload)` gives the reply's bytes, or None for silence."""
        def take(_subject, payload, reply):
            data = answer(payload)
            if reply and data is not None:
                self.publish(reply, data)

        take.wants_reply = True
        self.subscribe(subject, take)

    def publish(self, subject, payload, headers=None):
        if headers:
            head = "NATS/1.0\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
            head = head.encode()
            line = f"HPUB {subject} {len(head)} {len(head) + len(payload)}\r\n".encode()
            data = line + head + payload + b"\r\n"
        else:
            data = f"PUB {subject} {len(payload)}\r\n".encode() + payload + b"\r\n"
        with self.lock:
            self.send_locked(data)

    def request(self, subject, payload, timeout=5):
        """The first answer's bytes; None after `timeout`."""
        got, arrived = [], threading.Event()
        inbox = f"_INBOX.{id(got)}.{time.monotonic_ns()}"

        def take(_subject, data):
            got.append(data)
            arrived.set()

        self.subscribe(inbox, take)
        with self.lock:
            self.send_locked(f"PUB {subject} {inbox} {len(payload)}\r\n".encode() + payload + b"\r\n")
        arrived.wait(timeout)
        return got[0] if got else None

    def flush(self, timeout=5):
        """Everything published so far has reached the server: a message to ourselves came back."""
        arrived = threading.Event()
        inbox = f"_INBOX.flush.{id(arrived)}.{time.monotonic_ns()}"
        self.subscribe(inbox, lambda _subject, _data: arrived.set())
        self.publish(inbox, b"")
        return arrived.wait(timeout)

    def close(self):
        """Flushes first: closing a socket with unread bytes may take back what was just sent."""
        with contextlib.suppress(OSError):
            self.flush()
        self.stopping = True
        with self.lock:
            self.socket.close()

    def read(self):
        buffer = b""
        while not self.stopping:
            try:
                chunk = self.socket.recv(1 << 16)
                if not chunk:
                    raise OSError("closed")
                buffer = self.consume(buffer + chunk)
            except socket.timeout:
                continue
            except OSError:
                buffer = b""
                while not self.stopping:
                    try:
                        self.connect()
                        break
                    except OSError:
                        time.sleep(0.05)

    def consume(self, buffer):
        while True:
            end = buffer.find(b"\r\n")
            if end < 0:
                return buffer
            words = buffer[:end].split()
            verb = words[0].upper() if words else b""
            if verb in (b"MSG", b"HMSG"):
                size = int(words[-1])
                if len(buffer) < end + 2 + size + 2:
                    return buffer
                payload = buffer[end + 2:end + 2 + size]
                if verb == b"HMSG":
                    payload = payload[int(words[-2]):]
                buffer = buffer[end + 2 + size + 2:]
                entry = self.callbacks.get(int(words[2]))
                if entry and getattr(entry[1], "wants_reply", False):
                    headless = len(words) - (1 if verb == b"HMSG" else 0)
                    entry[1](words[1].decode(), payload, words[3].decode() if headless == 5 else None)
                elif entry:
                    entry[1](words[1].decode(), payload)
                continue
            if verb == b"PING":
                with self.lock:
                    self.send_locked(b"PONG\r\n")
            buffer = buffer[end + 2:]


def json_request(nats, subject, question=None, timeout=5):
    answer = nats.request(subject, json.dumps(question).encode() if question else b"", timeout)
    return json.loads(answer) if answer else None


def pack(value):
    """msgpack, the shortest form of each."""
    if value is None:
        return b"\xc0"
    if value is True or value is False:
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        if value < 0:
            return b"\xd3" + struct.pack(">q", value)
        if value < 0x80:
            return bytes([value])
        for code, form, top in ((0xCC, ">B", 1 << 8), (0xCD, ">H", 1 << 16), (0xCE, ">I", 1 << 32)):
            if value < top:
                return bytes([code]) + struct.pack(form, value)
        return b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        raw = value.encode()
        if len(raw) < 32:
            return bytes([0xA0 | len(raw)]) + raw
        return (b"\xd9" + bytes([len(raw)]) if len(raw) < 256
                else b"\xda" + struct.pack(">H", len(raw))) + raw
    if isinstance(value, bytes):
        return (b"\xc4" + bytes([len(value)]) if len(value) < 256
                else b"\xc6" + struct.pack(">I", len(value))) + value
    if isinstance(value, (list, tuple)):
        head = (bytes([0x90 | len(value)]) if len(value) < 16
                else b"\xdc" + struct.pack(">H", len(value)))
        return head + b"".join(pack(item) for item in value)
    raise TypeError(type(value))


def unpack(data):
    value, end = _unpack(data, 0)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes behind the value")
    return value


def _unpack(data, at):
    code = data[at]
    at += 1
    if code < 0x80:
        return code, at
    if code >= 0xE0:
        return code - 256, at
    if 0x90 <= code <= 0x9F:
        return _array(data, at, code & 15)
    if 0xA0 <= code <= 0xBF:
        return data[at:at + (code & 31)].decode(), at + (code & 31)
    if code in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[code], at
    numbers = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i",
               0xD3: ">q", 0xCB: ">d"}
    if code in numbers:
        size = struct.calcsize(numbers[code])
        return struct.unpack_from(numbers[code], data, at)[0], at + size
    texts = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
    if code in texts:
        size = struct.unpack_from(texts[code], data, at)[0]
        at += struct.calcsize(texts[code])
        raw = data[at:at + size]
        return (raw.decode() if code >= 0xD9 else raw), at + size
    if code in (0xDC, 0xDD):
        form = ">H" if code == 0xDC else ">I"
        return _array(data, at + struct.calcsize(form), struct.unpack_from(form, data, at)[0])
    raise ValueError(f"msgpack code {code:#x} at byte {at - 1}")


def _array(data, at, count):
    items = []
    for _ in range(count):
        item, at = _unpack(data, at)
        items.append(item)
    return items, at


VERBS = {1: "demote", 2: "promote", 3: "delete", 4: "compact", 5: "pin", 6: "unpin", 7: "warm"}


def order(data):
    """An order's payload as a dict (the signature is the gateway's business)."""
    fields = unpack(unpack(data)[0])
    names = ("version", "gateway", "namespace", "epoch", "id", "issued_ms", "expires_ms", "verb",
             "reason", "items", "until_ms")
    found = dict(zip(names, fields))
    found["verb"] = VERBS.get(found["verb"], found["verb"])
    return found
