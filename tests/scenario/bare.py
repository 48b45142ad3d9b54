#!/usr/bin/env python3
"""Objects without metadata of ours under block keys, as KVBM writes them: the first writer wins.

No PUT through a gateway takes their place, in both write modes, over restarts, with and without a row, at a
second gateway; and they are served once they were read and summed."""

import blocks
from harness import expect, main, wait_until
from system import MIB

SIZE = 48 * 1024
COUNT = 8
SERVERS = ("minio", "versitygw")


def options(parser):
    parser.add_argument("--server", choices=SERVERS, help="only this one")


class Block:
    def __init__(self, rng, namespace=""):
        self.key = blocks.key(rng.getrandbits(64), namespace=namespace)
        self.theirs, self.ours, self.third = (rng.randbytes(SIZE) for _ in range(3))


def stays(bucket, block):
    there = bucket.get(block.key)
    expect(there.status == 200 and there.body == block.theirs, f"{block.key} was replaced in the bucket")
    expect("x-amz-meta-kvt-length" not in there.headers, f"{block.key} was written anew")


def refused(bucket, client, blocks_):
    for block in blocks_:
        status = client.put(block.key, block.ours).status
        expect(status == 412, f"PUT of other bytes over {block.key}: {status}")
        stays(bucket, block)
    statuses = set(client.batch_put([(block.key, block.ours) for block in blocks_], 7))
    expect(statuses == {"PRECONDITION"}, f"batch put of other bytes: {statuses}")
    for block in blocks_:
        stays(bucket, block)


def served(client, blocks_):
    for block in blocks_:
        head, answer, part = client.head(block.key), client.get(block.key), \
            client.get(block.key, {"range": "bytes=100-4099"})
        expect(head.status == 200 and int(head.headers["content-length"]) == SIZE, f"HEAD {block.key}: {head.status}")
        expect(answer.status == 200 and answer.body == block.theirs, f"GET {block.key}: {answer.status}")
        expect(part.status == 206 and part.body == block.theirs[100:4100], f"a part of {block.key}: {part.status}")
    wanted = [("OK", blocks.crc32c(block.theirs), SIZE) for block in blocks_]
    expect(client.batch_has([block.key for block in blocks_]) == wanted, "batch has")
    for block, (status, _crc, body) in zip(blocks_, client.batch_get([block.key for block in blocks_])):
        expect(status == "OK" and body == block.theirs, f"batch get of {block.key}: {status}")


def missed(client, blocks_):
    for block in blocks_:
        for answer in (client.get(block.key), client.head(block.key)):  # a row answers until its object was read
            expect(answer.status == 404, f"{block.key}: {answer.status}")
    statuses = {status for status, *_rest in client.batch_has([block.key for block in blocks_])}
    expect(statuses == {"NOTFOUND"}, f"batch has: {statuses}")


def plant(bucket, blocks_):
    for block in blocks_:
        expect(bucket.put(block.key, block.theirs).status == 200, "cannot plant")
    return blocks_


def check(run, nats, server):
    where, bucket = server.name, run.client(server)
    bucket.create_bucket()
    gateway = run.gateway(nats, f"gwbare{where}", server, hot_capacity=64 * MIB).start()
    other = run.gateway(nats, f"gwsecond{where}", server, hot_capacity=0).start()
    client, second = run.client(gateway), run.client(other)
    unread = plant(bucket, [Block(run.rng) for _ in range(COUNT)])
    known = plant(bucket, [Block(run.rng) for _ in range(COUNT)])
    named = plant(bucket, [Block(run.rng, "bare/ns") for _ in range(COUNT)])

    def again():
        gateway.kill()
        gateway.start()
        client.close()

    with run.case(f"{where}: other bytes do not replace an object of KVBM"):
        refused(bucket, client, unread + named)
    with run.case(f"{where}: it is served, in the namespace without a name"):
        served(client, known)
        missed(client, named)
        rows = {row["key"]: row for row in gateway.pages("/v1/objects?tier=cold")}
        for block in known:
            row = rows.get(block.key)
            expect(row is not None and row["kind"] == "foreign" and
                   row["crc32c"] == f"{blocks.crc32c(block.theirs):08x}", f"the row of {block.key}: {row}")
    with run.case(f"{where}: a row that knows it decides, also after a restart, and a second gateway agrees"):
        refused(bucket, client, known)
        again()
        refused(bucket, client, known + unread)
        served(client, known + unread)
        refused(bucket, second, known + named)
        served(second, known)
    with run.case(f"{where}: the same bytes are success, and stay what they are"):
        for block in known + named:
            expect(client.put(block.key, block.theirs).status == 200, f"the same bytes at {block.key}")
            stays(bucket, block)
        again()
        refused(bucket, client, known + named)
        served(client, known + named)
        for block in known:
            expect(second.put(block.key, block.theirs).status == 200, f"the same bytes at {block.key}")
    with run.case(f"{where}: what was acknowledged is not answered with what is put over it"):
        over = [Block(run.rng, namespace) for namespace in ("", "bare/ns") for _ in range(COUNT)]
        for block in over:
            expect(second.put(block.key, block.ours).status == 200, "cannot store")
        plant(bucket, over)
        for _life in range(2):
            missed(second, over)
            for block in over:
                status = second.put(block.key, block.third).status
                expect(status == 412, f"third bytes at {block.key}: {status}")
                stays(bucket, block)
            other.kill()
            other.start()
            second.close()
        for block in over:
            expect(second.put(block.key, block.ours).status == 200, f"its own bytes at {block.key}")
            expect(second.get(block.key).body == block.ours, f"{block.key} after it was put again")
    with run.case(f"{where}: a DELETE makes room for others"):
        for block in known:
            expect(client.delete(block.key).status == 204, "cannot delete")
            expect(client.put(block.key, block.ours).status == 200, f"other bytes at {block.key} after a DELETE")
    client.close()
    second.close()
    return [gateway, other]


def write_back(run, nats, server):
    bucket = run.client(server)
    gateway = run.gateway(nats, f"gwowing{server.name}", server, hot_capacity=64 * MIB, write_mode="back").start()
    client = run.client(gateway)
    with run.case(f"{server.name}: no upload of write-back takes its place"):
        there = plant(bucket, [Block(run.rng, namespace) for namespace in ("", "bare/ns") for _ in range(COUNT)])
        for block in there:
            expect(client.put(block.key, block.ours).status in (200, 412), "PUT")
        wait_until(lambda: gateway.status()["backlog"]["blocks"] or None, 30 * run.slow, "the uploads")
        for block in there:
            stays(bucket, block)
    client.close()
    return gateway


def scenario(run):
    nats = run.nats().start()
    gateways = []
    for name in (run.args.server,) if run.args.server else SERVERS:
        server = getattr(run, name)().start()
        gateways += check(run, nats, server)
        gateways.append(write_back(run, nats, server))
    with run.case("gateways stop with exit 0"):
        for gateway in gateways:
            expect(gateway.stop() == 0, f"{gateway.name}: {gateway.tail()}")


if __name__ == "__main__":
    main(scenario, options)
