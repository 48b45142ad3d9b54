#!/usr/bin/env python3
"""Hot reads of the running system are those that `kvtier policy simulate` foretold.

A generated workload is read through a real gateway while the advisor keeps the hot volume between its marks;
the same requests are simulated with a hot tier of the size between them.  The shares of reads that were served
hot are no more than --points apart.  A request comes when the advisor has heard of the one before and its
orders are carried out: a tier that is turned over faster than orders come back is not what is compared."""

import json
import subprocess
import time

import blocks
from harness import expect, main, wait_until

SIZE = 16 << 10
QUIET = 0.4      # seconds without a new order, after which none follows: four ticks of the orderings
VOLUME = 20000   # blocks the hot volume has room for; the marks are shares of it
GAP = 25         # blocks between the marks
POLICY = """version: 1
tiers:
  hot: {{level: G3}}
  cold: {{level: G4}}
rules:
  - {{id: up, from: cold, to: hot, on: second_cold_hit, promote_by: price}}
  - {{id: down, from: hot, to: cold, trigger: {{start: {start:.4f}%, stop: {stop:.4f}%}}}}
modes: {{mode: enforce}}
"""


class Demo:
    def __init__(self, run, capacity):
        self.run = run
        name = f"-{len(run.processes)}"
        self.minio = run.minio("minio" + name).start(seconds=60)
        run.client(self.minio).create_bucket()
        self.nats = run.nats("nats" + name).start()
        start, stop = (100 * (capacity + half) / VOLUME for half in (GAP // 2, GAP // 2 - GAP))
        policy = run.file("policy.yaml", POLICY.format(start=start, stop=stop))
        self.gateway = run.gateway(self.nats, "gw" + name, s3_server=self.minio, hot_capacity=VOLUME * SIZE,
                                   **{"report.interval": "100ms"}).start(seconds=60)
        self.advisor = run.advisor(self.nats, "advisor" + name, policy_mode="enforce", policy_file=policy,
                                   **{"policy.interval": "100ms"}).start(seconds=60)
        self.front = run.client(self.gateway)
        self.keys = {}
        self.issued = 0       # orders, and since when
        self.quiet_since = 0

    def key(self, chain, depth):
        block = chain[depth]
        if block not in self.keys:
            parent = chain[depth - 1] + 1 if depth > 0 else 0
            self.keys[block] = blocks.key(block + 1, depth, parent, namespace="acme/llama")
        return self.keys[block]

    def request(self, chain):
        """Its blocks from the last to the first: those that are known are read, the others written."""
        known, new = [], []
        for depth in reversed(range(len(chain))):
            (known if chain[depth] in self.keys else new).append(depth)
        if known:
            answers = self.front.batch_get([self.key(chain, depth) for depth in known])
            expect(all(status == "OK" and body == self.body(chain[depth])
                       for depth, (status, _, body) in zip(known, answers)), answers)
        if new:
            answers = self.front.batch_put([(self.key(chain, depth), self.body(chain[depth])) for depth in new])
            expect(all(status == "OK" for status in answers), answers)
        return len(known)

    @staticmethod
    def body(block):
        return block.to_bytes(8, "little") * (SIZE // 8)

    def reads(self):
        """{result: how many}, as the gateway counts them."""
        counts = dict.fromkeys(("hot", "cold", "miss"), 0)
        for line in self.gateway.raw("/metrics")[1].decode().splitlines():
            if line.startswith("kvtier_gateway_reads_total{"):
                counts[line.split('result="')[1].split('"')[0]] = int(float(line.split()[-1]))
        return counts

    def stop(self):
        for process in (self.advisor, self.gateway, self.minio, self.nats):
            process.stop()

    def unsettled(self):
        """What the advisor has not heard of, or may still order; None: nothing."""
        status, heard = self.advisor.status(), self.advisor.ask("/v1/overview")["reads"]
        issued, now = status["orders"]["issued"], time.monotonic()
        if issued != self.issued or status["orders"]["pending"] > 0:
            self.issued, self.quiet_since = issued, now
        if {result: heard[result] for result in ("hot", "cold", "miss")} != self.reads():
            self.quiet_since = now
            return f"heard of {heard}"
        if status["events"]["lag"] > 0 or now < self.quiet_since + QUIET:
            return status
        return None


def compare(run, seed):
    """(reads, those of them that were served hot, those foretold)."""
    trace = f"{run.folder}/trace.jsonl"
    with open(trace, "w", encoding="utf-8") as out:
        subprocess.run([run.program("kvtier"), "workload", "generate", f"--requests={run.args.requests}",
                        f"--seed={seed}", "--sessions=40"], stdout=out, check=True)
    with open(trace, encoding="utf-8") as lines:
        chains = [json.loads(line)["hash_ids"] for line in lines]
    capacity = len({block for chain in chains for block in chain}) // 5
    demo = Demo(run, capacity)
    reads = 0
    for chain in chains:
        reads += demo.request(chain)
        demo.quiet_since = time.monotonic()
        wait_until(demo.unsettled, 60 * run.slow, "reports are heard and orders are carried out", every=0.02)
    done = subprocess.run([run.program("kvtier"), "policy", "simulate", trace, "--orderings=rhi",
                           f"--sizes={capacity}", "-o", "json"], stdout=subprocess.PIPE, check=True)
    foretold = json.loads(done.stdout)["runs"][0]
    counts = demo.reads()
    demo.stop()
    expect(sum(counts.values()) == reads and counts["miss"] == 0, f"{reads} reads are counted as {counts}")
    expect(foretold["hot_reads"] + foretold["cold_reads"] == reads, foretold)
    live, wanted = (100 * hot / reads for hot in (counts["hot"], foretold["hot_reads"]))
    run.note(f"workload {seed}: {len(chains)} requests, {reads} reads, a fifth of the blocks hot: "
             f"{live:.2f} % of reads served hot, {wanted:.2f} % foretold")
    return reads, counts["hot"], foretold["hot_reads"]


def scenario(run):
    first = run.seed % 1000
    with run.case(f"hot reads differ by at most {run.args.points:g} points from those foretold"):
        reads, live, wanted = (sum(column) for column in zip(
            *(compare(run, first + i) for i in range(run.args.workloads))))
        expect(abs(live - wanted) * 100 <= run.args.points * reads,
               f"{100 * live / reads:.2f} % live, {100 * wanted / reads:.2f} % simulated")


def options(parser):
    parser.add_argument("--workloads", type=int, default=1, help="one after the other (default 1)")
    parser.add_argument("--requests", type=int, default=100, help="of each (default 100)")
    parser.add_argument("--points", type=float, default=10, help="most that they may differ by (default 10)")


if __name__ == "__main__":
    main(scenario, options)
