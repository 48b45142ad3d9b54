#!/usr/bin/env python3
"""Keys that a store would read as another one's: on real servers and a folder, each is an object of its own.

What a tenant may not reach, it does not reach under any spelling; what it may use, S3 allows."""

import urllib.parse
import xml.etree.ElementTree

from harness import expect, main

ODD = ("a", "a/", "a/b", "a//b", "/a", "//a", ".", "..", "./a", "a/../b", "tab\there", "new\nline", "\x01", "\x7f",
       "foo", "foo/bar", "foo/bar.txt", "foo.txt", "foo.txt/bar", ".kvtier-key/configured/a!", "x/.kvt/0", "ü/\U0010ffff",
       "%2e%2e/x", "a\\b", "k" * 300, "long name/" * 60 + "1", "long name/" * 60 + "2", "y/" * 512)


def credentials(run):
    grants = ("      - {prefix: '%s', rights: [read, write, delete, list]}\n" % prefix for prefix in ("", "acme/", "globex/"))
    text = "credentials:\n"
    for name, owner, grant in zip(("all", "acme", "globex"), ("all", "acme", "globex"), grants):
        text += (f"  - access: {name}\n    secret: secret-of-{name}-0000\n    owner: {owner}\n    creates: '{name}-*'\n"
                 f"    grants:\n{grant}")
    return run.file("tenants.yaml", text)


def client(run, gateway, name, bucket="kvtier"):
    return run.client(gateway, bucket, name, f"secret-of-{name}-0000")


def keys_of(answer, tag):
    tree = xml.etree.ElementTree.fromstring(answer.body)
    space = tree.tag[:tree.tag.index("}") + 1]
    return [urllib.parse.unquote(row.text) for row in tree.iter(space + tag)]


def others_are_out_of_reach(run, gateway):
    """Each of these reached another owner's bucket, block or prefix when keys were names."""
    everything, acme, globex = (client(run, gateway, name) for name in ("all", "acme", "globex"))
    made = client(run, gateway, "globex", "globex-data")
    expect(made.create_bucket().status == 200, "cannot make a bucket")
    expect(made.put("secret.txt", b"of globex").status == 200, "cannot put")
    expect(globex.put("globex/secret.txt", b"of globex").status == 200, "cannot put")
    block = "0/0:11111112"
    expect(everything.put(block, b"a block").status == 200, "cannot put a block")
    for key in ("acme/../globex/secret.txt", "acme//../globex/secret.txt", "acme/./../globex/secret.txt"):
        expect(acme.get(key).status == 404, f"{key} is read")
        expect(acme.put(key, b"of acme").status == 200, f"{key} is not put")
        expect(globex.get("globex/secret.txt").body == b"of globex", f"{key} is written through")
        expect(acme.delete(key).status == 204, f"{key} is not deleted")
        expect(globex.get("globex/secret.txt").body == b"of globex", f"{key} is deleted through")
    for key in ("/.kvtier-bucket/globex-data", ".kvtier-bucket/globex-data", "x/../.kvtier-bucket/globex-data",
                ".kvtier-bucket//globex-data", "/" + block, "0//0:11111112", "./" + block):
        expect(everything.get(key).status == 404, f"{key} is read")
        expect(everything.put(key, b"owner: all").status == 200, f"{key} is not put")
        expect(everything.get(key).body == b"owner: all", f"{key} is another's")
        expect(made.get("secret.txt").body == b"of globex", f"{key}: the bucket is another's")
        expect(everything.get(block).body == b"a block", f"{key}: the block is another's")
        expect(everything.delete(key).status == 204, f"{key} is not deleted")
    expect(made.get("secret.txt").body == b"of globex" and everything.get(block).body == b"a block", "something is gone")
    answer = everything.request("GET", "//globex-data/secret.txt")
    expect(answer.status == 400, f"//bucket/key: {answer.status}")


def every_key_is_its_own(one, other):
    for key in ODD:
        expect(one.put(key, ("one " + key).encode()).status == 200, f"{key!r} is not put")
        expect(other.put(key, ("other " + key).encode()).status == 200, f"{key!r} is not put beside")
    for each, name in ((one, "one "), (other, "other ")):
        for key in ODD:
            answer = each.get(key)
            expect(answer.body == (name + key).encode(), f"{key!r}: {answer.status} {answer.body[:100]!r}")
        for size in ("1000", "3"):
            found, query = [], {"list-type": "2", "encoding-type": "url", "max-keys": size}
            while True:
                answer = each.request("GET", f"/{each.bucket}", query=query)
                expect(answer.status == 200, f"list: {answer.status}")
                found += keys_of(answer, "Key")
                tokens = keys_of(answer, "NextContinuationToken")
                if not tokens:
                    break
                query["continuation-token"] = tokens[0]
            found = [key for key in found if key in ODD]
            expect(found == sorted(ODD, key=lambda key: key.encode()), f"listed: {found}")
        answer = each.request("GET", f"/{each.bucket}", query={"prefix": "foo", "delimiter": "/", "encoding-type": "url"})
        expect(keys_of(answer, "Key") == ["foo", "foo.txt"], f"{keys_of(answer, 'Key')}")
        expect(keys_of(answer, "Prefix")[1:] == ["foo.txt/", "foo/"], f"{keys_of(answer, 'Prefix')}")
    for key in ODD:
        expect(one.delete(key).status == 204 and one.head(key).status == 404, f"{key!r} stays")
        expect(other.head(key).status == 200, f"{key!r} went with another's")
    for key in ODD:
        expect(other.delete(key).status == 204, f"{key!r} stays")


def scenario(run):
    nats = run.nats().start()
    path = credentials(run)
    for label in ("directory", "minio", "versitygw"):
        server = None
        if label != "directory":
            server = getattr(run, label)().start(seconds=60)
            run.client(server).create_bucket()
        gateway = run.gateway(nats, "gw-" + label, s3_server=server, **{"front.credentials_file": path})
        gateway.start(seconds=60)
        with run.case(f"{label}: others' objects are out of reach"):
            others_are_out_of_reach(run, gateway)
        with run.case(f"{label}: every key is an object of its own"):
            made = client(run, gateway, "globex", "globex-more")
            expect(made.create_bucket().status == 200, "cannot make a bucket")
            every_key_is_its_own(client(run, gateway, "all"), made)
            expect(made.request("DELETE", "/globex-more").status == 204, "the bucket is not empty")
        gateway.stop()
        if server is not None:
            server.kill()


if __name__ == "__main__":
    main(scenario)
