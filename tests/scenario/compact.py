#!/usr/bin/env python3
"""A policy's `compact` rule packs what gateways of two buckets hold, each by an order of its own, MinIO and versitygw;
an order for what a gateway does not pack, or for one with a far bucket, is answered with the reason."""

import blocks
from harness import expect, main, wait_until
from issuer import Issuer

SPACE, PLAIN = "acme/packed", "acme/plain"
SIZE = 16 << 10
COUNT = 60
GONE = 24   # more than a quarter, and what is left fills more than a quarter of a segment

POLICY = f"""version: 1
tiers:
  hot: {{level: G3, holders: "hot@*", capacity: 1GiB}}
  near: {{level: G4, holders: "cold@*", capacity: 1GiB}}
rules:
  - {{id: pack, in: near, do: compact, when: namespace == "{SPACE}", on: fragmentation}}
  - {{id: drain, from: hot, to: near, trigger: {{start: 90%, stop: 80%}}}}
modes: {{mode: enforce}}
"""


class Place:
    """A gateway and its bucket."""

    def __init__(self, run, nats, server, number):
        self.run, self.server, self.bucket = run, server, f"bucket{number}"
        self.direct = run.client(server, self.bucket)
        self.direct.create_bucket()
        self.gateway = run.gateway(nats, f"gw{number}", server, **{
            "bucket": self.bucket, "hot.capacity": 0, "packed.namespaces": SPACE, "packed.age": "0s",
            "packed.block_max": "128KiB", "packed.segment_size": "1MiB", "packed.interval": "7d", "report.interval": "200ms"}).start(seconds=60)
        self.bodies = {blocks.key(run.rng.getrandbits(64), namespace=space): run.rng.randbytes(SIZE)
                       for space in (SPACE, PLAIN) for _ in range(COUNT)}
        answers = run.client(self.gateway, self.bucket).batch_put(list(self.bodies.items()))
        expect(set(answers) == {"OK"}, f"cannot store: {answers}")

    def remove(self):
        """So many of both that the namespaces count as fragmented."""
        client = self.run.client(self.gateway, self.bucket)
        for space in (SPACE, PLAIN):
            for key in [key for key in self.bodies if key.startswith(space)][:GONE]:
                expect(client.delete(key).status == 204, f"cannot remove {key}")
                del self.bodies[key]

    def unpacked(self):
        """Why not all of the namespace is packed by an order; None: it is."""
        row = self.gateway.status()["packing"][0]
        own = [key for key, _ in self.direct.list(f"{SPACE}/0/")]
        if row["blocks"] != COUNT - GONE or row["last"]["reason"] != "order" or own:
            return f"{self.gateway.name}: {len(own)} objects of their own; {row}"
        return None

    def expect_read(self):
        client = self.run.client(self.gateway, self.bucket)
        for key, body in self.bodies.items():
            answer = client.get(key)
            expect(answer.status == 200 and answer.body == body, f"{key}: {answer.status}")


def scenario(run):
    nats = run.nats().start()
    places = [Place(run, nats, server.start(seconds=60), number)
              for number, server in enumerate((run.minio(), run.versitygw()))]
    with run.case("an order for a namespace that is not packed says so"):
        issuer = Issuer(run, nats, places[0].gateway, PLAIN, first_id=1000)
        result = issuer.result(issuer.send("compact", []))
        expect(result["failed"] == 1 and "not among packed.namespaces" in result["text"], result)
        issuer.close()
    with run.case("a gateway with a far bucket packs nothing, and says why"):
        attic = run.client(places[0].server, "attic")
        attic.create_bucket()
        far = run.gateway(nats, "gw2", places[0].server, **{
            "bucket": "third", "far.kind": "s3", "far.bucket": "attic", "far.endpoint": places[0].server.url})
        run.client(places[0].server, "third").create_bucket()
        far.start(seconds=60)
        issuer = Issuer(run, nats, far, SPACE)
        result = issuer.result(issuer.send("compact", []))
        expect(result["failed"] == 1 and "far.kind" in result["text"], result)
        issuer.close()
        expect(far.stop() == 0, far.tail())
    advisor = run.advisor(nats, policy_mode="enforce", **{
        "policy.interval": "200ms", "policy.file": run.file("policy.yaml", POLICY)}).start(seconds=60)
    wait_until(lambda: None if advisor.ask("/v1/overview")["index"]["blocks"] >= 4 * COUNT else "it has not heard of all",
               30 * run.slow, "the advisor knows the blocks")
    for place in places:
        place.remove()
    for place in places:
        with run.case(f"{place.server.name}: a compact rule packs the bucket, and nothing else in it"):
            wait_until(place.unpacked, 60 * run.slow, "it is packed", every=0.2)
            plain = [key for key, _ in place.direct.list(f"{PLAIN}/0/")]
            expect(len(plain) == COUNT - GONE, f"{len(plain)} blocks that no rule is for")
            place.expect_read()
    expect(advisor.stop() == 0, advisor.tail())
    for place in places:
        expect(place.gateway.stop() == 0, place.gateway.tail())


if __name__ == "__main__":
    main(scenario)
