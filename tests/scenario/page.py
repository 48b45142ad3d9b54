#!/usr/bin/env python3
"""The advisor's page in a real browser, over a real stack: it draws what is there, throws nothing, loads
nothing from elsewhere, and works on a phone, in the dark and by keyboard.  `--pictures FOLDER` keeps what
it looked like."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import urllib.error
import urllib.request

import blocks
import browser
from harness import Failure, expect, main, wait_until

SIZE = 32 * 1024
NAMESPACES = ("acme/llama-70b", "globex/qwen-32b")
CHAINS = 24       # conversations of each namespace
LENGTH = 12       # blocks of the longest
SHARED = 3        # the first blocks, a system prompt, are the same for eight conversations


def chains(rng):
    """Conversations as lists of (key, hash); blocks that are shared stand in several."""
    made = {}
    for name in NAMESPACES:
        for number in range(CHAINS):
            parent, chain = 0, []
            for position in range(rng.randrange(SHARED + 1, LENGTH + 1)):
                who = ("shared", name, number // 8) if position < SHARED else ("own", name, number)
                hash_ = made.setdefault((*who, position), rng.randrange(1 << 63, 1 << 64))
                chain.append((blocks.key(hash_, position, parent, namespace=name, revision="kvbm-c"), hash_))
                parent = hash_
            yield chain


def traffic(run, client):
    """Everything is stored once; few conversations are read often, most seldom, some ask for what is not there."""
    every = list(chains(run.rng))
    for key in {key for chain in every for key, _ in chain}:
        expect(client.put(key, run.rng.randbytes(SIZE)).status == 200, f"PUT {key}")
    for turn in range(160):
        chain = every[min(int(run.rng.paretovariate(0.9)) - 1, len(every) - 1)]
        for key, _ in chain:
            expect(client.get(key).status in (200, 404), f"GET {key}")
        if turn % 8 == 0:
            client.get(blocks.key(run.rng.randrange(1 << 63, 1 << 64), namespace=NAMESPACES[0]))
    return every


class Terminal:
    """A program on a terminal of its own; `text` is what it wrote, without what only moves or paints."""

    def __init__(self, argv, rows, columns):
        self.raw = b""
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.execve(argv[0], argv, {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"})
        self.resize(rows, columns)

    def resize(self, rows, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait(self, wanted, seconds):
        """Until all of `wanted` was written since the last wait."""
        deadline, text = time.monotonic() + seconds, ""
        while not all(word in text for word in wanted):
            left = deadline - time.monotonic()
            expect(left > 0, lambda: f"not drawn: {[word for word in wanted if word not in text]} in {text[-2000:]!r}")
            if select.select([self.terminal], [], [], min(left, 0.2))[0]:
                try:
                    self.raw += os.read(self.terminal, 1 << 16)
                except OSError:  # it ended
                    time.sleep(0.05)
            text = re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|\([A-Z0-9]|[=>78])", " ", self.raw.decode(errors="replace"))
        self.raw = b""
        return text

    def type(self, keys):
        os.write(self.terminal, keys)

    def end(self):
        """Its exit status."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            done, status = os.waitpid(self.child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            if select.select([self.terminal], [], [], 0.05)[0]:
                try:
                    os.read(self.terminal, 1 << 16)
                except OSError:
                    pass
        os.kill(self.child, 9)
        raise Failure("it does not end")


def check_top(run, advisor):
    """`kvtier top` draws the same, follows its terminal's size, and obeys its keys."""
    command = [run.program("kvtier"), "top", f"--advisor-url=http://127.0.0.1:{advisor.admin}"]
    told = json.loads(subprocess.run([*command, "-o", "json"], stdout=subprocess.PIPE, check=True).stdout)
    expect(set(told) == set(advisor.ask("/v1/overview")), "its JSON is the overview")
    screen = Terminal([*command, "--every=200ms"], 60, 110)
    screen.wait(["All is well", "TIERS", "hot@gw0", "cold@kvtier", "demote", "HOT PREFIXES", "q quits"], 20 * run.slow)
    screen.type(b"?")
    screen.wait(["KEYS", "space"], 20 * run.slow)
    screen.type(b"? ")
    screen.wait(["STOPPED", "TIERS"], 20 * run.slow)
    screen.resize(8, 70)
    screen.wait(["TIERS", "STOPPED"], 20 * run.slow)
    screen.type(b"\x1bOF")  # End
    screen.wait(["acme/llama-70b"], 20 * run.slow)
    screen.type(b"q")
    expect(screen.end() == 0, "q ends it with 0")
    screen = Terminal(command, 24, 80)
    screen.wait(["All is well"], 20 * run.slow)
    screen.type(b"\x03")
    expect(screen.end() == 0, "and so does Ctrl-C")


def settled(advisor):
    told = advisor.ask("/v1/overview")
    wrong = [name for name, there in (
        ("reads", all(told["reads"][result] > 0 for result in ("hot", "cold", "miss"))),
        ("demotes", any(edge["verb"] == "demote" and edge["blocks"] > 0 for edge in told["flow"])),
        ("tiers", len(told["tiers"]) == 2), ("prefixes", len(told["prefixes"]) > 20),
        ("verdict", told["verdict"]["ok"])) if not there]
    return f"waiting for {wrong}: {told['verdict']}" if wrong else None


def check_overview(advisor, gateway):
    """The figures of the document are those of the daemons."""
    told, reads = advisor.ask("/v1/overview"), gateway.status()["requests"]
    expect(told["reads"]["hot"] == reads["hits_hot"] and told["reads"]["miss"] == reads["misses"]
           and told["reads"]["cold"] == reads["hits_cold"], f"{told['reads']} and {reads}")
    expect(sum(told["reads_by_minute"]["hot"]) == told["reads"]["hot"], "the hour has all reads")
    expect(told["reads"]["hot_bytes"] + told["reads"]["cold_bytes"]
           == (reads["hits_hot"] + reads["hits_cold"]) * SIZE, told["reads"])
    expect(0 < sum(told["reuse"]["reads"]) <= reads["hits_hot"] + reads["hits_cold"], told["reuse"])
    tops = [one["reads"] for one in told["prefixes"]]
    expect(tops == sorted(tops, reverse=True), "prefixes come by their reads")
    expect(len(json.dumps(told)) < 200_000, "it is small")


def check_stream(advisor):
    """Events come when something changed, and HEAD and refusals are answered."""
    with urllib.request.urlopen(advisor.url("/v1/stream"), timeout=30) as stream:
        expect(stream.headers["Content-Type"] == "text/event-stream", stream.headers)
        lines = []
        while not lines or lines[-1]:
            lines.append(stream.readline().decode().rstrip("\n"))
        told = json.loads("\n".join(line.removeprefix("data: ") for line in lines[:-1]))
        expect(set(told) == set(advisor.ask("/v1/overview")), "the stream's document is the overview")
    request = urllib.request.Request(advisor.url("/v1/stream"), method="HEAD")
    with urllib.request.urlopen(request, timeout=30) as answer:
        expect(answer.status == 200, answer.status)


def check_policy(advisor):
    with urllib.request.urlopen(advisor.url("/"), timeout=30) as answer:
        policy, text = answer.headers["Content-Security-Policy"], answer.read().decode()
    expect("default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy, policy)
    expect("@STYLE@" not in text and "@SCRIPT@" not in text and "://" not in text.replace("http://www.w3.org/2000/svg", ""),
           "the page is whole and names no other place")


def fits(page, width):
    wide = page.run("document.documentElement.scrollWidth")
    expect(wide <= width, f"the page is {wide} px wide in a window of {width}")
    cut = page.run("""[...document.querySelectorAll('.card, header, #verdict')].filter((one) => {
        const box = one.getBoundingClientRect(); return box.left < 0 || box.right > innerWidth + 0.5 }).length""")
    expect(cut == 0, f"{cut} parts reach beyond the window")


def contrast(page):
    """Text against what is behind it, at least 4.5 to 1 (WCAG AA)."""
    return page.run("""(() => {
      const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
      const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 })
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const behind = (one) => { for (; one; one = one.parentElement) { const c = rgb(getComputedStyle(one).backgroundColor);
        if (c.length < 4 || c[3] === 1) return c; } return [255, 255, 255]; };
      const bad = [];
      for (const one of document.querySelectorAll('main *, header *, footer *')) {
        if (one.closest('svg') || ![...one.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !one.checkVisibility()) continue;
        const [a, b] = [light(rgb(getComputedStyle(one).color)), light(behind(one))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) bad.push(`${one.tagName}.${one.className} "${one.textContent.slice(0, 20)}" ${ratio.toFixed(2)}`);
      }
      return bad.slice(0, 5).join('; ');
    })()""")


def looks(run, page, url, pictures):
    for width, height in ((400, 850), (1280, 900)):
        for scheme in ("light", "dark"):
            with run.case(f"it is whole at {width} px, {scheme}"):
                page.size(width, height)
                page.scheme(scheme)
                page.open(url)
                page.wait("document.body.dataset.drawn === 'yes' && document.querySelector('#link').textContent === 'live'")
                page.wait("document.querySelectorAll('#tree button').length > 5")
                fits(page, width)
                dark = page.run("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 29)"
                expect(dark == (scheme == "dark"), "it has the colours that are asked for")
                if pictures:
                    time.sleep(0.5)  # bars grow
                    page.picture(os.path.join(pictures, f"page-{width}-{scheme}.png"))
                low = contrast(page)
                expect(not low, f"hard to read: {low}")
                expect(page.run("document.querySelector('#verdict').className") == "good", "the verdict")
                expect(page.run("document.querySelectorAll('#tiers .water').length") >= 2, "watermarks are drawn")


def keys(page, holder="hot@gw0"):
    """By keyboard alone: to the tree, along it, a block is explained, and closed again."""
    page.run("document.activeElement.blur()")
    for _ in range(60):
        page.press("Tab")
        if page.run("document.activeElement.getAttribute('role') === 'treeitem'"):
            break
    expect(page.run("document.activeElement.getAttribute('role')") == "treeitem", "Tab reaches the tree")
    before = page.run("document.activeElement.dataset.key")
    page.press("ArrowDown")
    after = page.run("document.activeElement.dataset.key")
    expect(after and after != before, "an arrow goes down")
    page.press("ArrowUp")
    expect(page.run("document.activeElement.dataset.key") == before, "and up again")
    page.press("Enter")
    page.wait("!document.querySelector('#explain').hidden && document.querySelector('#explain-body').textContent.includes('held by')")
    expect(page.run(f"document.querySelector('#explain-body').textContent.includes('{holder}')"), "who holds it")
    expect(page.run(f"document.querySelector('#explain-body').textContent.includes('In {holder}')"), "what rules make of it")
    page.press("Escape")
    expect(page.run("document.querySelector('#explain').hidden"), "Escape closes it")
    unnamed = page.run("""[...document.querySelectorAll('button, [role=img], [role=tree], section')].filter((one) => one.checkVisibility()
        && !one.getAttribute('aria-label') && !one.getAttribute('aria-labelledby') && !one.textContent.trim()).length""")
    expect(unnamed == 0, f"{unnamed} parts have no name")


def pins(run, page, gateway):
    """With the token, and not without it; the token stays in the page."""
    page.run("document.querySelector('#tree button').click()")
    page.wait("!document.querySelector('#pin').hidden")
    if run.args.pictures:
        page.picture(os.path.join(run.args.pictures, "explain.png"))
    for token, said in (("wrong", "Bearer"), (run.token, "has it")):
        page.run(f"document.querySelector('#pin-token').value = {json.dumps(token)}; document.querySelector('#pin button').click()")
        page.wait(f"document.querySelector('#pin-said').textContent.includes({json.dumps(said)})")
    wait_until(lambda: None if gateway.status()["pins"]["blocks"] == 1 else "it is not pinned", 30 * run.slow, "the block is pinned")
    page.run("document.querySelectorAll('#pin button')[1].click()")
    wait_until(lambda: None if gateway.status()["pins"]["blocks"] == 0 else "it is pinned", 30 * run.slow, "and unpinned again")
    expect(page.run("JSON.stringify({...localStorage}) + document.cookie").find(run.token) < 0, "the token is kept nowhere")
    page.complaints[:] = [text for text in page.complaints if "401" not in text]  # the browser tells of the refusal
    page.press("Escape")


def install(run, advisor, old, new):
    """The policy in force, with that in its place."""
    text = advisor.ask("/v1/policy?text=1")["text"]
    expect(old in text, f"{old} is not in {text}")
    text = text.replace(old, new, 1)
    request = urllib.request.Request(advisor.url("/v1/policy"), data=text.encode(), method="PUT",
                                     headers={"Authorization": f"Bearer {run.token}", "Content-Type": "application/yaml"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        expect(answer.status == 200, answer.status)


def lines(run, page, advisor):
    """Ages that the policy asks for stand in the picture of ages."""
    install(run, advisor, "rules:", "classes:\n  cool: last_access > 10m\nrules:")
    page.wait("document.querySelectorAll('#reuse .policy').length === 1")
    expect(page.run("document.querySelector('#reuse').textContent.includes('cool: last_access > 10m')"), "with its class")
    if run.args.pictures:
        page.picture(os.path.join(run.args.pictures, "lines.png"))


def plans(run, page, advisor):
    """A plan moves nothing; approved with the token it is a job that does what it says.  What deletes is not
    approved here, and a plan of another policy is stale."""
    def hot():
        return next(tier["blocks"] for tier in advisor.ask("/v1/overview")["tiers"] if tier["name"] == "hot@gw0")

    advisor.ask("/v1/policy/mode", {"mode": "observe"}, token=run.token)
    wait_until(lambda: None if advisor.status()["orders"]["pending"] == 0 else "orders are out", 60 * run.slow, "all rests")
    install(run, advisor, "start: 85%, stop: 70%", "start: 20%, stop: 10%")
    before = hot()
    page.run(f"document.querySelector('#plan-token').value = {json.dumps(run.token)}; document.querySelector('#plan-make').click()")
    page.wait("document.querySelectorAll('#plan .less').length === 1 && !document.querySelector('#plan-approve').hidden")
    said = page.run("document.querySelector('#plan .diff').textContent")
    expect("− hot@gw0" in said and "demote" in said and hot() == before, f"{said}; {hot()} of {before} blocks")
    if run.args.pictures:
        page.picture(os.path.join(run.args.pictures, "plan.png"))
    page.run("document.querySelector('#plan-token').value = 'wrong'; document.querySelector('#plan-approve button').click()")
    page.wait("document.querySelector('#plan-said').textContent.includes('Bearer')")
    expect(hot() == before, "nothing moves without the token")
    install(run, advisor, "stop: 10%", "stop: 12%")
    page.run(f"document.querySelector('#plan-token').value = {json.dumps(run.token)}; document.querySelector('#plan-approve button').click()")
    page.wait("document.querySelector('#plan-said').textContent.includes('stale')")
    page.run("document.querySelector('#plan-make').click()")
    page.wait("document.querySelector('#plan-said').textContent === '' && document.querySelectorAll('#plan .less').length === 1")
    page.run("document.querySelector('#plan-approve button').click()")
    page.wait("document.querySelector('#plan-said').textContent.includes('has it')")
    planned = int(re.search(r"(\d+) blocks", page.run("document.querySelector('#plan .diff').textContent")).group(1))
    wait_until(lambda: None if hot() == before - planned else f"{hot()} blocks, {before} less {planned} are planned",
               60 * run.slow, "what was approved has moved")
    install(run, advisor, "start: 95%, stop: 90%", "start: 5%, stop: 3%")
    page.run("document.querySelector('#plan-make').click()")
    page.wait("document.querySelector('#plan').textContent.includes('kvtier policy apply')")
    expect(page.run("document.querySelector('#plan-approve').hidden"), "what deletes is not approved here")
    page.complaints[:] = [text for text in page.complaints if "401" not in text]


def follows(run, page, advisor, client, every):
    """A change comes to the page by itself."""
    before = page.run("document.querySelector('#ladder').textContent")
    for key, _ in every[0]:
        client.get(key)
    page.wait(f"document.querySelector('#ladder').textContent !== {json.dumps(before)}", 20 * run.slow)
    page.run("document.querySelector('#theme').click()")
    expect(page.run("document.documentElement.dataset.theme") in ("light", "dark"), "the colours are switched")
    page.run("document.querySelector('#theme').click()")


def stopped(run, page, advisor):
    """The stop switch and a policy that goes less far than the mode are seen on the page and in the commands."""
    top = [run.program("kvtier"), "top", "--once", f"--advisor-url=http://127.0.0.1:{advisor.admin}"]
    advisor.ask("/v1/policy/mode", {"mode": "enforce"}, token=run.token)
    install(run, advisor, "mode: enforce", "mode: observe")
    page.wait("document.querySelector('#state').textContent.includes('enforce (in effect observe)')")
    expect("policy enforce (in effect observe)" in subprocess.run(top, stdout=subprocess.PIPE, check=True, text=True).stdout, "top")
    advisor.ask("/v1/planner/pause", {}, token=run.token)
    page.wait("document.querySelector('#verdict').className === 'bad'")
    said = page.run("document.querySelector('#verdict').textContent")
    expect("all are paused" in said and "kvtier migrate resume" in said, said)
    expect(page.run("document.querySelector('#state').textContent.includes('paused')"), "with the orders")
    expect("-> kvtier migrate resume" in subprocess.run(top, stdout=subprocess.PIPE, check=True, text=True).stdout, "top")
    expect(advisor.status()["paused"] and any("paused" in reason for reason in advisor.status()["reasons"]), advisor.status())
    advisor.ask("/v1/planner/resume", {}, token=run.token)
    page.wait("document.querySelector('#verdict').className === 'good'")


def trouble(run, page, minio):
    """The bucket goes away: the verdict says so, with a command."""
    minio.kill()
    page.wait("document.querySelector('#verdict').className === 'bad'", 60 * run.slow)
    said = page.run("document.querySelector('#verdict').textContent")
    expect("gw0" in said and "kvtier" in said, said)


def loss(run, page, advisor):
    """The advisor goes away: what is shown is marked as old."""
    page.complaints.clear()  # a connection that is refused is told of by the browser itself
    advisor.stop()
    page.wait("document.querySelector('#link').textContent === 'no connection'", 30 * run.slow)
    expect("does not answer" in page.run("document.querySelector('#verdict').textContent"), "the verdict says so")


def refused(run, page, advisor):
    """When too many follow the stream the page asks instead."""
    held = []
    try:
        while len(held) <= 32:
            held.append(urllib.request.urlopen(advisor.url("/v1/stream"), timeout=30))
        raise Failure("it is refused to nobody")
    except urllib.error.HTTPError as error:
        expect(error.code == 503 and len(held) >= 20, f"{error.code} after {len(held)}")
    try:
        page.open(advisor.url("/"))
        page.wait("document.querySelector('#link').textContent.startsWith('every')", 30 * run.slow)
        expect(page.run("document.body.dataset.drawn") == "yes", "it draws all the same")
    finally:
        for one in held:
            one.close()

    def followed():
        _, text = advisor.raw("/metrics")
        return None if b"\nkvtier_advisor_stream_subscribers 0\n" in text else "somebody still follows"

    wait_until(followed, 30 * run.slow, "connections that are gone are noticed")


def scenario(run):
    pictures = run.args.pictures
    nats, minio = run.nats().start(), run.minio().start(seconds=60)
    run.client(minio).create_bucket()
    advisor = run.advisor(nats, policy_mode="enforce").start()
    gateway = run.gateway(nats, s3_server=minio, hot_capacity=6 << 20, cold_capacity=64 << 20,
                          **{"key.revision": "kvbm-c"}).start(seconds=60)
    client = run.client(gateway)
    every = traffic(run, client)
    with run.case("the overview is what happened"):
        wait_until(lambda: settled(advisor), 60 * run.slow, "reads, moves and prefixes are known")
        wait_until(lambda: attempt(check_overview, advisor, gateway), 20 * run.slow, "the overview agrees")
    with run.case("the stream gives the same document"):
        check_stream(advisor)
    with run.case("kvtier top draws the same on a terminal"):
        check_top(run, advisor)
    if browser.program() is None:
        run.skip("the page in a browser", "there is no Chromium; scripts/install-deps --test installs it")
        return
    with run.case("the page's policy lets it load nothing"):
        check_policy(advisor)
    chromium = browser.Browser(run).start(seconds=60)
    run.note(chromium.version())
    page = chromium.page()
    looks(run, page, advisor.url("/"), pictures)
    with run.case("it can be used by keyboard"):
        keys(page)
    with run.case("a block is pinned with the token, and not without"):
        pins(run, page, gateway)
    with run.case("ages that the policy asks for are drawn"):
        lines(run, page, advisor)
    with run.case("a plan is shown, and approved with the token"):
        plans(run, page, advisor)
    with run.case("orders that are paused, and a mode that is not in effect, are seen"):
        stopped(run, page, advisor)
    with run.case("it follows what happens"):
        follows(run, page, advisor, client, every)
    with run.case("its console is silent"):
        expect(not page.complaints, lambda: f"{page.complaints}")
    with run.case("where the stream is refused it asks"):
        refused(run, page, advisor)
        page.open(advisor.url("/"))
        page.wait("document.querySelector('#link').textContent === 'live'")
        page.complaints.clear()  # the refusal is told of by the browser itself
    with run.case("trouble is told, with what to type"):
        trouble(run, page, minio)
        expect(not page.complaints, lambda: f"{page.complaints}")
    with run.case("an advisor that went away is told"):
        loss(run, page, advisor)
    gateway.stop()


def attempt(check, *given):
    try:
        check(*given)
    except Failure as failure:
        return str(failure)
    return None


def options(parser):
    parser.add_argument("--pictures", help="folder for screenshots")


if __name__ == "__main__":
    main(scenario, options)
