"""Asks a Dynamo worker what it holds: the request plane's TCP framing, in Python.

This is the engine's own word, asked the way Dynamo's router asks it.  Nothing is shared with the C side.
"""

import json
import os
import socket
import struct
import time
import urllib.parse

import msgpack


TIERS = {"device": "g1", "host_pinned": "g2", "disk": "g3", "external": "g4"}


class QueryError(Exception):
    """The worker could not be asked, or said no."""


def records(folder, bucket):
    """(path, record) of every discovery record in a bucket of Dynamo's file store."""
    found = []
    base = os.path.join(folder, "v1", bucket)
    for path, _, names in os.walk(base):
        for name in names:
            try:
                with open(os.path.join(path, name), encoding="utf-8") as record:
                    found.append((urllib.parse.unquote(name), json.load(record)))
            except (OSError, ValueError):
                continue  # just being written, or gone
    return found


def queries(folder):
    """(worker, endpoint, host, port, path, codec) of every place where a worker can be asked."""
    found = []
    for _, record in records(folder, "instances"):
        name = record["endpoint"]
        if "query" in name and "tcp" in record["transport"]:
            address, path = record["transport"]["tcp"].split("/", 1)
            host, port = address.rsplit(":", 1)
            codec = "msgpack" if record.get("request_plane_codec") == "msgpack" else "json"
            found.append((record["instance_id"], name, host, int(port), path, codec))
    return sorted(found)


def frame(header, body):
    return struct.pack(">QQQ", len(header), len(body), 0) + header + body


def take(stream, size):
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            raise QueryError(f"closed after {len(data)} of {size} bytes")
        data += more
    return data


def take_frame(stream):
    header, body, _ = struct.unpack(">QQQ", take(stream, 24))
    return json.loads(take(stream, header) or b"null"), take(stream, body)


def ask(place, dp_rank=0, start=None, seconds=10):
    """The data of every frame of the answer, as (codec, bytes) and decoded."""
    worker, _, host, port, path, codec = place
    question = {"worker_id": worker, "dp_rank": dp_rank, "start_event_id": start, "end_event_id": None}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(seconds)
        name = f"kvt-{os.getpid()}-{time.monotonic_ns()}"
        info = {"address": f"127.0.0.1:{listener.getsockname()[1]}", "subject": name, "context": name,
                "stream_type": "response"}
        control = {"id": name, "request_type": "single_in", "response_type": "many_out",
                   "payload_codec": codec,
                   "connection_info": {"transport": "tcp_server", "info": json.dumps(info)}}
        body = msgpack.packb(question) if codec == "msgpack" else json.dumps(question).encode()
        inner = frame(json.dumps(control).encode(), body)
        headers = json.dumps({"request-id": name}).encode()
        with socket.create_connection((host, port), timeout=seconds) as stream:
            stream.sendall(struct.pack(">H", len(path)) + path.encode() + struct.pack(">H", len(headers)) +
                           headers + struct.pack(">I", len(inner)) + inner)
            size = struct.unpack(">I", take(stream, 4))[0]
            said = take(stream, size)
            if said:
                raise QueryError(said.decode(errors="replace"))
            answer, _ = listener.accept()
            answer.settimeout(seconds)
            with answer:
                return read_answer(answer, codec)


def read_answer(stream, codec):
    header, _ = take_frame(stream)  # which stream this is
    header, _ = take_frame(stream)
    if header.get("error"):
        raise QueryError(header["error"])
    found = []
    while True:
        header, body = take_frame(stream)
        if header == "sentinel":
            return found
        if body:
            data = msgpack.unpackb(body) if codec == "msgpack" else json.loads(body)
            if data.get("data") is not None:
                found.append((codec, body, data["data"]))


def event_of(event):
    """One RouterEvent in the words of index.json."""
    inner = event["event"]
    said = {"worker": event["worker_id"], "id": inner["event_id"], "dp_rank": inner.get("dp_rank", 0),
            "tier": TIERS[event.get("storage_tier", "device")]}
    data = inner["data"]
    if data == "cleared":
        return {**said, "kind": "clear", "tier": "all"}
    if "removed" in data:
        return {**said, "kind": "remove", "hashes": data["removed"]["block_hashes"]}
    stored = data["stored"]
    said.update(kind="store", hashes=[block["block_hash"] for block in stored["blocks"]],
                tokens_hashes=[block["tokens_hash"] for block in stored["blocks"]])
    if stored["parent_hash"] is not None:
        said["parent"] = stored["parent_hash"]
    if stored.get("start_position") is not None:
        said["position"] = stored["start_position"]
    media = [sorted(one["mm_hash"] for one in (block["mm_extra_info"] or {}).get("mm_objects", ()))
             for block in stored["blocks"]]
    if any(media):
        said["media"] = media
    return said


def holdings(folder, ranks):
    """Events that say what all workers there hold, by their own dumps."""
    held = []
    for place in queries(folder):
        name = place[1]
        # From 1.4 on a publisher has a place of its own, for the rank it was made for.
        for rank in ([int(name.rsplit("dp", 1)[1])] if "dp" in name else rank_of(folder, name, ranks)):
            for _, _, data in ask(place, rank):
                kind, body = next(iter(data.items()))
                if kind != "TreeDump":
                    raise QueryError(f"asked for everything, {name} says {kind}: {str(body)[:300]}")
                held += map(event_of, body["events"] if isinstance(body, dict) else body)
    return held


def rank_of(folder, name, ranks):
    """worker_kv_query_source_<publisher>: its rank is in the record of the source."""
    publisher = name.rsplit("_", 1)[1]
    for path, record in records(folder, "event_sources"):
        if path.rsplit("/", 1)[1] == publisher:
            rank = find(record, "dp_rank")
            if rank is not None:
                return [rank]
    return ranks


def find(record, key):
    if isinstance(record, dict):
        if key in record:
            return record[key]
        record = list(record.values())
    if isinstance(record, list):
        for value in record:
            found = find(value, key)
            if found is not None:
                return found
    return None
