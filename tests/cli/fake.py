#!/usr/bin/env python3
"""A stand-in for both daemons' admin HTTP: fixed answers, so that output can be compared letter by letter.

usage: fake.py FOLDER   writes FOLDER/port once it listens; ends with SIGTERM.
"""
import hashlib
import http.server
import json
import os
import sys
import time
import urllib.parse

from plans import signed

HASH = "00000000deadbeef"

ADVISOR = {
    "schema_version": 1, "program": "kvtier-advisor", "version": "9.9.9", "uptime_ms": 61000,
    "state": "ready", "reasons": [], "mode": "enforce", "paused": True,
    "index": {"blocks": 1000, "places": 1500, "holders": 4, "ram_bytes": 1 << 20,
              "ram_max_bytes": 1 << 30, "db_bytes": 1 << 21, "db_max_bytes": 1 << 33, "collisions": 0},
    "tiers": [{"name": "hot@gw0", "used_bytes": 3 << 28, "capacity_bytes": 1 << 30, "blocks": 768,
               "start_ppm": 850000, "stop_ppm": 700000, "refused_blocks": 12, "stuck": False, "draining": True,
               "gateway": "gw0", "last_report_ms": 0},
              {"name": "cold@kvtier", "used_bytes": 5 << 30, "capacity_bytes": 0, "blocks": 5120,
               "start_ppm": 950000, "stop_ppm": 900000}],
    "events": {"applied": 12345, "skipped": 0, "malformed": 0, "duplicates": 3, "conflicts": 0, "unproven": 0, "gaps": 1,
               "resyncs": 1,
               "publishers": 3, "uncertain": 0, "stream_seq": 900, "committed_seq": 900, "lag": 0,
               "lag_ms": 4, "last_event_ms": 0},
    "orders": {"issued": 7, "pending": 1, "done": 5, "failed": 1, "expired": 0},
    "nats": {"url": "nats://127.0.0.1:4222", "connected": True, "reconnects": 0},
    "gateways": [{"name": "gw0", "healthy": True, "last_report_ms": 0}],
}
OVERVIEW = {
    "schema_version": 1, "time_ms": 1700000000000, "uptime_ms": 61000, "version": "9.9.9", "mode": "enforce",
    "effective_mode": "observe", "paused": True, "ordering": "rhi", "state": "degraded", "verdict": {"ok": False, "text": "gateway gw0: its bucket does not answer", "command": "kvtier status"},
    "troubles": [{"text": "gateway gw0: its bucket does not answer", "command": "kvtier status"},
                 {"text": "publishers: 1 uncertain, called \u001b[31mred", "command": "kvtier sources ls"}],
    "tiers": [{"name": "hot@gw0", "used_bytes": 3 << 28, "capacity_bytes": 1 << 30, "blocks": 768, "start_ppm": 850000,
               "stop_ppm": 700000, "draining": True, "stuck": False},
              {"name": "cold@kvtier", "used_bytes": 5 << 30, "capacity_bytes": 0, "blocks": 5120, "start_ppm": 0,
               "stop_ppm": 0, "draining": False, "stuck": False}],
    "reads": {"hot": 750, "cold": 200, "miss": 50, "hot_bytes": 750 << 20, "cold_bytes": 200 << 20},
    "reads_by_minute": {"hot": list(range(60)), "cold": [0] * 59 + [200], "miss": [0] * 60},
    "flow": [{"verb": "demote", "from": "hot", "to": "cold", "blocks": 12, "failed": 1, "bytes": 12 << 20, "copied_bytes": 0,
              "bytes_by_minute": [0] * 57 + [3 << 20, 1 << 20, 8 << 20], "blocks_by_minute": [0] * 57 + [3, 1, 8]}],
    "reuse": {"up_to_seconds": [1, 60, 300], "reads": [10, 30, 0, 60], "lines": []},
    "prefixes": [{"namespace": "acme/llama", "hash": "00000000deadbeef", "parent": "0" * 16, "position": 0, "reads": 40, "bytes": 1 << 18, "pinned": True},
                 {"namespace": "acme/llama", "hash": "00000000deadbef0", "parent": "00000000deadbeef", "position": 1, "reads": 30,
                  "bytes": 1 << 18}],
    "orders": {"issued": 7, "pending": 1, "done": 5, "failed": 1, "expired": 1, "observed": 0},
}
GATEWAY = {
    "schema_version": 1, "program": "kvtier-gateway", "version": "9.9.9", "uptime_ms": 59000,
    "state": "degraded", "reasons": ["NATS is away"], "name": "gw0", "bucket": "kvtier",
    "hot": {"holder": "hot@gw0", "used_bytes": 3 << 28, "capacity_bytes": 1 << 30, "blocks": 768},
    "cold": {"holder": "cold@kvtier", "kind": "directory", "endpoint": "/var/lib/kvtier/cold",
             "used_bytes": 5 << 30, "capacity_bytes": 0, "blocks": 5120, "healthy": True, "latency_ms": 2,
             "clock_skew_ms": -3, "selftest": {"put_if_absent": True}},
    "requests": {"get": 10, "put": 20, "has": 30, "delete": 0, "list": 0, "hits_hot": 6, "hits_cold": 3,
                 "misses": 1, "bytes_in": 1 << 20, "bytes_out": 1 << 19},
    "integrity": {"corrupt": 1, "quarantined": 1},
    "backlog": {"mode": "back", "blocks": 12, "bytes": 24 << 20, "max_bytes": 1 << 30, "oldest_ms": 3210, "stuck": False},
    "catalog": {"entries": 5120, "bytes": 1 << 20, "max_bytes": 1 << 32, "intents": 0},
    "memory": {"used_bytes": 0, "max_bytes": 1 << 29},
    "nats": {"url": "nats://127.0.0.1:4222", "connected": False},
}
BLOCK = {"hash": HASH, "parent": "00000000000000aa", "position": 7, "namespace": "", "tokens_hash": "0",
         "size": 262144, "ranks": 1, "hits": 3, "cold_hits": 2, "last_access_ms": 0, "children": ["00000000000000bb"], "child_count": 1,
         "places": [{"holder": "w0", "dp_rank": 0, "tier": "G2", "ranks": 1},
                    {"holder": "cold@kvtier", "dp_rank": 0, "tier": "G4", "ranks": 1}],
         "policy": {"verdict": "cold", "why": [f"which rule has it, and why: kvtier block explain {HASH}"]}}
ORDERS = {"orders": [{"epoch": 1, "id": 2, "gateway": "gw0", "namespace": "", "verb": "demote",
                      "reason": "hot_start", "items": 10, "issued_ms": 1700000000000, "expires_ms": 0,
                      "state": "done", "done": 9, "failed": 1, "bytes_moved": 0, "text": "one was read"}]}
JOB = {"id": 12, "kind": "tenant", "title": "purge of acme", "key": "", "state": "running", "blocks": 3000, "done": 2000,
       "failed": 24, "batches": 3, "batches_done": 2, "bytes": 3000 << 20, "bytes_moved": 2000 << 20, "parts": 1,
       "suspend_ppm": 100000, "policy_version": 3, "created_ms": 1700000000000, "finished_ms": 0, "text": "0/0:k0: pinned"}
ENDED = {**JOB, "id": 11, "kind": "plan", "title": "4f5e", "state": "done", "done": 3000, "failed": 0,
         "batches_done": 3, "finished_ms": 1700000060000, "text": ""}
JOBS = {"paused": True, "mode": "enforce", "jobs": [JOB, ENDED]}
FAILURES = [{"batch": 1, "verb": "delete", "gateway": "gw0", "namespace": "acme/llama", "blocks": 1024, "done": 1000,
             "failed": 24, "attempts": 2, "text": "0/0:k0: pinned"}]
PLAN_POLICY = "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\nmodes: {max_delete: 1}\n"


def plan_of(deletes, policy):
    moves = [{"verb": "demote", "gateway": "gw0", "tier": "hot@gw0", "namespace": "acme/llama", "rule": "drain-hot",
              "blocks": [f"{n:016x} {n - 1:016x} {n} 1 1048576" for n in range(1, 4)]}]
    if deletes:
        moves.append({"verb": "delete", "gateway": "gw0", "tier": "cold@kvtier", "namespace": "", "rule": "drain-cold",
                      "blocks": [f"{n:016x} 0000000000000000 0 3 1024" for n in range(90, 90 + deletes)]})
    return signed({"schema_version": 1, "kind": "kvtier-plan", "created_ms": int(time.time() * 1000),
                   "base_version": 3, "base_digest": "77" * 32,
                   "policy_digest": hashlib.sha256(policy.encode()).hexdigest(), "policy": policy,
                   "summary": {"blocks": 3 + deletes, "bytes": 3 << 20, "requests": 3 + 2 * deletes, "eta_s": 90,
                               "cost": 0.000015, "verbs": {
                                   verb: {"blocks": count, "bytes": count << 20}
                                   for verb, count in (("demote", 3), ("delete", deletes)) if count > 0},
                               "tiers": [{"name": "hot@gw0", "blocks": 3, "bytes": 3 << 20}],
                               "rules": [{"name": "drain-hot", "blocks": 3, "bytes": 3 << 20}],
                               "tenants": [{"name": "", "blocks": 1, "bytes": 1 << 20}, {"name": "acme", "blocks": 2, "bytes": 2 << 20}],
                               "classes": [{"name": "one-off", "blocks": 2, "bytes": 2 << 20}],
                               "pins": [{"name": "keep-prompts", "blocks": 9, "bytes": 9 << 20}],
                               "quotas": [{"tenant": "acme", "tier": "hot", "blocks": 2, "bytes": 2 << 20, "soft_bytes": 3 << 20,
                                           "hard_bytes": 4 << 20, "used_bytes": 5 << 20, "left_bytes": 3 << 20,
                                           "refused_blocks": 7, "refused_bytes": 7 << 20}], "cut": False,
                               "warnings": [f"{deletes} blocks will be deleted"] if deletes else []},
                   "moves": moves})


GIVEN = {}  # jobs by key
IN_FORCE = {}  # what applying a plan put in force, until a rollback
POLICY = {"mode": "enforce", "ordering": "lru", "hot": {"start_ppm": 850000, "stop_ppm": 700000},
          "cold": {"start_ppm": 950000, "stop_ppm": 900000}, "promote_after_cold_hits": 2, "source": "file",
          "configured_mode": "enforce", "policy_mode": "enforce", "effective_mode": "enforce", "version": 3,
          "since_ms": 1700000000000, "digest": "5f" * 32,
          "rules": [{"id": "bring-back", "do": "promote"}, {"id": "drain-hot", "do": "demote"}]}
POLICIES = {"schema_version": 1, "versions": [
    {"version": number, "since_ms": 1700000000000 - 60000 * number, "size": 100 * number, "source": source,
     "digest": f"{number}" * 64} for number, source in ((3, "file"), (2, "rollback of 1"), (1, "settings"))]}
EXPLAINED = {
    "schema_version": 1, "hash": "deadbeef00000000", "namespace": "team/llama", "version": 3, "source": "api",
    "effective_mode": "observe", "place_count": 18, "tiers": [
        {"holder": "hot@gw0", "tier": "hot", "rule": "drain-hot", "waits": True,
         "sum": "drain-hot has it: demote to cold, but waits: hot@gw0 is 60% full, and the rule starts at 85%",
         "facts": {"depth": 3, "fanout": 0, "hits": 5, "last_access": "2h", "fill": "60%", "tenant": "team", "model": "",
                   "pinned": False},
         "order": {"by": "rhi", "known": True, "value": 0.0125, "uses": 6, "last_use_ms": 1700000000000, "leaving": False, "before": 37,
                   "blocks": 812, "chance_1h": 0.125},
         "rules": [
             {"id": "keep", "line": 9, "do": "pin", "matches": False, "wins": False, "clauses": [
                 {"clause": "in any tier", "is": True, "change": ""},
                 {"clause": "class(shared)", "is": False, "change": ""},
                 {"clause": "hits >= 9", "is": False, "change": "hits 5 -> 9"}]},
             {"id": "drain-hot", "line": 12, "do": "demote", "matches": True, "wins": True, "clauses": [
                 {"clause": "in hot", "is": True, "change": ""}, {"clause": "not pinned", "is": True, "change": ""}]}],
         "classes": [{"name": "shared", "is": False, "clauses": [
             {"clause": "fanout >= 4", "is": False, "change": "fanout 0 -> 4"}]}]},
        {"holder": "cold@b", "tier": "", "rule": "", "waits": False, "sum": "no rule has it: it stays",
         "facts": {"depth": 3}, "order": {"by": "rhi", "known": False}, "rules": [], "classes": []},
        {"holder": "cold@c", "tier": "cold", "rule": "keep", "waits": False, "kept_in": "hot@gw0",
         "sum": "keep pins its copy in hot@gw0: it stays", "facts": {"depth": 3},
         "order": {"by": "rhi", "known": False}, "rules": [
             {"id": "forget", "line": 15, "do": "expire", "matches": False, "wins": False, "clauses": [
                 {"clause": "in cold", "is": True, "change": ""}, {"clause": "not pinned", "is": True, "change": ""},
                 {"clause": "no copy that a rule pins (keep does in hot@gw0)", "is": False, "change": ""}]}],
         "classes": []}]}
OBJECTS = [{"key": f"0/{i}:k{i}", "length": 1024, "crc32c": "01020304", "tier": "cold", "state": "stored", "etag": "e"}
           for i in range(5)]
# What g4 fsck compares: k1 and k4 have other bytes in the bucket, k2 is gone, x was never stored here.
STORE = [{"key": key, "length": length, "modified_ms": 0, "etag": "e"}
         for key, length in (("0/0:k0", 1024), ("0/1:k1", 1000), ("0/3:k3", 1024), ("0/4:k4", 1000), ("gc.lock", 9),
                             ("x", 5))]
QUARANTINE = [{"key": "0/3:k3", "tier": "cold", "reason": "length 5, expected 6", "size": 5, "time_ms": 1700000000000,
               "file": "00060a24181e4000.body"}]
SEEN = {"0/1:k1": ("damaged", "length differs from its metadata", "quarantine"),
        "0/2:k2": ("row-without-object", "the catalog says the bucket has it, the bucket says no", "forget"),
        "0/4:k4": ("swapped", "the bucket has another block's bytes or fingerprint under this key", "quarantine"),
        "gc.lock": ("lock-over", "its lease is over, written 63 s ago by gw1", "free"),
        "x": ("foreign-key", "no block, and not put through this gateway", "")}
# The second look, of a repair, may not come through.
UNSEEN = {"0/4:k4": {"finding": "none", "text": "", "remedy": "", "done": False, "code": "UNAVAILABLE",
                     "why_not": "the bucket is away"}}


# A walk that is over at the second look.
ADOPTION = {"state": "needed", "capped": False, "waiting": False, "why": "", "rate": 0, "began_ms": 0, "ended_ms": 0,
            "listed": 0, "known": 0, "adopted": 0, "adopted_bytes": 0, "adopted_foreign": 0, "adopted_opaque": 0,
            "passed": 0, "damaged": 0, "refused": 0, "after": ""}
ADOPTED = {"state": "done", "capped": True, "listed": 1000, "known": 10, "adopted": 970, "adopted_bytes": 970 << 20,
           "adopted_foreign": 300, "adopted_opaque": 200, "passed": 17, "damaged": 3}


# What was asked for is done at the second look.
PACKING = {"namespace": "acme/llama", "manifest": 7, "segments": 4, "blocks": 1000, "pending": 0, "live_bytes": 60 << 20,
           "segment_bytes": 64 << 20, "runs": 3, "answered": 0,
           "outlook": {"plain_blocks": 300, "plain_bytes": 40 << 20, "pack_blocks": 240, "pack_bytes": 15 << 20,
                       "forward_segments": 1, "forward_bytes": 3 << 20, "full": False, "error": ""},
           "last": {"ended_ms": 0, "took_ms": 1200, "reason": "asked", "error": "", "packed": 240, "forwarded": 48,
                    "dropped": 0, "removed": 240, "copied_bytes": 18 << 20, "bad": 0, "plain_blocks": 60,
                    "plain_bytes": 25 << 20, "full": False, "more": False}}
ASKED = {"ticket": 0}
PURGED = []  # questions of purges


def adoption():
    return {"schema_version": 1, "adoption": dict(ADOPTION)}


def seen(key):
    finding, text, remedy = SEEN.get(key, ("none", "", ""))
    return {"schema_version": 1, "key": key, "finding": finding, "tier": "cold", "age_ms": 1000, "text": text,
            "remedy": remedy}


PLACES = [{"namespace": "", "hash": f"{i:016x}", "parent": "0" * 16, "position": i, "size": 64,
           "holder": "w0", "dp_rank": 0, "tier": "G2", "ranks": 1} for i in range(5)]
SOURCE = {"name": "kvtier", "kind": "kvtier-jetstream", "namespace": "", "state": "running", "detail": "",
          "received": 120, "waiting": 2, "dropped": 0, "messages": 118, "malformed": 1, "events": 12345,
          "events_per_second": 200, "duplicates": 3, "gaps": 1,
          "skipped": {"unknown_kind": 2, "unknown_tier": 0}, "unmatched": 4, "orphans": 5, "conflicts": 0,
          "applied_seq": 898, "committed_seq": 897, "last_seq": 900, "lag": 2, "publishers": 3, "uncertain": 1,
          "last_message_ms": 0, "last_error": ""}
BROKEN = {**SOURCE, "name": "dyn", "kind": "dynamo-nats", "namespace": "llm", "state": "waiting",
          "detail": "no connection", "last_seq": 0, "lag": 0, "last_error": "event 7: unknown kind"}
PUBLISHERS = [{"worker": "w0", "namespace": "", "worker_id": 0, "dp_rank": 0, "incarnation": 1, "last_seq": 77,
               "state": "uncertain", "silent": True, "gaps": 2, "resyncs": 1, "last_event_ms": 0,
               "reason": "nobody answers dump"}]


def pages(rows, cursor, limit, end):
    start = int(cursor or 0)
    body = [json.dumps(row) for row in rows[start:start + limit]]
    following = start + limit
    body.append(json.dumps({"next_cursor": end if following >= len(rows) else type(end)(following)}))
    return "\n".join(body) + "\n"


def routed(worker, rank, cached, prefill, cost, chance, uncertain=False):
    return {"worker": worker, "dp_rank": rank, "cached": dict(zip(("g1", "g2", "g3", "g4"), cached)), "prefill_blocks": prefill,
            "decode_blocks": 12, "active_requests": rank + 2, "cost": cost, "probability": chance, "uncertain": uncertain}


ROUTED = [routed("w0", 1, (6, 2, 0, 4), 4.1, 16.1, 1.0), routed("w0", 0, (0, 0, 0, 12), 10.8, 22.8, 0, True),
          routed("w1", 0, (0, 0, 0, 12), 12.8123456789, 24.8123456789, 0)]
RUNNING = {"schema_version": 1, "requests": [
    {"request_id": "req-1", "worker": "w0", "dp_rank": 1, "state": "added", "age_ms": 1200, "blocks": 12, "prefill_tokens": 64,
     "router": "00000000000000aa"}], "next_cursor": "7"}
STAFF = {"schema_version": 1, "workers": [
    {"worker": "w0", "dp_rank": 1, "active_requests": 3, "active_prefill_tokens": 64, "active_blocks": 30,
     "origins": ["config", "events"]}]}


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, body, status=200):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, code, message):
        self.answer({"error": {"code": code, "message": message}}, status)

    def parts(self):
        path, _, query = self.path.partition("?")
        return urllib.parse.unquote(path), dict(urllib.parse.parse_qsl(query))

    def do_GET(self):
        path, query = self.parts()
        if path == "/a/v1/jobs" and "key" in query:
            self.answer({"paused": False, "mode": "observe",
                         "jobs": [job for key, job in GIVEN.items() if key == query["key"]]})
            return
        if path.startswith("/site/"):  # no daemon of ours
            self.send_error(404)
            return
        if path.startswith("/other/"):  # the other daemon of ours
            self.refuse(404, "NOTFOUND", "no such path")
            return
        if path == "/a/v1/jobs/13":
            self.answer({"paused": False, "job": next(iter(GIVEN.values())), "failures": []})
            return
        fixed = {"/g/v1/quarantine": {"schema_version": 1, "entries": QUARANTINE},
                 "/a/v1/status": ADVISOR, "/a/v1/overview": OVERVIEW, "/g/v1/status": GATEWAY, f"/a/v1/blocks/{HASH}": BLOCK,
                 "/a/v1/jobs": JOBS, "/a/v1/jobs/12": {"paused": False, "job": JOB, "failures": FAILURES},
                 "/a/v1/jobs/11": {"paused": False, "job": ENDED, "failures": []},
                 "/a/v1/route/workers": STAFF, "/a/v1/route/requests": RUNNING,
                 "/a/v1/orders": ORDERS, "/a/v1/policy": {**POLICY, "text": "version: 1\n", **IN_FORCE}, "/a/v1/policy/history": POLICIES, "/bad/v1/status": "<html>no</html>",
                 "/a/v1/sources": {"sources": [SOURCE, BROKEN]},
                 "/a/v1/sources/kvtier": {**SOURCE, "publisher_list": PUBLISHERS},
                 "/a/v1/sources/dyn": {**BROKEN, "publisher_list": []},
                 "/loading/v1/index/stats": {"loading": True, "loaded_bytes": 1 << 20, "load_bytes": 4 << 20,
                                             "blocks": 10, "places": 12, "evicted_blocks": 7, "holders": []},
                 "/a/v1/index/stats": {"blocks": 1000, "places": 1500, "holders": [
                     {"holder": "w0", "dp_rank": 0, "tier": "G2", "blocks": 500, "bytes": 1 << 27}]},
                 "/g/v1/objects/0/1:k1": {"key": "0/1:k1", "length": 1024, "crc32c": "01020304",
                                          "fingerprint": "0" * 16, "etag": "e", "tiers": ["cold"],
                                          "state": "stored", "writer": "gw0"}}
        if path in fixed:
            self.answer(fixed[path])
        elif path.startswith("/away/v1/"):  # a gateway whose bucket does not answer
            if path == "/away/v1/store" and query["tier"] == "cold":
                self.refuse(503, "UNAVAILABLE", "the bucket could not be listed: Couldn't connect to server")
            else:
                self.answer(pages([], None, 2, ""))
        elif path == "/live/v1/status":  # gateways that are heard of: one tier in each state
            now_ms = int(time.time() * 1000)
            tier = {"name": "", "gateway": "gw0", "used_bytes": 9, "capacity_bytes": 10, "last_report_ms": now_ms}
            self.answer({"gateways": [{"name": "gw0", "healthy": True}, {"name": "gw1", "healthy": False}], "tiers": [
                {**tier, "name": "cold@ok"}, {**tier, "name": "hot@gw0", "draining": True},
                {**tier, "name": "hot@gw2", "gateway": "gw2", "draining": True, "stuck": True},
                {**tier, "name": "cold@b", "gateway": "gw1"},
                {**tier, "name": "cold@c", "last_report_ms": now_ms - 20000}]})
        elif path == "/packs/v1/status":
            self.answer({"schema_version": 1, "packing": [dict(PACKING)]})
            PACKING["answered"] = ASKED["ticket"]
        elif path == "/shut/v1/status":  # nothing can be written
            self.answer({"schema_version": 1, "packing": [
                {**PACKING, "answered": 0, "last": {**PACKING["last"], "error": "the bucket takes nothing"}}]})
        elif path == "/g/v1/adoption":
            self.answer(adoption())
            if ADOPTION["state"] == "running":
                ADOPTION.update(ADOPTED)
        elif path == "/slow/v1/adoption":  # a walk that takes its time, also to stop
            with open(os.path.join(sys.argv[1], "looked"), "w", encoding="utf-8"):
                pass
            self.answer({"adoption": {**ADOPTION, "state": "running"}})
        elif path == "/a/v1/index/subtree":
            child = query["hash"] != HASH
            more = {"warm": {"blocks": 2, "bytes": 1 << 19}, "far": {"blocks": 0, "bytes": 0}}  # of a gateway with four tiers
            self.answer({**(more if query.get("namespace") == "four/m" else {}), "complete": not child, "blocks": 1 if child else 3, "tiers": [
                {"tier": "G2", "blocks": 1, "bytes": 4096}, {"tier": "G4", "blocks": 3, "bytes": 1 << 20}],
                "hot": {"blocks": 1, "bytes": 1 << 18}, "cold": {"blocks": 3, "bytes": 3 << 18}})
        elif path.startswith("/a/v1/blocks/00000000000000bb"):
            self.answer({**BLOCK, "hash": "00000000000000bb", "position": 8, "children": [], "child_count": 5})
        elif path.startswith("/a/v1/blocks/00000000000000cc"):
            self.answer({**BLOCK, "hash": "00000000000000cc", "hits": 1})
        elif path == "/a/v1/usage":  # in two pages, of which both have one of the tenants
            rows = [{"namespace": "acme/llama", "hot_places": 2, "hot_bytes": 1 << 20, "cold_places": 3, "cold_bytes": 3 << 20},
                    {"namespace": "", "g1_places": 4, "g1_bytes": 4096, "g2_places": 1, "g2_bytes": 1024},
                    {"namespace": "acme/llama", "blocks": 3, "reads": 9, "cold_reads": 4},
                    {"namespace": "acme/qwen", "blocks": 1, "cold_bytes": 5}]
            below = query.get("namespace", "")
            if below == "four":  # whose gateway has all four tiers
                rows = [{"namespace": "four/m", "blocks": 9, **{f"{tier}_{what}": at + (at << 20 if what == "bytes" else 0) for at, tier in
                                                                enumerate(("hot", "warm", "cold", "far"), 1) for what in ("places", "bytes")}}]
            if below == "gone":
                rows = []
            self.answer(pages([row for row in rows if row["namespace"].startswith(below)], query.get("cursor"), 2, ""))
        elif path == "/a/v1/quotas":
            self.answer({"schema_version": 1, "quotas": [
                {"tenant": "acme", "tier": "hot", "soft_bytes": 1 << 19, "hard_bytes": 1 << 21, "used_bytes": 1 << 20,
                 "above": "soft", "stuck": False},
                {"tenant": "acme", "tier": "", "soft_bytes": 1 << 20, "hard_bytes": 1 << 21, "used_bytes": 4 << 20,
                 "above": "hard", "stuck": True},
                {"tenant": "zeta", "tier": "cold", "soft_bytes": 5, "hard_bytes": 5, "used_bytes": 0, "above": "within",
                 "stuck": False}]})
        elif path == "/a/v1/index/dump":
            self.answer(pages(PLACES, query.get("cursor"), 2, 0))
        elif path == "/g/v1/store":
            rows = [row for row in STORE if query["tier"] == "cold" and row["key"] > query.get("after", "")]
            self.answer(pages(rows, query.get("cursor"), 2, ""))
        elif path.startswith("/g/v1/inspect/"):
            self.answer(seen(path.removeprefix("/g/v1/inspect/")))
        elif path.startswith("/a/v1/explain/"):
            if path.endswith("/deadbeef00000000"):
                self.answer({**EXPLAINED, "namespace": query.get("namespace", ""), "source": query.get("on", "api")})
            else:
                self.refuse(404, "NOTFOUND", "it is in no volume and no bucket")
        elif path == "/g/v1/objects":
            rows = [row for row in OBJECTS if row["key"] > query.get("after", "")]
            self.answer(pages(rows, query.get("cursor"), 2, ""))
        else:
            self.refuse(404, "NOTFOUND", "no such thing: " + path)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        path, _ = self.parts()
        if path != "/a/v1/policy" or self.headers.get("Authorization") != "Bearer secret-token":
            self.refuse(401, "DENIED", "wrong token")
        elif self.headers.get("If-Match") not in (None, "3") or "refuse" in body:
            self.refuse(412, "PRECONDITION", "version 3 is in force, not " + self.headers["If-Match"])
        elif "in force already" in body:
            self.answer(POLICY)
        else:
            if body == PLAN_POLICY:
                IN_FORCE.update(version=4, digest=hashlib.sha256(body.encode()).hexdigest())
            self.answer({**POLICY, "version": 4, "source": "api", "policy_mode": "observe", "effective_mode": "observe",
                         "rules": [{"id": str(len(body)), "do": "demote"}]})

    def give(self, body):
        """A job in parts, as the advisor takes it."""
        job = GIVEN.setdefault(body["key"], {**ENDED, "id": 13, "kind": body["kind"], "title": body["title"],
                                             "parts": 0, "blocks": 0, "state": "filling"})
        if job["state"] == "filling" and body["part"] == job["parts"]:
            job["parts"] += 1
            job["blocks"] += sum(len(moves["blocks"]) for moves in body["moves"])
            job.update({} if body["more"] else {"state": "done", "done": job["blocks"], "batches": 1, "batches_done": 1})
        self.answer({"schema_version": 1, "job": job})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path, _ = self.parts()
        if path in ("/g/v1/purge", "/packs/v1/compact", "/a/v1/policy/mode", "/a/v1/policy/rollback", "/g/v1/verify", "/g/v1/repair", "/g/v1/adoption", "/g/v1/quarantine"):
            if self.headers.get("Authorization") != "Bearer secret-token":
                self.refuse(401, "DENIED", "wrong token")
                return
        if (path == "/a/v1/plan" or path.startswith(("/a/v1/jobs/", "/a/v1/planner/"))) and self.headers.get("Authorization") != "Bearer secret-token":
            self.refuse(401, "DENIED", "wrong token")
            return
        if path == "/a/v1/route":
            with open(os.path.join(sys.argv[1], "asked"), "w", encoding="utf-8") as file:
                json.dump(body, file, sort_keys=True)
            if body.get("workers") == ["nobody"]:
                self.refuse(503, "NOTFOUND", "of the workers that are allowed (1) none is there")
            elif "request_id" in body and self.headers.get("Authorization") != "Bearer secret-token":
                self.refuse(401, "DENIED", "wrong token")
            else:
                self.answer({"schema_version": 1, **ROUTED[0], "why": "lowest", "blocks": 12, "candidates": 3,
                             "booked": "request_id" in body, "workers": ROUTED})
        elif path.startswith("/a/v1/route/requests/"):
            if self.headers.get("Authorization") != "Bearer secret-token":
                self.refuse(401, "DENIED", "wrong token")
            elif path == "/a/v1/route/requests/stranger/free":
                self.refuse(404, "NOTFOUND", "request stranger was not heard of; the step is remembered")
            else:
                self.answer({"schema_version": 1, "changed": path == "/a/v1/route/requests/a b/free"})
        elif path == "/a/v1/plan":
            text = body.get("policy", "")
            self.answer(plan_of(2 if "expire" in text else 0, text if "refuse" in text else PLAN_POLICY))
        elif path == "/a/v1/plan/check":
            blocks = sum(len(moves["blocks"]) for moves in body["moves"])
            self.answer({"schema_version": 1, "blocks": blocks, "moved": blocks - 3})
        elif path == "/a/v1/jobs" and "hash" in body:
            with open(os.path.join(sys.argv[1], "asked"), "w", encoding="utf-8") as file:
                json.dump(body, file)
            some = 0 if body["verb"] == "warm" and "to" not in body else 5
            edge = {"from": "cold", "to": body["to"]} if "to" in body else {}
            if self.headers.get("Authorization") != "Bearer secret-token":
                self.refuse(401, "DENIED", "wrong token")
            elif body["hash"] != HASH:
                self.refuse(404, "NOTFOUND", "nobody holds this block")
            elif body["dry_run"] or some == 0:
                self.answer({"dry_run": True, "prefix_blocks": 7, "blocks": some, "bytes": some << 20, "elsewhere": 2,
                             "gateways": [{"gateway": "gw0", **edge, "blocks": some, "bytes": some << 20}]})
            else:
                self.answer({"job": {**ENDED, "title": body["verb"]}})
        elif path == "/a/v1/jobs" and "key" in body:
            self.give(body)
        elif path in ("/a/v1/planner/pause", "/a/v1/planner/resume"):
            self.answer({"schema_version": 1, "paused": path.endswith("pause")})
        elif path in ("/a/v1/jobs/12/pause", "/a/v1/jobs/12/resume", "/a/v1/jobs/12/cancel"):
            state = {"pause": "paused", "resume": "queued", "cancel": "cancelled"}[path.rsplit("/", 1)[1]]
            self.answer({"schema_version": 1, "job": {**JOB, "state": state}})
        elif path == "/a/v1/jobs/11/cancel":
            self.refuse(409, "PRECONDITION", "job 11 is done")
        elif path == "/a/v1/policy/rollback":
            if body.get("version", 2) > 2:
                self.refuse(404, "NOTFOUND", "not kept; see kvtier policy history")
            else:
                IN_FORCE.clear()
                self.answer({**POLICY, "version": 4, "source": f"rollback of {body.get('version', 2)}"})
        elif path == "/a/v1/policy/mode":
            self.answer({**POLICY, "mode": body["mode"], "effective_mode": body["mode"]})
        elif path.endswith("/v1/purge"):
            PURGED.append(body)
            full = not any(before["act"] and before["cursor"] for before in PURGED[:-1])
            found = {"rows": 3, "objects": 2, "object_bytes": 10} if full and body["cursor"] else {}
            dark = path == "/dark/v1/purge" and body["cursor"] and not body["act"]
            self.answer({"gateway": "gw1" if path.startswith("/gw1/") else "gw0",
                         "cursor": "" if body["cursor"] else "3l", "found": found,
                         "failed": 1 if dark else 0,
                         "removed": 5 if found and body["act"] else 0, "text": "quarantine: it cannot be read" if dark else "",
                         "uploads_by": {"/minio/v1/purge": "key", "/dark/v1/purge": "nobody"}.get(path, "prefix"),
                         "versions": path == "/minio/v1/purge"})
        elif path == "/g/v1/verify":
            bad = body["key"] == "0/3:k3"
            self.answer({"key": body["key"], "copies": [
                {"tier": "cold", "ok": not bad, "reason": "length 5, expected 6" if bad else ""}]})
        elif path == "/g/v1/quarantine":
            bad = body["action"] == "restore" and body["id"] == "00060a24181e4000"
            self.answer({"schema_version": 1, "id": body["id"], "done": not bad and not body["dry_run"],
                         "code": "CORRUPT" if bad else "OK",
                         "why_not": "it is bad: length 5, expected 6" if bad else ""})
        elif path == "/shut/v1/compact":
            self.answer({"schema_version": 1, "asked": True, "namespace": body["namespace"], "ticket": 1})
        elif path == "/packs/v1/compact" and body["namespace"] != PACKING["namespace"]:
            self.refuse(404, "NOTFOUND", "it is not among packed.namespaces")
        elif path == "/packs/v1/compact":
            ASKED["ticket"] += 1
            PACKING["last"]["error"] = "" if body["dry_run"] or ASKED["ticket"] < 4 else "the bucket is away"
            self.answer({"schema_version": 1, "asked": True, "namespace": body["namespace"],
                         "ticket": ASKED["ticket"]})
        elif path == "/g/v1/adoption":
            ADOPTION.update({"state": "running", "rate": body["rate"]} if body["action"] == "start"
                            else {"state": "stopped", "why": "CANCELLED"})
            self.answer(adoption())
        elif path == "/slow/v1/adoption":
            self.answer({"adoption": {**ADOPTION, "state": "running"}})
        elif path == "/g/v1/repair":
            done = body["key"] != "0/1:k1"
            self.answer({**seen(body["key"]), "done": done, "code": "OK" if done else "BUSY",
                         "why_not": "" if done else "the key is in use", **UNSEEN.get(body["key"], {})})
        elif path == "/a/v1/match":
            self.answer({"blocks": [{"hash": h, "tiers": ["G2", "G4"] if i == 0 else []}
                                    for i, h in enumerate(body["hashes"])]})
        elif path == "/a/v1/find_matches":
            self.answer({"matches": [{"holder": "w0", "dp_rank": 0, "tier": "G2", "blocks": 1}]})
        else:
            self.refuse(404, "NOTFOUND", "no such thing: " + path)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(os.path.join(sys.argv[1], "port.part"), "w", encoding="utf-8") as file:
    file.write(str(server.server_port))
os.rename(os.path.join(sys.argv[1], "port.part"), os.path.join(sys.argv[1], "port"))
server.serve_forever()
