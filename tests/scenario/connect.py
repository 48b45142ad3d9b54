#!/usr/bin/env python3
"""docs/connect: every command in it is run, in the order it stands there, against real servers."""

import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import threading

import yaml

import bus
import harness
from harness import ACCESS, SECRET, expect, wait_until

FOLDER = os.path.join(harness.ROOT, "docs", "connect")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = {"sh", "yaml", "json"}


def blocks_of(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        found = BLOCK.findall(file.read())
    expect({kind for kind, _ in found} <= KINDS, f"{name}: what is run is marked sh")
    return found


def client(name):
    return subprocess.run([os.path.join(harness.ROOT, "scripts", "clients"), name], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()


class Engine:
    """What vLLM's publisher is on the wire: a ZMQ PUB socket (ZMTP 3.0) that says again and again what it stores."""

    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)

    def __init__(self, port):
        self.ended = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", port))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    @staticmethod
    def frame(flags, data):
        return bytes([flags, len(data)]) + data

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                with peer, contextlib.suppress(OSError):
                    self.publish(peer)

    def publish(self, peer):
        peer.sendall(self.greeting)
        peer.recv(64, socket.MSG_WAITALL)
        kind = b"\x0bSocket-Type" + struct.pack(">I", 3) + b"PUB"
        peer.sendall(self.frame(4, b"\x05READY" + kind))
        sequence = 0
        while not self.ended.wait(0.1):
            stored = ["BlockStored", [sequence + 1], None, list(range(16)), 16, None]
            peer.sendall(self.frame(1, b"") + self.frame(1, struct.pack(">Q", sequence))
                         + self.frame(0, bus.pack([0, [stored], 0])))
            sequence += 1

    def end(self):
        self.ended.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)


class Events:
    """The sources of a page, at this run's addresses, and somebody who publishes there."""

    def __init__(self, run, nats, page, text):
        self.nats, self.ends = bus.Nats(nats.url), []
        self.discovery = os.path.join(run.folder, f"{page}-discovery")
        os.makedirs(self.discovery)
        ports = {}
        text = text.replace("nats://127.0.0.1:4222", nats.url).replace("/var/lib/dynamo/kv", self.discovery)
        text = re.sub(r"(tcp://127\.0\.0\.1:)(\d+)", lambda found: found[1] + str(
            ports.setdefault(found[2], run.port())), text)
        self.sources = yaml.safe_load(text)["sources"]
        self.file = run.file(f"{page}-sources.yaml", text)
        for source in self.sources:
            for endpoint in source.get("endpoints", []):
                self.ends.append(Engine(int(endpoint.rsplit(":", 1)[1])))
        self.sent = 0

    def missing(self, advisor, source):
        """None when the advisor follows it.  In Dynamo's store nobody is registered: it waits for who will be."""
        told = advisor.ask(f"/v1/sources/{source['name']}")
        if source["kind"] == "dynamo-nats" and not told["events"]:
            block = {"block_hash": self.sent + 1, "tokens_hash": 7}
            event = {"event_id": self.sent, "data": {"stored": {"blocks": [block]}}, "dp_rank": 0}
            self.nats.publish("namespace.acme.component.llama.kv_events",
                              json.dumps({"worker_id": 7, "event": event}).encode())
            self.sent += 1
        followed = (told["state"] == "waiting" if source["kind"] == "dynamo-zmq"
                    else told["state"] == "running" and told["events"] > 0)
        return None if followed else f"{told['state']}, {told['events']} events: {told['last_error']}"

    def wait(self, advisor):
        for source in self.sources:
            wait_until(lambda source=source: self.missing(advisor, source), 30, f"{source['name']} is followed")

    def end(self):
        for engine in self.ends:
            engine.end()
        self.nats.close()


def settings_of(run, nats, page, blocks):
    """The files that the page shows: the gateway's, as settings, and the advisor's sources."""
    gateway, events = {}, None
    for kind, text in blocks:
        if kind != "yaml":
            continue
        name = text.split("\n", 1)[0].removeprefix("# ")
        if name == "gateway.yaml":
            gateway = {"config": run.file(f"{page}-gateway.yaml", text)}
        elif name == "sources.yaml":
            events = Events(run, nats, page, text)
        else:
            raise harness.Failure(f"{page}: nobody reads {name}")
    return gateway, events


def page_case(run, nats, page, tools):
    label = page.removesuffix(".md")
    blocks = blocks_of(page)
    gateway_settings, events = settings_of(run, nats, label, blocks)
    gateway = run.gateway(nats, f"gw-{label}", hot_capacity=1 << 26, **gateway_settings).start()
    advisor = run.advisor(nats, f"advisor-{label}", **({"sources.file": events.file} if events else {})).start()
    if events:
        with run.case(f"{page}: the sources are followed"):
            events.wait(advisor)
    work = os.path.join(run.folder, f"work-{label}")
    os.makedirs(work)
    python, nixl = tools
    env = {"PATH": f"{os.path.dirname(run.program('kvtier'))}:{python}/bin:{os.environ['PATH']}", "HOME": work,
           "LANG": "C.UTF-8", "S3": f"http://127.0.0.1:{gateway.front}", "PORT": str(gateway.front),
           "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1",
           "AWS_EC2_METADATA_DISABLED": "true", "NO_PROXY": "127.0.0.1,localhost,.localhost", "PYTHONPATH": nixl,
           "KVTIER_GATEWAY_URL": f"http://127.0.0.1:{gateway.admin}", "KVTIER_NATS_URL": nats.url,
           "KVTIER_ADVISOR_URL": f"http://127.0.0.1:{advisor.admin}",
           "KVTIER_ADMIN_TOKEN_FILE": f"{run.folder}/token"}
    for number, text in enumerate(text for kind, text in blocks if kind == "sh"):
        with run.case(f"{page}, commands {number + 1}: {text.split(chr(10), 1)[0][:50]}"):
            done = subprocess.run(["bash", "-euc", text], cwd=work, env=env, stdin=subprocess.DEVNULL, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                  timeout=120 * run.slow)
            expect(done.returncode == 0, f"ends with {done.returncode}: {done.stdout[-1500:]}")
    advisor.stop()
    gateway.stop()
    if events:
        events.end()


def scenario(run):
    tools = client("python"), client("nixl")
    nats = run.nats().start()
    pages = sorted(os.listdir(FOLDER))
    expect(pages == ["dynamo.md", "lmcache.md", "nixl.md", "vllm.md"], f"pages: {pages}")
    for page in pages:
        page_case(run, nats, page, tools)


if __name__ == "__main__":
    harness.main(scenario)
