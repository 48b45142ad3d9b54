"""Keys and signatures of messages, as docs/formats.md has them."""

import hashlib
import hmac
import os

import bus


def derive(master, label, name):
    return hmac.new(master, label + b"\0" + name.encode(), hashlib.sha256).digest()


def master_of(run):
    with open(os.path.join(run.folder, "orders.key"), encoding="utf-8") as file:
        return bytes.fromhex(file.read().split()[0])


def seal(key, label, payload):
    return bus.pack([payload, hmac.new(key, label + b"\0" + payload, hashlib.sha256).digest()])


def seal_report(master, gateway, payload):
    return seal(derive(master, b"kvtier-reports-v1", gateway), b"kvtier-report-v1", payload)


def payload_of(data):
    """Of a message that may be signed: its bytes without the signature."""
    message = bus.unpack(data)
    return message[0] if isinstance(message[0], bytes) else data
