#!/usr/bin/env python3
"""Two gateways on one bucket race PUTs of the same keys: each is written once, all readers agree."""

import threading

import blocks
from harness import expect, main

CLIENTS = 4       # per gateway
BATCH = 50
SIZE = 4096


def options(parser):
    parser.add_argument("--keys", type=int, help="how many (default 10000; 1000 under sanitizers)")
    parser.add_argument("--server", choices=("minio", "versitygw"), help="only this one")


def content(hash_, writer):
    """Even keys: everybody writes the same bytes.  Odd keys: each client its own."""
    text = f"{hash_:016x}" if hash_ % 2 == 0 else f"{hash_:016x}-{writer}"
    return (text.encode() * (SIZE // len(text) + 1))[:SIZE]


class Writer(threading.Thread):
    def __init__(self, run, gateway, number, hashes, gate):
        super().__init__(daemon=True)
        self.client, self.number, self.gate = run.client(gateway), number, gate
        self.hashes, self.status, self.error = list(hashes), {}, None
        # Half of them walk together, so that the same batches really meet; half go their own way.
        if number % 2:
            run.rng.shuffle(self.hashes)

    def run(self):
        try:
            self.gate.wait()
            for at in range(0, len(self.hashes), BATCH):
                left = self.hashes[at:at + BATCH]
                for _ in range(100):
                    answers = self.client.batch_put(
                        [(blocks.key(h, namespace="race"), content(h, self.number)) for h in left])
                    self.status.update(zip(left, answers))
                    left = [h for h, status in zip(left, answers) if status in ("AGAIN", "BUSY")]
                    if not left:
                        break
        except Exception as error:  # noqa: B902 - reported by the case
            self.error = error


def race(run, nats, server, count):
    name = server.name
    bucket = run.client(server)
    bucket.create_bucket()
    versions = name == "minio"
    if versions:  # then the server itself counts how often a key was written
        answer = bucket.request("PUT", f"/{bucket.bucket}", query={"versioning": ""}, body=(
            b'<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            b"<Status>Enabled</Status></VersioningConfiguration>"))
        expect(answer.status == 200, f"versioning: {answer.status} {answer.code()}")
    gateways = [run.gateway(nats, f"{name}-gw{i}", server, hot_capacity=0).start() for i in (0, 1)]
    hashes = list({run.rng.getrandbits(64) for _ in range(count)})
    gate = threading.Barrier(2 * CLIENTS)
    writers = [Writer(run, gateways[i % 2], i, hashes, gate) for i in range(2 * CLIENTS)]
    with run.case(f"{name}: {len(hashes)} keys, {len(writers)} clients: every PUT has an answer"):
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(300 * run.slow)
            expect(not writer.is_alive(), f"client {writer.number} hangs")
            expect(writer.error is None, f"client {writer.number}: {writer.error!r}")
            other = set(writer.status.values()) - {"OK", "PRECONDITION"}
            expect(not other, f"client {writer.number} was told {other}")
    winners = {h: [w.number for w in writers if w.status.get(h) == "OK"] for h in hashes}
    with run.case(f"{name}: same bytes are welcome from all, other bytes from one only"):
        for h, who in winners.items():
            wanted = len(writers) if h % 2 == 0 else 1
            expect(len(who) == wanted, f"{h:016x}: {len(who)} of {len(writers)} clients were told OK")
    with run.case(f"{name}: all readers see the winner's bytes"):
        for gateway in gateways:
            reader = run.client(gateway)
            for at in range(0, len(hashes), 500):
                part = hashes[at:at + 500]
                for h, (status, _crc, body) in zip(
                        part, reader.batch_get([blocks.key(h, namespace="race") for h in part])):
                    expect(status == "OK" and body == content(h, winners[h][0]),
                           f"{gateway.name} {h:016x}: {status}, {len(body)} bytes of "
                           f"{body[:20]!r}, the winner is {winners[h]}")
        for h in hashes:
            expect(bucket.get(blocks.key(h, namespace="race")).body == content(h, winners[h][0]),
                   f"the bucket has other bytes for {h:016x}")
    if versions:
        with run.case(f"{name}: the server counts one write a key"):
            often = {key: n for key, n in bucket.versions().items()
                     if n != 1 and blocks.parse_key(key)}
            expect(not often, f"{len(often)} keys were written more than once: {list(often.items())[:3]}")
    for gateway in gateways:
        gateway.stop()
    server.kill()


def scenario(run):
    count = run.args.keys or (1000 if run.sanitized else 10000)
    nats = run.nats().start()
    if run.args.server != "versitygw":
        race(run, nats, run.minio().start(), count)
    if run.args.server != "minio":
        race(run, nats, run.versitygw().start(), count)


if __name__ == "__main__":
    main(scenario, options)
