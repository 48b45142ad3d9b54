"""A small S3 client and the gateway's batch API, with a SigV4 signer of its own.

It shares no code with the C side, so that an error there cannot cancel itself out."""

import datetime
import hashlib
import hmac
import http.client
import struct
import time
import urllib.parse
import xml.etree.ElementTree

from blocks import crc32c

STATUS = ("OK AGAIN TIMEOUT UNAVAILABLE IO NOMEM BUSY FULL NOTFOUND EXISTS PRECONDITION INVALID RANGE "
          "CORRUPT DENIED UNSUPPORTED CANCELLED").split()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def code(self):
        """The <Code> of an S3 error, or ''."""
        try:
            return xml.etree.ElementTree.fromstring(self.body).findtext("Code") or ""
        except xml.etree.ElementTree.ParseError:
            return ""


def quote(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-._~")


def signature_of(secret, now, canonical):
    """Of a canonical request."""
    day = now[:8]
    text = "\n".join(["AWS4-HMAC-SHA256", now, f"{day}/us-east-1/s3/aws4_request",
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in (day, "us-east-1", "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Client:
    """One connection; not for several threads."""

    def __init__(self, endpoint, access, secret, bucket="kvtier", timeout=30):
        self.host = urllib.parse.urlsplit(endpoint).netloc
        self.access, self.secret, self.bucket, self.timeout = access, secret, bucket, timeout
        self.connection = None

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def sign(self, method, path, query, headers, payload_hash, now=None):
        now = now or datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        day = now[:8]
        headers = {"host": self.host, "x-amz-date": now, "x-amz-content-sha256": payload_hash,
                   **{name.lower(): value for name, value in headers.items()}}
        names = ";".join(sorted(headers))
        canonical = "\n".join(
            [method, quote(path, "/"),
             "&".join(sorted(f"{quote(k)}={quote(v)}" for k, v in query.items()))]
            + [f"{name}:{headers[name].strip()}" for name in sorted(headers)]
            + ["", names, payload_hash])
        scope = f"{day}/us-east-1/s3/aws4_request"
        headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.access}/{scope}, "
                                    f"SignedHeaders={names}, "
                                    f"Signature={signature_of(self.secret, now, canonical)}")
        del headers["host"]
        return headers

    def presign(self, method, path, query=None, seconds=60, now=None):
        """A URL that carries its signature."""
        now = now or datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        query = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256",
                 "X-Amz-Credential": f"{self.access}/{now[:8]}/us-east-1/s3/aws4_request",
                 "X-Amz-Date": now, "X-Amz-Expires": str(seconds), "X-Amz-SignedHeaders": "host",
                 **(query or {})}
        text = "&".join(f"{quote(k)}={quote(v)}" for k, v in sorted(query.items()))
        canonical = "\n".join([method, quote(path, "/"), text, f"host:{self.host}", "", "host",
                               "UNSIGNED-PAYLOAD"])
        return (f"http://{self.host}{quote(path, '/')}?{text}"
                f"&X-Amz-Signature={signature_of(self.secret, now, canonical)}")

    def request(self, method, path, query=None, headers=None, body=b"", unsigned=False):
        query = query or {}
        payload = "UNSIGNED-PAYLOAD" if unsigned else hashlib.sha256(body).hexdigest()
        signed = self.sign(method, path, query, headers or {}, payload)
        target = quote(path, "/")
        if query:
            target += "?" + "&".join(sorted(f"{quote(k)}={quote(v)}" for k, v in query.items()))
        for attempt in (1, 2):
            fresh = self.connection is None
            if fresh:
                self.connection = http.client.HTTPConnection(self.host, timeout=self.timeout)
            try:
                self.connection.request(method, target, body=body or None, headers=signed)
                response = self.connection.getresponse()
                answer = Answer(response.status,
                                {k.lower(): v for k, v in response.getheaders()}, response.read())
                if response.will_close:
                    self.close()
                return answer
            except (http.client.HTTPException, OSError):
                self.close()
                if fresh or attempt == 2:  # an idle connection may have been closed by the server
                    raise
        raise AssertionError("unreachable")

    # Objects ------------------------------------------------------------------------------------

    def create_bucket(self):
        """A server that has just started may still answer 503: ask until it says what it did."""
        for _ in range(100):
            answer = self.request("PUT", f"/{self.bucket}")
            if answer.status in (200, 409):
                return answer
            time.sleep(0.2)
        raise RuntimeError(f"no bucket {self.bucket}: {answer.status} {answer.body[:200]!r}")

    def put(self, key, body, headers=None):
        return self.request("PUT", f"/{self.bucket}/{key}", headers=headers, body=body)

    def get(self, key, headers=None):
        return self.request("GET", f"/{self.bucket}/{key}", headers=headers)

    def head(self, key):
        return self.request("HEAD", f"/{self.bucket}/{key}")

    def delete(self, key, headers=None):
        return self.request("DELETE", f"/{self.bucket}/{key}", headers=headers)

    def list(self, prefix=""):
        """Every (key, size) under `prefix`."""
        found, token = [], None
        while True:
            query = {"list-type": "2", "prefix": prefix}
            if token:
                query["continuation-token"] = token
            answer = self.request("GET", f"/{self.bucket}", query=query)
            if answer.status != 200:
                raise RuntimeError(f"list: {answer.status} {answer.code()}")
            tree = xml.etree.ElementTree.fromstring(answer.body)
            space = tree.tag[:tree.tag.index("}") + 1] if tree.tag.startswith("{") else ""
            for item in tree.iter(f"{space}Contents"):
                found.append((item.findtext(f"{space}Key"), int(item.findtext(f"{space}Size"))))
            token = tree.findtext(f"{space}NextContinuationToken")
            if tree.findtext(f"{space}IsTruncated") != "true":
                return found

    def versions(self):
        """How many versions each key has (delete markers count)."""
        count, marker = {}, {}
        while True:
            answer = self.request("GET", f"/{self.bucket}", query={"versions": "", **marker})
            if answer.status != 200:
                raise RuntimeError(f"versions: {answer.status} {answer.code()}")
            tree = xml.etree.ElementTree.fromstring(answer.body)
            space = tree.tag[:tree.tag.index("}") + 1] if tree.tag.startswith("{") else ""
            for kind in ("Version", "DeleteMarker"):
                for item in tree.iter(f"{space}{kind}"):
                    name = item.findtext(f"{space}Key")
                    count[name] = count.get(name, 0) + 1
            if tree.findtext(f"{space}IsTruncated") != "true":
                return count
            marker = {"key-marker": tree.findtext(f"{space}NextKeyMarker"),
                      "version-id-marker": tree.findtext(f"{space}NextVersionIdMarker")}

    # The gateway's batch API ----------------------------------------------------------------------

    def batch(self, verb, body):
        answer = self.request("POST", f"/_kvtier/v1/{verb}/{self.bucket}", body=body, unsigned=True,
                              headers={"content-type": "application/octet-stream"})
        if answer.status != 200:
            raise RuntimeError(f"batch {verb}: {answer.status} {answer.body[:200]!r}")
        return answer.body

    def batch_put(self, items, fingerprint=0):
        """items: [(key, body)]; the status of each by name."""
        parts = [struct.pack("<I", len(items))]
        for key, body in items:
            name = key.encode()
            parts += [struct.pack("<HHIQQ", len(name), 0, crc32c(body), fingerprint, len(body)), name,
                      body]
        answer = self.batch("put", b"".join(parts))
        return [STATUS[code] for code in struct.unpack(f"<{len(items)}I", answer)]

    def batch_has(self, keys):
        """[(status, crc32c, length)]."""
        answer = self.batch("has", self.names(keys))
        return [(STATUS[s], c, n) for s, c, n in struct.iter_unpack("<IIQ", answer)]

    def batch_get(self, keys):
        """[(status, crc32c, body)]."""
        answer = self.batch("get", self.names(keys))
        found, at = [], 0
        for _ in keys:
            status, crc, length = struct.unpack_from("<IIQ", answer, at)
            at += 16
            if STATUS[status] != "OK":
                length = 0
            found.append((STATUS[status], crc, answer[at:at + length]))
            at += length
        if at != len(answer):
            raise RuntimeError(f"batch get: {len(answer) - at} bytes behind the last answer")
        return found

    @staticmethod
    def names(keys):
        parts = [struct.pack("<I", len(keys))]
        for key in keys:
            name = key.encode()
            parts += [struct.pack("<H", len(name)), name]
        return b"".join(parts)
