#!/usr/bin/env python3
"""A stand-in for a bucket with locks, blocks and damage in it: its clock stands still, so that output can be compared.

usage: fake_s3.py FOLDER [CERTIFICATE KEY]   writes FOLDER/s3port (with TLS FOLDER/s3tlsport) once it listens; ends
with SIGTERM.
Signatures are not looked at; PUT keeps If-Match.
"""
import email.utils
import hashlib
import http.server
import json
import os
import ssl
import sys
import urllib.parse
from xml.sax.saxutils import escape

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenario"))
from blocks import crc32c  # noqa: E402 - the one the scenarios check with

NOW = 1800000000


def lock(holder, seconds, **more):
    return json.dumps({"instance_id": holder, "acquired_at": "2026-01-31T23:59:59.123Z",
                       "deadline": f"2026-02-01T00:{seconds // 60:02}:{seconds % 60:02}.123Z", **more})


def written(text, writer="gw0"):
    """What travels beside a block of this text."""
    return {"x-amz-meta-kvt-length": str(len(text)), "x-amz-meta-kvt-crc32c": f"{crc32c(text.encode()):08x}",
            "x-amz-meta-kvt-fingerprint": "00000000000000f1", "x-amz-meta-kvt-writer": writer}


# key: [body, seconds since it was written, headers]
OBJECTS = {
    "0/0:11111112": ["KVBM's", 9],
    "0/0:11111113": ["a good block", 9, written("a good block")],
    "0/0:11111114": ["a cut bl", 9, written("a cut block")],
    "0/0:11111115": ["a flapped block", 9, written("a flipped block")],
    "0/0:11111116": ["", 9, written("", "tombstone")],
    "0/0:11111117": ["", 9, written("was longer")],
    "0/0:11Fu2GZ": ["a block", 9],
    "0:11111113.meta": ["", 9],
    "compact.lock": [lock("gw0", 59, nonce="00000000000000aa", epoch=7, writes=3), 12],
    "gc.lock": [lock("gw1", 59, nonce="00000000000000ab", epoch=4, writes=9), 63],
    "kvbm/1:x.lock": [lock("5f0c1e77-leader", 299), 100],
    "kvbm/2:y.lock": ["not a lock", 100],
    "notes/a.txt": ["opaque", 9],
    "t/0/0:11111112": ["of a tenant", 9, written("of a tenant")],
    "t/idle.lock": [json.dumps({"instance_id": "gw0", "acquired_at": "2026-01-31T23:59:59.123Z",
                                "deadline": "1970-01-01T00:00:00.000Z", "nonce": "00000000000000ac",
                                "epoch": 2, "writes": 2, "released": True}), 5000],
}


# Answers about the bucket; UPLOADS: key -> id.
SETTINGS = {
    "versioning": "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
    "object-lock": "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>",
    "lifecycle": "<LifecycleConfiguration><Rule><ID>old</ID><Status>Enabled</Status><Filter><Prefix>0/</Prefix></Filter>"
                 "<Expiration><Days>7</Days></Expiration></Rule><Rule><ID>off</ID><Status>Disabled</Status>"
                 "<Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>",
}
UPLOADS = {"notes/large one": "u1", "notes/other": "u2"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return email.utils.formatdate(NOW if timestamp is None else timestamp, usegmt=True)

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        self.answer(status, f"<Error><Code>{code}</Code><Message>as it is</Message></Error>".encode())

    def key(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        return path.split("/", 2)[2] if path.count("/") > 1 else ""

    def do_GET(self):
        key = self.key()
        if not (self.path + "/").startswith(("/kvtier/", "/kvtier?")):
            self.refuse(404, "NoSuchBucket")
        elif key == "":
            query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, True))
            asked = [name for name in SETTINGS if name in query]
            if asked:
                self.answer(200, SETTINGS[asked[0]].encode())
                return
            if "uploads" in query:
                self.uploads(query.get("key-marker", ""))
                return
            self.list(query.get("prefix", ""),
                      query.get("continuation-token", "") or query.get("start-after", ""))
        elif key not in OBJECTS:
            self.refuse(404, "NoSuchKey")
        else:
            body, age, *headers = OBJECTS[key]
            self.answer(200, body.encode(), ETag=etag(key),
                        Last_Modified=self.date_time_string(NOW - age), **(headers[0] if headers else {}))

    def do_HEAD(self):
        self.do_GET()

    def uploads(self, after):
        """Pages of one."""
        keys = [key for key in sorted(UPLOADS) if key > after]
        rows = "".join(f"<Upload><Key>{urllib.parse.quote(key)}</Key><UploadId>{UPLOADS[key]}</UploadId>"
                       "<Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>" for key in keys[:1])
        more = (f"<NextKeyMarker>{urllib.parse.quote(keys[0])}</NextKeyMarker><NextUploadIdMarker>{UPLOADS[keys[0]]}"
                "</NextUploadIdMarker><IsTruncated>true</IsTruncated>" if len(keys) > 1 else
                "<IsTruncated>false</IsTruncated>")
        self.answer(200, f"<ListMultipartUploadsResult><EncodingType>url</EncodingType>{more}{rows}</ListMultipartUploadsResult>".encode())

    def do_DELETE(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        if UPLOADS.get(self.key()) != query.get("uploadId"):
            self.refuse(404, "NoSuchUpload")
            return
        del UPLOADS[self.key()]
        self.answer(204)

    def list(self, prefix, after):
        """Pages of two."""
        keys = [key for key in sorted(OBJECTS) if key.startswith(prefix) and key > after]
        rows = "".join(f"<Contents><Key>{escape(urllib.parse.quote(key))}</Key><Size>{len(OBJECTS[key][0])}</Size>"
                       f"<LastModified>2027-01-15T08:00:00.000Z</LastModified><ETag>{etag(key)}</ETag>"
                       "</Contents>" for key in keys[:2])
        more = (f"<IsTruncated>true</IsTruncated><NextContinuationToken>{escape(keys[1])}"
                "</NextContinuationToken>" if len(keys) > 2 else "<IsTruncated>false</IsTruncated>")
        self.answer(200, ("<ListBucketResult><EncodingType>url</EncodingType>" + more + rows
                          + "</ListBucketResult>").encode())

    def do_PUT(self):
        key = self.key()
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        wanted = self.headers.get("If-Match", "").strip('"')
        there = etag(key).strip('"') if key in OBJECTS else ""
        if (wanted and wanted != there) or (there and self.headers.get("If-None-Match") == "*"):
            self.refuse(412, "PreconditionFailed")
            return
        OBJECTS[key] = [body, 0, {name: value for name, value in self.headers.items() if name.startswith("x-amz-meta-")}]
        self.answer(200, ETag=etag(key))


def etag(key):
    return '"' + hashlib.md5(OBJECTS[key][0].encode()).hexdigest() + '"'


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
name = "s3port"
if len(sys.argv) > 2:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[2:])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    name = "s3tlsport"
with open(os.path.join(sys.argv[1], name + ".part"), "w", encoding="utf-8") as file:
    file.write(str(server.server_port))
os.rename(os.path.join(sys.argv[1], name + ".part"), os.path.join(sys.argv[1], name))
server.serve_forever()
