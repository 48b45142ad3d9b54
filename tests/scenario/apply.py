#!/usr/bin/env python3
"""Plans applied while advisor, gateway and command are killed with -9 at random instants, on a real NATS and MinIO.

Whatever is killed when, running `kvtier policy apply` again brings what the plan says and nothing else: one job,
one new version of the policy, and in hot volume and bucket what was there, without what the plan takes away."""

import json
import os
import subprocess
import time

import blocks
from harness import expect, expect_same, main, wait_until
from system import hot_keys

SPACES = [f"tenant{n}/model" for n in range(10)]
PER_SPACE = 40
SIZE = 16 << 10
HOT = SIZE * len(SPACES) * PER_SPACE * 2  # half full
KILLS = 12

POLICY = """version: 1
tiers:
  hot: {level: G3}
  cold: {level: G4}
defaults: {order_by: lru}
rules:
  - id: drain-hot
    from: hot
    to: cold
    trigger: {start: %d%%, stop: %d%%}
  - id: drain-cold
    in: cold
    do: expire
    trigger: {start: %d%%, stop: %d%%}
modes: {mode: observe, max_delete: %d}
"""


def policy_of(hot_stop, cold_stop=90, max_delete=0):
    return POLICY % (max(30, hot_stop + 5), hot_stop, cold_stop + 5, cold_stop, max_delete)


def options(parser):
    parser.add_argument("--kills", type=int, default=KILLS, help=f"how many (default {KILLS})")


class Rig:
    def __init__(self, run):
        self.run = run
        minio = run.minio().start(seconds=60)
        self.bucket = run.client(minio)
        self.bucket.create_bucket()
        nats = run.nats().start()
        self.advisor = run.advisor(nats, policy_mode="observe", **{"policy.interval": "100ms"}).start()
        self.gateway = run.gateway(nats, s3_server=minio, hot_capacity=HOT, cold_capacity=HOT,
                                   **{"report.interval": "100ms"}).start(seconds=60)
        self.keys = {}
        client = run.client(self.gateway)
        for space in SPACES:
            parent = 0
            for position in range(PER_SPACE):
                block = run.rng.getrandbits(64)
                self.keys[block] = (blocks.key(block, position, parent, space), space, position, parent)
                answers = client.batch_put([(self.keys[block][0], run.rng.randbytes(SIZE))])
                expect(set(answers) == {"OK"}, f"cannot store: {answers}")
                parent = block
        self.known(len(self.keys))

    def known(self, hot):
        """The advisor knows how full the hot volume is, and that so many blocks are in it."""
        def missing():
            for tier in self.advisor.status()["tiers"]:
                if tier["name"] == "hot@gw0" and tier["blocks"] == hot and tier["used_bytes"] > 0:
                    return self.misses(hot)
            return str(self.advisor.status()["tiers"])
        wait_until(missing, 60 * self.run.slow, f"the advisor knows of {hot} blocks in the hot volume")

    def misses(self, hot):
        """By its own index, which the report may be ahead of."""
        rows = [row for row in self.advisor.pages("/v1/index/dump") if row["holder"] == "hot@gw0"]
        return None if len(rows) == hot else f"{len(rows)} rows"

    def argv(self, *words):
        return [self.run.program("kvtier"), *words, f"--advisor-url={self.advisor.url('')}",
                f"--admin-token-file={self.run.folder}/token"]

    def kvtier(self, *words, status=0):
        done = subprocess.run(self.argv(*words), capture_output=True, text=True, cwd=self.run.folder,
                              timeout=300 * self.run.slow, check=False)
        expect(done.returncode == status, lambda: f"{words}: {done.returncode} {done.stdout} {done.stderr}")
        return done.stdout

    def plan(self, *stops, **more):
        policy = self.run.file("policy.yaml", policy_of(*stops, **more))
        self.kvtier("policy", "plan", policy, "--out", "plan.json")
        with open(os.path.join(self.run.folder, "plan.json"), encoding="utf-8") as file:
            return json.load(file)

    def hashes(self, plan):
        return [int(text.split()[0], 16) for moves in plan["moves"] for text in moves["blocks"]]

    def version(self):
        return self.advisor.ask("/v1/policy")["version"]

    def jobs(self, plan):
        return self.advisor.ask(f"/v1/jobs?key=plan:{plan['digest']}")["jobs"]

    def expect_hot(self, gone, deleted=frozenset()):
        left = {key for block, (key, *_) in self.keys.items() if block not in gone | deleted}
        expect_same(hot_keys(self.gateway), left, "the hot volume", "what the plan leaves")
        found = {key for space in SPACES for key, _size in self.bucket.list(f"{space}/")}
        left = {key for block, (key, *_) in self.keys.items() if block not in deleted}
        expect_same(found, left, "the bucket", "what the plan leaves")

    def bring_back(self, gone):
        """All of it into the hot volume again, by a job."""
        moves = [{"verb": "warm", "gateway": "gw0", "namespace": space,
                  "blocks": [{"hash": f"{block:016x}", "parent": f"{parent:016x}", "position": position, "ranks": 1}
                             for block, (_, of, position, parent) in self.keys.items() if of == space and block in gone]}
                 for space in SPACES]
        moves = [some for some in moves if some["blocks"]]
        token = open(os.path.join(self.run.folder, "token"), encoding="utf-8").read().strip()
        job = self.advisor.ask("/v1/jobs", {"kind": "test", "title": "back", "moves": moves}, token)["job"]["id"]
        wait_until(lambda: None if self.advisor.ask(f"/v1/jobs/{job}")["job"]["state"] == "done"
                   else str(self.advisor.ask(f"/v1/jobs/{job}")), 120 * self.run.slow, "the blocks are back")
        self.known(len(self.keys))


def kill_one(rig, command):
    run = rig.run
    victim = run.rng.choice(("command", "advisor", "gateway"))
    if victim == "command":
        command.kill()
        return
    daemon = getattr(rig, victim)
    daemon.kill()
    time.sleep(run.rng.random() * 0.2)
    daemon.start(seconds=60)


def apply_killed(rig, kills, *flags):
    """Apply until it is through, and kill something again and again on its way; how often."""
    run, killed = rig.run, 0
    while True:
        child = subprocess.Popen(rig.argv("policy", "apply", "plan.json", "--yes", *flags), cwd=run.folder,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while killed < kills and child.poll() is None:
            time.sleep(run.rng.random() ** 2 * 0.4)
            if child.poll() is None:
                kill_one(rig, child)
                killed += 1
        text = child.communicate(timeout=300 * run.slow)[0]
        if child.returncode == 0:
            return killed
        # Killed itself, or the advisor was away when it asked: that is said to be temporary.
        expect(child.returncode in (-9, 5), f"apply: {child.returncode} {text}")


def scenario(run):
    rig = Rig(run)
    base = rig.version()
    with run.case("the same moment has the same plan, and nothing is changed by planning"):
        policy = policy_of(20)
        now_ms = int(time.time() * 1000)
        first, second = (rig.advisor.ask("/v1/plan", {"policy": policy, "now_ms": now_ms}, rig.run.token) for _ in range(2))
        expect(first == second and first["moves"], "two plans differ")
        rig.expect_hot(set())
        expect(rig.version() == base, "planning changed the policy")
    with run.case("a plan that was changed, or is stale, or deletes too much, is not begun"):
        plan = rig.plan(20)
        plan["moves"][0]["blocks"].pop()
        run.file("changed.json", json.dumps(plan))
        rig.kvtier("policy", "apply", "changed.json", "--yes", status=8)
        rig.kvtier("policy", "apply", "plan.json", status=10)
        rig.kvtier("policy", "install", run.file("other.yaml", policy_of(25)))
        rig.kvtier("policy", "apply", "plan.json", "--yes", status=6)
        rig.kvtier("policy", "rollback")
        rig.expect_hot(set())
        expect(not rig.jobs(plan), "a job was made")
    with run.case("paused: the job waits, over a restart; resumed: it is done"):
        plan = rig.plan(15)
        rig.kvtier("migrate", "pause")
        rig.kvtier("policy", "apply", "plan.json", "--yes", "--detach")
        rig.advisor.kill()
        rig.advisor.start()
        time.sleep(1)
        rig.expect_hot(set())
        rig.kvtier("migrate", "resume")
        rig.kvtier("policy", "apply", "plan.json", "--yes")
        gone = set(rig.hashes(plan))
        rig.expect_hot(gone)
        rig.bring_back(gone)
    killed, rounds = 0, 0
    with run.case(f"{run.args.kills} kills of advisor, gateway and command: the end is the plan's"):
        while killed < run.args.kills:
            before = rig.version()
            plan = rig.plan(10 + rounds % 2 * 5)
            gone = set(rig.hashes(plan))
            expect(len(gone) > len(rig.keys) // 3, f"a plan of {len(gone)} blocks is no test")
            killed += apply_killed(rig, min(12, run.args.kills - killed))
            rounds += 1
            jobs = rig.jobs(plan)
            expect(len(jobs) == 1 and jobs[0]["state"] == "done", jobs)
            expect(jobs[0]["done"] == len(gone) and jobs[0]["blocks"] == len(gone), jobs)
            rig.expect_hot(gone)
            now = rig.advisor.ask("/v1/policy")
            expect(now["version"] == before + (plan["policy_digest"] != plan["base_digest"]), now)
            expect(now["digest"] == plan["policy_digest"], now)
            rig.bring_back(gone)
        run.note(f"{killed} kills in {rounds} plans")
    with run.case("applied several times at once, it is done once"):
        for _ in range(5):
            before = rig.version()
            plan = rig.plan(14 if before % 2 else 16)
            gone = set(rig.hashes(plan))
            commands = [subprocess.Popen(rig.argv("policy", "apply", "plan.json", "--yes"), cwd=run.folder,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                        for _ in range(6)]
            for command in commands:
                text = command.communicate(timeout=300 * run.slow)[0]
                expect(command.returncode == 0, f"apply: {command.returncode} {text}")
            jobs = rig.jobs(plan)
            expect(len(jobs) == 1 and jobs[0]["done"] == jobs[0]["blocks"] == len(gone), jobs)
            expect(rig.version() == before + 1, "more than one version")
            rig.expect_hot(gone)
            rig.bring_back(gone)
    with run.case("rollback restores the policy of before"):
        plan = rig.plan(12)
        rig.kvtier("policy", "apply", "plan.json", "--yes")
        rig.kvtier("policy", "rollback")
        expect(rig.advisor.ask("/v1/policy")["digest"] == plan["base_digest"], "another policy is in force")
        rig.expect_hot(set(rig.hashes(plan)))
        rig.bring_back(set(rig.hashes(plan)))
    with run.case("what a plan deletes is gone, all of it and nothing else, whatever was killed; more is refused"):
        plan = rig.plan(90, 30, max_delete=10)
        deleted = set(rig.hashes(plan))
        expect({moves["verb"] for moves in plan["moves"]} == {"delete"} and len(deleted) > len(rig.keys) // 4, plan["summary"])
        rig.kvtier("policy", "apply", "plan.json", "--yes", status=7)
        rig.expect_hot(set())
        apply_killed(rig, min(8, run.args.kills), f"--max-delete={len(deleted)}")
        rig.expect_hot(set(), deleted)
    with run.case("where the new policy acts at once: the plan and no more is deleted, and the bucket ends at its stop"):
        # From the stop of before to half of it.
        rig.advisor.kill()  # what was only observed would keep the rule back until it expires
        rig.advisor.start(seconds=60)
        rig.known(len(rig.keys) - len(deleted))
        rig.advisor.ask("/v1/policy/mode", {"mode": "enforce"}, run.token)
        file = run.file("policy.yaml", policy_of(90, 15).replace("mode: observe", "mode: enforce"))
        rig.kvtier("policy", "plan", file, "--out", "plan.json")
        with open(os.path.join(run.folder, "plan.json"), encoding="utf-8") as text:
            plan = json.load(text)
        more = set(rig.hashes(plan))
        expect(len(more) > len(rig.keys) // 4 and not more & deleted, plan["summary"])
        rig.gateway.kill()  # what it reported last wants the rule to delete, as long as the job's orders wait
        rig.kvtier("policy", "apply", "plan.json", "--yes", "--detach", f"--max-delete={len(more)}")
        time.sleep(3)
        rig.gateway.start(seconds=60)
        rig.kvtier("policy", "apply", "plan.json", "--yes", f"--max-delete={len(more)}")
        time.sleep(6)  # reports and rounds of the planner in which the rules may do what they want
        rig.expect_hot(set(), deleted | more)
        orders = [order for order in rig.advisor.ask("/v1/orders")["orders"]
                  if order["reason"] == "drain-cold" and order["state"] != "observed"]
        expect(not orders, lambda: f"the rule ordered too: {orders[:3]}")


if __name__ == "__main__":
    main(scenario, options)
