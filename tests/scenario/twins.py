#!/usr/bin/env python3
"""A gateway and a MinIO are asked the same questions: what a client sees of the answers must agree.

Status, error code, the headers that mean something, bodies and the sense of XML are compared; names,
times, owners and tokens are not.  Where the two may differ, DIFFERENCES says why, and a row that fits no
difference is a failure too."""

import base64
import hashlib
import http.client
import re
import socket
import urllib.parse
import xml.etree.ElementTree
import zlib

import harness
import s3
from harness import expect, wait_until

FIELDS = ("etag", "content-type", "content-length", "content-range", "cache-control", "content-encoding",
          "content-disposition", "content-language", "expires", "x-amz-meta-one", "x-amz-meta-two",
          "x-amz-checksum-sha256", "x-amz-checksum-crc32", "x-amz-checksum-crc64nvme", "x-amz-checksum-type",
          "x-amz-mp-parts-count")
# What an answer in XML says, beside its root: these, in their order.
ELEMENTS = ("Key", "Prefix", "Delimiter", "ETag", "Size", "PartNumber", "Code", "ChecksumAlgorithm",
            "ChecksumType", "ChecksumCRC32", "ChecksumSHA256", "ChecksumCRC64NVME", "PartsCount", "ObjectSize")
PART = 5 << 20
KEYS = ("asdf", "boo/bar", "boo/baz/xyzzy", "cquux/thud", "cquux/bla", "_under/bar", "foo+1/bar",
        "quux ab/thud", "b%ar", "ü/ß", "a\"b<c>&d", "z")

# Labels of answers that differ, and why.
DIFFERENCES = [
    ("buckets: delete many in none", "MinIO asks for the MD5 first"),
    ("buckets: location another", "MinIO is in every region"),
    ("buckets: make it again", "S3 takes it for the first one in us-east-1"),
    ("objects: POST|lines: (PATCH|OPTIONS|TRACE)", "methods that S3 does not have"),
    ("objects: (get|put|head|delete) 'a/b//c'", "MinIO has no such names"),
    ("objects: put control bytes", "Go's HTTP server refuses them, without a code"),
    ("digests: a GET with a wrong hash", "MinIO does not look at it"),
    ("digests: put with a(nother)? (CRC-32|SHA-256)( that is none)?|chunks: another sum", "the codes are S3's"),
    ("chunks: (no length|not of this form|too short)", "said before the sum is looked at"),
    ("ranges: 0: (head )?'bytes=-[17].*'", "of nothing there is no part"),
    ("ranges: .*: (head )?'bytes=(7-4|0-9+)'", "as HTTP has it: no range, and more than there is"),
    ("ranges: .*: (head )?'bytes=0-3 '", "the blank is taken away by Go's HTTP server"),
    ("read_conditions: .*(, \"37b|,\"37b|W/|if-modified-since).*", "as HTTP has it: lists, weak tags, precedence"),
    ("listings: v. {'max-keys': ''}", "no number"),
    ("listings: empty token", "MinIO starts in another place then"),
    ("pages: . . {} page .*", "MinIO gives a last page that is empty"),
    ("deletes: delete nothing", "a body of no bytes has a length"),
    ("deletes: delete twice", "each is told"),
    ("multipart: part .*", "an argument is wrong, no part"),
    ("multipart: abort (again|none)", "S3 says that there is none"),
    ("multipart: complete with (nothing|no parts|another root)", "the code is S3's"),
    ("multipart: (complete with a (part twice|small part)|complete|(get|head) completed|a range of it)",
     "MinIO takes a part twice, and the upload is over"),
    ("sums: create with .*", "the codes are S3's, and it has no CRC-64 of parts"),
    ("sums: .*: (part of another kind|complete with another( type)?)", "the codes are S3's"),
    ("sums: .*: (complete|GET part [12] with sums)", "MinIO does not tell the type"),
    ("sums: .*: HEAD part [12] with sums", "here sums of parts are computed from their bytes, and a HEAD reads none"),
    ("sums: .*: (GET|HEAD) part [0x]( with sums)?", "that is no number: S3's code"),
    ("claims: (a|another) .*", "MinIO compares what was not agreed with the checksum of no bytes"),
    ("pieces: .*: (GET|HEAD) part [0x]( with sums)?", "that is no number: S3's code"),
    ("pieces: (plain|with a sum|empty): (attributes (ETag,Checksum.*|ObjectParts)|parts .*)", "S3 tells of no parts then"),
    ("pieces: empty: ((GET|HEAD) part 1( with sums)?|attributes ObjectSize)", "MinIO has a range of nothing, and no size"),
    ("pieces: gaps: (GET|HEAD) part 5( with sums)?", "two parts are counted from 1, as clients do that ask for each"),
    ("pieces: with a sum: GET part 1 with sums", "the only part is all of it"),
    ("copies: part of bytes=0-21", "the code is S3's"),
    ("presigned: (ahead|without X-Amz-Credential)", "the codes are S3's"),
    ("strangers: (authorization: .*|no date|no hash)", "who is not known is denied"),
    ("lines: (an odd expectation|no length)(: read)?", "S3 takes the one and not the other"),
]


class Side:
    """One of the two, and what was seen of it."""

    def __init__(self, run, server, label):
        self.client = run.client(server)
        self.host, self.label, self.slow = self.client.host, label, run.slow
        self.seen = {}
        self.bucket = self.other = ""

    def begin(self, name):
        """Two empty buckets, the same on both sides."""
        self.seen, self.bucket, self.other = {}, f"{name}-one", f"{name}-two"
        for bucket in (self.bucket, self.other):
            # A server that has just started may still say 503.
            wait_until(lambda bucket=bucket: None if self.ask("PUT", f"/{bucket}").status == 200 else "refused",
                       30 * self.slow, f"{self.label}: a bucket {bucket}")

    def ask(self, method, path, query=None, headers=None, body=b"", payload=None, now=None, drop=()):
        """A signed request; headers named in `drop` are not sent."""
        query = query or {}
        payload = payload or hashlib.sha256(body).hexdigest()
        signed = self.client.sign(method, path, query, headers or {}, payload, now)
        for name in drop:
            del signed[name]
        target = s3.quote(path, "/")
        if query:
            target += "?" + "&".join(sorted(f"{s3.quote(k)}={s3.quote(v)}" for k, v in query.items()))
        return self.send(method, target, signed, body)

    def send(self, method, target, headers, body=b""):
        connection = http.client.HTTPConnection(self.host, timeout=self.client.timeout)
        try:
            connection.putrequest(method, target, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            if "content-length" not in headers and (body or method in ("PUT", "POST")):
                connection.putheader("content-length", str(len(body)))
            connection.endheaders(body or None)
            return answer_of(connection.getresponse(), method)
        finally:
            connection.close()

    def raw(self, text):
        """An answer to bytes that no library would send; None: the connection was closed."""
        with socket.create_connection(self.host.split(":"), timeout=self.client.timeout) as connection:
            connection.sendall(text)
            response = http.client.HTTPResponse(connection)
            try:
                response.begin()
                return answer_of(response, "PUT")
            except (http.client.HTTPException, ConnectionError):
                return None

    def see(self, label, answer, body=True):
        expect(label not in self.seen, f"{label} is asked twice")
        if answer is None:
            self.seen[label] = "closed"
            return answer
        seen = [answer.status]
        if answer.status >= 300:
            seen.append(answer.code())
        else:
            if answer.method in ("GET", "HEAD") and not answer.body.startswith(b"<?xml"):
                seen.append({name: answer.headers[name] for name in FIELDS if name in answer.headers})
            if body:
                seen.append(sense(answer))
        self.seen[label] = seen
        return answer


def sense(answer):
    if not answer.body.startswith(b"<?xml"):
        return answer.body if len(answer.body) < 100 else hashlib.sha256(answer.body).hexdigest()
    tree = xml.etree.ElementTree.fromstring(answer.body)
    in_url = any(bare(node.tag) == "EncodingType" for node in tree)
    told = [(bare(node.tag), urllib.parse.unquote_plus(node.text) if in_url else node.text)
            for node in tree.iter() if bare(node.tag) in ELEMENTS and node.text]
    # MinIO begins the name of one root small.
    return [bare(tree.tag).lower(), sorted(told)]


def bare(tag):
    return tag.split("}")[-1]


def answer_of(response, method):
    headers = {name.lower(): value for name, value in response.getheaders()}
    answer = s3.Answer(response.status, headers, response.read())
    answer.method = method
    return answer


def element(answer, name):
    """The text of the first element of that name."""
    tree = xml.etree.ElementTree.fromstring(answer.body)
    return next((node.text or "" for node in tree.iter() if bare(node.tag) == name), "")


def etag(body):
    return f'"{hashlib.md5(body).hexdigest()}"'


def base64_of(digest):
    return base64.b64encode(digest).decode()


# ---- buckets -------------------------------------------------------------------------------------

def names(side):
    for name in ("abc", "ab", "1-2.3", "x" * 63, "x" * 64, "x" * 255, "Upper", "under_score", "a..b", "a.-b",
                 "a-.b", "-ab", "ab-", ".ab", "192.168.5.4", "192.168.5.4.5"):
        made = side.see(f"make {name}", side.ask("PUT", f"/{name}"), body=False)
        if made.status == 200:
            side.see(f"remove {name}", side.ask("DELETE", f"/{name}"))


def buckets(side):
    path, gone = f"/{side.bucket}", f"/{side.bucket}-gone"
    side.see("make it again", side.ask("PUT", path), body=False)
    side.see("head", side.ask("HEAD", path), body=False)
    side.see("location", side.ask("GET", path, {"location": ""}))
    for method in ("HEAD", "GET", "DELETE"):
        side.see(f"{method} of none", side.ask(method, gone))
    side.see("location of none", side.ask("GET", gone, {"location": ""}))
    side.see("object of none", side.ask("GET", f"{gone}/k"))
    side.see("head object of none", side.ask("HEAD", f"{gone}/k"))
    side.see("put into none", side.ask("PUT", f"{gone}/k", body=b"x"))
    side.see("delete in none", side.ask("DELETE", f"{gone}/k"))
    side.see("uploads of none", side.ask("GET", gone, {"uploads": ""}))
    side.see("create upload in none", side.ask("POST", f"{gone}/k", {"uploads": ""}))
    side.see("delete many in none", side.ask("POST", gone, {"delete": ""}, body=delete_form(["k"])))
    side.ask("PUT", f"{path}/k", body=b"x")
    side.see("remove what is not empty", side.ask("DELETE", path))
    side.ask("DELETE", f"{path}/k")
    side.see("remove", side.ask("DELETE", path))
    side.see("remove again", side.ask("DELETE", path))
    for number, (what, text) in enumerate((
            ("no region", "<LocationConstraint></LocationConstraint>"), ("nothing", ""),
            ("ours", "<LocationConstraint>us-east-1</LocationConstraint>"),
            ("another", "<LocationConstraint>eu-west-9</LocationConstraint>"))):
        body = ('<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                f"{text}</CreateBucketConfiguration>").encode()
        side.see(f"location {what}", side.ask("PUT", f"{path}-{number}", body=body), body=False)
    side.see("location that is no XML", side.ask("PUT", f"{path}-x", body=b"<Create"), body=False)


# ---- objects -------------------------------------------------------------------------------------

def read(side, label, path):
    side.see(f"head {label}", side.ask("HEAD", path))
    side.see(f"get {label}", side.ask("GET", path))


def objects(side):
    path = f"/{side.bucket}/k"
    read(side, "nothing", path)
    side.see("delete nothing", side.ask("DELETE", path))
    for label, body, headers in (
            ("plain", b"bar", {}), ("empty", b"", {}),
            ("of a type", b"bar", {"content-type": "text/plain; charset=x"}),
            ("of an empty type", b"bar", {"content-type": ""}),
            ("with all", b"bar", {"cache-control": "public, max-age=14400", "content-disposition": "inline",
                                  "content-language": "de", "expires": "Thu, 01 Dec 2044 16:00:00 GMT",
                                  "x-amz-meta-one": "1", "x-amz-meta-two": "a  b"}),
            ("with empty metadata", b"bar", {"x-amz-meta-one": ""}),
            ("without metadata", b"bar", {}),
            ("gzip", b"bar", {"content-encoding": "gzip"}),
            ("two codings", b"bar", {"content-encoding": "deflate, gzip"}),
            # Without a body: Go's server does not read one behind lines that it refuses, and its answer, which
            # has no length, may then end with a reset.
            ("control bytes", b"", {"x-amz-meta-one": "a\x04b"}),
            ("of no class", b"bar", {"x-amz-storage-class": "NONE"}),
            ("of the class", b"bar", {"x-amz-storage-class": "STANDARD"}),
            ("private", b"bar", {"x-amz-acl": "private"}),
            ("public", b"bar", {"x-amz-acl": "public-read"})):
        side.see(f"put {label}", side.ask("PUT", path, headers=headers, body=body))
        read(side, label, path)
    for key in (" ", "\"", "$", "%", "&", "'", "<", ">", "_", "_ ", "__", "?", "#", "+", "ü", "a/b//c", "a/", "~"):
        side.see(f"put {key!r}", side.ask("PUT", f"/{side.bucket}/{key}", body=key.encode()))
        read(side, repr(key), f"/{side.bucket}/{key}")
        side.see(f"delete {key!r}", side.ask("DELETE", f"/{side.bucket}/{key}"))
    side.see("a long key", side.ask("PUT", f"/{side.bucket}/{'k' * 200}", body=b"x"))
    side.see("too long a key", side.ask("PUT", f"/{side.bucket}/{'k/' * 600}", body=b"x"))
    side.see("delete", side.ask("DELETE", path))
    read(side, "what was deleted", path)
    side.see("POST", side.ask("POST", path))


def digests(side):
    path, body = f"/{side.bucket}/k", b"bar"
    crc, sha = base64_of(zlib.crc32(body).to_bytes(4, "big")), base64_of(hashlib.sha256(body).digest())
    for label, headers in (
            ("MD5", {"content-md5": base64_of(hashlib.md5(body).digest())}),
            ("another MD5", {"content-md5": base64_of(hashlib.md5(b"").digest())}),
            ("a short MD5", {"content-md5": "YWJyYWNhZGFicmE="}),
            ("no MD5", {"content-md5": "HA HA HA"}), ("an empty MD5", {"content-md5": ""}),
            ("SHA-256", {"x-amz-checksum-sha256": sha}), ("another SHA-256", {"x-amz-checksum-sha256": sha[::-1][2:] + "=="}),
            ("a SHA-256 that is none", {"x-amz-checksum-sha256": "bad"}),
            ("CRC-32", {"x-amz-checksum-crc32": crc, "x-amz-sdk-checksum-algorithm": "CRC32"}),
            ("another CRC-32", {"x-amz-checksum-crc32": "AAAAAA=="}),
            ("a CRC-32 that is none", {"x-amz-checksum-crc32": "bad"})):
        side.see(f"put with {label}", side.ask("PUT", path, headers=headers, body=body))
        side.see(f"head with {label}", side.ask("HEAD", path, headers={"x-amz-checksum-mode": "ENABLED"}))
        side.see(f"plain head with {label}", side.ask("HEAD", path))
        side.see(f"get with {label}", side.ask("GET", path, headers={"x-amz-checksum-mode": "ENABLED"}))
        side.ask("DELETE", path)
    side.see("another body", side.ask("PUT", path, body=body, payload=hashlib.sha256(b"x").hexdigest()))
    side.see("a hash that is none", side.ask("PUT", path, body=body, payload="x"))
    side.see("an unsigned body", side.ask("PUT", path, body=body, payload="UNSIGNED-PAYLOAD"))
    side.see("a GET with a wrong hash", side.ask("GET", path, payload=hashlib.sha256(b"x").hexdigest()))


def chunks(side):
    path = f"/{side.bucket}/k"
    crc = base64_of(zlib.crc32(b"hello").to_bytes(4, "big"))
    kind = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    for label, body, headers in (
            ("right", f"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:{crc}\r\n\r\n", {}),
            ("in two", f"2\r\nhe\r\n3\r\nllo\r\n0\r\nx-amz-checksum-crc32:{crc}\r\n\r\n", {}),
            ("another sum", "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", {}),
            ("too short", f"4\r\nhell\r\n0\r\nx-amz-checksum-crc32:{crc}\r\n\r\n", {}),
            ("not of this form", "hello", {}),
            ("no length", f"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:{crc}\r\n\r\n",
             {"x-amz-decoded-content-length": None}),
            ("with codings", f"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:{crc}\r\n\r\n",
             {"content-encoding": "gzip,aws-chunked"})):
        sent = {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": "5",
                "x-amz-trailer": "x-amz-checksum-crc32", **headers}
        side.see(label, side.ask("PUT", path, body=body.encode(), payload=kind, headers={
            name: value for name, value in sent.items() if value is not None}))
        side.see(f"{label}: read", side.ask("GET", path))
        side.ask("DELETE", path)


def ranges(side):
    for size in (0, 11):
        path = f"/{side.bucket}/{size}"
        side.ask("PUT", path, body=bytes(range(65, 65 + size)))
        for text in ("bytes=0-", "bytes=4-7", "bytes=4-", "bytes=-7", "bytes=-0", "bytes=-100", "bytes=40-50",
                     "bytes=11-", "bytes=10-", "bytes=0-0", "bytes=7-4", "bytes=a-b", "bytes=", "bytes=-",
                     "octets=0-3", "bytes=0-3,5-7", "bytes= 0-3", "bytes=0 -3", "bytes=+1-3", "bytes=0-3 ",
                     "BYTES=0-3", "bytes=0-99999999999999999999999", "0-3", ""):
            side.see(f"{size}: {text!r}", side.ask("GET", path, headers={"range": text}))
            side.see(f"{size}: head {text!r}", side.ask("HEAD", path, headers={"range": text}))


PAST, FUTURE = "Thu, 01 Jan 2015 00:00:00 GMT", "Thu, 01 Jan 2099 00:00:00 GMT"


def read_conditions(side):
    path = f"/{side.bucket}/k"
    own, other = etag(b"bar"), '"ABCORZ"'
    side.ask("PUT", path, body=b"bar")
    for headers in ({"if-match": own}, {"if-match": own.strip('"')}, {"if-match": other}, {"if-match": "*"},
                    {"if-match": f"{other}, {own}"}, {"if-none-match": own}, {"if-none-match": other},
                    {"if-none-match": own.strip('"')}, {"if-none-match": "*"},
                    {"if-none-match": f"{other},{own}"}, {"if-none-match": f"W/{own}"},
                    {"if-modified-since": PAST}, {"if-modified-since": FUTURE}, {"if-modified-since": "soon"},
                    {"if-unmodified-since": PAST}, {"if-unmodified-since": FUTURE},
                    {"if-unmodified-since": "soon"}, {"if-match": own, "if-unmodified-since": PAST},
                    {"if-match": other, "if-unmodified-since": FUTURE},
                    {"if-none-match": other, "if-modified-since": FUTURE},
                    {"if-none-match": own, "if-modified-since": PAST},
                    {"if-match": own, "if-none-match": own}):
        for method in ("GET", "HEAD"):
            side.see(f"{method} {headers}", side.ask(method, path, headers=headers))
            side.see(f"{method} none {headers}", side.ask(method, path + "0", headers=headers))


def write_conditions(side):
    own, other = etag(b"bar"), '"ABCORZ"'
    for headers in ({"if-match": own}, {"if-match": own.strip('"')}, {"if-match": other}, {"if-match": "*"},
                    {"if-none-match": "*"}, {"if-none-match": own}, {"if-none-match": other}):
        for there in (True, False):
            path = f"/{side.bucket}/k{len(side.seen)}"
            if there:
                side.ask("PUT", path, body=b"bar")
            side.see(f"{there}: {headers}", side.ask("PUT", path, headers=headers, body=b"soup"))
            side.see(f"{there}: {headers}: read", side.ask("GET", path))


# ---- listings ------------------------------------------------------------------------------------

def listings(side):
    path = f"/{side.bucket}"
    for key in KEYS:
        side.ask("PUT", f"{path}/{key}", body=key.encode())
    url = {"encoding-type": "url"}
    for query in ({}, url, {"delimiter": "/"}, {"delimiter": "/", **url}, {"delimiter": "a"}, {"delimiter": "%"},
                  {"delimiter": " "}, {"delimiter": ""}, {"delimiter": "\n", **url}, {"delimiter": "no"},
                  {"prefix": "boo/"}, {"prefix": "boo/", "delimiter": "/"}, {"prefix": "boo", "delimiter": "/"},
                  {"prefix": "d"}, {"prefix": ""}, {"prefix": "\n", **url}, {"prefix": "y", "delimiter": "t"},
                  {"prefix": "ü", **url}, {"max-keys": "0"}, {"max-keys": "1"}, {"max-keys": "1000"},
                  {"max-keys": "5000"}, {"max-keys": "-1"}, {"max-keys": "blah"}, {"max-keys": ""},
                  {"max-keys": "1", "delimiter": "/"}, {"max-keys": "2", "delimiter": "/", **url},
                  {"encoding-type": "blah"}, {"max-keys": "0", "delimiter": "/"}):
        side.see(f"v1 {query}", side.ask("GET", path, query))
        side.see(f"v2 {query}", side.ask("GET", path, {"list-type": "2", **query}))
    for marker in ("", "blah", "zzz", "\n", "boo/", "boo/b", "boo/bar", "asdf"):
        for more in (url, {"delimiter": "/", **url}):
            side.see(f"marker {marker!r} {more}", side.ask("GET", path, {"marker": marker, **more}))
            side.see(f"start-after {marker!r} {more}",
                     side.ask("GET", path, {"list-type": "2", "start-after": marker, **more}))
    for value in ("true", "false", ""):
        side.see(f"fetch-owner {value}", side.ask("GET", path, {"list-type": "2", "fetch-owner": value}))
    side.see("empty token", side.ask("GET", path, {"list-type": "2", "continuation-token": ""}))
    side.see("versions", side.ask("GET", path, {"versions": "", "max-keys": "3"}))


def pages(side):
    """Page by page to the end, in both versions."""
    path = f"/{side.bucket}"
    for key in KEYS:
        side.ask("PUT", f"{path}/{key}", body=b"")
    for size in ("1", "2", "5"):
        for more in ({}, {"delimiter": "/"}, {"prefix": "boo/", "delimiter": "/"}):
            for version in ("1", "2"):
                query = {"max-keys": size, **more, **({"list-type": "2"} if version == "2" else {})}
                for number in range(len(KEYS) + 1):
                    answer = side.see(f"{version} {size} {more} page {number}", side.ask("GET", path, query))
                    if answer.status != 200 or element(answer, "IsTruncated") != "true":
                        break
                    if version == "2":
                        query["continuation-token"] = element(answer, "NextContinuationToken")
                    else:
                        query["marker"] = element(answer, "NextMarker") or last_key(answer)


def last_key(answer):
    tree = xml.etree.ElementTree.fromstring(answer.body)
    return [node.text for node in tree.iter() if bare(node.tag) == "Key"][-1]


def delete_form(keys, extra="", quiet=False):
    rows = "".join(f"<Object><Key>{key}</Key>{extra}</Object>" for key in keys)
    return f"<Delete>{'<Quiet>true</Quiet>' if quiet else ''}{rows}</Delete>".encode()


def deletes(side):
    path = f"/{side.bucket}"
    for label, form in (
            ("some", delete_form(["a", "b", "none"])), ("quiet", delete_form(["a", "none"], quiet=True)),
            ("twice", delete_form(["a", "a"])), ("escaped", delete_form(["a&amp;b", "ü"])),
            ("of the version", delete_form(["a"], "<VersionId>null</VersionId>")),
            ("1000", delete_form([f"k{n}" for n in range(1000)], quiet=True)),
            ("1001", delete_form([f"k{n}" for n in range(1001)])),
            ("none", b"<Delete></Delete>"), ("no XML", b"<Delete"), ("another root", b"<Other/>"),
            ("nothing", b"")):
        for key in ("a", "b", "a&b", "ü"):
            side.ask("PUT", f"{path}/{key}", body=b"x")
        md5 = base64_of(hashlib.md5(form).digest())
        side.see(f"delete {label}", side.ask("POST", path, {"delete": ""}, {"content-md5": md5}, form))
        side.see(f"after delete {label}", side.ask("GET", path))


# ---- multipart -----------------------------------------------------------------------------------

def complete_form(parts):
    rows = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag>{''.join(more)}</Part>"
                   for number, tag, *more in parts)
    return f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>".encode()


def begin_upload(side, path, headers=None):
    return element(side.ask("POST", path, {"uploads": ""}, headers), "UploadId")


def put_part(side, path, upload, number, body):
    return side.ask("PUT", path, {"uploadId": upload, "partNumber": str(number)}, body=body)


def complete(side, path, upload, parts, headers=None):
    return side.ask("POST", path, {"uploadId": upload}, headers, complete_form(parts))


def multipart(side):
    path, one, two = f"/{side.bucket}/k", b"1" * PART, b"22"
    side.see("create", side.ask("POST", path, {"uploads": ""}))
    upload = begin_upload(side, path, {"content-type": "text/foo", "x-amz-meta-one": "1"})
    for number in ("0", "10001", "x", "-1", ""):
        side.see(f"part {number}", put_part(side, path, upload, number, two))
    side.see("part 1", put_part(side, path, upload, 1, two))
    side.see("part 1 again", put_part(side, path, upload, 1, one))
    side.see("part 2", put_part(side, path, upload, 2, two))
    side.see("part of none", put_part(side, path, "none", 1, two))
    side.see("part of another key", put_part(side, path + "0", upload, 1, two))
    for query in ({}, {"max-parts": "1"}, {"part-number-marker": "1"}, {"max-parts": "0"}, {"max-parts": "x"},
                  {"part-number-marker": "x"}, {"max-parts": "2000"}):
        side.see(f"parts {query}", side.ask("GET", path, {"uploadId": upload, **query}))
    side.see("parts of none", side.ask("GET", path, {"uploadId": "none"}))
    right = [(1, etag(one)), (2, etag(two))]
    for label, form in (("nothing", b""), ("no parts", complete_form([])), ("no XML", b"<Complete"),
                        ("another root", b"<Other/>"), ("another tag", complete_form([(1, etag(b""))])),
                        ("a part too many", complete_form([*right, (9, etag(two))])),
                        ("wrong order", complete_form(right[::-1])),
                        ("a part twice", complete_form([right[0], right[0]])),
                        ("a small part", None)):
        if label == "a small part":
            put_part(side, path, upload, 3, two)
            form = complete_form([(2, etag(two)), (3, etag(two))])
        side.see(f"complete with {label}", side.ask("POST", path, {"uploadId": upload}, body=form))
    side.see("complete none", complete(side, path, "none", right))
    side.see("complete", complete(side, path, upload, right))
    read(side, "completed", path)
    side.see("a range of it", side.ask("GET", path, headers={"range": f"bytes={PART - 2}-{PART + 1}"}))
    side.see("parts afterwards", side.ask("GET", path, {"uploadId": upload}))
    upload = begin_upload(side, path)
    tag = put_part(side, path, upload, 7, two).headers["etag"].strip('"')
    side.see("complete one part, no quotes", complete(side, path, upload, [(7, tag)]))
    read(side, "one part", path)
    upload = begin_upload(side, path)
    side.see("abort", side.ask("DELETE", path, {"uploadId": upload}))
    side.see("abort again", side.ask("DELETE", path, {"uploadId": upload}))
    side.see("abort none", side.ask("DELETE", path, {"uploadId": "none"}))
    side.see("part after abort", put_part(side, path, upload, 1, two))
    side.see("complete after abort", complete(side, path, upload, right))
    for headers in ({"if-none-match": "*"}, {"if-match": '"x"'}, {"if-match": "*"}):
        upload = begin_upload(side, path)
        put_part(side, path, upload, 1, two)
        side.see(f"complete {headers}", complete(side, path, upload, [(1, etag(two))], headers))


def sums(side):
    """What becomes of the checksums of uploads."""
    path, one, two = f"/{side.bucket}/k", b"1" * PART, b"22"
    for label, headers in (("one", {"x-amz-checksum-algorithm": "MD4"}),
                           ("SHA256 of all", {"x-amz-checksum-algorithm": "SHA256",
                                              "x-amz-checksum-type": "FULL_OBJECT"}),
                           ("CRC64NVME of parts", {"x-amz-checksum-algorithm": "CRC64NVME",
                                                   "x-amz-checksum-type": "COMPOSITE"})):
        side.see(f"create with {label}", side.ask("POST", path, {"uploads": ""}, headers), body=False)
    crc = [base64_of(zlib.crc32(body).to_bytes(4, "big")) for body in (one, two)]
    sha = [base64_of(hashlib.sha256(body).digest()) for body in (one, two)]
    for word, kind, values in (("CRC32", "COMPOSITE", crc), ("CRC32", "FULL_OBJECT", crc), ("SHA256", "COMPOSITE", sha),
                               ("CRC64NVME", "FULL_OBJECT", ("imfHCZc6Evg=", "1Eyv0SeiVZ4="))):
        name, what = f"x-amz-checksum-{word.lower()}", f"{word} {kind}"
        side.ask("DELETE", path)
        upload = begin_upload(side, path, {"x-amz-checksum-algorithm": word, "x-amz-checksum-type": kind})
        parts = []
        for number, body in ((1, one), (2, two)):
            put = side.ask("PUT", path, {"uploadId": upload, "partNumber": str(number)}, {name: values[number - 1]}, body)
            side.see(f"{what}: part {number}", put)
            expect(put.headers[name] == values[number - 1], "the sum is given back")
            parts.append((number, etag(body), f"<Checksum{word}>{values[number - 1]}</Checksum{word}>"))
        side.see(f"{what}: parts", side.ask("GET", path, {"uploadId": upload}))
        side.see(f"{what}: part of another kind", side.ask(
            "PUT", path, {"uploadId": upload, "partNumber": "3"},
            {"x-amz-checksum-sha1": base64_of(hashlib.sha1(two).digest())}, two))
        swapped = [(1, etag(one), parts[1][2]), parts[1]]
        side.see(f"{what}: complete with another type",
                 complete(side, path, upload, parts, {name: values[0], "x-amz-checksum-type": "OTHER"}))
        side.see(f"{what}: complete with another part's", complete(side, path, upload, swapped))
        side.see(f"{what}: complete with another", complete(side, path, upload, parts, {name: "AAAAAA=="}))
        side.see(f"{what}: complete", complete(side, path, upload, parts))
        look(side, what, path, 2)


def claims(side):
    """Checksums that are named only when an upload is completed."""
    path, body = f"/{side.bucket}/k", b"hello"
    crc, sha = (base64_of(value) for value in (zlib.crc32(body).to_bytes(4, "big"), hashlib.sha256(body).digest()))
    for label, headers in (("a CRC32", {"x-amz-checksum-crc32": crc}),
                           ("another CRC32", {"x-amz-checksum-crc32": "AAAAAA=="}),
                           ("a CRC32 of all", {"x-amz-checksum-crc32": crc, "x-amz-checksum-type": "FULL_OBJECT"}),
                           ("another CRC32 of all", {"x-amz-checksum-crc32": "AAAAAA==", "x-amz-checksum-type": "FULL_OBJECT"}),
                           ("a SHA256", {"x-amz-checksum-sha256": sha}),
                           ("another SHA256", {"x-amz-checksum-sha256": base64_of(bytes(32))})):
        upload = begin_upload(side, path)
        put_part(side, path, upload, 1, body)
        side.see(label, complete(side, path, upload, [(1, etag(body))], headers), body=False)
        side.see(f"{label}: read", side.ask("GET", path))
        side.ask("DELETE", path)


def look(side, what, path, count):
    """An object of parts from all sides."""
    on = {"x-amz-checksum-mode": "ENABLED"}
    for method in ("HEAD", "GET"):
        side.see(f"{what}: {method}", side.ask(method, path))
        side.see(f"{what}: {method} with sums", side.ask(method, path, headers=on))
        for number in (*range(1, count + 1), count + 1, "0", "x"):
            side.see(f"{what}: {method} part {number}", side.ask(method, path, {"partNumber": str(number)}))
            side.see(f"{what}: {method} part {number} with sums",
                     side.ask(method, path, {"partNumber": str(number)}, on))
    side.see(f"{what}: a range with sums", side.ask("GET", path, headers={"range": "bytes=0-1", **on}))
    side.see(f"{what}: a part's range", side.ask("GET", path, {"partNumber": "1"}, {"range": "bytes=0-1"}))
    side.see(f"{what}: part, on a condition", side.ask("GET", path, {"partNumber": "1"}, {"if-match": '"x"'}))
    for asked in ("ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize", "What", "ETag,What", "",
                  "ETag,Checksum,ObjectParts,StorageClass,ObjectSize"):
        side.see(f"{what}: attributes {asked}",
                 side.ask("GET", path, {"attributes": ""}, {"x-amz-object-attributes": asked}))
    for pages in ({"x-amz-max-parts": "1"}, {"x-amz-max-parts": "1", "x-amz-part-number-marker": "1"},
                  {"x-amz-part-number-marker": "9"}, {"x-amz-max-parts": "x"}):
        side.see(f"{what}: parts {pages}", side.ask("GET", path, {"attributes": ""}, {
            "x-amz-object-attributes": "ObjectParts", **pages}))


def pieces(side):
    """Parts of objects that were put whole, or without checksums."""
    path, sha = f"/{side.bucket}/k", base64_of(hashlib.sha256(b"bar").digest())
    for label, headers, body in (("plain", {}, b"bar"), ("with a sum", {"x-amz-checksum-sha256": sha}, b"bar"),
                                 ("empty", {}, b"")):
        side.ask("PUT", path, headers=headers, body=body)
        look(side, label, path, 1)
    upload = begin_upload(side, path)
    for number, body in ((2, b"1" * PART), (5, b"22")):
        put_part(side, path, upload, number, body)
    complete(side, path, upload, [(2, etag(b"1" * PART)), (5, etag(b"22"))])
    look(side, "gaps", path, 5)
    side.see("attributes of nothing", side.ask("GET", path + "0", {"attributes": ""},
                                               {"x-amz-object-attributes": "ETag"}))


def uploads(side):
    path = f"/{side.bucket}"
    side.see("none", side.ask("GET", path, {"uploads": ""}))
    for key in ("a", "a", "b/c", "b/d", "z"):
        begin_upload(side, f"{path}/{key}")
    for query in ({}, {"prefix": "a"}, {"max-uploads": "x"}, {"encoding-type": "url"}):
        answer = side.ask("GET", path, {"uploads": "", **query})
        side.see(f"uploads {query}", answer, body="prefix" in query)


# ---- copies --------------------------------------------------------------------------------------

def copies(side):
    source, path = f"{side.bucket}/s", f"/{side.other}/t"
    side.ask("PUT", f"/{source}", headers={"content-type": "text/bla", "x-amz-meta-one": "1"}, body=b"hello")
    for label, headers in (
            ("plain", {}), ("keeping", {"x-amz-metadata-directive": "COPY", "x-amz-meta-two": "2"}),
            ("replacing", {"x-amz-metadata-directive": "REPLACE", "x-amz-meta-two": "2",
                           "content-type": "audio/ogg"}),
            ("what?", {"x-amz-metadata-directive": "WHAT"}),
            ("from a slash", {"x-amz-copy-source": "/" + source}),
            ("escaped", {"x-amz-copy-source": urllib.parse.quote(source, "")}),
            ("from no bucket", {"x-amz-copy-source": f"{side.bucket}-none/s"}),
            ("from no key", {"x-amz-copy-source": f"{side.bucket}/none"}),
            ("from nothing", {"x-amz-copy-source": ""}), ("from a bucket", {"x-amz-copy-source": side.bucket}),
            ("of the version", {"x-amz-copy-source": source + "?versionId=null"}),
            ("if match", {"x-amz-copy-source-if-match": etag(b"hello")}),
            ("if match not", {"x-amz-copy-source-if-match": '"ABCORZ"'}),
            ("if none match", {"x-amz-copy-source-if-none-match": '"ABCORZ"'}),
            ("if none match not", {"x-amz-copy-source-if-none-match": etag(b"hello")}),
            ("if modified", {"x-amz-copy-source-if-modified-since": PAST}),
            ("if modified not", {"x-amz-copy-source-if-modified-since": FUTURE}),
            ("if unmodified", {"x-amz-copy-source-if-unmodified-since": FUTURE}),
            ("if unmodified not", {"x-amz-copy-source-if-unmodified-since": PAST})):
        side.see(label, side.ask("PUT", path, headers={"x-amz-copy-source": source, **headers}))
        read(side, label, path)
        side.ask("DELETE", path)
    for label, headers in (("onto itself", {}), ("itself, keeping", {"x-amz-metadata-directive": "COPY"}),
                           ("itself, replacing", {"x-amz-metadata-directive": "REPLACE", "x-amz-meta-two": "2"})):
        side.see(label, side.ask("PUT", f"/{source}", headers={"x-amz-copy-source": source, **headers}))
        read(side, label, f"/{source}")
    upload = begin_upload(side, path)
    for text in ("", "bytes=0-2", "bytes=0-4", "bytes=0-21", "bytes=5-9", "bytes 0-2", "bytes=0", "bytes=hello",
                 "bytes=0-bar", "bytes=hello-", "bytes=0-2,3-5", "bytes=3-1", "bytes=-3", "bytes=2-"):
        headers = {"x-amz-copy-source": source, **({"x-amz-copy-source-range": text} if text else {})}
        side.see(f"part of {text}", side.ask("PUT", path, {"uploadId": upload, "partNumber": "1"}, headers))
    side.see("part of no key", side.ask("PUT", path, {"uploadId": upload, "partNumber": "1"},
                                        {"x-amz-copy-source": f"{side.bucket}/none"}))


# ---- who asks ------------------------------------------------------------------------------------

def presigned(side):
    path = f"/{side.bucket}/k"
    side.ask("PUT", path, body=b"bar")

    def open_url(label, change=lambda url: url, method="GET", signer=side.client, **how):
        url = change(signer.presign(method, path, **how))
        side.see(label, side.send(method, url[url.index("/", 8):], {}))

    for seconds in ("60", "1", "604800", "604801", "0", "-7", "abc", ""):
        open_url(f"for {seconds}", seconds=seconds)
    for name in ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders",
                 "X-Amz-Signature"):
        open_url(f"without {name}", lambda url, name=name: url.replace(name, "X-Amz-None"))
    open_url("long ago", now="20150101T000000Z")
    open_url("ahead", now="20990101T000000Z")
    open_url("no date", now="someday")
    for access, secret in (("nobody", side.client.secret), (side.client.access, "wrong")):
        open_url(f"of {access}, {secret}", signer=s3.Client(f"http://{side.host}", access, secret))
    open_url("for a HEAD", lambda url: url.replace("/k?", "/none?"), method="HEAD")
    open_url("of another key", lambda url: url.replace("/k?", "/none?"))
    open_url("with headers", query={"response-content-type": "foo/bar", "response-cache-control": "no-cache",
                                    "response-content-disposition": "bla", "response-content-encoding": "aaa",
                                    "response-content-language": "esperanto", "response-expires": "123"})
    side.ask("DELETE", path)
    open_url("of what is gone")
    open_url("of a put", method="PUT")


def strangers(side):
    path = f"/{side.bucket}/k"
    side.ask("PUT", path, body=b"bar")
    for method, where in (("GET", "/"), ("GET", f"/{side.bucket}"), ("GET", path), ("PUT", path), ("HEAD", path),
                          ("DELETE", path), ("GET", f"/{side.bucket}-none")):
        side.see(f"nobody {method} {where}", side.send(method, where, {}))
    signed = side.client.sign("GET", path, {}, {}, hashlib.sha256(b"").hexdigest())
    for label, value in (("empty", ""), ("one word", "AWS4-HMAC-SHA256"), ("nonsense", "HAHAHA"),
                         ("another kind", "Bearer abc"),
                         ("no signature", signed["authorization"].split(", Signature")[0]),
                         ("a short one", signed["authorization"][:-1]),
                         ("a short scope", signed["authorization"].replace("/us-east-1/s3", "")),
                         ("another service", signed["authorization"].replace("/s3/", "/ec2/"))):
        side.see(f"authorization: {label}", side.send("GET", path, {**signed, "authorization": value}))
    side.see("no date", side.ask("GET", path, drop=["x-amz-date"]))
    side.see("no hash", side.ask("GET", path, drop=["x-amz-content-sha256"]))
    for now in ("20150101T000000Z", "20990101T000000Z"):
        side.see(f"of {now}", side.ask("GET", path, now=now))
    for access, secret in (("nobody", side.client.secret), (side.client.access, "wrong")):
        other = s3.Client(f"http://{side.host}", access, secret)
        headers = other.sign("GET", "/", {}, {}, hashlib.sha256(b"").hexdigest())
        side.see(f"as {access}", side.send("GET", "/", headers))


def lines(side):
    """What HTTP allows and libraries do not send."""
    path = f"/{side.bucket}/k"

    def put(label, *more, body=b"bar", version="1.1"):
        signed = side.client.sign("PUT", path, {}, {}, "UNSIGNED-PAYLOAD")
        head = [f"PUT {path} HTTP/{version}", f"host: {side.host}", "connection: close", *more,
                *(f"{name}: {value}" for name, value in signed.items())]
        side.see(label, side.raw("\r\n".join(head).encode() + b"\r\n\r\n" + body))
        side.see(f"{label}: read", side.ask("GET", path))
        side.ask("DELETE", path)

    put("a length", "content-length: 3")
    put("a negative length", "content-length: -1")
    put("an empty length", "content-length:")
    put("a length that is none", "content-length: x")
    put("no length", body=b"")
    put("in chunks", "transfer-encoding: chunked", body=b"3\r\nbar\r\n0\r\n\r\n")
    put("an odd expectation", "content-length: 3", "expect: 200")
    put("an empty expectation", "content-length: 3", "expect:")
    put("no user agent", "content-length: 3", "user-agent:")
    put("HTTP/1.0", "content-length: 3", version="1.0")
    for method in ("PATCH", "OPTIONS", "TRACE"):
        side.see(method, side.ask(method, path))


CASES = [names, buckets, objects, digests, chunks, ranges, read_conditions, write_conditions, listings, pages,
         deletes, multipart, sums, claims, pieces, uploads, copies, presigned, strangers, lines]


def compare(name, ours, theirs):
    """What differs and is not written down, and what is written down and does not differ."""
    rows = [row for row, _ in DIFFERENCES if f"{name}: " in row]
    met, wrong = set(), []
    for label in sorted({*ours.seen, *theirs.seen}):
        left, right = ours.seen.get(label, "not asked"), theirs.seen.get(label, "not asked")
        if left == right:
            continue
        known = {row for row in rows if re.fullmatch(row, f"{name}: {label}")}
        met |= known
        if not known:
            wrong.append(f"{label}: {left}, not {right}")
    return wrong + [f"nothing differs as '{row}' says" for row in rows if row not in met]


def scenario(run):
    nats, minio = run.nats().start(), run.minio().start()
    store = run.minio("store").start()
    run.client(store).create_bucket()
    gateway = run.gateway(nats, s3_server=store, hot_capacity=1 << 26).start()
    sides = [Side(run, gateway, "gateway"), Side(run, minio, "minio")]
    for case in CASES:
        if run.args.only and run.args.only not in case.__name__:
            continue
        with run.case(f"the same answers: {case.__name__}"):
            for side in sides:
                side.begin(f"twin-{case.__name__.replace('_', '-')}")
                case(side)
            wrong = compare(case.__name__, *sides)
            expect(not wrong, f"{len(wrong)} of {len(sides[0].seen)} differ:\n  " + "\n  ".join(wrong))
    expect(gateway.alive(), lambda: f"the gateway ended: {gateway.tail()}")


def options(parser):
    parser.add_argument("--only", help="cases that contain this")


if __name__ == "__main__":
    harness.main(scenario, options)
