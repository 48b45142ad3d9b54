#!/usr/bin/env python3
"""Keys in pairs that a store, a proxy or a file system could take for one another.

Two tenants put, read, list and delete them through the gateway, in buckets of their own and under their prefixes of the
shared bucket, on MinIO, versitygw and the directory store.  No pair ever meets, every key comes back as it was given,
and every listing equals a model.  Then each tenant tries to reach the other's objects by odd spellings of their names."""

import concurrent.futures
import hashlib
import urllib.parse
import xml.etree.ElementTree

from harness import expect, main, wait_until
from s3 import Client

SHARED = "kvtier"
TENANTS = ("acme", "globex")
LANES = 8  # connections
KEY_MAX = 1024
RIGHTS = "[read, write, delete, list]"


def options(parser):
    parser.add_argument("--keys", type=int, default=400, help="keys on each store")
    parser.add_argument("--store", choices=("minio", "versitygw", "directory"), help="only on this store")


# What makes two names of one, somewhere: each gives a neighbour of a key.
NEIGHBOURS = [
    lambda key: key + "/",
    lambda key: key + "/x",
    lambda key: "/" + key,
    lambda key: "//" + key,
    lambda key: "./" + key,
    lambda key: key + "/.",
    lambda key: key + "/..",
    lambda key: "x/../" + key,
    lambda key: key.replace("/", "//", 1) if "/" in key else key + "//y",
    lambda key: key.replace("/", "/./", 1) if "/" in key else key + "/./y",
    lambda key: key.replace("/", "\\", 1) if "/" in key else key + "\\y",
    lambda key: key.swapcase(),
    lambda key: key + " ",
    lambda key: key + ".",
    lambda key: " " + key,
    lambda key: urllib.parse.quote(key, safe=""),
    lambda key: urllib.parse.quote(key),
    lambda key: key.replace("/", "%2F"),
    lambda key: key + "\t",
    lambda key: key + "\n",
    lambda key: key + "\x01",
    lambda key: key + "\x7f",
    lambda key: key + "!",
    lambda key: key + "+",
    lambda key: key.replace("a", "\u00e4"),
    lambda key: key.replace("a", "a\u0308"),
    lambda key: key + ".txt",
    lambda key: key + ".meta",
    lambda key: key + ".lock",
    lambda key: key + "?versionId=1",
    lambda key: key + "#f",
    lambda key: key + ";1",
    lambda key: ".kvtier-key/configured/" + key + "!",
    lambda key: ".kvtier-object/0123456789abcdef/" + key,
    lambda key: ".kvtier-bucket/" + key,
    lambda key: "acme/.kvt/segment/" + key,
    lambda key: (key * (KEY_MAX // len(key.encode()) + 1)).encode()[:KEY_MAX].decode(errors="ignore"),
    lambda key: ((key + "/") * KEY_MAX).encode()[:KEY_MAX - 1].decode(errors="ignore") + "z",
]
WORDS = ["a", "foo", "bar", "..", ".", "", "0", "a.txt", "b.json", "0:11111111", "1:11111112:11111113", ".hidden", "-", "_",
         "z", "Z", "~", "a b", "\u65e5\u672c", "e\u0301", "\u00e9", "CON", ".sgwtmp", "xl.meta", "part.1", "model.bin", "@", "x=y"]


def draw_key(rng):
    key = "/".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 5))) or "a"
    return key if key.strip("/") or rng.random() < 0.5 else key + "a"


def draw_pair(rng):
    key = draw_key(rng)
    other = rng.choice(NEIGHBOURS)(key)
    return [k for k in (key, other) if 0 < len(k.encode()) <= KEY_MAX]


class Space:
    """Where a tenant's keys are: a bucket of its own, or a prefix of the shared one."""

    def __init__(self, world, tenant, bucket, prefix):
        self.world, self.tenant, self.bucket, self.prefix = world, tenant, bucket, prefix
        self.held = {}  # key -> body

    def client(self):
        return self.world.client(self.tenant, self.bucket)

    def body(self, key):
        """Names who put it and where, so that another's body is seen."""
        return hashlib.sha256(f"{self.tenant} {self.bucket} {key}".encode("utf-8", "surrogatepass")).digest()

    def listing(self, prefix="", delimiter="", page=1000, version=2):
        """(keys with sizes, common prefixes), in the order of the answers."""
        client, keys, folded, after = self.client(), [], [], {}
        while True:
            query = {"prefix": prefix, "encoding-type": "url", "max-keys": str(page), **after}
            if version == 2:
                query["list-type"] = "2"
            if delimiter:
                query["delimiter"] = delimiter
            answer = client.request("GET", f"/{self.bucket}", query=query)
            expect(answer.status == 200, f"list {prefix!r}: {answer.status} {answer.body[:300]!r}")
            tree = xml.etree.ElementTree.fromstring(answer.body)
            space = tree.tag[:tree.tag.index("}") + 1] if tree.tag.startswith("{") else ""
            text = lambda node, name: urllib.parse.unquote(node.findtext(space + name) or "")  # noqa: E731
            page_keys = [text(item, "Key") for item in tree.iter(f"{space}Contents")]
            page_folded = [text(item, "Prefix") for item in tree.iter(f"{space}CommonPrefixes")]
            expect(len(page_keys) + len(page_folded) <= page, f"{len(page_keys)} keys on a page of {page}")
            keys += page_keys
            folded += page_folded
            if tree.findtext(f"{space}IsTruncated") != "true":
                return keys, folded
            after = ({"continuation-token": tree.findtext(f"{space}NextContinuationToken")} if version == 2 else
                     {"marker": text(tree, "NextMarker") or (page_keys + page_folded)[-1]})

    def expected(self, prefix="", delimiter=""):
        keys, folded = [], set()
        for key in self.held:
            if not key.startswith(prefix):
                continue
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            if cut < 0:
                keys.append(key)
            else:
                folded.add(key[:cut + len(delimiter)])
        return sorted(keys, key=str.encode), sorted(folded, key=str.encode)


class World:
    def __init__(self, run, store):
        self.run, self.store = run, store
        self.nats = run.nats(f"nats-{store}").start()
        self.server = None
        if store != "directory":
            self.server = (run.minio if store == "minio" else run.versitygw)(f"store-{store}").start(seconds=60)
            run.client(self.server, SHARED).create_bucket()
        grants = "".join(f"  - access: {name}\n    secret: {name}-secret\n    creates: {name}-*\n    grants:\n"
                         f"      - {{prefix: {name}/, rights: {RIGHTS}}}\n" for name in TENANTS)
        grants += f"  - access: all\n    secret: all-secret\n    grants:\n      - {{prefix: \"\", rights: {RIGHTS}}}\n"
        self.gateway = run.gateway(self.nats, f"gw{store}", self.server, **{
            "bucket": SHARED, "front.credentials_file": run.file(f"front-{store}.yaml", "credentials:\n" + grants)})
        self.gateway.start(seconds=60)
        self.spaces = []
        for name in TENANTS:
            self.client(name, f"{name}-own").create_bucket()
            self.spaces += [Space(self, name, f"{name}-own", ""), Space(self, name, SHARED, f"{name}/")]

    def client(self, tenant, bucket):
        return Client(f"http://127.0.0.1:{self.gateway.front}", tenant, f"{tenant}-secret", bucket)

    def close(self):
        expect(self.gateway.stop() == 0, self.gateway.tail())
        for server in (self.server, self.nats):
            if server is not None:
                server.kill()


def side_by_side(spaces, work):
    """work(client, space, key) for all keys of all spaces, on LANES connections."""
    def lane(number):
        clients = {}
        for space in spaces:
            for key in list(space.held)[number::LANES]:
                client = clients.setdefault((space.tenant, space.bucket), space.client())
                work(client, space, key)
    with concurrent.futures.ThreadPoolExecutor(LANES) as pool:
        for done in [pool.submit(lane, number) for number in range(LANES)]:
            done.result()


def put(client, space, key):
    answer = client.put(key, space.held[key])
    expect(answer.status == 200, f"put {space.bucket} {key!r}: {answer.status} {answer.body[:300]!r}")


def read(client, space, key):
    answer = client.get(key)
    expect(answer.status == 200, f"get {space.bucket} {key!r}: {answer.status} {answer.body[:300]!r}")
    expect(answer.body == space.held[key], f"get {space.bucket} {key!r}: another's bytes")
    expect(client.head(key).status == 200, f"head {space.bucket} {key!r}")


def remove(client, space, key):
    answer = client.delete(key)
    expect(answer.status == 204, f"delete {space.bucket} {key!r}: {answer.status} {answer.body[:300]!r}")


def same_listing(space, prefix="", delimiter="", page=1000, version=2):
    if space.prefix and not prefix.startswith(space.prefix):
        prefix = space.prefix
    keys, folded = space.listing(prefix, delimiter, page, version)
    want_keys, want_folded = space.expected(prefix, delimiter)
    what = f"{space.bucket}, prefix {prefix!r}, delimiter {delimiter!r}, pages of {page}, version {version}"
    for got, want in ((keys, want_keys), (folded, want_folded)):
        odd = [text for text in got if text not in want][:3], [text for text in want if text not in got][:3]
        expect(got == want, f"{what}: {len(got)} for {len(want)}; too many {odd[0]!r}, missing {odd[1]!r}"
               + ("" if odd[0] or odd[1] else "; only the order differs"))


def same_listings(world, rng):
    for space in world.spaces:
        same_listing(space, page=rng.choice((7, 50, 1000)))
        same_listing(space, delimiter="/", page=rng.choice((5, 1000)))
        for _ in range(12):
            key = rng.choice(list(space.held) or ["a"])
            same_listing(space, key[:rng.randrange(len(key) + 1)], rng.choice(("", "/", "/", "o")),
                         rng.choice((3, 1000)), rng.choice((1, 2)))


def attack(world):
    """Names of the other's things, as far as anybody could guess them, and odd spellings of them."""
    marks = {f"{name}/secret.txt": f"{name}-own" for name in TENANTS}
    for path in marks:
        name = path.split("/")[0]
        expect(world.client(name, SHARED).put(path, path.encode()).status == 200, path)
    block = "acme/0/0:11111112"
    expect(world.client("acme", SHARED).put(block, b"block").status == 200, "a block")
    guesses = [f"{dots}{target}" for target in (*marks, block, ".kvtier-bucket/acme-own", ".kvtier-bucket/globex-own")
               for dots in ("/", "//", "./", "../", "globex/../", "acme/../", "acme/./../", "x/..//", "/./")]
    guesses += [target.replace("/", odd, 1) for target in marks for odd in ("//", "/./", "\\", "/x/../", "%2f")]
    intruder = world.client("all", SHARED)
    for key in guesses:
        answer = intruder.get(key)
        expect(answer.status in (400, 404), f"get {key!r}: {answer.status} {answer.body[:100]!r}")
        expect(intruder.put(key, b"forged").status in (200, 400), f"put {key!r}")
        if intruder.head(key).status == 200:
            expect(intruder.delete(key).status == 204, f"delete {key!r}")
    for name in TENANTS:
        other = TENANTS[name == TENANTS[0]]
        for odd in (f"{name}/../{other}/secret.txt", f"{name}//../{other}/secret.txt", f"{name}/./../{other}/secret.txt"):
            answer = world.client(name, SHARED).get(odd)
            expect(answer.status in (400, 403, 404), f"{name} reads {odd}: {answer.status} {answer.body!r}")
    for path in marks:
        answer = world.client(path.split("/")[0], SHARED).get(path)
        expect(answer.status == 200 and answer.body == path.encode(), f"{path}: {answer.status} {answer.body!r}")
    answer = world.client("acme", SHARED).get(block)
    expect(answer.status == 200 and answer.body == b"block", f"{block}: {answer.status} {answer.body!r}")
    for name in TENANTS:
        world.client(name, SHARED).delete(f"{name}/secret.txt")
    world.client("acme", SHARED).delete(block)


def one(run, store):
    world, rng = World(run, store), run.rng
    while sum(len(space.held) for space in world.spaces) < run.args.keys:
        pair = draw_pair(rng)
        for space in rng.sample(world.spaces, 2):
            for key in pair:
                key = space.prefix + key
                if len(key.encode()) <= KEY_MAX:
                    space.held[key] = space.body(key)
    with run.case(f"{store}: {run.args.keys} keys in pairs are put and come back"):
        side_by_side(world.spaces, put)
        side_by_side(world.spaces, read)
    with run.case(f"{store}: listings equal the model"):
        same_listings(world, rng)
    with run.case(f"{store}: another gateway on the bucket lists the same"):
        if world.server is None:
            same_listings(world, rng)  # a directory has one gateway
        else:
            second = run.gateway(world.nats, f"second{store}", world.server, **{
                "bucket": SHARED, "front.credentials_file": world.gateway.settings["front.credentials_file"]})
            first, world.gateway = world.gateway, second.start(seconds=60)
            same_listings(world, rng)
            world.gateway = first
            expect(second.stop() == 0, second.tail())
    with run.case(f"{store}: deleting one of a pair leaves the other"):
        gone = {id(space): set(rng.sample(sorted(space.held), len(space.held) // 2)) for space in world.spaces}
        side_by_side(world.spaces, lambda client, space, key: key in gone[id(space)] and remove(client, space, key))
        for space in world.spaces:
            for key in gone[id(space)]:
                del space.held[key]
        side_by_side(world.spaces, read)
        same_listings(world, rng)
    with run.case(f"{store}: no odd spelling reaches another's object"):
        attack(world)
        same_listings(world, rng)
    with run.case(f"{store}: what is empty can be removed"):
        side_by_side(world.spaces, remove)
        for space in world.spaces:
            space.held.clear()
            same_listing(space)
        for name in TENANTS:
            wait_until(lambda n=name: None if world.client(n, f"{n}-own").request("DELETE", f"/{n}-own").status == 204
                       else "it is still there", 10, f"{name}-own is removed")
    world.close()


def scenario(run):
    for store in ("minio", "versitygw", "directory"):
        if run.args.store in (None, store):
            one(run, store)


if __name__ == "__main__":
    main(scenario, options)
