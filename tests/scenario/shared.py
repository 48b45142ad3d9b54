#!/usr/bin/env python3
"""Two gateways on one bucket, with hot volumes: what one removes the other does not acknowledge as there,
and both notice what the bucket lost without them."""

import threading
import time

import blocks
from harness import expect, main, wait_until

SIZE = 6000
CLIENTS = 4
RECHECK = "200ms"


def options(parser):
    parser.add_argument("--keys", type=int, default=400, help="how many in each case")
    parser.add_argument("--server", choices=("minio", "versitygw"), help="only this one")


def key(hash_):
    return blocks.key(hash_, namespace="shared")


def content(hash_):
    return (f"{hash_:016x}".encode() * (SIZE // 16 + 1))[:SIZE]


class Client(threading.Thread):
    """Stores, reads and removes blocks of its own through either gateway, chosen by lot."""

    def __init__(self, run, gateways, hashes, seed):
        super().__init__(daemon=True)
        self.clients, self.rng = [run.client(g) for g in gateways], type(run.rng)(seed)
        self.hashes, self.error = hashes, None

    def ask(self, verb, *arguments):
        """As clients do: what is told to come again comes again."""
        for _ in range(50):
            answer = getattr(self.rng.choice(self.clients), verb)(*arguments)
            if answer.status != 503:
                break
            time.sleep(0.1)
        return answer

    def one(self, hash_):
        for _ in range(self.rng.randint(2, 4)):
            answer = self.ask("put", key(hash_), content(hash_))
            expect(answer.status == 200, f"PUT {hash_:016x}: {answer.status} {answer.code()}")
            found = self.ask("get", key(hash_))
            expect(found.status == 200 and found.body == content(hash_),
                   f"GET {hash_:016x} behind its PUT: {found.status}, {len(found.body)} bytes")
            answer = self.ask("delete", key(hash_))
            expect(answer.status == 204, f"DELETE {hash_:016x}: {answer.status} {answer.code()}")
        answer = self.ask("put", key(hash_), content(hash_))
        expect(answer.status == 200, f"the last PUT {hash_:016x}: {answer.status} {answer.code()}")

    def run(self):
        try:
            for hash_ in self.hashes:
                self.one(hash_)
        except Exception as error:  # noqa: B902 - reported by the case
            self.error = error


def put_again(run, gateways, bucket, hashes):
    seeds = [run.rng.getrandbits(64) for _ in range(CLIENTS)]
    clients = [Client(run, gateways, hashes[i::CLIENTS], seeds[i]) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(300 * run.slow)
        expect(not client.is_alive(), "a client hangs")
        expect(client.error is None, f"{client.error!r}")
    for hash_ in hashes:
        for where in (bucket, *(run.client(g) for g in gateways)):
            found = where.get(key(hash_))
            expect(found.status == 200 and found.body == content(hash_),
                   f"{hash_:016x} was acknowledged last and is {found.status} {found.code()} at {where.host}")


def unseen(run, gateways, hashes):
    """Blocks that are gone and that a gateway still says it has; to be asked again."""
    left = [f"{g.name}: {sum(s == 'OK' for s, *_ in run.client(g).batch_has([key(h) for h in hashes]))}"
            for g in gateways]
    return None if all(text.endswith(": 0") for text in left) else f"still said to be there: {left}"


def removals(run, gateways, bucket, hashes):
    clients = [run.client(g) for g in gateways]
    for hash_ in hashes:
        expect(clients[hash_ % 2].put(key(hash_), content(hash_)).status == 200, "a PUT fails")
        expect(clients[1 - hash_ % 2].get(key(hash_)).status == 200, "a GET through the other one fails")
    gone, kept = hashes[::2], hashes[1::2]
    for number, hash_ in enumerate(gone):
        where = (clients[0], clients[1], bucket)[number % 3]
        expect(where.delete(key(hash_)).status == 204, "a DELETE fails")
    wait_until(lambda: unseen(run, gateways, gone), 30 * run.slow, "both notice", every=0.1)
    for client in clients:
        for hash_ in gone:
            expect(client.get(key(hash_)).status == 404, "a block that is gone is served")
        for status, _crc, body in client.batch_get([key(h) for h in kept]):
            expect(status == "OK" and len(body) == SIZE, f"a block that nobody removed is {status}")


def share(run, nats, server):
    name = server.name
    bucket = run.client(server)
    bucket.create_bucket()
    gateways = [run.gateway(nats, f"{name}-gw{i}", server, hot_capacity=256 << 20, cold_recheck=RECHECK)
                .start() for i in (0, 1)]
    hashes = list({run.rng.getrandbits(64) for _ in range(2 * run.args.keys)})
    with run.case(f"{name}: a block that is put behind a removal by the other gateway is there"):
        put_again(run, gateways, bucket, hashes[:run.args.keys])
    with run.case(f"{name}: what one, the other, or the bucket itself removed is gone for both"):
        removals(run, gateways, bucket, hashes[run.args.keys:])
    with run.case(f"{name}: both stop"):
        for gateway in gateways:
            expect(gateway.stop() == 0, f"{gateway.name} does not stop with 0")
    server.kill()


def scenario(run):
    nats = run.nats().start()
    if run.args.server != "versitygw":
        share(run, nats, run.minio().start())
    if run.args.server != "minio":
        share(run, nats, run.versitygw().start())


if __name__ == "__main__":
    main(scenario, options)
