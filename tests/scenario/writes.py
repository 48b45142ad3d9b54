#!/usr/bin/env python3
"""Gateway, store or both killed with -9 at random instants under a mixed load, in both write modes.

What was acknowledged is read back with its bytes, and ends in the bucket; nothing else is ever read;
volume, catalog and bucket agree, on MinIO and on versitygw."""

import itertools
import time

import blocks
import harness
from harness import Failure, expect, wait_until
from system import MIB, block_keys, catalog_keys, compare_tiers, volume
from writers import Writer

WRITERS = 3
MODES, SERVERS = ("through", "back"), ("minio", "versitygw")


def options(parser):
    parser.add_argument("--kills", type=int, help="how many in all (default 24; 8 under sanitizers)")
    parser.add_argument("--mode", choices=MODES, help="only this write mode")
    parser.add_argument("--server", choices=SERVERS, help="only this store")


class Rig:
    """One store, one gateway in one write mode, an advisor that moves blocks, and writers."""

    def __init__(self, run, server, mode):
        name = f"{server}-{mode}"
        self.nats = run.nats(f"nats-{name}").start()
        self.run = run
        self.server = getattr(run, server)(name).start()
        self.bucket = run.client(self.server)
        self.bucket.create_bucket()
        # Small and slow, so that blocks wait, the backlog fills now and then, and orders make room.
        self.gateway = run.gateway(self.nats, f"gw-{name}", self.server, **{
            "hot.capacity": 2 * MIB, "write.mode": mode, "write.backlog_max": MIB, "write.uploads": 1,
            "report.interval": "100ms"})
        self.advisor = run.advisor(self.nats, f"advisor-{name}", **{
            "policy.mode": "enforce", "policy.interval": "100ms", "policy.promote_after": 1})
        self.gateway.start()
        self.advisor.start()
        self.waited = 0  # times a gateway came back and found a backlog
        count = itertools.count()
        seeds = [run.rng.getrandbits(64) for _ in range(WRITERS)]
        self.writers = [Writer(run, self.gateway, lambda: next(count), i, type(run.rng)(seeds[i]),
                               patient=True) for i in range(WRITERS)]

    def kill_one(self):
        """One kill at a random instant, and everything is started again."""
        rng = self.run.rng
        if rng.random() < 0.8:  # else in the midst of coming back
            self.wait_acked(self.acked() + rng.randrange(1, 40))
        time.sleep(rng.random() * 0.1 * self.run.slow)
        victims = rng.choice([(self.gateway,), (self.gateway,), (self.server,), (self.gateway, self.server)])
        for victim in victims:
            victim.kill()
        time.sleep(rng.choice([0.0, 0.0, 0.3]))
        for victim in reversed(victims):
            victim.start(wait=victim is self.server, seconds=60)
        if self.gateway in victims:
            wait_until(self.gateway.is_alive, 30 * self.run.slow, "the gateway comes back", every=0.02)
            self.waited += self.gateway.status()["backlog"]["blocks"] > 0

    def acked(self):
        return sum(writer.acked for writer in self.writers)

    def wait_acked(self, count):
        wait_until(lambda: None if self.acked() >= count else f"{self.acked()} of {count}",
                   60 * self.run.slow, "PUTs are acknowledged", every=0.005)

    def wait_healthy(self):
        def away():
            try:
                return self.gateway.is_ready() or (
                    None if self.gateway.status()["cold"]["healthy"] else "its bucket is away")
            except OSError as error:
                return str(error)

        wait_until(away, 60 * self.run.slow, "gateway and store are there", every=0.02)

    def stop_writers(self):
        for writer in self.writers:
            writer.stopping.set()
        for writer in self.writers:
            writer.join(120 * self.run.slow)
            expect(not writer.is_alive(), f"writer {writer.number} hangs")
            expect(writer.error is None, f"writer {writer.number}: {writer.error!r}")

    def settle(self):
        def unfinished():
            try:
                status = self.gateway.status()
            except OSError as error:
                return str(error)
            left = {"intents": status["catalog"]["intents"], "backlog": status["backlog"]["blocks"],
                    "orders": status["orders"]["queued"], "events": status["events"]["pending"]}
            return None if not any(left.values()) else str(left)

        self.advisor.ask("/v1/policy/mode", {"mode": "off"}, token=self.run.token)
        wait_until(unfinished, 60 * self.run.slow, "nothing waits any more")
        lost = self.gateway.status()["backlog"]["lost"]
        expect(lost == 0, f"the gateway says that {lost} blocks are lost")

    def check_bucket(self):
        """Everything acknowledged is in the bucket itself, and nothing that was never written."""
        there = block_keys(self.bucket)
        for writer in self.writers:
            for key in list(writer.history):
                if blocks.parse_key(key):
                    answer = self.bucket.get(key) if key in there else None
                    writer.check(key, "NOTFOUND" if answer is None else "OK",
                                 answer.body if answer else b"", None)

    def check_agreement(self):
        def differ():
            try:
                compare_tiers(self.advisor, {self.gateway: set(volume(self.gateway.settings["hot.dir"]))},
                              self.expected_cold())
            except (Failure, FileNotFoundError) as failure:  # a file may be swept while it is looked at
                return str(failure)
            return None

        wait_until(differ, 30 * self.run.slow, "volume, catalog, bucket and advisor agree", every=0.3)

    def expected_cold(self):
        """What is in the bucket; an object that landed after its writer had been killed has no row."""
        late = {key for writer in self.writers for key, history in list(writer.history.items())
                if history[-1].acked is None} - catalog_keys(self.gateway, "cold")
        return block_keys(self.bucket) - late


def kills(run, server, mode, count):
    name = f"{server}, write-{mode}"
    rig = Rig(run, server, mode)
    with run.case(f"{name}: {count} kills under load"):
        for writer in rig.writers:
            writer.start()
        for _ in range(count):
            rig.kill_one()
        rig.wait_healthy()
        rig.wait_acked(5 * count + 1)  # few kills may by chance have come one upon the other
        rig.stop_writers()
    with run.case(f"{name}: nothing acknowledged is lost, no byte is wrong"):
        for writer in rig.writers:
            writer.read_back(run.client(rig.gateway))
    with run.case(f"{name}: the bucket has it all"):
        rig.settle()
        rig.check_bucket()
    with run.case(f"{name}: volume, catalog, bucket and advisor agree"):
        rig.check_agreement()
    run.note(f"{name}: {rig.acked()} PUTs acknowledged; {rig.waited} of {count} times a backlog was found")
    with run.case(f"{name}: it was a load"):
        expect(rig.acked() > 5 * count, f"only {rig.acked()} PUTs were acknowledged")
        expect(mode == "through" or rig.waited > 0, "no gateway came back to a backlog")
    with run.case(f"{name}: the gateway stops with 0"):
        expect(rig.gateway.stop() == 0, rig.gateway.tail())
    for process in (rig.advisor, rig.server, rig.nats):
        process.kill()


def scenario(run):
    total = run.args.kills or (8 if run.sanitized else 24)
    cells = [(server, mode) for server in SERVERS for mode in MODES
             if run.args.server in (None, server) and run.args.mode in (None, mode)]
    for server, mode in cells:
        kills(run, server, mode, -(-total // len(cells)))


if __name__ == "__main__":
    harness.main(scenario, options)
