#!/usr/bin/env python3
"""Workers keep their blocks in a real MinIO's bucket itself, without a gateway: as KVBM's own S3 client does.

One writes, another finds; objects that are not the block are never taken for it, and put right; a bucket that is
away costs misses, nothing else."""

import http.server
import json
import os
import threading

import blocks
from harness import expect, main, wait_until

SIZE = 64 << 10
CONVERSATIONS, LENGTH = 24, 16


def trace(run, name, conversations, every_ms):
    lines = [json.dumps({"timestamp": at * every_ms, "input_length": 512 * LENGTH, "output_length": 1,
                         "hash_ids": [1000 * one + block for block in range(LENGTH)]})
             for at, one in enumerate(conversations)]
    return run.file(f"{name}.jsonl", "\n".join(lines) + "\n")


def worker(run, server, name, conversations, every_ms=0, **more):
    """Its tiers hold a fifth of what the bucket does."""
    return run.daemon("kvtier-worker", name, {
        "name": name, "nats.url": "", "trace": trace(run, name, conversations, every_ms), "stay": "true", "gpu": "off",
        "s3.endpoint": server.url, "s3.credentials_file": os.path.join(run.folder, "s3.cred"), "bucket": "kvtier",
        "gateway.retry": "5s", "block.size": "64KiB", "g1.size": "1MiB", "g2.size": "4MiB", "g3.size": "0", **more})


def finished(process, start=True):
    def check():
        status = process.status()
        return None if status["trace"]["finished"] else f"{status['trace']}"

    if start:
        process.start(seconds=60)
    wait_until(check, 90, f"{process.name} has replayed its trace", every=0.2)
    return process.status()


def sums(status):
    return {name: sum(one[name] for one in status["workers"])
            for name in ("computed", "hits_g4", "offloaded_g3_g4", "wrong_bytes", "blocks")}


def stopped(process):
    code = process.stop()
    expect(code == 0, f"{process.name} exits {code}: {process.tail()}")


class ReadOnly(http.server.BaseHTTPRequestHandler):
    """An empty bucket in which these credentials may not write."""

    protocol_version = "HTTP/1.1"

    def answer(self, status, code):
        body = f"<Error><Code>{code}</Code></Error>".encode() if self.command != "HEAD" else b""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self):
        self.answer(404, "NoSuchKey")

    def do_PUT(self):
        self.answer(403, "AccessDenied")

    def log_message(self, *_):
        pass


def said(process, event):
    with open(process.log, encoding="utf-8") as log:
        return sum(f'"event":"{event}"' in line for line in log)


def scenario(run):
    server = run.minio().start(seconds=60)
    client = run.client(server)
    client.create_bucket()
    everything = range(CONVERSATIONS)
    with run.case("what is pushed out of a worker's tiers lies in the bucket, under KVBM's keys"):
        first = worker(run, server, "first", everything)
        done = sums(finished(first))
        wait_until(lambda: None if len(client.list()) > CONVERSATIONS * LENGTH // 2 else f"{len(client.list())} objects",
                   60, "blocks are in the bucket", every=0.5)
        expect(done["computed"] == CONVERSATIONS * LENGTH and done["wrong_bytes"] == 0, f"{done}")
        stopped(first)
        keys = [key for key, *_ in client.list()]
        expect(all(blocks.parse_key(key) for key in keys), f"keys that are none: {keys[:3]}")
        expect({len(client.get(key).body) for key in keys[::20]} == {SIZE}, "bodies that are no blocks")
    with run.case("a worker that is new finds them there"):
        second = worker(run, server, "second", everything)
        done = sums(finished(second))
        run.note(f"{done}")
        expect(done["hits_g4"] > len(keys) // 2 and done["wrong_bytes"] == 0, f"{done}")
        expect(done["hits_g4"] + done["computed"] <= done["blocks"], f"{done}")
        stopped(second)
    with run.case("what is not the block is computed anew, and put right"):
        spoiled = [key for key in keys if blocks.parse_key(key)[2] == 0]
        expect(len(spoiled) > CONVERSATIONS // 2, f"first blocks: {len(spoiled)}")
        right = {key: client.get(key).body for key in spoiled}
        for key in spoiled:
            client.put(key, right[key][:-1] + bytes([right[key][-1] ^ 1]),
                       {"x-amz-meta-kvt-length": str(SIZE), "x-amz-meta-kvt-crc32c": f"{blocks.crc32c(right[key]):08x}",
                        "x-amz-meta-kvt-fingerprint": "0" * 16, "x-amz-meta-kvt-writer": "x"})
        third = worker(run, server, "third", everything)
        done = sums(finished(third))
        expect(done["wrong_bytes"] == 0 and done["computed"] >= len(spoiled), f"{done}")
        healed = [key for key in spoiled if client.get(key).body == right[key]]
        run.note(f"{len(healed)} of {len(spoiled)} put right, {done}")
        expect(healed, "none is put right")
        stopped(third)
    with run.case("without the bucket a worker computes, and says so"):
        server.stop()
        fourth = worker(run, server, "fourth", [*everything] * 2, every_ms=300,
                        **{"speed": "1", "onboard.deadline": "2s"}).start(seconds=60)
        wait_until(lambda: None if "the bucket is away" in fourth.status()["reasons"] else "it does not", 20, "it says so",
                   every=0.2)
        before = sums(fourth.status())
        expect(before["computed"] > 0 and before["hits_g4"] == 0, f"{before}")
    with run.case("a bucket that is back is used again"):
        server.start(seconds=60)
        status = finished(fourth, start=False)
        expect(status["state"] == "ready", f"{status['reasons']} {status['gateway']}")
        expect(sums(status)["hits_g4"] > 0 and sums(status)["wrong_bytes"] == 0, f"{sums(status)}")
        stopped(fourth)
    with run.case("where nothing may be written a worker computes, and its log says why"):
        service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ReadOnly)
        threading.Thread(target=service.serve_forever, daemon=True).start()
        fifth = worker(run, server, "fifth", everything,
                       **{"s3.endpoint": f"http://127.0.0.1:{service.server_port}"})
        done = sums(finished(fifth))
        wait_until(lambda: None if fifth.status()["gateway"]["refused"] else "nothing", 20, "blocks are refused")
        wait_until(lambda: None if said(fifth, "gateway_refuses") else fifth.tail(), 5, "the log says so")
        expect(done["computed"] == CONVERSATIONS * LENGTH and done["wrong_bytes"] == 0, f"{done}")
        stopped(fifth)
        service.shutdown()


if __name__ == "__main__":
    main(scenario)
