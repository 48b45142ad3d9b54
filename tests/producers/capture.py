"""Writes tests/fixtures/producers: the bytes real producers publish, beside what they were told.

    python3.11 tests/producers/capture.py [--seed S] [PART]...

What is written is only what was told: a second decoder (msgpack, json) reads every message here, and a
capture that does not say what was told is refused.
"""

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "scenario")]

import client  # noqa: E402
import told  # noqa: E402

sys.path.append(client.ask_script("tools"))

import msgpack  # noqa: E402
import zmq  # noqa: E402

import blocks  # noqa: E402
import bus  # noqa: E402
import harness  # noqa: E402
import objects  # noqa: E402
import query  # noqa: E402
import s3  # noqa: E402

FIXTURES = os.path.join(client.ROOT, "tests", "fixtures", "producers")


class Wrong(Exception):
    """The producer did not publish what it was told."""


# ---- the second decoder of RouterEvents ----

def router_events(payload):
    """(publisher, sequence, events) of one message."""
    if payload[:1] == b"{":
        return None, None, [json.loads(payload)]
    envelope = msgpack.unpackb(payload)
    if envelope["topic"] != "kv-events":
        raise Wrong(f"topic {envelope['topic']}")
    inner = msgpack.unpackb(envelope["payload"])
    return envelope["publisher_id"], envelope["sequence"], inner if isinstance(inner, list) else [inner]


# ---- what was heard ----

class Heard:
    """Messages of one NATS server or one ZMQ socket, as (subject, frames), in their order."""

    def __init__(self):
        self.messages = []
        self.stopping = threading.Event()

    def nats(self, url):
        self.bus = bus.Nats(url)
        self.bus.subscribe(">", lambda subject, data: self.messages.append((subject, [data]))
                           if subject[0] not in "_$" else None)
        self.bus.flush()
        return self

    def zmq(self, endpoint, bind=False):
        heard = zmq.Context.instance().socket(zmq.SUB)
        heard.setsockopt(zmq.SUBSCRIBE, b"")
        (heard.bind if bind else heard.connect)(endpoint)

        def read():
            while not self.stopping.is_set():
                if heard.poll(50):
                    frames = heard.recv_multipart()
                    self.messages.append((frames[0].decode(), frames))
            heard.close(0)

        self.thread = threading.Thread(target=read, daemon=True)
        self.thread.start()
        return self

    def wait(self, count, seconds=10):
        deadline = time.monotonic() + seconds
        while len(self.messages) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)  # whatever should not come would come now
        self.stopping.set()
        return self.messages


# ---- a fixture ----

class Fixture:
    def __init__(self, name, how):
        self.folder = os.path.join(FIXTURES, name)
        producer, version = name.rsplit("-", 1)
        self.index = {"producer": producer, "version": version, "how": how, "messages": []}
        self.files = {}

    def add(self, file, transport, dialect, subject, frames, publisher, sequence, events):
        data = self.files.setdefault(file, bytearray())
        places = []
        for frame in frames:
            places.append([len(data), len(frame)])
            data += frame
        entry = {"file": file, "frames": places, "transport": transport, "dialect": dialect,
                 "subject": subject}
        if publisher is not None:
            entry["publisher"] = publisher
        if sequence is not None:
            entry["sequence"] = sequence
        self.index["messages"].append({**entry, "events": events})

    def add_router(self, file, transport, messages, expected):
        """RouterEvents: `expected` events, in order for each (worker, rank), all of them."""
        waiting = {}
        for event in expected:
            waiting.setdefault((event["worker"], event["dp_rank"]), []).append(event)
        for subject, frames in messages:
            body = frames[-1]
            if transport == "zmq":
                if body[0] != 1 or int.from_bytes(body[1:5], "big") != len(body) - 5:
                    raise Wrong(f"frame {body[:5].hex()} of {len(body)} bytes")
                body = body[5:]
            publisher, sequence, events = router_events(body)
            if transport == "zmq" and [publisher, sequence] != [
                    int.from_bytes(frame, "big") for frame in frames[1:3]]:
                raise Wrong("the frames say another publisher than the envelope")
            say = []
            for event in map(query.event_of, events):
                want = waiting.get((event["worker"], event["dp_rank"]), [None]).pop(0)
                if event != want:
                    raise Wrong(f"{self.folder} {file}: told {want}, published {event}")
                say.append(want)
            self.add(file, transport, "dynamo", subject, frames, publisher, sequence, say)
        rest = [event for events in waiting.values() for event in events]
        if rest:
            raise Wrong(f"{self.folder} {file}: {len(rest)} events never came, first {rest[0]}")

    def write(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        for name, data in self.files.items():
            with open(os.path.join(self.folder, name), "wb") as out:
                out.write(data)
        with open(os.path.join(self.folder, "index.json"), "w", encoding="utf-8") as out:
            head = {key: value for key, value in self.index.items() if key != "messages"}
            lines = ",\n".join(json.dumps(message, ensure_ascii=False) for message in self.index["messages"])
            out.write(json.dumps(head, ensure_ascii=False)[:-1] + ', "messages": [\n' + lines + "\n]}\n")
        count = sum(len(message["events"]) for message in self.index["messages"])
        print(f"{os.path.basename(self.folder)}: {len(self.index['messages'])} messages, {count} events, "
              f"{sum(map(len, self.files.values()))} bytes")


# ---- the parts ----

class Place:
    """A folder, a NATS server and an engine broker for one capture."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix="kvt-capture-")
        self.log = os.path.join(self.folder, "producers.log")
        port = self.port()
        config = os.path.join(self.folder, "nats.conf")
        with open(config, "w", encoding="utf-8") as out:
            out.write(f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{self.folder}/js" }}\n')
        program = subprocess.run([os.path.join(client.ROOT, "scripts", "servers"), "nats-server"],
                                 check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        self.server = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", program, "-c", config],
                                       stderr=subprocess.DEVNULL)
        self.url = f"nats://127.0.0.1:{port}"
        for _ in range(100):
            try:
                bus.Nats(self.url).close()
                break
            except OSError:
                time.sleep(0.05)

    def port(self):
        while True:
            port = random.SystemRandom().randrange(20000, 32000)
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                    return port
                except OSError:
                    continue

    def close(self):
        self.server.kill()
        self.server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def numbered(version):
    return tuple(int(part) for part in version.split("."))


def play(producer, steps, name, worker, rank, first_id):
    """Tell the steps; the events that must come, with their ids."""
    expected, number = [], first_id
    for command, arguments, events in steps:
        producer.tell(command, name=name, **arguments)
        for event in events:
            expected.append({"worker": worker, "id": number, "dp_rank": rank, **event})
            number += 1
    return expected


def runtime_steps(place, version):
    names = told.Names(place.rng)
    steps = told.published(names, salts=numbered(version) >= (1, 6), counted=numbered(version) >= (1, 1))
    if numbered(version) >= (1, 6):
        steps += told.batched(names)
    return steps


def capture_publisher(place, fixture, version, plane, file, local=True, broker=False):
    """The publisher's interface, ranks 0 and 3 of one worker."""
    first = 1 if numbered(version) >= (1, 1) else 0
    env = {"NATS_SERVER": place.url, "DYN_EVENT_PLANE": plane, "DYN_DISCOVERY_BACKEND": "file",
           "DYN_FILE_KV": os.path.join(place.folder, f"kv-{file}")}
    if broker:
        xsub, xpub = place.port(), place.port()
        context = zmq.Context.instance()
        front, back = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
        front.bind(f"tcp://127.0.0.1:{xsub}")
        back.bind(f"tcp://127.0.0.1:{xpub}")
        threading.Thread(target=lambda: zmq.proxy(front, back), daemon=True).start()
        env["DYN_ZMQ_BROKER_URL"] = f"xsub=tcp://127.0.0.1:{xsub} , xpub=tcp://127.0.0.1:{xpub}"
    expected = []
    with client.runtime(version, f"space.back_end-{file.split('.')[0]}.generate", env=env,
                        log=place.log) as producer:
        heard = []
        if plane == "nats":
            heard.append(Heard().nats(place.url))
        elif broker:
            heard.append(Heard().zmq(f"tcp://127.0.0.1:{xpub}"))
        for rank in (0, 3):
            producer.tell("open", name=f"r{rank}", dp_rank=rank, local=local)
        if plane == "zmq" and not broker:
            heard = [Heard().zmq(endpoint) for endpoint in endpoints(env["DYN_FILE_KV"], 2)]
        time.sleep(1)
        for rank in (0, 3):
            expected += play(producer, runtime_steps(place, version), f"r{rank}", producer.hello["worker"],
                             rank, first)
        # One message holds one list of steps or less.
        messages = []
        for one in heard:
            messages += one.wait(1 << 30, 3)
        transport = "zmq" if plane == "zmq" else "nats" if local else "jetstream"
        fixture.add_router(file, transport, messages, expected)


def endpoints(folder, count):
    """Where the publishers that wrote these discovery records are."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = set()
        for path, _, files in os.walk(folder):
            for name in files:
                with open(os.path.join(path, name), encoding="utf-8") as record:
                    text = record.read()
                if "EventChannel" in text and "kv-events" in text:
                    found.add(endpoint_in(json.loads(text)))
        if len(found - {None}) == count:
            return sorted(found)
        time.sleep(0.1)
    raise Wrong(f"no discovery records of {count} publishers in {folder}")


def endpoint_in(record):
    """The first tcp address anywhere in a record."""
    if isinstance(record, str):
        return record if record.startswith("tcp://") else None
    values = record.values() if isinstance(record, dict) else record if isinstance(record, list) else ()
    return next((found for found in map(endpoint_in, values) if found), None)


def capture_runtime(place, version):
    fixture = Fixture(f"ai-dynamo-runtime-{version}",
                      "publisher interface, ranks 0 and 3; relay of vLLM's stream, rank 2")
    capture_publisher(place, fixture, version, "nats", "core.bin")
    if numbered(version) < (1, 4):
        capture_publisher(place, fixture, version, "nats", "jetstream.bin", local=False)
    if numbered(version) >= (1, 1):
        capture_publisher(place, fixture, version, "zmq", "zmq.bin")
        capture_publisher(place, fixture, version, "zmq", "broker.bin", broker=True)
    capture_relay(place, fixture, version)
    fixture.write()


def engine_release(name):
    """vllm-0.33.0 -> vllm-0.33, sglang-0.5.23 as it is: the names in told.py."""
    return name[:-2] if name.startswith("vllm") else name


class Engine:
    """One engine's publisher with a listener, ready to play."""

    def __init__(self, place, name, rank, env=None, buffer_steps=10000):
        self.rank = rank
        self.port, self.replay_port = place.port(), place.port()
        self.producer = client.engine(name, log=place.log, env=env)
        self.producer.tell("open", endpoint=f"tcp://*:{self.port - rank}", rank=rank,
                           replay=f"tcp://*:{self.replay_port - rank}", buffer_steps=buffer_steps)
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.heard = Heard().zmq(self.address)

    def play(self, steps):
        for events, _, _ in steps:
            self.producer.tell("publish", events=events)
        return self.heard.wait(len(steps))

    def replay(self, start):
        """What the replay socket answers: frames behind the empty one, the end mark not among them."""
        dealer = zmq.Context.instance().socket(zmq.DEALER)
        dealer.connect(f"tcp://127.0.0.1:{self.replay_port}")
        dealer.send_multipart([b"", start.to_bytes(8, "big")])
        found = []
        while dealer.poll(3000):
            frames = dealer.recv_multipart()
            if frames[0] != b"":
                raise Wrong(f"replay begins with {frames[0]!r}")
            if frames[-2:] == [b"\xff" * 8, b""]:
                dealer.close(0)
                return found, frames
            found.append(frames)
        raise Wrong("the replay did not end")


def understood(steps, rank):
    """Of each batch, what a reader of the engine's own stream must understand."""
    return [[{**event, "dp_rank": rank} if event["kind"] != "skip" else event for event in events]
            for _, events, _ in steps]


def check_batch(payload, steps, number, rank):
    """The second decoder: tags, hashes and rank of a batch as told."""
    batch = msgpack.unpackb(payload)
    if len(batch) > 2 and batch[2] not in (rank, None):
        raise Wrong(f"rank {batch[2]}")
    said = [(event["type"], event.get("block_hashes")) if isinstance(event, dict)
            else (event[0], (event[1:] or [None])[0]) for event in batch[1]]
    def number_of(value):
        return int(value["hex"], 16) if isinstance(value, dict) else value
    wanted = [(event["tag"], event.get("block_hashes")) for event in steps[number][0]]
    for (tag, found), (want_tag, want) in zip(said, wanted, strict=True):
        found = found and [int.from_bytes(value, "big") if isinstance(value, bytes) else value
                           for value in found]
        want = want and [number_of(value) for value in want]
        if tag != want_tag or found != want:
            raise Wrong(f"batch {number}: told {want_tag} {want}, published {tag} {found}")


def capture_engine(place, name):
    release = engine_release(name)
    vllm = name.startswith("vllm")
    fixture = Fixture(name, "its publisher alone, ZMQ, bound; replay socket asked afterwards")
    for rank in (0, 2):
        steps = told.engine(told.Names(place.rng), release, signed=not vllm)
        engine = Engine(place, name, rank)
        time.sleep(0.5)
        add_engine(fixture, f"rank{rank}.bin", engine.play(steps), steps, rank)
        if rank == 2:
            start = len(steps) // 2
            found, end = engine.replay(start)
            add_engine(fixture, "replay.bin", [(frames[-3].decode() if len(frames) == 4 else "", frames[1:])
                                               for frames in found], steps, rank, start, "zmq-replay")
            fixture.add("replay.bin", "zmq-replay-end", "engine", "", end[1:], None, None, [])
        engine.producer.kill()
    if release == "vllm-0.33":
        steps = told.engine_bytes(told.Names(place.rng))
        engine = Engine(place, name, 0)
        time.sleep(0.5)
        add_engine(fixture, "bytes.bin", engine.play(steps), steps, 0)
        engine.producer.kill()
    fixture.write()


def add_engine(fixture, file, messages, steps, rank, start=0, transport="zmq"):
    if len(messages) != len(steps) - start:
        raise Wrong(f"{fixture.folder} {file}: {len(steps) - start} batches, {len(messages)} came")
    events = understood(steps, rank)
    for number, (subject, frames) in enumerate(messages, start):
        sequence = int.from_bytes(frames[-2], "big")
        if sequence != number:
            raise Wrong(f"batch {number} has the sequence {sequence}")
        check_batch(frames[-1], steps, number, rank)
        fixture.add(file, transport, "engine", subject, frames, None, sequence, events[number])


def capture_relay(place, fixture, version):
    """vLLM's stream through the publisher's relay, on NATS."""
    rank = 2
    steps = told.engine(told.Names(place.rng), "vllm-0.33", relay=version[:3])
    engine = Engine(place, "vllm-0.33.0", rank)
    heard = Heard().nats(place.url)
    env = {"NATS_SERVER": place.url, "DYN_EVENT_PLANE": "nats"}
    with client.runtime(version, "space.relayed.generate", env=env, log=place.log) as producer:
        producer.tell("open", dp_rank=rank, zmq=engine.address)
        time.sleep(1.5)
        engine.play(steps)
        first = 1 if numbered(version) >= (1, 1) else 0
        expected = []
        for _, _, relayed in steps:
            for event in relayed:
                expected.append({"worker": producer.hello["worker"], "id": first + len(expected),
                                 "dp_rank": rank, **event})
        fixture.add_router("relay.bin", "nats", heard.wait(1 << 30, 2), expected)
    engine.producer.kill()


def capture_mocker(place, version):
    """The mock engine under a load that evicts; the events must add up to what it says it holds."""
    fixture = Fixture(f"ai-dynamo-mocker-{version}",
                      "mock engine, 2 ranks of 32 device blocks and (1.6) 24 host blocks; its workers' own dumps")
    discovery = os.path.join(place.folder, "kv")
    env = {"NATS_SERVER": place.url, "DYN_EVENT_PLANE": "nats", "DYN_FILE_KV": discovery}
    heard = Heard().nats(place.url)
    wanted = 8 if numbered(version) >= (1, 6) else 4  # earlier ones have no host blocks
    with client.mocker(version, "space.mock.generate", os.path.join(place.folder, "model"), env=env,
                       log=place.log) as producer:
        producer.tell("start", device=32, host=24)
        time.sleep(1)
        for request in told.load(place.rng, 2, 40 if wanted == 8 else 26):
            producer.tell("request", **request)
        messages = [one for one in heard.wait(1 << 30, 2) if one[0].endswith(".kv-events")]
        book, kinds = told.Book(), set()
        for subject, frames in messages:
            publisher, sequence, events = router_events(frames[-1])
            events = [query.event_of(event) for event in events]
            for event in events:
                book.apply(event)
                kinds.add((event["kind"], event["tier"], event["dp_rank"]))
            fixture.add("core.bin", "nats", "dynamo", subject, frames, publisher, sequence, events)
        if len(kinds) < wanted:
            raise Wrong(f"only {sorted(kinds)} were published")
        held = told.Book()
        for event in query.holdings(discovery, (0, 1)):
            held.apply(event)
        held = held.rows()
        if held != book.rows():
            raise Wrong(f"{version}: the engine holds {len(held)}, its events say {len(book.rows())}, "
                        f"{len(set(held.items()) ^ set(book.rows().items()))} differ")
        capture_queries(fixture, discovery)
    fixture.write()


def capture_queries(fixture, discovery):
    """Answers of the worker query: a dump, and events from number 3 on."""
    for worker, name, *rest in query.queries(discovery):
        ranks = [int(name.rsplit("dp", 1)[1])] if "dp" in name else query.rank_of(discovery, name, (0, 1))
        for start in (None, 3):
            for codec, body, data in query.ask((worker, name, *rest), ranks[0], start):
                said, inner = next(iter(data.items()))
                events = inner["events"] if isinstance(inner, dict) else inner
                fixture.add("query.bin", "query", "dynamo", name, [body_of(codec, body, data)], None, None,
                            [query.event_of(event) for event in events])
                entry = fixture.index["messages"][-1]
                entry["answer"] = {"TreeDump": "dump", "Events": "events"}[said]
                if isinstance(inner, dict) and "last_event_id" in inner:
                    entry["newest"] = inner["last_event_id"]


def body_of(codec, body, data):
    """The answer itself, as it stands in the frame's body behind the key `data`."""
    if codec == "msgpack":
        inner = msgpack.packb(data)
    else:
        inner = json.dumps(data, separators=(",", ":")).encode()
    if inner not in body:
        raise Wrong("an answer's bytes are not where they should be")
    return inner


def engine_event(event):
    """One tagged map in the words of index.json."""
    if event["type"] == "AllBlocksCleared":
        return {"kind": "clear", "tier": "all"}
    said = {"tier": told.TIERS[event["medium"]], "hashes": event["block_hashes"]}
    if event["type"] == "BlockRemoved":
        return {"kind": "remove", **said}
    said.update(kind="store", tokens=event["token_ids"], block_tokens=event["block_size"],
                seed=told.hashes.seed(event.get("lora_name")))
    return said if event["parent_block_hash"] is None else {**said, "parent": event["parent_block_hash"]}


def capture_consolidator(place, name):
    """Rank 2 of a vLLM through the consolidator, in both of its modes."""
    fixture = Fixture(name, "event consolidator, fed by vLLM 0.33.0's stream of rank 2; no KVBM blocks")
    for mode in ("dedup", "passthrough"):
        steps = told.engine(told.Names(place.rng), "vllm-0.33")
        expected = told.consolidated(steps)
        engine = Engine(place, "vllm-0.33.0", 2)
        output = f"tcp://127.0.0.1:{place.port()}"
        heard = Heard().zmq(output)
        with client.consolidator(name, place.port(), place.port(), log=place.log) as producer:
            producer.tell("open", engine=engine.address, output=output, mode=mode)
            time.sleep(1)
            for events, _, _ in steps:
                engine.producer.tell("publish", events=events)
                time.sleep(0.2)  # it publishes every 50 ms what came since
            messages = heard.wait(len(expected))
        engine.producer.kill()
        for number, ((subject, frames), events) in enumerate(zip(messages, expected, strict=True)):
            batch = msgpack.unpackb(frames[-1])
            if [engine_event(event) for event in batch[1]] != events or batch[2] != 0:
                raise Wrong(f"consolidator: told {events}, published {batch}")
            if int.from_bytes(frames[-2], "big") != number:
                raise Wrong("the consolidator's numbers do not rise by one")
            fixture.add(f"{mode}.bin", "zmq", "engine", subject, frames, None, number,
                        [{**event, "dp_rank": 0} for event in events])
    fixture.write()


def notified(record):
    """The second decoder of notifications: (kind, key, size) of one record."""
    name, thing = record["eventName"].removeprefix("s3:"), record["s3"]["object"]
    kind = {"ObjectCreated:Put": "store", "ObjectRemoved:Delete": "remove",
            "ObjectCreated:PutTagging": "other", "ObjectRemoved:NoOP": "other"}[name]
    return kind, urllib.parse.unquote_plus(thing["key"]), thing.get("size", 0)


def capture_minio(place):
    version = "20260212"
    fixture = Fixture(f"minio-{version}", "one bucket, notifications over NATS, lifecycle expiry")
    port = place.port()
    program = subprocess.run([os.path.join(client.ROOT, "scripts", "servers"), "minio"], check=True,
                             stdout=subprocess.PIPE, text=True).stdout.strip()
    with open(place.log, "ab") as log:
        server = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", program, "server", f"{place.folder}/minio", "--quiet",
             "--address", f"127.0.0.1:{port}"], stdout=log, stderr=log,
            env={**os.environ, **objects.environment(place.url), "MINIO_ROOT_USER": harness.ACCESS,
                 "MINIO_ROOT_PASSWORD": harness.SECRET, "MINIO_BROWSER": "off", "MINIO_CI_CD": "on",
                 "HOME": place.folder})
    try:
        while harness.http_ok(f"http://127.0.0.1:{port}/minio/health/ready"):
            time.sleep(0.1)
        heard = Heard().nats(place.url)
        bucket = s3.Client(f"http://127.0.0.1:{port}", harness.ACCESS, harness.SECRET, "blocks")
        bucket.create_bucket()
        objects.subscribe(bucket)
        story = objects.Story(bucket, place.rng).run()
        messages = heard.wait(len(story.told))
        told_left = list(story.told)
        for subject, frames in messages:
            record, = json.loads(frames[0])["Records"]
            kind, key, size = notified(record)
            again = objects.Story(bucket, None).event(kind, key, size)
            if kind == "other":
                again = {"kind": "skip", "why": "fine"}
            # What one request deletes is told in any order.
            if again not in told_left[:3]:
                raise Wrong(f"minio: told {told_left[:3]}, notified {again}")
            told_left.remove(again)
            if again["kind"] != "skip":
                again = {**again, "id": int(record["s3"]["object"]["sequencer"], 16)}
            fixture.add("events.bin", "bucket", "minio", subject, frames, None, None, [again])
        if told_left:
            raise Wrong(f"minio: never notified: {told_left}")
        left = {key: size for key, size in bucket.list() if blocks.parse_key(key)}
        if left != story.held:
            raise Wrong(f"minio: the bucket holds {left}, the story says {story.held}")
    finally:
        server.kill()
        server.wait()
    fixture.write()


PARTS = {f"ai-dynamo-runtime-{version}": (lambda place, version=version: capture_runtime(place, version))
         for version in ("1.6.1", "1.3.1", "1.0.2")}
PARTS.update({f"ai-dynamo-mocker-{version}":
              (lambda place, version=version: capture_mocker(place, version))
              for version in ("1.6.1", "1.3.1", "1.0.2")})
PARTS["kvbm-1.6.1"] = lambda place: capture_consolidator(place, "kvbm-1.6.1")
PARTS["minio"] = capture_minio
PARTS.update({name: (lambda place, name=name: capture_engine(place, name))
              for name in ("vllm-0.33.0", "vllm-0.20.2", "vllm-0.11.0", "sglang-0.5.23", "sglang-0.5.10")})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("part", nargs="*", choices=[*PARTS, []])
    args = parser.parse_args()
    for name in args.part or PARTS:
        place = Place(f"{args.seed} {name}")
        try:
            PARTS[name](place)
        except BaseException:
            with open(place.log, encoding="utf-8") as log:
                sys.stderr.write(log.read()[-3000:])
            raise
        finally:
            place.close()


if __name__ == "__main__":
    main()
