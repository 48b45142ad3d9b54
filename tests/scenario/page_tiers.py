#!/usr/bin/env python3
"""The advisor's page and `kvtier top` with a gateway of four tiers: they stand from the top down with their
watermarks, blocks flow by edges, at 400 and 1280 px, in light and dark, by keyboard, and nothing complains."""

import os
import subprocess
import time

import browser
import page
from harness import expect, main, wait_until
from page import attempt

SIZE = page.SIZE
RUNGS = ["hot", "warm", "cold", "far"]
NAMES = ["hot@gw0", "warm@gw0", "cold@near", "cold@far"]
# Whatever the policy does besides: each edge is used, by the blocks of some conversation.
MOVES = [("demote", "hot", "warm", 0), ("demote", "hot", "warm", 9), ("demote", "warm", "cold", 0), ("demote", "cold", "far", 5),
         ("promote", "cold", "warm", 0), ("promote", "warm", "hot", 9)]
EDGES = {(source, to) for _, source, to, _ in MOVES}
POLICY = """version: 1
tiers:
  ssd: {level: G3, holders: "hot@*", capacity: 3MiB}
  hdd: {level: G3, holders: "warm@*", capacity: 2MiB}
  near: {level: G4, holders: cold@near, capacity: 4MiB}
  far: {level: G4, holders: cold@far, capacity: 64MiB}
defaults: {protect_recent: 1s}
rules:
  - {id: up, from: hdd, to: ssd, on: second_cold_hit}
  - {id: back, from: near, to: hdd, on: second_cold_hit}
  - {id: near-again, from: far, to: near, on: second_cold_hit}
  - {id: down, from: ssd, to: hdd, trigger: {start: 80%, stop: 60%}}
  - {id: on, from: hdd, to: near, trigger: {start: 85%, stop: 50%}}
  - {id: away, from: near, to: far, trigger: {start: 90%, stop: 70%}}
modes: {mode: enforce}
"""


def settled(advisor):
    told = advisor.ask("/v1/overview")
    moved = {(edge["from"], edge["to"]) for edge in told["flow"] if edge["blocks"] > 0}
    if [tier["rung"] for tier in told["tiers"]] != RUNGS:
        return f"{told['tiers']}"
    if not EDGES <= moved:
        return f"nothing moved along {EDGES - moved}"
    return None if told["verdict"]["ok"] else f"{told['verdict']}"


def known(advisor):
    expect(len(advisor.status()["tiers"]) == 4, "four tiers")


def move(run, advisor, chain, verb, source, to):
    """A job of the blocks of a conversation, until it has ended."""
    hashes = [hash_ for _, hash_ in chain]
    rows = [{"hash": f"{hash_:016x}", "parent": f"{(hashes[at - 1] if at > 0 else 0):016x}", "position": at, "ranks": 1, "size": SIZE}
            for at, hash_ in enumerate(hashes)]
    namespace = chain[0][0].rsplit("/", 2)[0]
    job = advisor.ask("/v1/jobs", {"kind": "test", "title": f"{source} to {to}", "moves": [
        {"verb": verb, "gateway": "gw0", "namespace": namespace, "from": source, "to": to, "blocks": rows}]}, token=run.token)["job"]["id"]
    wait_until(lambda: None if advisor.ask(f"/v1/jobs/{job}")["job"]["state"] in ("done", "failed") else "it runs", 30 * run.slow,
               f"the job from {source} to {to} ends")


def check_stack(tab):
    """From the top down, each by its name and what it is, with both watermarks where it has them."""
    rows = tab.run("[...document.querySelectorAll('#tiers .row')].map((row) => row.textContent)")
    expect([row.split()[0].replace("Hot", "").replace("Second", "").replace("Bucket", "").replace("Far", "") for row in rows] == NAMES, rows)
    for row, word, limit in zip(rows, ("Hot volume", "Second volume", "Bucket", "Far bucket"), ("3.0", "2.0", "4.0", "64.0")):
        expect(word in row and f"of {limit} MiB" in row, row)  # what the policy's watermarks are shares of
    marks = tab.run("[...document.querySelectorAll('#tiers .row')].map((row) => row.querySelectorAll('.water').length)")
    expect(marks == [2, 2, 2, 0], f"watermarks: {marks}")
    colours = tab.run("[...document.querySelectorAll('#tiers .fill')].map((one) => getComputedStyle(one).backgroundColor)")
    expect(len(set(colours)) == 4, f"each has its own colour: {colours}")
    flow = tab.run("document.querySelector('#flow').textContent")
    for edge in ("Hot volume → Second volume (demote)", "Second volume → Bucket (demote)", "Bucket → Far bucket (demote)",
                 "Second volume → Hot volume (promote)", "Bucket → Second volume (promote)"):
        expect(edge in flow, f"{edge} is not in {flow}")
    expect("Volumes" in tab.run("document.querySelector('#ladder').textContent"), "reads of two volumes are called so")


def check_top(run, advisor):
    command = [run.program("kvtier"), "top", f"--advisor-url=http://127.0.0.1:{advisor.admin}"]
    plain = subprocess.run([*command, "--once"], stdout=subprocess.PIPE, check=True, text=True).stdout
    run.note("kvtier top --once:\n" + plain)
    at = [plain.index(name) for name in NAMES]
    expect(at == sorted(at), f"from the top down: {plain}")
    expect("demote: hot to warm" in plain and "volumes " in plain and "buckets " in plain, plain)
    screen = page.Terminal([*command, "--every=200ms"], 60, 110)
    screen.wait([*NAMES, "demote: cold to far", "HOT PREFIXES"], 20 * run.slow)
    screen.type(b"q")
    expect(screen.end() == 0, "q ends it with 0")


def looks(run, tab, url, width, height, scheme):
    tab.size(width, height)
    tab.scheme(scheme)
    tab.open(url)
    tab.wait("document.body.dataset.drawn === 'yes' && document.querySelector('#link').textContent === 'live'")
    tab.wait("document.querySelectorAll('#tree button').length > 5")
    page.fits(tab, width)
    if run.args.pictures:
        time.sleep(0.5)  # bars grow
        tab.picture(os.path.join(run.args.pictures, f"tiers-{width}-{scheme}.png"))
    low = page.contrast(tab)
    expect(not low, f"hard to read: {low}")
    check_stack(tab)


def scenario(run):
    nats = run.nats().start()
    advisor = run.advisor(nats, policy_mode="enforce", **{
        "policy.interval": "200ms", "policy.ordering": "lru", "policy.file": run.file("policy.yaml", POLICY)}).start()
    gateway = run.gateway(nats, bucket="near", **{
        "hot.capacity": "4MiB", "warm.dir": f"{run.folder}/gw0-warm", "warm.capacity": "6MiB", "far.kind": "directory",
        "far.bucket": "far", "far.dir": f"{run.folder}/gw0-far", "key.revision": "kvbm-c", "report.interval": "200ms"}).start()
    client = run.client(gateway, bucket="near")
    with run.case("blocks go down and up between four tiers"):
        every = [*page.chains(run.rng)][:: 4]
        for key in {key for chain in every for key, _ in chain}:
            expect(client.put(key, run.rng.randbytes(SIZE)).status == 200, f"PUT {key}")
        for chain in every + every[:3]:
            for key, _ in chain:
                client.get(key)
        wait_until(lambda: attempt(known, advisor), 20 * run.slow, "the advisor knows of the gateway")
        for verb, source, to, chain in MOVES:
            move(run, advisor, every[chain], verb, NAMES[RUNGS.index(source)], NAMES[RUNGS.index(to)])
        wait_until(lambda: settled(advisor), 30 * run.slow, "all edges were used")
    with run.case("kvtier top shows them from the top down"):
        check_top(run, advisor)
    if browser.program() is None:
        run.skip("the page in a browser", "there is no Chromium; scripts/install-deps --test installs it")
        return
    tab = browser.Browser(run).start(seconds=60).page()
    for width, height in ((400, 850), (1280, 900)):
        for scheme in ("light", "dark"):
            with run.case(f"the stack and its flows at {width} px, {scheme}"):
                looks(run, tab, advisor.url("/"), width, height, scheme)
    with run.case("it can be used by keyboard, and a block is explained in each of its tiers"):
        page.keys(tab, "cold@")
    with run.case("its console is silent"):
        expect(not tab.complaints, lambda: f"{tab.complaints}")
    gateway.stop()
    advisor.stop()


if __name__ == "__main__":
    main(scenario, page.options)
