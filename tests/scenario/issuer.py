"""Signs orders as an advisor does, and waits for what the gateway reports of them."""

import hashlib
import hmac
import os
import time

import bus
import keys
from harness import expect, wait_until

EXPIRY_MS = 600000
VERBS = {name: number for number, name in bus.VERBS.items()}
JOB_CAUSE = (4, 0, "", 1, "", 0, 0)
RESULT = ("epoch", "id", "verb", "code", "done", "failed", "bytes_moved", "text")


class Issuer:
    """Orders to one gateway about one namespace."""

    def __init__(self, run, nats, gateway, namespace, first_id=1, epoch=1):
        with open(os.path.join(run.folder, "orders.key"), encoding="utf-8") as file:
            self.key = bytes.fromhex(file.read().strip())
        self.run, self.name, self.namespace = run, gateway.name, namespace
        self.epoch, self.next_id, self.results = epoch, first_id, {}
        self.bus = bus.Nats(nats.url)
        self.bus.subscribe(f"kvtier.v1.reports.{self.name}", self.on_report)

    def on_report(self, _subject, data):
        for row in bus.unpack(keys.payload_of(data))[9]:
            result = dict(zip(RESULT, row))
            self.results[result["id"]] = result

    def send(self, verb, items, until_ms=None, edge=None, cause=None):
        """`items`: [hash, parent, position, ranks]; `edge` of a move: (from, to, keep); `cause` of a
        deletion: a job's, or () for none.  The order's id."""
        now, number = int(time.time() * 1000), self.next_id
        self.next_id += 1
        if verb == "delete" and cause is None:
            cause = JOB_CAUSE
        payload = bus.pack([1, self.name, self.namespace, self.epoch, number, now, now + EXPIRY_MS, VERBS[verb],
                            "issuer", items] + ([] if until_ms is None else [until_ms])
                           + ([] if edge is None else [list(edge)])
                           + ([list(cause)] if cause else []))
        mac = hmac.new(self.key, payload, hashlib.sha256).digest()
        self.bus.publish(f"kvtier.v1.orders.{self.name}", bus.pack([payload, mac]))
        return number

    def result(self, number, seconds=30):
        wait_until(lambda: None if number in self.results else "no report names it",
                   seconds * self.run.slow, f"a result of order {number}", every=0.05)
        return self.results[number]

    def order(self, verb, items, until_ms=None):
        """Send it and wait: its result, all of whose items were done or failed."""
        result = self.result(self.send(verb, items, until_ms))
        expect(result["code"] == 0 and result["done"] + result["failed"] == len(items), result)
        return result

    def close(self):
        self.bus.close()
