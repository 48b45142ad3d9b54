#!/usr/bin/env python3
"""Instances of an engine, each a leader and a process a rank, over a real MinIO, gateway, NATS and advisor: what one
has computed another pulls, ranks and leaders are killed and started again, no byte is wrong, nothing stays held, and
leaders and advisor agree on who has what."""

import json
import os
import random
import shutil
import signal
import threading
import time

from blocks import base58
from bus import Nats
from harness import expect, main, wait_until

TURNS, LENGTH = 4, 8


def options(parser):
    parser.add_argument("--conversations", type=int, default=60, help="each of 4 turns of 8 blocks")
    parser.add_argument("--kills", type=int, default=8, help="processes killed while the trace is served")


def write_trace(run, name, conversations, rng, first=0):
    """Turns of conversations in a random order, each behind the ones before it; what is asked for was there before.
    `first`: the number of the first one, whose blocks are those of the same number in another trace."""
    turns = [one for one in range(first, first + conversations) for _ in range(TURNS)]
    rng.shuffle(turns)
    said, lines = {}, []
    for at, one in enumerate(turns):
        said[one] = said.get(one, [7, 8, 9]) + [1000 * (one + 1) + len(said.get(one, [])) + k for k in range(LENGTH)]
        lines.append(json.dumps({"timestamp": at, "input_length": 512 * len(said[one]), "output_length": 1,
                                 "hash_ids": said[one]}))
    return run.file(f"{name}.jsonl", "\n".join(lines) + "\n"), len(lines)


def engine(run, name, trace, gateway=None, nats=None, env=None, **more):
    objects = {} if gateway is None else {"gateway.endpoint": f"http://127.0.0.1:{gateway.front}",
                                          "gateway.credentials_file": f"{run.folder}/front.cred",
                                          "gateway.retry": "10s"}
    return run.daemon("kvtier-worker", name, {
        "name": name, "trace": trace, "nats.url": nats.url if nats else "", "gateway.endpoint": "", "stay": "true",
        "block.size": "64KiB", "g1.size": "16MiB", "g2.size": "16MiB", "g3.size": "32MiB", "g3.dir": run.folder,
        "engine.folder": os.path.join(run.folder, f"{name}.d"), **objects, **more}, env)


def served(process, seconds=120):
    def check():
        status = process.status()
        return None if status["finished"] else f"{status['served']} of {status['fed']} served"

    wait_until(check, seconds, f"{process.name} has served its trace", every=0.2)
    return process.status()


def expect_right(status, requests, hops=1):
    expect(status["served"] == requests, f"{status['served']} of {requests} served")
    expect(status["total"]["wrong_bytes"] == 0, f"{status['total']}")
    expect(status["total"]["compared"] > 0 and status["total"]["requests"] >= requests * hops, f"{status['total']}")


def prefixes(trace, rng, count):
    """Beginnings of the trace's requests, some with blocks behind that nobody has."""
    with open(trace, encoding="utf-8") as file:
        requests = [json.loads(line)["hash_ids"] for line in file]
    for _ in range(count):
        ids = rng.choice(requests)
        yield ids[:rng.randint(1, len(ids))] + rng.choice(([], [rng.randrange(1 << 40, 1 << 41)]))


def agree(process, advisor, ids):
    """What each leader says of a prefix is what the advisor says of its holder, else why not."""
    local = process.ask("/v1/find_matches", {"hash_ids": ids})
    question = {"namespace": local["namespace"], "hashes": local["hashes"]}
    told = {(one["holder"], one["tier"]): one["blocks"] for one in advisor.ask("/v1/find_matches", question)["matches"]}
    places = [{one["holder"] for one in block["places"] if one["tier"] in ("G2", "G3")} for block in
              (advisor.ask(f"/v1/blocks/{name}?namespace={local['namespace']}") for name in known(advisor, question))]
    for one in local["instances"]:
        expect(one["answered"], f"instance {one['instance']} does not answer")
        run = next((at for at, holders in enumerate(places) if one["name"] not in holders), len(places))
        mine = one["blocks"], one["blocks_g2"], one["blocks_g3"]
        other = run, told.get((one["name"], "G2"), 0), told.get((one["name"], "G3"), 0)
        if mine != other:
            return f"of {ids} {one['name']} says {mine}, the advisor {other} (all, G2, G3)"
    return None


def known(advisor, question):
    """The hashes up to the first that is nowhere."""
    for block in advisor.ask("/v1/match", question)["blocks"]:
        if not block["tiers"]:
            return
        yield block["hash"]


def expect_agreement(process, advisor, trace, rng, count=100, least=0):
    """For each prefix soon; the pools may still move blocks down when it begins.  `least`: so many blocks of one are
    somewhere, which behind a kill may be none."""
    deepest = 0
    for ids in prefixes(trace, rng, count):
        wait_until(lambda: agree(process, advisor, ids), 20, "leaders and advisor agree", every=0.2)
        deepest = max([deepest] + [one["blocks"] for one in
                                   process.ask("/v1/find_matches", {"hash_ids": ids})["instances"]])
    expect(deepest >= least, f"no leader has more than {deepest} blocks of any prefix")


def expect_nothing_held(process):
    def check():
        held = [(one["pins"], one["matches"], one["peer_sessions"]) for one in process.status()["instances"]]
        return None if all(one == (0, 0, 0) for one in held) else f"pins, matches, sessions: {held}"

    wait_until(check, 20, "nothing is held when all is served", every=0.2)


class Killer:
    """Kills one process of an instance after the other."""

    pause = (0.3, 1.2)  # seconds between two

    def __init__(self, process, count, rng):
        self.process, self.count, self.rng, self.killed = process, count, rng, []
        self.thread = threading.Thread(target=self.run)

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)

    def run(self):
        while len(self.killed) < self.count:
            time.sleep(self.rng.uniform(*self.pause))
            status = self.process.status()
            if status["finished"]:
                return
            alive = [one for one in status["instances"] if one["up"]]
            if not alive:
                continue
            one = self.rng.choice(alive)
            what, pid = ("leader", one["leader"]) if len(self.killed) % 4 == 1 else ("rank", self.rng.choice(one["ranks"]))
            if pid:
                try:
                    self.kill(pid)
                except ProcessLookupError:
                    continue
                self.killed.append(f"{what} of {one['instance']}")


def stopped(process):
    code = process.stop()
    expect(code == 0, f"{process.name} exits {code}: {process.tail()}")


WRONG = [({"instances": 2, "tp": 3}, "tp: 3 ranks cannot share"),
         ({"instances": 3, "instance.roles": "split"}, "need an even number of instances, not 3"),
         ({"replicated": "true"}, "replicated: needs instances"),
         ({"instances": 2, "workers": 2}, "not together with workers"),
         ({"instances": 2, "g3.keep": "true"}, "g3.keep: ranks of instances begin with an empty G3"),
         ({"instances": 2, "tp": 2, "g3.dir": "/proc/none"}, "g3.dir: make folder /proc/none"),
         ({"instances": 2, "tp": 2, "engine.folder": "/" + "x" * 100}, "engine.folder: 101 bytes long")]


def expect_said_once(run, number, settings, text, trace):
    one = engine(run, f"wrong-{number}", trace, **settings).start(wait=False)
    code = one.wait(20)
    with open(one.log, encoding="utf-8") as file:
        lines = file.read().splitlines()
    expect(code != 0 and len(lines) == 1 and text in lines[0], f"{settings}: exit {code}: {lines}")


def expect_all_gone_with(one):
    """Killed: its processes go with it."""
    status = one.status()
    pids = [pid for at in status["instances"] for pid in [at["leader"], *at["ranks"]]]
    expect(len(pids) == 6 and all(os.path.exists(f"/proc/{pid}") for pid in pids), f"{status}")
    one.kill()
    wait_until(lambda: None if not any(is_running(pid) for pid in pids) else "some are there", 10, "all are gone")


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"  # who reaps orphans is not ours
    except (FileNotFoundError, ProcessLookupError):
        return False


def reasons(process):
    """Of being degraded, and ready all the same."""
    status = process.status()
    expect((status["state"] == "degraded") == bool(status["reasons"]), f"{status['state']}: {status['reasons']}")
    code, text = process.raw("/readyz?verbose")
    expect(code == 200, f"/readyz says {code}: {text!r}")
    return status["reasons"]


def wait_reasons(process, *words):
    """There are as many as words, each with one of them."""
    def check():
        said = reasons(process)
        well = len(said) == len(words) and all(any(word in one for one in said) for word in words)
        return None if well else f"{said}, not {words}"

    wait_until(check, 30, f"{process.name} says what is away", every=0.1)


def wait_more(process, figure, least=1):
    """A figure grows: what it counts goes on."""
    before = figure(process.status())
    wait_until(lambda: None if figure(process.status()) >= before + least else f"still {before}", 30,
               f"{process.name} goes on", every=0.1)


def expect_served_without(run, one, nats, gateway, advisor):
    def served_now(status):
        return status["served"] + (1 << 30) * status["finished"]

    wait_more(one, served_now, 20)
    wait_reasons(one)
    gateway.kill()
    wait_reasons(one, "gateway is away")
    wait_more(one, served_now, 20)
    nats.kill()
    advisor.kill()
    wait_reasons(one, "gateway is away", "NATS is away")
    wait_more(one, served_now, 20)
    shutil.rmtree(os.path.join(run.folder, "nats"))  # it comes back without the streams, and only leaders are there
    nats.start()
    wait_reasons(one, "gateway is away")
    client = Nats(nats.url)
    info = json.loads(client.request("$JS.API.STREAM.INFO.KVTIER_EVENTS", b""))
    client.close()
    expect("config" in info, f"{info}")
    advisor.start(seconds=60)
    wait_more(advisor, lambda status: status["events"]["applied"])
    gateway.start(seconds=60)
    wait_reasons(one)
    wait_more(one, lambda status: status["total"]["stored"])
    total = one.status()["total"]
    run.note(f"{total}")
    expect(total["lives"] == 2 and total["wrong_bytes"] == 0 and total["compared"] > 0, f"{total}")


def locks_of(client, name, held=True):
    """Lock objects of what is stored: {key: epoch}, of those that `name` holds, or of all."""
    found = {}
    for key, _ in client.list("kvtier-stores/"):
        lock = json.loads(client.get(key).body)
        if not held or (lock["instance_id"] == name and not lock.get("released")):
            found[key] = lock["epoch"]
    return found


def kill_with_a_lock(process, client, instance=0):
    """Kill a leader while it stores: a rank of its that stands still keeps it at it."""
    for _ in range(100):
        one = process.status()["instances"][instance]
        if not one["up"] or not one["leader"]:
            time.sleep(0.1)
            continue
        os.kill(one["ranks"][1], signal.SIGSTOP)
        time.sleep(0.2)
        locks = locks_of(client, one["name"])
        if locks:
            os.kill(one["leader"], signal.SIGKILL)
            return locks
        os.kill(one["ranks"][1], signal.SIGCONT)
        time.sleep(0.1)
    return None


def all_stored(process):
    waiting = {one["name"]: one["unstored"] for one in process.status()["instances"]}
    return None if not any(waiting.values()) else f"to be stored still: {waiting}"


def expect_stored(process, client, trace):
    """The shards of every block that a leader has are in the bucket."""
    stored = {tuple(key.split(":")[:2]) for key, _ in client.list() if ":" in key}
    ranks = {one[0].split("/")[-2] for one in stored}
    expect(ranks == {"0", "1"}, f"shards of {ranks}")
    looked = 0
    names = {rank: {name for place, name in stored if place.split("/")[-2] == rank} for rank in ranks}
    with open(trace, encoding="utf-8") as file:
        for line in file:
            told = process.ask("/v1/find_matches", {"hash_ids": json.loads(line)["hash_ids"]})
            count = max(one["blocks"] for one in told["instances"])
            mine = {base58(int(name, 16)) for name in told["hashes"][:count]}
            looked += count
            expect(all(mine <= names[rank] for rank in ranks), f"not stored: {mine - (names['0'] & names['1'])}")
    expect(looked > 0, "no leader has anything")


def scenario(run):
    rng = random.Random(run.seed)
    with run.case("what cannot run is said once, and who is killed leaves no process"):
        trace, _ = write_trace(run, "none", 1, rng)
        for number, (settings, text) in enumerate(WRONG):
            expect_said_once(run, number, settings, text, trace)
        one = engine(run, "orphans", trace, instances=2, tp=2).start(seconds=60)
        expect_all_gone_with(one)
    nats = run.nats().start()
    server = run.minio().start(seconds=60)
    run.client(server).create_bucket()
    advisor = run.advisor(nats).start(seconds=60)
    gateway = run.gateway(nats, s3_server=server).start(seconds=60)
    with run.case("two instances of two ranks serve a trace, and pull from each other"):
        trace, requests = write_trace(run, "first", run.args.conversations, rng)
        one = engine(run, "pair", trace, gateway, nats, instances=2, tp=2).start(seconds=60)
        status = served(one)
        run.note(f"{status['total']}")
        expect_right(status, requests)
        expect(status["total"]["lives"] == 2, "an instance was started again")
        expect(status["total"]["hits_peer"] > 0, "nothing was pulled from the other instance")
        expect_nothing_held(one)
    with run.case("each leader says of a prefix what the advisor says of its instance"):
        expect_agreement(one, advisor, trace, rng, least=LENGTH)
        stopped(one)
    with run.case("the same while leaders and ranks are killed"):
        trace, requests = write_trace(run, "second", run.args.conversations * 2, rng)
        one = engine(run, "killed", trace, gateway, nats, instances=2, tp=2).start(seconds=60)
        killer = Killer(one, run.args.kills, rng)
        killer.thread.start()
        status = served(one, 240)
        killer.thread.join()
        run.note(f"killed {killer.killed}: {status['total']}")
        expect(len(killer.killed) > 1 and status["total"]["lives"] > 2, f"killed {killer.killed}")
        expect_right(status, requests)
        expect_nothing_held(one)
    with run.case("the same when instances were killed and started again"):
        expect_agreement(one, advisor, trace, rng)
        os.kill(one.status()["instances"][1]["leader"], signal.SIGKILL)
        wait_until(lambda: None if one.status()["total"]["lives"] > status["total"]["lives"] else "as before", 20,
                   "the killed one is started again")
        wait_until(one.is_ready, 20, "it is ready again")
        expect_agreement(one, advisor, trace, rng, 20)
        stopped(one)
    with run.case("a leader killed with a lock is followed, and all that is kept comes to be stored"):
        client = run.client(server)
        # None of it is in the bucket yet: there is more to store in each part than who is killed takes with it.
        trace, requests = write_trace(run, "locks", run.args.conversations * 3 // 4, rng, first=10000)
        one = engine(run, "locks", trace, gateway, nats, instances=2, tp=2,
                     **{"engine.lease": "3s", "g3.size": "160MiB"}).start(seconds=60)
        locks = kill_with_a_lock(one, client)
        expect(locks, "no leader was found storing")
        status = served(one)
        expect_right(status, requests)
        wait_until(lambda: all_stored(one), 120, "all is stored", every=0.2)
        status = one.status()
        run.note(f"killed with {locks}: {status['total']}")
        expect(status["total"]["lives"] > 2 and status["total"]["store_failed"] == 0, f"{status['total']}")
        expect(status["total"]["lost"] == 0, "G3 was too small for this")
        expect_stored(one, client, trace)
        held = locks_of(client, status["instances"][0]["name"])
        # What was left of its part may have gone with it: its lock is nobody's then, and only runs out.
        expect(all(locks.get(key) == epoch for key, epoch in held.items()),
               f"locks are held when all is stored: {held}, {locks} of who was killed")
        after = locks_of(client, "", held=False)
        run.note(f"locks now {after}")
        expect(any(after[key] > epoch for key, epoch in locks.items()), f"{locks} were not taken over: {after}")
        stopped(one)
    with run.case("gateway and NATS go and come while requests are served, and it says so"):
        trace, _ = write_trace(run, "away", run.args.conversations * 50, rng)
        one = engine(run, "away", trace, gateway, nats, instances=2, tp=2, **{"gateway.retry": "2s"}).start(seconds=60)
        expect_served_without(run, one, nats, gateway, advisor)
        stopped(one)
    for tp, replicated in (("4,2", "false"), ("2,4", "false"), ("2,3", "true")):
        with run.case(f"TP {tp.replace(',', ' prefills, TP ')} decodes what it pulls"
                      + (" (ranks hold the same)" if replicated == "true" else "")):
            trace, requests = write_trace(run, f"tp{tp}", run.args.conversations, rng)
            one = engine(run, f"split-{tp.replace(',', '-')}", trace, instances=2, tp=tp, replicated=replicated,
                         **{"instance.roles": "split"})
            one.start(seconds=60)
            status = served(one)
            run.note(f"{status['total']}")
            expect_right(status, requests, hops=2)
            decode = status["instances"][1]
            expect(decode["computed"] * 4 < decode["blocks"] and decode["hits_peer"] * 4 > decode["blocks"],
                   f"the decode instance computed instead of pulling: {decode}")
            expect_nothing_held(one)
            stopped(one)


if __name__ == "__main__":
    main(scenario, options)
