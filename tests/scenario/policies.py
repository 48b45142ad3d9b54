#!/usr/bin/env python3
"""Policies on a real stack: put over the API, refused, rolled back, killed between and while they are put,
taken from a file; and a block whose rule is explained and then acts."""

import hashlib
import json
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import blocks
import bus
from harness import Failure, expect, expect_same, main, wait_until
from publisher import BYE, STORE, Publisher, differences
from system import hot_keys

SIZE = 64 << 10
COUNT = 16
HOT = 32 * SIZE
WRONG = "version: 1\ntiers: {hot: {level: G3}}\nrules:\n  - {id: a, from: hot, to: colt}\nhuh: 1\n"


def policy(start, stop=None, extra="", mode="enforce"):
    return (f"version: 1\ntiers:\n  hot: {{level: G3}}\n  cold: {{level: G4}}\nrules:\n{extra}"
            f"  - {{id: drain, from: hot, to: cold, trigger: {{start: {start}%, stop: {stop or start - 5}%}}}}\n"
            f"modes: {{mode: {mode}}}\n")


def put(run, advisor, text, expected=None, timeout=20):
    """(status, answer) of a PUT of a policy."""
    request = urllib.request.Request(advisor.url("/v1/policy"), data=text.encode(), method="PUT")
    request.add_header("Authorization", f"Bearer {run.token}")
    if expected is not None:
        request.add_header("If-Match", f'"{expected}"')
    try:
        with urllib.request.urlopen(request, timeout=timeout * run.slow) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


class Model:
    """The versions there should be, as (version, source, text)."""

    def __init__(self, advisor):
        self.advisor = advisor
        first = advisor.ask("/v1/policy?text=1")
        self.versions = [(first["version"], first["source"], first["text"])]

    def add(self, source, text):
        if text != self.versions[-1][2]:
            self.versions.append((self.versions[-1][0] + 1, source, text))

    def check(self):
        now = self.advisor.ask("/v1/policy?text=1")
        expect((now["version"], now["source"], now["text"]) == self.versions[-1],
               lambda: f"in force: {now}; wanted {self.versions[-1]}")
        history = {(row["version"], row["source"], row["digest"])
                   for row in self.advisor.ask("/v1/policy/history")["versions"]}
        expect_same(history, {(version, source, hashlib.sha256(text.encode()).hexdigest())
                              for version, source, text in self.versions[-100:]}, "the history", "what was put")


def start(advisor):
    advisor.start(wait=False)

    def away():
        try:
            return None if advisor.raw("/livez")[0] == 200 else "not alive"
        except OSError as error:
            return str(error)

    wait_until(away, 30 * advisor.run.slow, "the advisor answers", every=0.05)


def change(run, advisor, model):
    """One change, or one that is refused."""
    turn = run.rng.randrange(10)
    if turn < 5:
        text = policy(run.rng.randrange(50, 60))
        status, answer = put(run, advisor, text, expected=model.versions[-1][0])
        expect(status == 200, answer)
        model.add("api", text)
    elif turn < 8:
        version, _, text = run.rng.choice(model.versions)
        advisor.ask("/v1/policy/rollback", {"version": version}, token=run.token)
        model.add(f"rollback of {version}", text)
    elif turn == 8:
        status, answer = put(run, advisor, policy(70), expected=model.versions[-1][0] + 1)
        expect(status == 412, answer)
    else:
        status, answer = put(run, advisor, WRONG)
        expect(status == 400, answer)


def put_until_killed(run, advisor, model):
    """Puts one policy after the other until the advisor is gone; at most one is without an answer."""
    begun = []

    def work():
        try:
            for number in range(10000):
                text = policy(50 + number % 40)
                begun.append(text)
                status, _ = put(run, advisor, text)
                expect(status == 200, status)
                model.add("api", text)
        except (OSError, ValueError):
            pass

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(run.rng.random() * 0.5 * run.slow)
    advisor.kill()
    thread.join()
    start(advisor)
    now = advisor.ask("/v1/policy?text=1")
    if now["version"] != model.versions[-1][0]:
        expect(now["text"] == begun[-1], f"in force is what nobody put last: {now}")
        model.add("api", begun[-1])
    model.check()


class Stack:
    def __init__(self, run):
        self.run = run
        minio = run.minio().start(seconds=60)
        run.client(minio).create_bucket()
        self.nats = nats = run.nats().start()
        self.gateway = run.gateway(nats, s3_server=minio, hot_capacity=HOT,
                                   **{"report.interval": "100ms"}).start(seconds=60)
        self.advisor = run.advisor(nats, policy_mode="enforce",
                                   **{"policy.interval": "100ms"}).start(seconds=60)
        self.file = f"{run.folder}/policy.yaml"

    def kvtier(self, *argv):
        done = subprocess.run(
            [self.run.program("kvtier"), f"--advisor-url={self.advisor.url('')}",
             f"--admin-token-file={self.run.folder}/token", *argv],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=60 * self.run.slow)
        return done.returncode, done.stdout

    def write_file(self, text):
        with open(self.file, "w", encoding="utf-8") as out:
            out.write(text)


def check_refused(run, stack, model):
    status, answer = put(run, stack.advisor, WRONG)
    expect(status == 400, answer)
    places = [(problem["line"], problem["column"]) for problem in answer["problems"]]
    expect(places == [(4, 28), (5, 1)], answer)
    expect("colt" in answer["problems"][0]["text"], answer)
    model.check()
    stack.write_file(WRONG)
    code, out = stack.kvtier("policy", "install", stack.file)
    expect(code == 1 and "policy.yaml:4:28" in out and "policy.yaml:5:1" in out, out)
    model.check()


def check_commands(stack, model):
    text = policy(61)
    stack.write_file(text)
    code, out = stack.kvtier("policy", "install", stack.file, f"--if-version={model.versions[-1][0]}")
    expect(code == 0 and "from           api" in out, out)
    expect("already in force" not in out, out)
    model.add("api", text)
    model.check()
    code, out = stack.kvtier("policy", "install", stack.file)
    expect(code == 0 and f"already in force as version {model.versions[-1][0]}" in out, out)
    model.check()
    code, out = stack.kvtier("policy", "install", stack.file, "--if-version=1")
    expect(code == 6, out)
    code, out = stack.kvtier("policy", "show", "--text")
    expect(code == 0 and out == text, out)
    before = model.versions[-2]
    code, out = stack.kvtier("policy", "rollback")
    expect(code == 0, out)
    model.add(f"rollback of {before[0]}", before[2])
    model.check()
    code, out = stack.kvtier("policy", "history")
    expect(code == 0 and f"rollback of {before[0]}" in out, out)
    code, out = stack.kvtier("policy", "rollback", "999999")
    expect(code == 3, out)


def check_file(stack, model):
    advisor = stack.advisor
    advisor.argv.append(f"--policy-file={stack.file}")
    text = policy(62)
    stack.write_file(text)
    for _ in range(2):
        advisor.kill()
        start(advisor)
        model.add("file", text)
        model.check()
    other = policy(63)
    expect(put(stack.run, advisor, other)[0] == 200, "cannot put")
    model.add("api", other)
    advisor.kill()
    start(advisor)
    model.check()
    stack.write_file(WRONG)
    advisor.kill()
    advisor.start(wait=False)
    expect(advisor.wait(20 * stack.run.slow) not in (0, None), "it started with a wrong policy")
    for part in (f"{stack.file}:4:28", f"{stack.file}:5:1", f"kvtier policy validate {stack.file}"):
        expect(part in advisor.tail(6000), f"no {part} in {advisor.tail(6000)}")
    text = policy(64)
    stack.write_file(text)
    start(advisor)
    model.add("file", text)
    model.check()
    check_hangup(stack, model)


def reasons(stack):
    return " ".join(stack.advisor.ask("/v1/status")["reasons"])


def check_hangup(stack, model):
    """SIGHUP reads the file again; a wrong one is said, and changes nothing."""
    advisor = stack.advisor
    text = policy(66)
    stack.write_file(text)
    advisor.child.send_signal(signal.SIGHUP)
    wait_until(lambda: None if advisor.ask("/v1/policy")["version"] > model.versions[-1][0] else "the former one",
               30 * stack.run.slow, "the file is read again")
    model.add("file", text)
    model.check()
    stack.write_file(WRONG)
    advisor.child.send_signal(signal.SIGHUP)
    wait_until(lambda: None if "the file was not taken" in reasons(stack) else reasons(stack) or "nothing",
               30 * stack.run.slow, "the status says that the file is wrong")
    expect(f"{stack.file}:4:28" in advisor.tail(6000), advisor.tail(2000))
    model.check()
    stack.write_file(text)
    advisor.child.send_signal(signal.SIGHUP)
    wait_until(lambda: "still said" if "the file was not taken" in reasons(stack) else None,
               30 * stack.run.slow, "the status says it no more")
    model.check()


def explained(stack, key):
    """The hot volume's part of an explanation, by the command."""
    code, out = stack.kvtier("block", "explain", f"{key[1]:016x}", f"--namespace={key[0]}", "-o", "json")
    if code == 3 or "HTTP 503" in out:  # it does not know the block, or is still reading its index
        return None
    expect(code == 0, out)
    answer = json.loads(out)
    return next((tier for tier in answer["tiers"] if tier["holder"] == "hot@gw0"), None)


def check_explained(run, stack, model):
    """What is said of a block is what becomes of it."""
    keep = "  - {id: keep, do: exclude, in: hot, when: tenant == acme and hits >= 0}\n"
    expect(put(run, stack.advisor, policy(95, extra=keep))[0] == 200, "cannot put")
    model.add("api", policy(95, extra=keep))
    items = {space: [(space, run.rng.getrandbits(63) | 1) for _ in range(COUNT // 2)]
             for space in ("acme/llama", "other/llama")}
    client = run.client(stack.gateway)
    bodies = [(blocks.key(hash_, namespace=space), run.rng.randbytes(SIZE))
              for row in items.values() for space, hash_ in row]
    expect(set(client.batch_put(bodies)) == {"OK"}, "cannot store")
    first, second = items["acme/llama"][0], items["other/llama"][0]
    wait_until(lambda: None if explained(stack, second) and explained(stack, first) else "not known yet",
               30 * run.slow, "the advisor knows the blocks")

    def filled():
        fill = explained(stack, second)["facts"]["fill"]
        return None if float(fill.rstrip("%")) >= 50 else fill

    wait_until(filled, 30 * run.slow, "the gateway reported")
    kept, drained = explained(stack, first), explained(stack, second)
    expect(kept["rule"] == "keep" and kept["sum"] == "keep has it: it stays", kept)
    expect(drained["rule"] == "drain" and drained["waits"], drained)
    expect(drained["facts"]["tenant"] == "other" and drained["facts"]["size"] == "64KiB", drained)
    expect(drained["order"]["known"] and drained["order"]["blocks"] == COUNT, drained)
    code, out = stack.kvtier("block", "explain", f"{second[1]:016x}", f"--namespace={second[0]}")
    expect(code == 0 and "> drain" in out and "hot@gw0, tier hot: drain has it" in out, out)
    expect(len(hot_keys(stack.gateway)) == COUNT, "something was moved")
    # The tier is half full, with 8 of 16 blocks that stay: it can be drained to a quarter and no further.
    expect(put(run, stack.advisor, policy(40, 26, extra=keep))[0] == 200, "cannot put")
    model.add("api", policy(40, 26, extra=keep))
    wanted = {blocks.key(hash_, namespace=space) for space, hash_ in items["acme/llama"]}

    def waits():
        left = hot_keys(stack.gateway)
        expect(wanted <= left, f"{len(wanted - left)} blocks that a rule keeps have left")
        return None if len(left) <= COUNT // 2 + 1 else f"{len(left)} blocks"

    wait_until(waits, 60 * run.slow, "the drained blocks leave")
    gone = [key for key in items["other/llama"] if blocks.key(key[1], namespace=key[0]) not in hot_keys(stack.gateway)]
    wait_until(lambda: None if explained(stack, gone[0]) is None else "still there", 30 * run.slow,
               "the explanation follows")
    model.check()


def facts_of(stack, key):
    tier = explained(stack, key)
    return None if tier is None else tier["facts"]


def store(run, stack, space, count):
    """`count` new blocks in the hot volume, known to the advisor."""
    items = store_over(run, stack, space, count)
    wait_until(lambda: None if all(explained(stack, item) for item in items) else "not known yet",
               60 * run.slow, "the advisor knows the blocks")
    return items


def keys_of(items):
    return {blocks.key(hash_, namespace=space) for space, hash_ in items}


def refused(stack):
    return stack.gateway.ask("/v1/status")["pins"]["refused"]


def check_pinned(run, stack, model):
    """What a person pinned is a fact, also after a kill: rules leave it alone and nothing is refused."""
    install(run, stack, model, policy(95))
    items = store(run, stack, "pinned/llama", 8)
    for space, hash_ in items[:3]:
        code, out = stack.kvtier("prefix", "pin", f"{hash_:016x}", f"--namespace={space}", "--wait")
        expect(code == 0, out)
    wait_until(lambda: None if all(facts_of(stack, item)["pinned"] for item in items[:3]) else "not pinned",
               60 * run.slow, "the advisor hears of the pins")
    expect(not any(facts_of(stack, item)["pinned"] for item in items[3:]), "others are pinned too")
    sum_ = explained(stack, items[0])["sum"]
    expect(sum_ == "it is pinned: it stays", sum_)
    stack.advisor.kill()
    start(stack.advisor)
    wait_until(lambda: None if explained(stack, items[0]) else "not loaded", 60 * run.slow, "the advisor is back")
    expect(facts_of(stack, items[0])["pinned"], "the pin was forgotten")
    before = refused(stack)
    install(run, stack, model, policy(8, 3))

    def left():
        hot = hot_keys(stack.gateway)
        expect(keys_of(items[:3]) <= hot, "what is pinned has left")
        return f"{len(hot)} blocks" if hot - keys_of(items[:3]) else None

    wait_until(left, 90 * run.slow, "all but what is pinned leaves")
    expect(refused(stack) == before, "the gateway had to refuse what is pinned")
    for space, hash_ in items[:3]:
        code, out = stack.kvtier("prefix", "unpin", f"{hash_:016x}", f"--namespace={space}", "--wait")
        expect(code == 0, out)
    wait_until(lambda: f"{len(hot_keys(stack.gateway))} blocks" if len(hot_keys(stack.gateway)) > 1 else None,
               120 * run.slow, "what is pinned no more leaves")
    model.check()


def install(run, stack, model, text):
    status, answer = put(run, stack.advisor, text)
    expect(status == 200, answer)
    model.add("api", text)


def check_quotas(run, stack, model):
    """Beyond its soft quota a tenant's blocks leave, and nobody else's."""
    quotas = f"quotas:\n  - {{tenant: many, tier: hot, soft: {3 * SIZE}B, hard: {10 * SIZE}B}}\n"
    install(run, stack, model, policy(95) + quotas)
    others = store(run, stack, "few/llama", 6)
    items = store_over(run, stack, "many/llama", 8)

    def above():
        hot = hot_keys(stack.gateway)
        expect(keys_of(others) <= hot, "blocks of another tenant have left")
        left = len(keys_of(items) & hot)
        expect(left >= 3, f"{left} blocks of the tenant are left")
        return f"{left} blocks" if left > 3 else None

    wait_until(above, 90 * run.slow, "the tenant is at its quota")

    def shown():
        quotas = stack.advisor.ask("/v1/quotas")["quotas"]  # none before its first look
        seen = [(quota["used_bytes"], quota["above"]) for quota in quotas]
        return None if seen == [(3 * SIZE, "within")] else f"{quotas}"

    wait_until(shown, 30 * run.slow, "the quota is shown")
    code, out = stack.kvtier("tenant", "usage", "-o", "json")
    expect(code == 0 and json.loads(out)["quotas"][0]["tenant"] == "many", out)
    stack.advisor.kill()
    start(stack.advisor)
    wait_until(shown, 60 * run.slow, "the quota is counted again after a kill")
    expect(keys_of(others) <= hot_keys(stack.gateway), "blocks of another tenant have left")
    model.check()


def check_leavers(run, stack, model):
    """A worker that leaves as a whole takes its blocks' last holder away; one that is asked for all it has does not."""
    gone = "  - {id: gone, from: hot, to: cold, on: last_holder_removed}\n"
    install(run, stack, model, policy(95, extra=gone))
    items = store(run, stack, "leavers/llama", 8)
    listener = bus.Nats(stack.nats.url)
    workers = [Publisher(listener, f"leaver-{i}", "leavers/llama") for i in range(2)]
    for worker, count in zip(workers, (8, 3)):
        worker.publish([worker.event(STORE, 0, hash_) for _, hash_ in items[:count]])
    wait_until(lambda: differences(stack.advisor, workers), 60 * run.slow, "the advisor knows what workers have")
    workers[0].ring.clear()
    workers[0].next_seq += 1  # an event is lost, and only a dump can bring it
    workers[0].heartbeat()
    wait_until(lambda: differences(stack.advisor, workers) if workers[0].asked["dump"] else "not asked",
               60 * run.slow, "the advisor asked for all of it")
    time.sleep(1)
    expect(keys_of(items) <= hot_keys(stack.gateway), "a dump made blocks leave")
    workers[0].rebirth()
    workers[0].heartbeat()

    def left(stays, goes):
        hot = hot_keys(stack.gateway)
        expect(keys_of(stays) <= hot, "what a worker still has left")
        return f"{len(hot & keys_of(goes))} blocks" if hot & keys_of(goes) else None

    wait_until(lambda: left(items[:3], items[3:]), 60 * run.slow, "what the first had alone leaves")
    workers[1].publish([workers[1].event(BYE, 0, 0)])
    wait_until(lambda: left([], items), 60 * run.slow, "what the second had leaves")
    model.check()


def store_over(run, stack, space, count):
    """As store(), of blocks that leave while they come."""
    items = [(space, run.rng.getrandbits(63) | 1) for _ in range(count)]
    bodies = [(blocks.key(hash_, namespace=space), run.rng.randbytes(SIZE)) for space, hash_ in items]
    expect(set(run.client(stack.gateway).batch_put(bodies)) == {"OK"}, "cannot store")
    return items


def scenario(run):
    rounds = 4 if run.sanitized else 15
    stack = Stack(run)
    advisor = stack.advisor
    model = Model(advisor)
    with run.case("without a policy the settings are one, version 1"):
        expect(model.versions[0][:2] == (1, "settings"), model.versions)
        model.check()
    with run.case("a wrong policy is refused with every mistake and its place, and changes nothing"):
        check_refused(run, stack, model)
    with run.case("install, show, history and rollback, by the commands"):
        check_commands(stack, model)
    with run.case(f"{rounds} times changes and kill -9: version and history are what was answered"):
        for _ in range(rounds):
            for _ in range(run.rng.randrange(4)):
                change(run, advisor, model)
            advisor.kill()
            start(advisor)
            model.check()
    with run.case(f"{rounds} times kill -9 while policies are put: the last answered one, or the one begun"):
        for _ in range(rounds):
            put_until_killed(run, advisor, model)
    with run.case("a file is installed when it changes, and a wrong one is no start"):
        check_file(stack, model)
    with run.case("a block is explained, and what is said of it is what becomes of it"):
        check_explained(run, stack, model)
    with run.case("what is pinned is a fact, also after a kill, and nothing of it is ordered"):
        check_pinned(run, stack, model)
    with run.case("a tenant beyond its quota loses its own blocks, and nobody else does"):
        check_quotas(run, stack, model)
    with run.case("a worker that leaves as a whole is the end of what it had alone"):
        check_leavers(run, stack, model)


if __name__ == "__main__":
    main(scenario)
