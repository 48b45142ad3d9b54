"""What to do to a bucket of a real MinIO, and what its notifications must then say.

Python's standard library only; the S3 client and the keys of blocks are those of the scenarios.
"""

import base64
import hashlib
import time
import xml.sax.saxutils

import blocks

TARGET = "KVT"  # MinIO's name for the NATS it tells
SUBJECT = "bucket.events"
NAMESPACE = "team a+b%25/é&<model>"  # whatever a key may hold, an escape that is none among it


def environment(nats_url):
    """MinIO's settings: tell NATS, and look for expired objects all the time."""
    return {f"MINIO_NOTIFY_NATS_ENABLE_{TARGET}": "on",
            f"MINIO_NOTIFY_NATS_ADDRESS_{TARGET}": nats_url.removeprefix("nats://"),
            f"MINIO_NOTIFY_NATS_SUBJECT_{TARGET}": SUBJECT,
            "MINIO_SCANNER_SPEED": "fastest", "MINIO_SCANNER_CYCLE": "1s"}


def must(answer, *statuses):
    if answer.status not in (statuses or (200, 204)):
        raise RuntimeError(f"{answer.status}: {answer.body[:300]!r}")
    return answer


def post_xml(client, method, sub, text):
    body = text.encode()
    digest = base64.b64encode(hashlib.md5(body).digest()).decode()
    return must(client.request(method, f"/{client.bucket}", {sub: ""}, {"content-md5": digest}, body))


def subscribe(client, seconds=30):
    """A MinIO that says it is ready may not know its NATS yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return post_xml(client, "PUT", "notification", f"""<NotificationConfiguration>
                <QueueConfiguration><Id>kvt</Id><Queue>arn:minio:sqs::{TARGET}:nats</Queue>
                <Event>s3:ObjectCreated:*</Event><Event>s3:ObjectRemoved:*</Event></QueueConfiguration>
                </NotificationConfiguration>""")
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def delete_many(client, keys):
    named = "".join(f"<Object><Key>{xml.sax.saxutils.escape(key)}</Key></Object>" for key in keys)
    post_xml(client, "POST", "delete", f"<Delete><Quiet>true</Quiet>{named}</Delete>")


def expire(client, prefix):
    """Everything below `prefix` expired years ago: MinIO deletes it at the next look."""
    post_xml(client, "PUT", "lifecycle", f"""<LifecycleConfiguration><Rule><ID>kvt</ID>
        <Status>Enabled</Status><Filter><Prefix>{xml.sax.saxutils.escape(prefix)}</Prefix></Filter>
        <Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration></Rule></LifecycleConfiguration>""")


class Story:
    """Steps against one bucket.  `told` are the events in order; `held` what is there in the end."""

    def __init__(self, client, rng):
        self.client, self.rng = client, rng
        self.told, self.held = [], {}

    def event(self, kind, key, size=0):
        place = blocks.parse_key(key)
        if place is None:
            return {"kind": "skip", "why": "not_a_block"}
        namespace, rank, position, value, fragment = place
        event = {"kind": kind, "tier": "g4", "hashes": [value], "position": position, "rank": rank,
                 "namespace": namespace, "holder": f"cold@{self.client.bucket}"}
        if position:
            event["fragment"] = fragment
        if kind == "store":
            event["size"] = size
        return event

    def put(self, key, size):
        must(self.client.put(key, bytes(size)))
        self.told.append(self.event("store", key, size))
        if blocks.parse_key(key):
            self.held[key] = size

    def gone(self, key):
        self.told.append(self.event("remove", key))
        self.held.pop(key, None)

    def block(self, position, namespace=NAMESPACE, rank=0):
        return blocks.key(self.rng.getrandbits(64), position, self.rng.getrandbits(64), namespace, rank)

    def run(self):
        keys = [self.block(0), self.block(1), self.block(300), self.block(5, rank=3),
                self.block(0, ""), self.block(70000, "", 1), self.block(2, "tenant/plain"),
                blocks.key((1 << 64) - 1, 0), blocks.key(0, 7, 1)]
        for number, key in enumerate(keys):
            self.put(key, 100 + number)
        self.put(keys[2], 4096)  # over the first
        odd = ["notes 1+1=2 100%.txt", "é/ü &<>\"'.json", keys[0] + ".lock", "0/1", "plain"]
        for key in odd:
            self.put(key, 3)
        # Tags change no bytes.
        must(self.client.request("PUT", f"/{self.client.bucket}/{keys[0]}", {"tagging": ""},
                                 body=b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet>"
                                      b"</Tagging>"))
        self.told.append({"kind": "skip", "why": "fine"})
        must(self.client.delete(keys[1]))
        self.gone(keys[1])
        absent = self.block(9)
        must(self.client.delete(absent))  # nothing was there: NoOP
        self.told.append({"kind": "skip", "why": "fine"})
        several = [keys[3], keys[5], odd[0]]
        delete_many(self.client, several)
        for key in several:
            self.gone(key)
        delete_many(self.client, [absent])  # nothing was there, and it says Delete
        self.gone(absent)
        expiring = [self.block(position, "expires soon") for position in range(3)]
        for key in expiring:
            self.put(key, 10)
        expire(self.client, "expires soon/")
        for key in expiring:
            self.client.get(key)  # a look at an expired object is what makes MinIO delete it
            self.gone(key)
        return self
