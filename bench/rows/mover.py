"""What orders cost clients: hot GETs beside a gateway that moves blocks as fast as it may."""

import threading
import time

import harness
from issuer import Issuer
from rows.gateway import KIB, MIB, STEADY, Sides, words
from rows.row import Bench, Row

SIZES = (64 * KIB, 2 * MIB)
REQUESTS = {64 * KIB: 80000, 2 * MIB: 6000}
MOVED_SIZE = 2 * MIB
MOVED_OBJECTS = 64  # demoted and promoted in turns
ORDER_OBJECTS = 8   # in one order
KEYS = (harness.ACCESS, harness.SECRET)
ROWS = {size: Row(f"p99 of hot GETs of {words(size)}, {STEADY} in flight, beside orders", "us",
                  "the same without orders", "<= 2") for size in SIZES}


def block_hash(number):
    """As bench/gateway/load.c makes them."""
    return (number * 0xD1342543DE82EF95 + 7) & 0xFFFFFFFFFFFFFFFF


class Orders(threading.Thread):
    """Demotes and promotes all objects of a prefix again and again, one order waiting behind the one
    that is executed."""

    def __init__(self, sides, nats, gateway, prefix, first_id):
        super().__init__(daemon=True)
        self.issuer = Issuer(sides.run, nats, gateway, prefix, first_id)
        self.gateway, self.stopping, self.error = gateway, threading.Event(), None

    def send(self):
        number = self.issuer.next_id
        first = number // 2 * ORDER_OBJECTS % MOVED_OBJECTS
        self.issuer.send(("demote", "promote")[number % 2],
                         [[block_hash(n), 0, 0, 1] for n in range(first, first + ORDER_OBJECTS)])

    def state(self):
        orders = self.gateway.status()["orders"]
        if orders["failed"] or orders["refused"]:
            raise SystemExit(f"bench: orders failed: {orders}")
        return orders["executed"]

    def run(self):
        try:
            sent = done = self.state()
            while not self.stopping.is_set():
                while sent < done + 2:
                    self.send()
                    sent += 1
                time.sleep(0.02)
                done = self.state()
            while done < sent:
                time.sleep(0.02)
                done = self.state()
        except (Exception, SystemExit) as error:  # the bench's thread says it
            self.error = error
        self.issuer.close()

    def end(self):
        self.stopping.set()
        self.join()
        if self.error is not None:
            raise SystemExit(f"bench: {self.error}")
        return self.issuer.next_id


def p99(sides, gateway, prefix, size):
    """Of as many GETs as take some seconds: an order takes a good part of one."""
    requests = REQUESTS[size] // (4 if sides.args.quick else 1)
    line = sides.ask("get", gateway.front, "kvtier", *KEYS, prefix, size, sides.amounts(size)[0],
                     requests, STEADY)
    return float(line[3])


def moved_bytes(gateway):
    """Copied from tier to tier so far: by promotions, since what is demoted is in the bucket."""
    for line in gateway.raw("/metrics")[1].decode().splitlines():
        if line.startswith("kvtier_gateway_bytes_moved_total"):
            return int(line.split()[-1])
    raise SystemExit("bench: the gateway does not say how much it moved")


def measure(args):
    with Sides(args, "gateway-mover") as sides:
        nats, minio = sides.servers()
        gateway = sides.run.gateway(nats, "mover", s3_server=minio, hot_capacity=8 << 30).start()
        sides.ask("put", gateway.front, "kvtier", *KEYS, "moved", MOVED_SIZE, MOVED_OBJECTS,
                  MOVED_OBJECTS, STEADY)
        next_id = 1
        for size, row in ROWS.items():
            prefix = f"asked{size}"
            sides.load("put", gateway.front, prefix, size)
            sides.load("check", gateway.front, prefix, size)
            moved = []

            def beside():
                nonlocal next_id
                orders = Orders(sides, nats, gateway, "moved", next_id)
                before, begin = moved_bytes(gateway), time.monotonic()
                orders.start()
                found = p99(sides, gateway, prefix, size)
                seconds, after = time.monotonic() - begin, moved_bytes(gateway)
                next_id = orders.end()
                moved.append((after - before) / seconds)
                return found
            pairs = sides.interleaved(beside, lambda: p99(sides, gateway, prefix, size))
            if min(moved) == 0:
                raise SystemExit("bench: no block moved while it was measured")
            yield row.line("gateway-mover", pairs, moved_bytes_per_s=sorted(moved)[len(moved) // 2])


BENCHES = {"gateway-mover": Bench(list(ROWS.values()), measure)}
