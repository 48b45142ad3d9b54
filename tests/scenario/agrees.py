#!/usr/bin/env python3
"""Hot reads of the running system are those that `kvtier policy simulate` foretold.

A generated workload is read through a real gateway while the advisor keeps the hot volume between its marks,
and a worker tells of its blocks, as engines do.  The same requests, at the times at which they came, are simulated
under the same policy.  The share of reads that were served hot is what is foretold, give or take --points: for that
tier, or for one of up to --room blocks more or less, for how full it is between its marks when a request comes is
chance, and where requests are few, that many blocks may decide about a fifth of all reads.  A request comes when the
advisor has heard of the one before and its orders are carried out: a tier that is turned over faster than orders come
back is not what is compared."""

import json
import subprocess
import time

import blocks
import bus
from harness import expect, main, wait_until
from publisher import STORE, Publisher

SIZE = 16 << 10
QUIET = 0.4      # seconds without a new order, after which none follows: four ticks of the orderings
VOLUME = 20000   # blocks the hot volume has room for; the marks are shares of it
GAP = 25         # blocks between the marks
SHARES = (5, 10, 3)  # one block of so many is hot, of one workload after the other
SPACE = "acme/llama"
POLICY = """version: 1
tiers:
  hot: {{level: G3}}
  cold: {{level: G4}}
rules:
  - {{id: up, from: cold, to: hot, on: second_cold_hit, promote_by: price}}
  - {{id: down, from: hot, to: cold, trigger: {{start: {start:.4f}%, stop: {stop:.4f}%}}}}
modes: {{mode: enforce}}
"""


def policy_of(capacity):
    """It keeps about so many blocks hot."""
    start, stop = (100 * (capacity + half) / VOLUME for half in (GAP // 2, GAP // 2 - GAP))
    return POLICY.format(start=start, stop=stop)


class Demo:
    def __init__(self, run, capacity):
        self.run = run
        name = f"-{len(run.processes)}"
        self.minio = run.minio("minio" + name).start(seconds=60)
        run.client(self.minio).create_bucket()
        self.nats = run.nats("nats" + name).start()
        policy = run.file("policy.yaml", policy_of(capacity))
        self.gateway = run.gateway(self.nats, "gw" + name, s3_server=self.minio, hot_capacity=VOLUME * SIZE,
                                   **{"report.interval": "100ms"}).start(seconds=60)
        self.advisor = run.advisor(self.nats, "advisor" + name, policy_mode="enforce", policy_file=policy,
                                   **{"policy.interval": "100ms"}).start(seconds=60)
        self.listener = bus.Nats(self.nats.url)
        self.worker = Publisher(self.listener, "worker", SPACE)
        self.front = run.client(self.gateway)
        self.keys = {}
        self.issued = 0       # orders, and since when
        self.quiet_since = 0

    def key(self, chain, depth):
        block = chain[depth]
        if block not in self.keys:
            parent = chain[depth - 1] + 1 if depth > 0 else 0
            self.keys[block] = blocks.key(block + 1, depth, parent, namespace=SPACE)
        return self.keys[block]

    def request(self, chain):
        """Its blocks from the last to the first: those that are known are read, the others written."""
        known, new = [], []
        for depth in reversed(range(len(chain))):
            (known if chain[depth] in self.keys else new).append(depth)
        self.worker.publish([self.worker.event(STORE, 0, chain[depth] + 1, chain[depth - 1] + 1 if depth > 0 else 0,
                                               depth) for depth in sorted(new)])
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
        self.listener.close()
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


def foretell(run, trace, capacity):
    """What is simulated where about so many blocks are hot."""
    policy = run.file(f"policy-{capacity}.yaml", policy_of(capacity))
    done = subprocess.run([run.program("kvtier"), "policy", "simulate", trace, f"--policy={policy}",
                           f"--capacity=hot={VOLUME * SIZE}B", f"--block-size={SIZE}B", "-o", "json"],
                          stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def compare(run, seed, share):
    """(reads, those of them that were served hot, those foretold for less room, this room, more room)."""
    trace = f"{run.folder}/trace.jsonl"
    timed = f"{run.folder}/timed.jsonl"
    with open(trace, "w", encoding="utf-8") as out:
        subprocess.run([run.program("kvtier"), "workload", "generate", f"--requests={run.args.requests}",
                        f"--seed={seed}", "--sessions=40"], stdout=out, check=True)
    with open(trace, encoding="utf-8") as lines:
        requests = [json.loads(line) for line in lines]
    capacity = len({block for request in requests for block in request["hash_ids"]}) // share
    demo = Demo(run, capacity)
    reads = 0
    for request in requests:
        request["timestamp"] = int(time.time() * 1000)
        reads += demo.request(request["hash_ids"])
        demo.quiet_since = time.monotonic()
        wait_until(demo.unsettled, 60 * run.slow, "reports are heard and orders are carried out", every=0.02)
    with open(timed, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(request) + "\n" for request in requests)
    foretold = [foretell(run, timed, capacity + more) for more in (-run.args.room, 0, run.args.room)]
    wanted = [one["tiers"][0]["reads"] for one in foretold]
    counts = demo.reads()
    demo.stop()
    expect(sum(counts.values()) == reads and counts["miss"] == 0, f"{reads} reads are counted as {counts}")
    expect(all(one["known_reads"] == reads for one in foretold), foretold)
    run.note(f"workload {seed}: {len(requests)} requests, {reads} reads, one block of {share} hot: "
             f"{shares([counts['hot']], reads)} of reads served hot, foretold for {run.args.room} blocks less, as many, "
             f"so many more: {shares(wanted, reads)}")
    return reads, counts["hot"], *wanted


def shares(counts, reads):
    return ", ".join(f"{100 * count / reads:.2f} %" for count in counts)


def scenario(run):
    first = run.seed % 1000
    with run.case(f"hot reads differ by at most {run.args.points:g} points from those foretold"):
        reads, live, *wanted = (sum(column) for column in zip(
            *(compare(run, first + i, SHARES[i % len(SHARES)]) for i in range(run.args.workloads))))
        slack = run.args.points * reads / 100
        expect(min(wanted) - slack <= live <= max(wanted) + slack,
               f"{shares([live], reads)} live, {shares(wanted, reads)} simulated")


def options(parser):
    parser.add_argument("--workloads", type=int, default=1, help="one after the other (default 1)")
    parser.add_argument("--requests", type=int, default=100, help="of each (default 100)")
    parser.add_argument("--points", type=float, default=10, help="most that they may differ by (default 10)")
    parser.add_argument("--room", type=int, default=GAP, help=f"blocks that decide by chance (default {GAP})")


if __name__ == "__main__":
    main(scenario, options)
