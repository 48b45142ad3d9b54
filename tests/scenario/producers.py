#!/usr/bin/env python3
"""Real producers, live: what they are told to publish is what the advisor's index holds.

Each feed is one source of one advisor and one real producer: Dynamo's publisher and its relay in three
releases, on NATS, JetStream and ZMQ, its mock engine, vLLM's and SGLang's publishers, KVBM's consolidator,
a MinIO.  The drivers and the stories they are told are in tests/producers.
"""

import concurrent.futures
import json
import os
import random
import socket
import sys
import threading
import time

import blocks
import harness
from harness import Failure, expect, wait_until

sys.path.insert(1, os.path.join(harness.ROOT, "tests", "producers"))

import client  # noqa: E402
import objects  # noqa: E402
import told  # noqa: E402

RUNTIMES = ("1.6.1", "1.3.1", "1.0.2")
ENGINES = ("vllm-0.33.0", "sglang-0.5.23")
RANKS = (0, 2)  # of the engines and publishers that have several


class Gate:
    """A TCP way to a server that can be shut and opened: what is sent meanwhile is lost to us."""

    def __init__(self, run, port):
        self.target, self.open, self.pairs = port, True, set()
        self.port = run.port()
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            try:
                if not self.open:
                    raise OSError("shut")
                far = socket.create_connection(("127.0.0.1", self.target), timeout=5)
                far.settimeout(None)
            except OSError:
                near.close()
                continue
            self.pairs.add((near, far))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.copy, args=(source, sink), daemon=True).start()

    @staticmethod
    def copy(source, sink):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def shut(self):
        self.open = False
        for pair in list(self.pairs):
            self.pairs.discard(pair)
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def reopen(self):
        self.open = True


class Feed:
    """One source, and what its producer was told: rows of the index in its namespace."""

    def __init__(self, name, kind, **entry):
        self.name, self.namespace = name, entry.get("namespace", f"told/{name}")
        self.entry = {"name": name, "kind": kind, "namespace": self.namespace, **entry}
        self.book = told.Book()
        self.producer = None

    def apply(self, events, **more):
        for event in events:
            if event["kind"] != "skip":
                self.book.apply({**event, **more})

    def is_ours(self, holder):
        """Engines of several sources are in one namespace; their sources' names tell them apart."""
        return self.namespace != "told/engines" or holder.startswith(f"{self.name}:")

    def places(self, advisor):
        """(namespace, hash, holder, rank, tier).  An engine is called as the advisor lists it: by the
        number of its endpoint, which here is its `worker`."""
        names = {}
        if self.entry["kind"] == "engine-zmq":
            names = {int(row["worker"].split(":")[1].split("~")[0]): row["worker"]
                     for row in listed(advisor, self) if row["state"] != "gone"}
        return {(self.namespace, *place)
                for place in self.book.places(lambda worker: names.get(worker, str(worker)))}


class Bucket(Feed):
    """A bucket's blocks go by their own names, under the namespace of their keys."""

    story = None

    def places(self, advisor):
        found = set()
        for key in self.story.held if self.story else ():
            namespace, rank, _, value, _ = blocks.parse_key(key)
            found.add((namespace, f"{value:016x}", f"cold@{self.story.client.bucket}", 0, "G4"))
        return found


def listed(advisor, feed):
    return advisor.ask(f"/v1/sources/{feed.name}")["publisher_list"]


def space(name):
    return name.replace("-", "").replace(".", "")


class World:
    """The servers, the feeds, and the producers that run."""

    def __init__(self, run):
        self.run, self.feeds, self.running = run, {}, []
        self.relayed_before = False
        self.names = {}  # of the blocks of each feed and rank: none stands for two things
        self.lock = threading.Lock()
        self.log = os.path.join(run.folder, "producers.log")
        self.nats = run.nats().start()
        self.make_feeds()

    # Sources --------------------------------------------------------------------------------------

    def feed(self, name, kind, **entry):
        self.feeds[name] = (Bucket if kind == "minio-nats" else Feed)(name, kind, **entry)
        return self.feeds[name]

    def discovery(self, name):
        path = os.path.join(self.run.folder, "discovery", name)
        os.makedirs(path, exist_ok=True)
        return path

    def make_feeds(self):
        """Every source there is to follow; the producers come to it later."""
        run, nats = self.run, self.nats
        self.gates = {"nats": Gate(run, int(nats.url.rsplit(":", 1)[1]))}
        through = f"nats://127.0.0.1:{self.gates['nats'].port}"
        for version in RUNTIMES:
            scope = "endpoint.*." if version == "1.6.1" else ""
            for name in (f"core-{version}", f"relay-{version}", f"mock-{version}"):
                self.feed(name, "dynamo-nats", url=through if name == "core-1.6.1" else nats.url,
                          discovery=self.discovery(name),
                          subject=f"namespace.{space(name)}.component.*.{scope}kv-events")
            if version != "1.6.1":
                stream = f"namespace-{space(f'stream-{version}')}-component-backend-kv-events"
                self.feed(f"stream-{version}", "dynamo-jetstream", url=nats.url, stream=stream)
            if version != "1.0.2":
                self.feed(f"zmq-{version}", "dynamo-zmq", discovery=self.discovery(f"zmq-{version}"))
        self.broker = run.port(), run.port()
        self.feed("broker-1.6.1", "dynamo-zmq", endpoints=[f"tcp://127.0.0.1:{self.broker[1]}"])
        self.ports = {}
        for name in ENGINES:
            self.ports[name] = [(run.port(), run.port()) for _ in RANKS]
            heard = [pair[0] for pair in self.ports[name]]
            if name == "vllm-0.33.0":
                self.gates[name] = Gate(run, heard[0])
                heard[0] = self.gates[name].port
            self.feed(name, "engine-zmq", endpoints=[f"tcp://127.0.0.1:{port}" for port in heard],
                      replay=[f"tcp://127.0.0.1:{pair[1]}" for pair in self.ports[name]],
                      namespace="told/engines")  # one for both
        self.consolidated = run.port()
        self.feed("kvbm-1.6.1", "engine-zmq", endpoints=[f"tcp://127.0.0.1:{self.consolidated}"])
        self.feed("bucket", "minio-nats", url=nats.url, subject=objects.SUBJECT)
        del self.feeds["bucket"].entry["namespace"]  # the keys say it

    def advisor(self, name):
        entries = [{"name": "own", "kind": "kvtier-core"}, *(feed.entry for feed in self.feeds.values())]
        path = self.run.file(f"{name}.yaml", json.dumps({"version": 1, "sources": entries}))
        return self.run.advisor(self.nats, name=name, **{
            "sources.file": path, "publishers.silent_after": "2s", "publishers.gone_after": "4s",
            "publishers.give_up_after": "10s"}).start(seconds=60)

    # What holds ------------------------------------------------------------------------------------

    def right(self, advisor, *feeds, seconds=20):
        """The index holds what these producers were told, and nothing else of theirs; it is sure of it."""
        def check():
            rows = advisor.pages("/v1/index/dump")
            for feed in feeds:
                wanted = feed.places(advisor)
                spaces = {place[0] for place in wanted} | {feed.namespace}
                found = {(row["namespace"], row["hash"], row["holder"], row["dp_rank"], row["tier"])
                         for row in rows if row["namespace"] in spaces and feed.is_ours(row["holder"])}
                if found != wanted:
                    more, less = sorted(found - wanted), sorted(wanted - found)
                    return (f"{feed.name}: {len(found)} places, told {len(wanted)}; {len(more)} too many "
                            f"{more[:2]}, {len(less)} missing {less[:2]}; "
                            f"{advisor.ask(f'/v1/sources/{feed.name}')}")
                doubtful = [row for row in listed(advisor, feed) if row["state"] == "uncertain"]
                if doubtful:
                    return f"{feed.name} is as told, but uncertain: {doubtful[:2]}"
            return None

        wait_until(check, seconds, "the index is what the producers were told", every=0.2)

    # Producers -------------------------------------------------------------------------------------

    def keep(self, made):
        with self.lock:
            self.running.append(made)
        return made

    def environment(self, name, plane="nats", **more):
        return {"NATS_SERVER": self.nats.url, "DYN_EVENT_PLANE": plane, "DYN_DISCOVERY_BACKEND": "file",
                "DYN_FILE_KV": self.discovery(name), **more}

    def runtime(self, name, plane="nats", local=True, **more):
        """A publisher a rank of one worker of this feed."""
        feed, version = self.feeds[name], name.rsplit("-", 1)[1]
        made = feed.producer = self.keep(client.runtime(
            version, f"{space(name)}.backend.generate", env=self.environment(name, plane, **more),
            log=self.log))
        for rank in RANKS:
            made.tell("open", name=f"r{rank}", dp_rank=rank, local=local)

    def engine(self, name):
        made = self.feeds[name].producer = self.keep(client.engine(name, log=self.log))
        for rank, (port, replay) in zip(RANKS, self.ports[name], strict=True):
            made.tell("open", name=f"r{rank}", rank=rank, endpoint=f"tcp://*:{port - rank}",
                      replay=f"tcp://*:{replay - rank}")

    def relays(self):
        """One vLLM, three relays of it and the consolidator."""
        port = self.run.port()
        self.relayed = self.keep(client.engine("vllm-0.33.0", log=self.log))
        self.relayed.tell("open", rank=2, endpoint=f"tcp://*:{port - 2}")
        address = f"tcp://127.0.0.1:{port}"
        for version in RUNTIMES:
            name = f"relay-{version}"
            made = self.feeds[name].producer = self.keep(client.runtime(
                version, f"{space(name)}.backend.generate", env=self.environment(name), log=self.log))
            made.tell("open", dp_rank=2, zmq=address)
        made = self.keep(client.consolidator("kvbm-1.6.1", self.run.port(), self.run.port(), log=self.log))
        made.tell("open", engine=address, output=f"tcp://127.0.0.1:{self.consolidated}")

    def mocker(self, name):
        version = name.rsplit("-", 1)[1]
        made = self.feeds[name].producer = self.keep(client.mocker(
            version, f"{space(name)}.backend.generate", os.path.join(self.run.folder, "model", name),
            env=self.environment(name), log=self.log))
        made.tell("start", device=32, host=24)

    def bucket(self):
        minio = self.run.minio()
        minio.env.update(objects.environment(self.nats.url))
        minio.start(seconds=60)
        s3 = self.run.client(minio, "blocks")
        s3.create_bucket()
        objects.subscribe(s3)
        self.feeds["bucket"].story = objects.Story(s3, random.Random(self.run.rng.getrandbits(32)))

    def start(self):
        """Everybody, at once."""
        # The kernel ends a process with the thread that started it: these threads stay.
        self.pool = concurrent.futures.ThreadPoolExecutor(4)
        broker = self.keep(client.engine("vllm-0.33.0", log=self.log))
        broker.tell("broker", xsub=self.broker[0], xpub=self.broker[1])
        url = f"xsub=tcp://127.0.0.1:{self.broker[0]} , xpub=tcp://127.0.0.1:{self.broker[1]}"
        jobs = [(self.relays,), (self.bucket,),
                (lambda: self.runtime("broker-1.6.1", "zmq", DYN_ZMQ_BROKER_URL=url),)]
        jobs += [(self.engine, name) for name in ENGINES]
        for version in RUNTIMES:
            jobs += [(self.runtime, f"core-{version}"), (self.mocker, f"mock-{version}")]
        jobs += [(lambda v=v: self.runtime(f"stream-{v}", local=False),) for v in ("1.3.1", "1.0.2")]
        jobs += [(lambda v=v: self.runtime(f"zmq-{v}", "zmq"),) for v in ("1.6.1", "1.3.1")]
        for done in [self.pool.submit(*job) for job in jobs]:
            done.result()

    # Telling ---------------------------------------------------------------------------------------

    def names_of(self, name, rank):
        return self.names.setdefault((name, rank), told.Names(self.run.rng))

    def tell_runtime(self, name, steps_of):
        feed = self.feeds[name]
        for rank in RANKS:
            for command, arguments, events in steps_of(self.names_of(name, rank)):
                feed.producer.tell(command, name=f"r{rank}", **arguments)
                feed.apply(events, worker=feed.producer.hello["worker"], dp_rank=rank)

    def story(self, name, number):
        return told.engine(self.names_of(name, number), release(name),
                           signed=not name.startswith("vllm"))

    def tell_engine(self, name, number, steps):
        feed = self.feeds[name]
        for events, understood, _ in steps:
            feed.producer.tell("publish", name=f"r{RANKS[number]}", events=events)
            feed.apply(understood, worker=number, dp_rank=RANKS[number])

    def tell_relayed(self, part):
        """A part of a new story through all relays and the consolidator; or on with the last one."""
        if part.start in (None, 0):
            seed = self.run.rng.getrandbits(32)
            self.stories = {}
            for version in RUNTIMES:
                names = told.Names(random.Random(seed))
                names.edges = [] if self.relayed_before else names.edges
                self.stories[version] = told.engine(names, "vllm-0.33", relay=version[:3])
            self.relayed_before = True
        for events, _, _ in self.stories["1.6.1"][part]:
            self.relayed.tell("publish", events=events)
        for version in RUNTIMES:
            feed = self.feeds[f"relay-{version}"]
            for _, _, events in self.stories[version][part]:
                feed.apply(events, worker=feed.producer.hello["worker"], dp_rank=2)
        for events in told.consolidated(self.stories["1.6.1"][part]):
            self.feeds["kvbm-1.6.1"].apply(events, worker=0, dp_rank=0)

    def load_mock_engines(self, requests):
        """The engines decide for themselves; afterwards they are asked what they hold."""
        feeds = [self.feeds[f"mock-{version}"] for version in RUNTIMES]
        for feed in feeds:
            for request in told.load(self.run.rng, 2, requests):
                feed.producer.tell("request", **request)
        for feed in feeds:
            feed.book = told.Book()
            for event in query.holdings(self.discovery(feed.name), (0, 1)):
                feed.book.note(event)
        return feeds

    def close(self):
        for made in self.running:
            made.kill()


def published(name):
    version = tuple(int(part) for part in name.rsplit("-", 1)[1].split("."))

    def steps(names):
        found = told.published(names, salts=version >= (1, 6), counted=version >= (1, 1))
        return found + (told.batched(names) if version >= (1, 6) else [])

    return steps


def release(name):
    return name[:-2] if name.startswith("vllm") else name


# ---- the cases ----

def publisher_interface(world, advisor):
    names = [name for name in world.feeds if name.split("-")[0] in ("core", "stream", "zmq", "broker")]
    for name in names:
        world.tell_runtime(name, published(name))
    world.right(advisor, *(world.feeds[name] for name in names))


def engines(world, advisor):
    """Up to the clear, and behind it."""
    stories = {(name, number): world.story(name, number)
               for name in ENGINES for number, _ in enumerate(RANKS)}
    for part in (slice(None, -2), slice(-2, None)):
        for (name, number), steps in stories.items():
            world.tell_engine(name, number, steps[part])
        world.right(advisor, *(world.feeds[name] for name in ENGINES))


def two_sources(world, advisor):
    """Two engines of one namespace hold the same block; one of them drops it."""
    names = told.Names(world.run.rng)
    names.edges = []
    found, tokens = names.blocks(2), names.tokens(8)
    event = {"kind": "store", "tier": "g1", "hashes": found, "tokens": tokens, "block_tokens": 4,
             "seed": told.hashes.seed()}
    stored = {"tag": "BlockStored", "block_hashes": [value >> 1 for value in found], "lora_id": None,
              "parent_block_hash": None, "token_ids": tokens, "block_size": 4, "medium": "GPU"}
    event["hashes"] = stored["block_hashes"]
    feeds = [world.feeds[name] for name in ENGINES]
    for name in ENGINES:
        more = {"lora_name": None} if name.startswith("vllm") else {}
        world.tell_engine(name, 0, [([{**stored, **more}], [event], [])])
    world.right(advisor, *feeds)
    removed = {"tag": "BlockRemoved", "block_hashes": event["hashes"][1:], "medium": "GPU"}
    gone = {"kind": "remove", "tier": "g1", "hashes": event["hashes"][1:]}
    world.tell_engine(ENGINES[0], 0, [([removed], [gone], [])])
    world.right(advisor, *feeds)


def relayed(world, advisor):
    feeds = [world.feeds[f"relay-{version}"] for version in RUNTIMES]
    for part in (slice(None, -2), slice(-2, None)):
        world.tell_relayed(part)
        world.right(advisor, *feeds, world.feeds["kvbm-1.6.1"])


def mock_engines(world, advisor):
    """What the index holds at the end is what the engine itself says it holds."""
    feeds = world.load_mock_engines(60)
    tiers = {(feed.name, place[1], place[2]) for feed in feeds
             for place, held in feed.book.held.items() if held}
    expect({("mock-1.6.1", rank, tier) for rank in (0, 1) for tier in ("g1", "g2")} <= tiers,
           f"the engine has nothing on the host: {sorted(tiers)}")
    world.right(advisor, *feeds)
    count = sum(advisor.ask(f"/v1/sources/{feed.name}")["events"] for feed in feeds)
    world.run.note(f"mock engines: {count} events, {sum(len(f.places(advisor)) for f in feeds)} places")


def bucket(world, advisor):
    world.feeds["bucket"].story.run()
    world.right(advisor, world.feeds["bucket"])


def late(world, advisor):
    """An advisor that was not there asks whoever can be asked; of the rest it knows nothing yet."""
    del advisor
    second = world.advisor("late")
    kinds = ("core", "stream", "zmq", "relay", "mock", "vllm", "sglang")
    runtimes = ("core-1.0.2", "core-1.3.1", "core-1.6.1", "zmq-1.3.1", "zmq-1.6.1")
    for name in runtimes:
        world.tell_runtime(name, published(name))  # a number shows that there is something to ask for
    for name in ENGINES:
        for number, _ in enumerate(RANKS):
            world.tell_engine(name, number, world.story(name, number)[:1])
    world.tell_relayed(slice(0, 1))
    world.load_mock_engines(4)
    feeds = [feed for name, feed in world.feeds.items() if name.split("-")[0] in kinds]
    try:
        world.right(second, *feeds, seconds=15)
    except Failure:  # it is ready before it hears all of them: what it did not hear is told again
        for name in runtimes:
            world.tell_runtime(name, published(name))
        world.right(second, *feeds, seconds=15)
    second.stop()


def idle(world, advisor):
    """Producers that have nothing to say are asked whether they are there, now and then, and stay certain."""
    def asked():
        return sum(row["resyncs"] for feed in world.feeds.values() for row in listed(advisor, feed))

    publishers = sum(len(listed(advisor, feed)) for feed in world.feeds.values())
    time.sleep(5)  # longer than publishers.gone_after
    before = asked()
    time.sleep(4.5)
    more = asked() - before
    world.right(advisor, *world.feeds.values())
    expect(more <= 3 * publishers, f"{publishers} idle publishers were asked {more} times in 4.5 s")


def lost_on_the_way(world, advisor):
    """Nothing reaches us for a while; the next number shows it, and what is missing is asked for."""
    for gate, name in (("nats", "core-1.6.1"), ("vllm-0.33.0", "vllm-0.33.0")):
        feed = world.feeds[name]
        before = sum(row["gaps"] + row["resyncs"] for row in listed(advisor, feed))
        for again in range(2):
            if not again:
                world.gates[gate].shut()
                time.sleep(0.3)
            if name.startswith("core"):
                world.tell_runtime(name, published(name))
            else:
                world.tell_engine(name, 0, world.story(name, 0)[:8])
            if not again:
                time.sleep(0.5)
                world.gates[gate].reopen()
                time.sleep(3)
        world.right(advisor, feed)
        after = sum(row["gaps"] + row["resyncs"] for row in listed(advisor, feed))
        expect(after > before, f"{name}: nobody was asked for what was lost")


def too_large(world, advisor):
    """An event above the server's limit uses up its number and never comes."""
    feed = world.feeds["core-1.6.1"]
    names = world.names_of("core-1.6.1", 0)
    tokens, found = names.tokens(20000 * 4), names.blocks(20000)
    feed.producer.tell("store", name="r0", tokens=tokens, hashes=found)
    feed.apply([told.store(found, tokens)], worker=feed.producer.hello["worker"], dp_rank=0)
    world.tell_runtime("core-1.6.1", published("core-1.6.1"))
    world.right(advisor, feed, seconds=40)


def restarts(world, advisor):
    """A killed engine that comes back holds nothing; a killed worker comes back as another."""
    vllm, core = world.feeds["vllm-0.33.0"], world.feeds["core-1.6.1"]
    vllm.producer.kill()
    vllm.book = told.Book()
    world.engine("vllm-0.33.0")
    core.producer.kill()
    core.book = told.Book()
    world.runtime("core-1.6.1")
    time.sleep(1.5)
    for number, _ in enumerate(RANKS):
        world.tell_engine("vllm-0.33.0", number, world.story("vllm-0.33.0", number)[:6])
    world.tell_runtime("core-1.6.1", published("core-1.6.1"))
    world.right(advisor, vllm, core, seconds=60)


CASES = {
    "publishers of three releases on NATS, JetStream and ZMQ": publisher_interface,
    "vLLM and SGLang, two ranks each": engines,
    "two sources of one namespace hold the same blocks": two_sources,
    "three releases' relays of vLLM, and KVBM's consolidator": relayed,
    "mock engines that evict: the index equals their own dumps": mock_engines,
    "a bucket: odd keys, multi-delete, lifecycle expiry": bucket,
    "a late advisor has the same picture": late,
    "idle producers stay certain": idle,
    "messages lost on the way are asked for": lost_on_the_way,
    "an event too large for the server is asked for": too_large,
    "killed producers come back": restarts,
}


def options(parser):
    parser.add_argument("--only", help="only cases with this text in their name")


def scenario(run):
    try:
        client.ask_script("all")
        sys.path.append(client.ask_script("tools"))
        global query
        import query
    except client.ProducerError as error:
        for name in CASES:
            run.skip(name, str(error))
        return
    world = World(run)
    try:
        advisor = world.advisor("advisor")
        world.start()
        time.sleep(2)  # until those who subscribe have subscribed
        run.note(f"{len(world.feeds)} sources, {len(world.running)} producers")
        for name, case in CASES.items():
            if not run.args.only or run.args.only in name:
                with run.case(name):
                    case(world, advisor)
    finally:
        world.close()


if __name__ == "__main__":
    sys.exit(harness.main(scenario, options))
