#!/usr/bin/env python3
"""A gateway in front of a MinIO that it reaches through g4-store-libs3.so alone."""

import os

import blocks
from harness import expect, main

FINGERPRINT = 7


def refused(run, nats, minio, name, text, **settings):
    """Its start must fail and say so."""
    gateway = run.gateway(nats, name, s3_server=minio, cold_kind="driver", **settings).start(wait=False)
    expect(gateway.wait(30) != 0 and text in gateway.tail(), f"{name}: not \"{text}\": {gateway.tail()}")


def scenario(run):
    path = os.path.abspath(os.path.join(run.args.build, "g4", "libs3", "g4-store-libs3.so"))
    if not os.path.exists(path):
        run.skip("a gateway on libs3", "g4-store-libs3.so is not built: libs3-dev is missing")
        return
    minio = run.minio().start(seconds=60)
    direct = run.client(minio)
    direct.create_bucket()
    nats = run.nats().start()
    settings = {"cold_driver": path, "hot_capacity": 0}
    gateway = run.gateway(nats, s3_server=minio, cold_kind="driver", **settings).start(seconds=60)
    client = run.client(gateway)
    bodies = {blocks.key(n, namespace="acme"): run.rng.randbytes(100 + 7000 * n) for n in range(20)}
    with run.case("blocks go to the bucket and come back, the first writer wins, and a restart knows them"):
        expect(set(client.batch_put(list(bodies.items()), FINGERPRINT)) == {"OK"}, "cannot store")
        for key, body in bodies.items():
            expect(direct.get(key).body == body, f"{key}: other bytes in the bucket")
        key = next(iter(bodies))
        expect(client.batch_put([(key, b"other")], FINGERPRINT) == ["PRECONDITION"], "written over")
        gateway.kill()
        gateway.start(seconds=60)
        answers = run.client(gateway).batch_get(list(bodies))
        expect([body for _status, _crc, body in answers] == list(bodies.values()), "other bytes")
    client = run.client(gateway)
    with run.case("other objects keep what clients put beside them; removals remove"):
        headers = {"content-type": "text/x; a=b", "x-amz-meta-color": "deep red"}
        expect(client.put("notes/a", b"hello", headers=headers).status == 200, "cannot store")
        answer = client.get("notes/a")
        expect(answer.body == b"hello" and answer.headers["content-type"] == "text/x; a=b", answer.headers)
        for key in [*bodies, "notes/a"]:
            expect(client.delete(key).status == 204, "cannot delete")
        left = {key for key, _size in direct.list()}
        expect(left == {".kvtier-writer"}, f"left: {left}")
    with run.case("damage in the bucket is a miss"):
        key, body = next(iter(bodies.items()))
        expect(client.batch_put([(key, body)], FINGERPRINT) == ["OK"], "cannot store")
        meta = {name: value for name, value in direct.head(key).headers.items() if name.startswith("x-amz-meta-")}
        expect(direct.put(key, body[:-1] + b"?", headers=meta).status == 200, "cannot damage")
        expect(client.batch_get([key])[0][0] == "NOTFOUND", "damage is served")
        expect(client.batch_put([(key, body)], FINGERPRINT) == ["OK"], "cannot repair")
        expect(direct.get(key).body == body, "not repaired")
    with run.case("what could lose or leak blocks is refused at the start"):
        refused(run, nats, minio, "gw1", "is written by gw0", **settings)
        refused(run, nats, minio, "gw2", "is not there", cold_driver="/nowhere/g4-store-libs3.so")
        for name, scheme, text in (("gw3", "http", "over plain HTTP"), ("gw4", "https", "do not check who answers")):
            refused(run, nats, minio, name, text, cold_driver=path,
                    **{"s3.endpoint": f"{scheme}://appliance.example"})
        refused(run, nats, minio, "gw5", "no promise that packing needs", cold_driver=path,
                **{"packed.namespaces": "acme"})
    gateway.stop()


if __name__ == "__main__":
    main(scenario)
