#!/usr/bin/env python3
"""A prefix is warmed, pinned, unpinned and purged from the command line, at real daemons.

Two conversations hang on one system prompt; what is done with one of them does not touch the other, jobs go
on over kill -9 of the advisor, and what is pinned stays when the prefix is purged."""

import json
import subprocess

import blocks
import harness
from harness import expect, wait_until

LENGTH = 40  # blocks of each conversation, behind a prompt of as many
SPACE = "acme/llama"


class World:
    def __init__(self, run):
        self.run = run
        self.nats = run.nats().start()
        self.advisor = run.advisor(self.nats, **{"policy.mode": "observe", "publishers.gone_after": "1h"}).start()
        self.gateway = run.gateway(self.nats, **{"hot.capacity": "64MiB", "warm.dir": f"{run.folder}/gw0-warm",
                                                 "warm.capacity": "64MiB"}).start()
        self.front = run.client(self.gateway)
        rng = run.rng
        self.bodies = {}
        self.chains = {}
        self.chains["prompt"] = self.chain(0, 0, rng)
        start = self.chains["prompt"][-1]
        for name in ("one", "two"):
            self.chains[name] = self.chain(start, LENGTH, rng)
        self.tell()
        wait_until(lambda: None if self.subtree(self.chains["prompt"][0]) == 3 * LENGTH else
                   f"{self.subtree(self.chains['prompt'][0])} known", 30 * run.slow, "the index knows all")

    def chain(self, parent, position, rng):
        hashes = []
        for i in range(LENGTH):
            hash_ = rng.getrandbits(64)
            key = blocks.key(hash_, position + i, parent, SPACE)
            self.bodies[key] = rng.randbytes(4096)
            expect(self.front.put(key, self.bodies[key]).status == 200, f"put {key}")
            hashes.append(hash_)
            parent = hash_
        return hashes

    def tell(self):
        """A worker that stored them all: of a gateway's keys nobody learns the whole hash of a parent."""
        lines = []
        for name, chain in self.chains.items():
            parent = 0 if name == "prompt" else self.chains["prompt"][-1]
            for i, hash_ in enumerate(chain):
                position = i + (0 if name == "prompt" else LENGTH)
                lines.append(json.dumps({"type": "store", "hash": f"{hash_:016x}", "parent": f"{parent:016x}",
                                         "position": position, "size": 4096}))
                parent = hash_
        path = self.run.file("events.jsonl", "\n".join(lines) + "\n")
        status, _answer, text = self.kvtier("events", "inject", "--file", path, "--namespace", SPACE, "--nats-url",
                                            self.nats.url)
        expect(status == 0, f"inject: {text}")

    def kvtier(self, *words, timeout=120):
        argv = [self.run.program("kvtier"), "--advisor-url", f"http://127.0.0.1:{self.advisor.admin}",
                "--gateway-url", f"http://127.0.0.1:{self.gateway.admin}", "-o", "json",
                "--admin-token-file", f"{self.run.folder}/token", *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False,
                              stdin=subprocess.DEVNULL, env={"XDG_CONFIG_HOME": self.run.folder})
        return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else {}, done.stderr

    def prefix(self, verb, hash_, *words):
        return self.kvtier("prefix", verb, f"{hash_:016x}", "--namespace", SPACE, *words)

    def subtree(self, hash_):
        status, data = self.advisor.raw(f"/v1/index/subtree?hash={hash_:016x}&namespace={SPACE}")
        return json.loads(data)["blocks"] if status == 200 else 0

    def places(self, tier="hot"):
        """Of blocks there, as the index has them: the worker still holds all of them."""
        return self.kvtier("tenant", "usage", "acme")[1]["namespaces"][0][f"{tier}_places"]

    def move(self, name, source, to):
        """A chain from a tier of the gateway to another, by a job; how the job ended."""
        chain = self.chains[name]
        rows = [{"hash": f"{hash_:016x}", "parent": f"{(chain[i - 1] if i > 0 else self.chains['prompt'][-1]):016x}",
                 "position": LENGTH + i, "ranks": 1} for i, hash_ in enumerate(chain)]
        job = self.advisor.ask("/v1/jobs", {"kind": "test", "title": f"{source} to {to}", "moves": [
            {"verb": "demote", "gateway": "gw0", "namespace": SPACE, "from": source, "to": to, "blocks": rows}]},
                               token=self.run.token)["job"]["id"]

        def ended():
            state = self.advisor.ask(f"/v1/jobs/{job}")["job"]["state"]
            return state if state in ("done", "failed") else None
        wait_until(lambda: None if ended() else "it runs", 30 * self.run.slow, f"the job from {source} to {to} ends")
        return ended()

    def keys(self, name):
        hashes = set(self.chains[name])
        return [key for key in self.bodies if blocks.parse_key(key)[3] in hashes]

    def object(self, key):
        status, data = self.gateway.raw(f"/v1/objects/{key}")
        return json.loads(data) if status == 200 else None

    def all_are(self, name, text, test):
        def done():
            bad = [key for key in self.keys(name) if not test(self.object(key))]
            return None if not bad else f"{len(bad)} of {name} are not {text}"
        wait_until(done, 30 * self.run.slow, f"{name} is {text}")


def scenario(run):
    world = World(run)
    one, two = world.chains["one"][0], world.chains["two"][0]
    with run.case("tree and dry runs say what hangs on a block, and change nothing"):
        status, answer, text = world.prefix("tree", world.chains["prompt"][-1], "--depth", "2")
        expect(status == 0, f"{status} {text}")
        root = answer["tree"]
        expect(root["subtree"]["blocks"] == 2 * LENGTH + 1 and len(root["children"]) in (0, 2), f"{root}")
        status, answer, text = world.prefix("pin", one, "--dry-run")
        expect(status == 10 and answer["blocks"] == LENGTH and answer["gateways"][0]["gateway"] == "gw0", f"{answer} {text}")
        status, _answer, text = world.prefix("pin", 12345, "--dry-run")
        expect(status == 3 and f'in namespace "{SPACE}"' in text and "kvtier tenant usage" in text, f"an unknown block: {text}")
        expect(world.prefix("purge", one)[0] == 2, "purged without --yes")
        expect(world.prefix("warm", one)[0] == 9, "all of it is hot")
        expect(world.kvtier("prefix", "top")[0] == 0, "top")
    with run.case("a prefix is pinned, its neighbour is not, and the advisor may be killed meanwhile"):
        status, answer, text = world.prefix("pin", one, "--for", "1h")
        expect(status == 0 and answer["job"]["blocks"] == LENGTH, f"{status} {answer} {text}")
        world.advisor.kill()
        world.advisor.start()
        world.all_are("one", "pinned", lambda row: row is not None and "pinned_until_ms" in row)
        expect(not any("pinned_until_ms" in world.object(key) for key in world.keys("two")), "the neighbour is pinned")
    with run.case("what is pinned stays when it is purged, and its neighbour goes"):
        wait_until(world.advisor.is_ready, 30 * run.slow, "the advisor is ready")
        status, answer, text = world.prefix("purge", two, "--yes", "--wait")
        expect(status == 0, f"{status} {answer} {text}")
        world.all_are("two", "gone", lambda row: row is None)
        status, answer, text = world.prefix("purge", one, "--yes", "--wait")
        expect(status in (1, 4, 6), f"pinned, and purged: {status} {answer} {text}")
        for key in world.keys("one") + world.keys("prompt"):
            expect(world.front.get(key).body == world.bodies[key], f"{key} is gone")
    with run.case("on the second volume it is counted there, held there by its pin, and brought up again"):
        expect(world.prefix("unpin", one, "--wait")[0] == 0, "unpin")
        expect(world.move("one", "hot@gw0", "warm@gw0") == "done", "moved to the second volume")
        wait_until(lambda: None if world.places("warm") == LENGTH else f"{world.places('warm')} places", 30 * run.slow,
                   "the index has heard of it")
        tree = world.prefix("tree", one, "--depth", "0")[1]["tree"]["subtree"]
        expect(tree["warm"] == {"blocks": LENGTH, "bytes": LENGTH * 4096} and tree["hot"]["blocks"] == 0, f"{tree}")
        expect(world.prefix("pin", one, "--wait")[0] == 0, "pin on the second volume")
        expect(world.move("one", "warm@gw0", "cold@kvtier") == "failed", "the pin is heeded there")
        expect(world.prefix("warm", one, "--to", "warm")[0] == 9, "all of it is there")
        status, _answer, text = world.prefix("warm", one, "--to", "cold")
        expect(status == 9, f"all of it is above: {status} {text}")
        status, answer, text = world.prefix("warm", one, "--dry-run")
        expect(status == 10 and [(row["from"], row["to"]) for row in answer["gateways"]] == [("warm", "hot")], f"{answer} {text}")
        status, answer, text = world.prefix("warm", one, "--wait")
        expect(status == 0, f"{status} {answer} {text}")
        wait_until(lambda: None if (world.places("warm"), world.places()) == (0, 2 * LENGTH) else
                   f"{world.places('warm')} and {world.places()} places", 30 * run.slow, "it left the second volume")
    with run.case("unpinned it goes, and what it hangs on stays"):
        status, answer, text = world.prefix("unpin", one, "--wait")
        expect(status == 0, f"{status} {answer} {text}")
        status, answer, text = world.prefix("purge", one, "--yes", "--wait")
        expect(status == 0, f"{status} {answer} {text}")
        world.all_are("one", "gone", lambda row: row is None)
        for key in world.keys("prompt"):
            expect(world.front.get(key).body == world.bodies[key], f"{key} is gone")
        wait_until(lambda: None if world.places() == LENGTH else f"{world.places()} places", 30 * run.slow,
                   "the index has heard of it")


if __name__ == "__main__":
    harness.main(scenario)
