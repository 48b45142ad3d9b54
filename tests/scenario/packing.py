#!/usr/bin/env python3
"""Two gateways pack one bucket's blocks while they are written, removed, written again and read, and are
killed with -9 at random instants.

No wrong byte is read, nothing acknowledged is lost, nothing removed comes back, every block is listed
once, and the bucket holds at most 1.3 times what lives."""

import http.client
import itertools
import time

import blocks
import harness
from harness import expect, wait_until
from writers import Writer

WRITERS = 4       # half of them on each gateway
AMPLIFICATION = 1.3
ENOUGH = 300      # blocks that live at the end: of fewer, manifests are a large share


def options(parser):
    parser.add_argument("--kills", type=int, help="how many (default 12; 4 under sanitizers)")
    parser.add_argument("--server", choices=("minio", "versitygw"), default="minio")


def space(number):
    return f"writer/{number}"


class Owner(Writer):
    """Blocks of sizes that are packed, in a namespace of its own; what it removed it may put again."""

    def step(self):
        try:
            self.rng.choices((self.put_batch, self.put_one, self.delete, self.put_again, self.read),
                             (5, 2, 4, 2, 4))[0]()
        except (OSError, RuntimeError, http.client.HTTPException):
            self.client.close()
            time.sleep(0.02)

    def new_block(self):
        key = blocks.key(self.rng.getrandbits(64), self.rng.choice([0, 1, 300]), self.rng.getrandbits(64),
                         namespace=space(self.number), rank=self.rng.randrange(3))
        return key, self.rng.randbytes(self.rng.choice([4096, 16384, 30000, 65536]))

    def put_again(self):
        """The same key has the same bytes: a block's content follows from its hash."""
        gone = [key for key, history in self.history.items() if history[-1].body is None]
        if gone:
            key = self.rng.choice(gone)
            body = next(write.body for write in self.history[key] if write.body is not None)
            write = self.begin(key, body)
            self.end(write, self.client.put(key, body).status == 200)

    def alive(self):
        """{key: body} of what must be there; and keys of which nobody can tell."""
        sure, unknown = {}, set()
        for key, history in list(self.history.items()):  # it may be writing
            acked = [i for i, write in enumerate(history) if write.acked is not None]
            open_end = history[acked[-1] + 1:] if acked else history
            if open_end:
                unknown.add(key)
            elif history[-1].body is not None:
                sure[key] = history[-1].body
        return sure, unknown


class Rig:
    def __init__(self, run):
        self.run = run
        self.nats = run.nats().start()
        self.server = getattr(run, run.args.server)().start()
        self.bucket = run.client(self.server)
        self.bucket.create_bucket()
        self.spaces = [space(i) for i in range(WRITERS)]
        self.gateways = [run.gateway(self.nats, f"gw{i}", self.server, **{
            "hot.capacity": "1MiB", "packed.namespaces": ",".join(self.spaces), "packed.age": "0s",
            "packed.block_max": "128KiB", "packed.segment_size": "512KiB",
            "packed.interval": "1s"}).start() for i in (0, 1)]
        count = itertools.count()
        self.writers = [Owner(run, self.gateways[i % 2], lambda: next(count), i,
                              type(run.rng)(run.rng.getrandbits(64)), patient=True)
                        for i in range(WRITERS)]

    def acked(self):
        return sum(writer.acked for writer in self.writers)

    def wait_acked(self, more):
        wanted = self.acked() + more
        wait_until(lambda: None if self.acked() >= wanted else f"{self.acked()} of {wanted}",
                   120 * self.run.slow, "PUTs are acknowledged", every=0.005)

    def ask_to_pack(self):
        """One gateway or both at once."""
        for gateway in self.run.rng.choice([self.gateways[:1], self.gateways[1:], self.gateways]):
            try:
                for name in self.spaces:
                    gateway.ask("/v1/compact", {"namespace": name}, token=self.run.token)
            except OSError:
                pass  # it is not back yet

    def kill_one(self):
        rng = self.run.rng
        if rng.random() < 0.8:  # else in the midst of coming back
            self.wait_acked(rng.randrange(1, 60))
        if rng.random() < 0.7:  # so that many die while they pack
            self.ask_to_pack()
        time.sleep(rng.random() * 0.6 * self.run.slow)
        victims = rng.choice([self.gateways[:1], self.gateways[1:], self.gateways])
        for victim in victims:
            victim.kill()
        time.sleep(rng.choice([0.0, 0.0, 0.2]))
        for victim in victims:
            victim.start(wait=False, seconds=60)
        for victim in victims:
            wait_until(victim.is_alive, 30 * self.run.slow, "the gateway comes back", every=0.02)

    def wait_ready(self):
        for gateway in self.gateways:
            wait_until(gateway.is_ready, 60 * self.run.slow, f"{gateway.name} is ready", every=0.05)

    def stop_writers(self):
        for writer in self.writers:
            writer.stopping.set()
        for writer in self.writers:
            writer.join(120 * self.run.slow)
            expect(not writer.is_alive(), f"writer {writer.number} hangs")
            expect(writer.error is None, f"writer {writer.number}: {writer.error!r}")

    def packing(self, gateway):
        return {row["namespace"]: row for row in gateway.status()["packing"]}

    def packed(self):
        return sum(row["blocks"] for row in self.packing(self.gateways[0]).values())

    def settle(self):
        """Nothing is half done, and the last run of each namespace found nothing more to do."""
        def unfinished():
            left = [gateway.status()["catalog"]["intents"] for gateway in self.gateways]
            return None if not any(left) else f"{left} rows are not finished"

        wait_until(unfinished, 90 * self.run.slow, "nothing waits any more")
        gateway = self.gateways[0]
        for name in self.spaces:
            before = self.packing(gateway)[name]["runs"]
            gateway.ask("/v1/compact", {"namespace": name}, token=self.run.token)

            def not_done(name=name, before=before):
                row = self.packing(gateway)[name]
                done = row["runs"] > before + 1 and not row["last"]["error"] and not row["last"]["more"]
                return None if done and row["pending"] == 0 else str(row)

            wait_until(not_done, 90 * self.run.slow, f"{name} is packed", every=0.1)

    def check_listing(self):
        """Both gateways list what lives once, in order, and tell of each what HEAD tells."""
        for gateway in self.gateways:
            client = self.run.client(gateway)
            for writer in self.writers:
                rows = client.list(space(writer.number) + "/")
                keys = [key for key, _size in rows]
                sure, unknown = writer.alive()
                expect(keys == sorted(set(keys)), f"{gateway.name}: not once each, or not in order")
                missing, more = set(sure) - set(keys), set(keys) - set(sure) - unknown
                expect(not missing and not more,
                       f"{gateway.name}: {len(missing)} blocks are not listed, {len(more)} are too many: "
                       f"{sorted(missing)[:2]} {sorted(more)[:2]}")
                for key, size in rows:
                    expect(key not in sure or size == len(sure[key]), f"{key}: listed with {size} bytes")

    def check_space(self):
        rows = self.bucket.list("writer/")
        stored = sum(size for _key, size in rows)
        live = sum(len(body) for writer in self.writers for body in writer.alive()[0].values())
        packed = self.packed()
        self.run.note(f"{live} bytes live, the bucket has {stored}: {stored / live:.3f} times; "
                      f"{packed} blocks are packed")
        expect(packed > 0, "nothing was packed")
        expect(stored <= AMPLIFICATION * live, f"{stored} bytes for {live} that live: {stored / live:.3f}")


def scenario(run):
    kills = run.args.kills or (4 if run.sanitized else 12)
    rig = Rig(run)
    rig.wait_ready()
    with run.case(f"{kills} kills of gateways that pack, under load"):
        for writer in rig.writers:
            writer.start()
        wait_until(lambda: None if rig.packed() > 0 else "nothing", 60 * run.slow, "blocks are packed")
        for _ in range(kills):
            rig.kill_one()
        rig.wait_ready()
        wait_until(lambda: None if sum(len(w.alive()[0]) for w in rig.writers) >= ENOUGH else "too few",
                   120 * run.slow, "enough blocks live")
        rig.stop_writers()
    with run.case("nothing is lost, no byte is wrong, and nothing removed is back, through both gateways"):
        for gateway in rig.gateways:
            client = run.client(gateway)
            for writer in rig.writers:
                writer.read_back(client)
    with run.case("packing comes to an end"):
        rig.settle()
    with run.case("the same, once everything is packed"):
        for gateway in rig.gateways:
            client = run.client(gateway)
            for writer in rig.writers:
                writer.read_back(client)
    with run.case("every block is listed once, in order, with its size, by both"):
        rig.check_listing()
    with run.case(f"the bucket holds at most {AMPLIFICATION} times what lives"):
        rig.check_space()
    removed = sum(write.acked is not None and write.body is None for writer in rig.writers
                  for history in writer.history.values() for write in history)
    run.note(f"{rig.acked()} PUTs and {removed} deletions acknowledged")
    with run.case("it was a load"):
        expect(rig.acked() > 5 * kills, f"only {rig.acked()} PUTs were acknowledged")
        expect(removed > kills, f"only {removed} deletions were acknowledged")
    with run.case("both gateways stop with 0"):
        for gateway in rig.gateways:
            expect(gateway.stop() == 0, gateway.tail())


if __name__ == "__main__":
    harness.main(scenario, options)
