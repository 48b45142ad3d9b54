"""Clients of a gateway that write, remove and read keys of their own, and know what may be read back."""

import http.client
import threading
import time

import blocks
from harness import Failure


class Write:
    """One PUT or DELETE of a key: what it wrote (None: removed), and when it began and was answered."""

    def __init__(self, body, began):
        self.body, self.began, self.acked, self.refused = body, began, None, False


class Writer(threading.Thread):
    """Keeps writing until told to stop; `history` has every write of every key of its own.

    `now()` orders what happens.  With `patient` the gateway may be away: a request without an answer
    may or may not have been done."""

    def __init__(self, run, gateway, now, number, seed_rng, patient=False):
        super().__init__(daemon=True)
        self.client, self.now, self.number = run.client(gateway), now, number
        self.rng, self.patient = seed_rng, patient
        self.history, self.error, self.stopping = {}, None, threading.Event()
        self.acked = 0  # PUTs

    def run(self):
        try:
            while not self.stopping.is_set():
                self.step()
        except Exception as error:  # noqa: B902 - reported by the case
            self.error = error

    def step(self):
        try:
            self.rng.choices((self.put_batch, self.put_one, self.put_opaque, self.delete, self.read),
                             (6, 3, 1, 1, 3))[0]()
        except (OSError, http.client.HTTPException, RuntimeError):
            if not self.patient:
                raise
            self.client.close()
            time.sleep(0.02)

    def begin(self, key, body):
        write = Write(body, self.now())
        self.history.setdefault(key, []).append(write)
        return write

    def new_block(self):
        hash_ = self.rng.getrandbits(64)
        position = self.rng.choice([0, 1, 300])
        key = blocks.key(hash_, position, self.rng.getrandbits(64), namespace=f"writer/{self.number}")
        return key, self.rng.randbytes(self.rng.choice([100, 4096, 5000, 20000]))

    def put_batch(self):
        items = [self.new_block() for _ in range(self.rng.randrange(1, 12))]
        writes = [self.begin(key, body) for key, body in items]
        for write, status in zip(writes, self.client.batch_put(items)):
            self.end(write, status == "OK")

    def put_one(self):
        key, body = self.new_block()
        write = self.begin(key, body)
        self.end(write, self.client.put(key, body, {"if-none-match": "*"}).status == 200)

    def put_opaque(self):
        """A name that is no block's: the last writer wins."""
        key = f"notes/{self.number}/{self.rng.randrange(4)}"
        body = self.rng.randbytes(3000)
        write = self.begin(key, body)
        self.end(write, self.client.put(key, body).status == 200)

    def delete(self):
        if self.history:
            key = self.rng.choice(list(self.history))
            write = self.begin(key, None)
            self.end(write, self.client.delete(key).status in (200, 204, 404))

    def read(self):
        keys = self.rng.sample(list(self.history), min(8, len(self.history)))
        for key, (status, _crc, body) in zip(keys, self.client.batch_get(keys) if keys else ()):
            if not self.patient or status in ("OK", "NOTFOUND"):
                self.check(key, status, body, None)

    def end(self, write, accepted):
        if accepted:
            write.acked = self.now()
            self.acked += write.body is not None
        else:
            write.refused = True
            if self.patient:
                time.sleep(0.01)

    def check(self, key, status, body, cut):
        """Is this answer one that a cut (None: no cut, now) allows?"""
        last, allowed = None, []
        for write in self.history[key]:
            if cut is not None and write.began >= cut:
                break
            if write.acked is not None and (cut is None or write.acked <= cut):
                last, allowed = write, []  # it holds: what was before cannot come back
            else:
                allowed.append(write.body)  # under way: it may hold or not
        allowed.append(last.body if last else None)
        got = body if status == "OK" else None
        if got in allowed:
            return
        before = [write.body for write in self.history[key]]
        what = ("is lost" if got is None else
                "is an older content again" if got in before else f"has {len(got)} bytes nobody wrote")
        raise Failure(f"{key} {what} (status {status}, written {len(self.history[key])} times)")

    def read_back(self, client, cut=None):
        """Read every key written before the cut; a Failure says what is not as promised."""
        keys = [key for key, history in self.history.items() if cut is None or history[0].began < cut]
        for at in range(0, len(keys), 200):
            part = keys[at:at + 200]
            for key, (status, _crc, body) in zip(part, client.batch_get(part)):
                self.check(key, status, body, cut)
