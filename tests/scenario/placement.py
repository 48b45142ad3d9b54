#!/usr/bin/env python3
"""Encryption and storage class per prefix of keys: what a real MinIO with keys says of each object."""

import blocks
from harness import expect, main
from issuer import Issuer

KEYS = "kvt-key:bXltaW5pb2VuY3J5cHRpb25rZXlteW1pbmlvZW5jcnk="  # a name, and 32 bytes in base64
RULES = """
placement:
  - {prefix: "", encryption: AES256}
  - {prefix: acme/, encryption: "aws:kms", kms_key_id: kvt-key, storage_class: REDUCED_REDUNDANCY}
"""
FAR_RULES = """
placement:
  - {prefix: acme/, encryption: AES256}
"""
LARGE = (16 << 20) + 1  # goes in parts


def scenario(run):
    minio = run.minio()
    minio.env["MINIO_KMS_SECRET_KEY"] = KEYS
    minio.start(seconds=60)
    direct = run.client(minio)
    direct.create_bucket()
    path = run.file("placement.yaml", RULES)
    nats = run.nats().start()
    gateway = run.gateway(nats, s3_server=minio, **{"s3.placement_file": path}).start(seconds=60)
    client = run.client(gateway)
    bodies = {blocks.key(1, namespace="acme"): run.rng.randbytes(5000), blocks.key(2): run.rng.randbytes(5000),
              "acme/large": run.rng.randbytes(LARGE)}
    names = {"acme/large": ".kvtier-key/configured/acme.slarge!"}  # where the others are as they are called
    with run.case("blocks, and objects in parts, are kept as their prefix says, and read back"):
        for key, body in bodies.items():
            expect(client.put(key, body).status == 200, f"cannot store {key}")
            said = direct.head(names.get(key, key)).headers
            acme = key.startswith("acme/")
            expect(said.get("x-amz-server-side-encryption") == ("aws:kms" if acme else "AES256"), said)
            expect(said.get("x-amz-server-side-encryption-aws-kms-key-id", "").endswith("kvt-key") == acme, said)
            expect(said.get("x-amz-storage-class", "STANDARD") == ("REDUCED_REDUNDANCY" if acme else "STANDARD"), said)
            expect(client.get(key).body == body, f"{key}: other bytes")
    with run.case("keys of the client are refused, and nothing is stored"):
        answer = client.put("mine", b"x", headers={"x-amz-server-side-encryption-customer-algorithm": "AES256"})
        expect((answer.status, answer.code()) == (501, "NotImplemented"), f"{answer.status} {answer.code()}")
        expect(client.head("mine").status == 404, "it is stored")
    with run.case("what is moved to a second bucket is kept as its own rules say"):
        far = run.minio("far")
        far.env["MINIO_KMS_SECRET_KEY"] = KEYS
        far.start(seconds=60)
        attic = run.client(far, "attic")
        attic.create_bucket()
        second = run.gateway(nats, "gw2", s3_server=minio, **{
            "s3.placement_file": path, "far.kind": "s3", "far.bucket": "attic", "far.endpoint": far.url,
            "far.placement_file": run.file("far.yaml", FAR_RULES),
            "far.storage_class": "REDUCED_REDUNDANCY"}).start(seconds=60)
        issuer = Issuer(run, nats, second, "acme")
        expect(run.client(second).put(blocks.key(7, namespace="acme"), b"x" * 5000).status == 200, "cannot store")
        result = issuer.result(issuer.send("demote", [[7, 0, 0, 1]], edge=("cold@kvtier", "cold@attic", False)))
        expect(result["done"] == 1, result)
        said = attic.head(blocks.key(7, namespace="acme")).headers
        expect(said.get("x-amz-server-side-encryption") == "AES256", said)
        expect(said.get("x-amz-storage-class") == "REDUCED_REDUNDANCY", said)
        expect(run.client(second).get(blocks.key(7, namespace="acme")).body == b"x" * 5000, "other bytes")
        issuer.close()
        second.stop()
    with run.case("a class that must be restored first is refused"):
        other = run.gateway(nats, "gw3", s3_server=minio, **{
            "far.kind": "s3", "far.bucket": "attic", "far.endpoint": far.url,
            "far.storage_class": "DEEP_ARCHIVE"}).start(wait=False)
        expect(other.wait(30) != 0 and "far.storage_class: " in other.tail(), other.tail())
    with run.case("a folder has neither: the start is refused"):
        other = run.gateway(nats, "gw1", **{"s3.placement_file": path}).start(wait=False)
        expect(other.wait(30) != 0 and "cold.kind is directory" in other.tail(), other.tail())
    gateway.stop()


if __name__ == "__main__":
    main(scenario)
