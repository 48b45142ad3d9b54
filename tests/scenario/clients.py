#!/usr/bin/env python3
"""Stock S3 clients against a gateway, on a directory and on a real MinIO; nothing is told about us."""

import datetime
import filecmp
import hashlib
import json
import os
import random
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import harness
import s3
from harness import ACCESS, SECRET, expect

ODD = ("a:b", "a=b", "a+b", "a@b", "a%b", "a%2Fb", "a b", "ü-ß", "日本")
CLIENTS = os.path.join(harness.ROOT, "tests", "clients")
MIB = 1 << 20
EARLIER = 1700000000  # Unix
SECONDS = 120
BOB, BOBS_SECRET = "bob", "secret of bob"


class Shop:
    """One gateway and the clients, each with its own settings for it."""

    def __init__(self, run, gateway, label):
        self.run, self.gateway, self.label = run, gateway, label
        self.endpoint = f"http://127.0.0.1:{gateway.front}"
        self.python, self.nixl = tool("python"), tool("nixl")
        self.home = os.path.join(run.folder, f"home-{label}")
        self.count = 0
        run.file(f"home-{label}/aws", "[default]\nregion = us-east-1\ns3 =\n  signature_version = s3v4\n"
                 "  addressing_style = path\n")
        run.file(f"home-{label}/rclone", "[kv]\ntype = s3\nprovider = Other\n"
                 f"access_key_id = {ACCESS}\nsecret_access_key = {SECRET}\nendpoint = {self.endpoint}\n"
                 "region = us-east-1\n")
        host = self.endpoint.split("//")[1]
        run.file(f"home-{label}/s3cmd", f"[default]\naccess_key = {ACCESS}\nsecret_key = {SECRET}\n"
                 f"host_base = {host}\nhost_bucket = {host}\nuse_https = False\n"
                 "bucket_location = us-east-1\n")
        self.env = {"PATH": os.environ["PATH"], "HOME": self.home, "LANG": "C.UTF-8",
                    "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
                    "AWS_CONFIG_FILE": f"{self.home}/aws", "AWS_MAX_ATTEMPTS": "1",
                    "AWS_EC2_METADATA_DISABLED": "true", "NO_PROXY": "127.0.0.1",
                    "MC_HOST_kv": f"http://{ACCESS}:{SECRET}@{host}", "PYTHONPATH": self.nixl}

    def call(self, *argv, seconds=SECONDS):
        """What a client prints; it must end with 0."""
        # Not here: what mc does not know as an alias, it takes for a folder.
        done = subprocess.run(argv, env=self.env, cwd=self.run.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False, text=True,
                              timeout=seconds * self.run.slow, errors="replace")
        expect(done.returncode == 0, lambda: f"{' '.join(argv[:6])} ends with {done.returncode}: "
                                             f"{done.stdout.strip()[-700:]}")
        return done.stdout

    def aws(self, *argv):
        return self.call(f"{self.python}/bin/aws", "--endpoint-url", self.endpoint, *argv)

    def s3cmd(self, *argv):
        return self.call(f"{self.python}/bin/s3cmd", "-c", f"{self.home}/s3cmd", "--no-progress",
                         "--max-retries=1", *argv)

    def rclone(self, *argv):
        return self.call(tool("rclone"), "--config", f"{self.home}/rclone", "--retries", "1",
                         "--low-level-retries", "1", *argv)

    def mc(self, *argv):
        return self.call(tool("mc"), "--config-dir", f"{self.home}/mc", *argv)

    def story(self, script, *argv):
        self.call(f"{self.python}/bin/python", os.path.join(CLIENTS, script), argv[0], self.endpoint,
                  "kvtier", ACCESS, SECRET, self.prefix())

    def prefix(self):
        self.count += 1
        return f"run{self.run.seed:x}/{self.count}"

    def folder(self):
        self.count += 1
        path = os.path.join(self.run.folder, f"files-{self.label}-{self.count}")
        os.makedirs(path)
        return path

    def tree(self):
        """A folder with files of many sizes and names."""
        path = self.folder()
        rng = random.Random(self.run.seed)
        for name, size in (("empty", 0), ("one", 1), ("page", 4096), ("sub/block", 65536),
                           ("sub/deep/large", 3 * MIB), *((f"odd/{name}", 100) for name in ODD)):
            os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
            with open(os.path.join(path, name), "wb") as out:
                out.write(rng.randbytes(size))
            # Objects' times have whole seconds: a file of the same second would count as newer.
            os.utime(os.path.join(path, name), (EARLIER, EARLIER))
        return path

    def large(self):
        path = os.path.join(self.folder(), "large")
        with open(path, "wb") as out:
            out.write(random.Random(self.run.seed).randbytes(50 * MIB))
        return path


def tool(name):
    return subprocess.run([os.path.join(harness.ROOT, "scripts", "clients"), name], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()


def names_in(folder):
    return sorted(os.path.relpath(os.path.join(where, name), folder)
                  for where, _, names in os.walk(folder) for name in names)


def expect_same_tree(left, right):
    expect(names_in(left) == names_in(right), lambda: f"{names_in(left)} is not {names_in(right)}")
    _, wrong, missing = filecmp.cmpfiles(left, right, names_in(left), shallow=False)
    expect(not wrong and not missing, f"other bytes in {wrong + missing}")


def expect_same_file(left, right):
    expect(filecmp.cmp(left, right, shallow=False), f"{right} has other bytes than {left}")


def fetch(url, method="GET", data=None, headers=None):
    """(status, body) of a plain request."""
    request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


# ---- aws -----------------------------------------------------------------------------------------

def aws_round_trip(shop):
    prefix, source = shop.prefix(), shop.tree()
    shop.aws("s3", "cp", "--recursive", source, f"s3://kvtier/{prefix}/")
    listed = [line.split(None, 3)[3] for line in
              shop.aws("s3", "ls", "--recursive", f"s3://kvtier/{prefix}/").splitlines()]
    expect(sorted(listed) == sorted(f"{prefix}/{name}" for name in names_in(source)), f"ls: {listed}")
    target = shop.folder()
    shop.aws("s3", "cp", "--recursive", f"s3://kvtier/{prefix}/", target)
    expect_same_tree(source, target)
    head = json.loads(shop.aws("s3api", "head-object", "--bucket", "kvtier", "--key", f"{prefix}/page"))
    expect(head["ContentLength"] == 4096, f"head: {head}")
    shop.aws("s3", "rm", "--recursive", f"s3://kvtier/{prefix}/")
    left = shop.aws("s3api", "list-objects-v2", "--bucket", "kvtier", "--prefix", f"{prefix}/")
    expect("Contents" not in left, f"after rm: {left}")


def aws_sync(shop):
    prefix, source, target = shop.prefix(), shop.tree(), shop.folder()
    for argv in ((source, f"s3://kvtier/{prefix}/"), (f"s3://kvtier/{prefix}/", target)):
        first = shop.aws("s3", "sync", *argv)
        expect("page" in first, f"the first sync: {first}")
        second = shop.aws("s3", "sync", *argv)
        expect(second.strip() == "", f"the second sync has something to do: {second}")
    expect_same_tree(source, target)


def aws_multipart(shop):
    prefix, source = shop.prefix(), shop.large()
    shop.aws("s3", "cp", source, f"s3://kvtier/{prefix}/large")
    shop.aws("s3", "cp", f"s3://kvtier/{prefix}/large", source + ".back")
    expect_same_file(source, source + ".back")


def aws_presigned(shop):
    prefix, source = shop.prefix(), shop.tree()
    shop.aws("s3", "cp", f"{source}/odd/a+b", f"s3://kvtier/{prefix}/a+b c")
    url = shop.aws("s3", "presign", f"s3://kvtier/{prefix}/a+b c", "--expires-in", "60").strip()
    with open(f"{source}/odd/a+b", "rb") as file:
        expect(fetch(url) == (200, file.read()), lambda: f"a presigned GET: {fetch(url)}")


# ---- mc ------------------------------------------------------------------------------------------

def mc_alias(shop):
    shop.mc("alias", "set", "set", shop.endpoint, ACCESS, SECRET)
    expect("kvtier" in shop.mc("ls", "set"), "mc ls does not show the bucket")


def mc_round_trip(shop):
    prefix, source, target = shop.prefix(), shop.tree(), shop.folder()
    shop.mc("cp", "--quiet", "--recursive", source + "/", f"kv/kvtier/{prefix}/")
    found = [json.loads(line)["key"] for line in
             shop.mc("--json", "ls", "--recursive", f"kv/kvtier/{prefix}/").splitlines()]
    expect(sorted(found) == names_in(source), f"mc ls: {found}")
    shop.mc("cp", "--quiet", "--recursive", f"kv/kvtier/{prefix}/", target + "/")
    expect_same_tree(source, target)
    told = json.loads(shop.mc("--json", "stat", f"kv/kvtier/{prefix}/page"))
    expect(told["size"] == 4096, f"mc stat: {told}")
    shop.mc("rm", "--quiet", "--recursive", "--force", f"kv/kvtier/{prefix}/")
    expect(shop.mc("ls", "--recursive", f"kv/kvtier/{prefix}/").strip() == "", "mc rm left something")


def mc_mirror(shop):
    prefix, source, target = shop.prefix(), shop.tree(), shop.folder()
    for argv in ((source, f"kv/kvtier/{prefix}"), (f"kv/kvtier/{prefix}", target)):
        shop.mc("mirror", "--quiet", *argv)
        again = shop.mc("--json", "mirror", "--quiet", *argv)
        moved = [line for line in again.splitlines() if json.loads(line).get("source")]
        expect(not moved, f"the second mirror has something to do: {moved}")
    expect_same_tree(source, target)


def mc_multipart(shop):
    prefix, source = shop.prefix(), shop.large()
    shop.mc("cp", "--quiet", source, f"kv/kvtier/{prefix}/large")
    shop.mc("cp", "--quiet", f"kv/kvtier/{prefix}/large", source + ".back")
    expect_same_file(source, source + ".back")


def mc_presigned(shop):
    prefix, source = shop.prefix(), shop.tree()
    shop.mc("cp", "--quiet", f"{source}/odd/a+b", f"kv/kvtier/{prefix}/a+b c")
    told = json.loads(shop.mc("--json", "share", "download", "--expire", "1h",
                              f"kv/kvtier/{prefix}/a+b c").splitlines()[-1])
    with open(f"{source}/odd/a+b", "rb") as file:
        expect(fetch(told["share"]) == (200, file.read()), "a shared link gives something else")


# ---- rclone --------------------------------------------------------------------------------------

def rclone_round_trip(shop):
    prefix, source, target = shop.prefix(), shop.tree(), shop.folder()
    shop.rclone("copy", source, f"kv:kvtier/{prefix}")
    found = shop.rclone("lsf", "--recursive", "--files-only", f"kv:kvtier/{prefix}").splitlines()
    expect(sorted(found) == names_in(source), f"rclone lsf: {found}")
    shop.rclone("check", source, f"kv:kvtier/{prefix}")
    shop.rclone("copy", f"kv:kvtier/{prefix}", target)
    expect_same_tree(source, target)
    shop.rclone("purge", f"kv:kvtier/{prefix}")
    left = shop.rclone("lsf", "--recursive", "kv:kvtier/run")
    expect(prefix not in left, f"after purge: {left}")


def rclone_sync(shop):
    prefix, source, target = shop.prefix(), shop.tree(), shop.folder()
    for argv in ((source, f"kv:kvtier/{prefix}"), (f"kv:kvtier/{prefix}", target)):
        shop.rclone("sync", *argv)
        again = shop.rclone("sync", "-v", *argv)
        expect("There was nothing to transfer" in again, f"the second sync: {again}")
    expect_same_tree(source, target)


def rclone_multipart(shop):
    prefix, source = shop.prefix(), shop.large()
    shop.rclone("copyto", "--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M", source,
                f"kv:kvtier/{prefix}/large")
    shop.rclone("copyto", f"kv:kvtier/{prefix}/large", source + ".back")
    expect_same_file(source, source + ".back")


# ---- s3cmd ---------------------------------------------------------------------------------------

def s3cmd_round_trip(shop):
    prefix, source, target = shop.prefix(), shop.tree(), shop.folder()
    shop.s3cmd("put", "--recursive", source + "/", f"s3://kvtier/{prefix}/")
    found = [line.split(None, 3)[3] for line in
             shop.s3cmd("ls", "--recursive", f"s3://kvtier/{prefix}/").splitlines()]
    expect(sorted(found) == sorted(f"s3://kvtier/{prefix}/{name}" for name in names_in(source)),
           f"s3cmd ls: {found}")
    shop.s3cmd("get", "--recursive", f"s3://kvtier/{prefix}/", target + "/")
    expect_same_tree(source, target)
    shop.s3cmd("del", "--recursive", "--force", f"s3://kvtier/{prefix}/")
    expect(shop.s3cmd("ls", "--recursive", f"s3://kvtier/{prefix}/").strip() == "", "del left something")


def s3cmd_sync(shop):
    prefix, source, target = shop.prefix(), shop.tree(), shop.folder()
    for argv in ((source + "/", f"s3://kvtier/{prefix}/"), (f"s3://kvtier/{prefix}/", target + "/")):
        shop.s3cmd("sync", *argv)
        again = shop.s3cmd("sync", *argv)
        expect("upload:" not in again and "download:" not in again, f"the second sync: {again}")
    expect_same_tree(source, target)


def s3cmd_multipart(shop):
    prefix, source = shop.prefix(), shop.large()
    shop.s3cmd("put", source, f"s3://kvtier/{prefix}/large")
    shop.s3cmd("get", f"s3://kvtier/{prefix}/large", source + ".back")
    expect_same_file(source, source + ".back")


# ---- buckets of their own ------------------------------------------------------------------------

def own_bucket(shop):
    shop.count += 1
    return f"own-{shop.run.seed:x}-{shop.label}-{shop.count}"


def aws_bucket(shop):
    name = own_bucket(shop)
    shop.aws("s3", "mb", f"s3://{name}")
    shop.aws("s3", "sync", shop.tree(), f"s3://{name}/")
    shop.aws("s3", "rb", "--force", f"s3://{name}")
    expect(name not in shop.aws("s3", "ls"), "aws s3 rb left the bucket")


def mc_bucket(shop):
    name, source, target = own_bucket(shop), shop.tree(), shop.folder()
    shop.mc("mb", f"kv/{name}")
    shop.mc("mirror", "--quiet", source, f"kv/{name}")
    shop.mc("mirror", "--quiet", f"kv/{name}", target)
    expect_same_tree(source, target)
    shop.mc("rb", "--force", f"kv/{name}")
    expect(name not in shop.mc("ls", "kv"), "mc rb left the bucket")


def rclone_bucket(shop):
    name, source = own_bucket(shop), shop.tree()
    shop.rclone("mkdir", f"kv:{name}")
    shop.rclone("copy", source, f"kv:{name}")
    shop.rclone("check", source, f"kv:{name}")
    shop.rclone("purge", f"kv:{name}")
    expect(name not in shop.rclone("lsd", "kv:"), "rclone purge left the bucket")


def s3cmd_bucket(shop):
    name, source, target = own_bucket(shop), shop.tree(), shop.folder()
    shop.s3cmd("mb", f"s3://{name}")
    shop.s3cmd("put", "--recursive", source + "/", f"s3://{name}/")
    shop.s3cmd("get", "--recursive", f"s3://{name}/", target + "/")
    expect_same_tree(source, target)
    shop.s3cmd("rb", "--recursive", "--force", f"s3://{name}")
    expect(name not in shop.s3cmd("ls"), "s3cmd rb left the bucket")


def told(client, method, path, body=b""):
    """(status, code) of one request."""
    answer = client.request(method, path, body=body)
    return answer.status, answer.code() if answer.status >= 400 and method != "HEAD" else ""


def buckets_of_two(run, nats, label, store, first):
    """Two gateways on one store, two tenants: one namespace of names, nothing of the other's shows."""
    folder = {} if store else {"cold_dir": f"{run.folder}/gw-{label}-cold"}
    second = run.gateway(nats, f"gw-{label}-2", s3_server=store, hot_capacity=1 << 20, **folder).start()
    one, two = run.client(first), run.client(second)
    bob = run.client(second, access=BOB, secret=BOBS_SECRET)
    names = [f"pair-{run.seed:x}-{label}-{number}" for number in range(4)]
    for name in names:
        expect(told(one, "PUT", f"/{name}") == (200, ""), "no bucket")
        expect(told(bob, "PUT", f"/{name}") == (409, "BucketAlreadyExists"), "two own one name")
        expect(told(one, "PUT", f"/{name}/k", name.encode()) == (200, ""), "no object")
        expect(two.request("GET", f"/{name}/k").body == name.encode(), "the other gateway has other bytes")
        expect(told(two, "DELETE", f"/{name}") == (409, "BucketNotEmpty"), "a full bucket is removed")
        for method, path in (("GET", "/k"), ("GET", "/none"), ("GET", ""), ("PUT", "/k"), ("DELETE", "/k"),
                             ("DELETE", ""), ("HEAD", "")):
            expect(told(bob, method, f"/{name}{path}")[0] == 403, f"bob may {method} {path}")
    listed = two.request("GET", "/").body.decode()
    expect(all(f"<Name>{name}</Name>" in listed for name in names), f"listed: {listed}")
    expect("pair-" not in bob.request("GET", "/").body.decode(), "bob sees buckets of others")
    expect(".kvtier" not in one.request("GET", "/kvtier", {"list-type": "2"}).body.decode(),
           "the gateway's own keys show")
    for name in names:
        expect(told(two, "DELETE", f"/{name}/k") == (204, ""), "DELETE of the object")
        expect(told(two, "DELETE", f"/{name}") == (204, ""), "DELETE of the bucket")
        expect(told(one, "PUT", f"/{name}/late", b"late") == (404, "NoSuchBucket"), "a late write is taken")
        expect(told(bob, "PUT", f"/{name}") == (200, ""), "a free name is not")
        expect("<Contents>" not in bob.request("GET", f"/{name}").body.decode(), "a late write shows")
        expect(told(bob, "DELETE", f"/{name}") == (204, ""), "DELETE of bob's")
    second.stop()


# ---- signatures ----------------------------------------------------------------------------------

def ask(shop, method, key, body=b"", tamper=None, client=None, now=None, sent=None):
    """(status, code) of a signed request that `tamper(headers)` may change after signing."""
    client = client or shop.run.client(shop.gateway)
    headers = client.sign(method, f"/kvtier/{key}", {}, {}, hashlib.sha256(body).hexdigest(), now)
    if tamper:
        tamper(headers)
    status, answer = fetch(f"{shop.endpoint}/kvtier/{urllib.parse.quote(key)}", method,
                           (sent if sent is not None else body) or None,
                           {"Content-Type": "", **headers})
    return status, s3.Answer(status, {}, answer).code()


def stamp(minutes):
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)
    return now.strftime("%Y%m%dT%H%M%SZ")


def signatures(shop):
    key = f"{shop.prefix()}/k"
    expect(ask(shop, "PUT", key, b"body") == (200, ""), "a right signature is refused")
    wrong = s3.Client(shop.endpoint, ACCESS, "another secret")
    stranger = s3.Client(shop.endpoint, "nobody", SECRET)

    def flip(headers):
        last = headers["authorization"][-1]
        headers["authorization"] = headers["authorization"][:-1] + ("0" if last != "0" else "1")

    def later(headers):
        headers["x-amz-date"] = stamp(1)
    for what, want, got in (
            ("a wrong secret", "SignatureDoesNotMatch", ask(shop, "GET", key, client=wrong)),
            ("an unknown key", "InvalidAccessKeyId", ask(shop, "GET", key, client=stranger)),
            ("a flipped digit", "SignatureDoesNotMatch", ask(shop, "GET", key, tamper=flip)),
            ("a changed date", "SignatureDoesNotMatch", ask(shop, "GET", key, tamper=later)),
            ("a request of 16 minutes ago", "RequestTimeTooSkewed", ask(shop, "GET", key, now=stamp(-16))),
            ("a request of 16 minutes ahead", "RequestTimeTooSkewed", ask(shop, "GET", key, now=stamp(16)))):
        expect(got == (403, want), f"{what}: {got}, not 403 {want}")
    got = ask(shop, "PUT", key, b"body", sent=b"eggs")
    expect(got == (400, "XAmzContentSHA256Mismatch"), f"another body: {got}")
    expect(fetch(f"{shop.endpoint}/kvtier/{key}")[0] == 403, "no signature at all is not refused")
    expect(ask(shop, "GET", key) == (200, ""), "the object is gone")


def link(shop, method, key, seconds=60, now=None, secret=SECRET):
    """A presigned URL, made here."""
    client = s3.Client(shop.endpoint, ACCESS, secret)
    return client.presign(method, f"/kvtier/{key}", seconds=seconds, now=now)


def links(shop):
    key = f"{shop.prefix()}/a b+c=d@e:f"
    status, answer = fetch(link(shop, "PUT", key), "PUT", b"by a link", {"Content-Type": ""})
    expect(status == 200, f"a presigned PUT: {status} {answer[:300]}")
    expect(fetch(link(shop, "GET", key)) == (200, b"by a link"), "a presigned GET")
    good = link(shop, "GET", key)
    for what, url, method in (
            ("an expired one", link(shop, "GET", key, 60, stamp(-2)), "GET"),
            ("one of another secret", link(shop, "GET", key, secret="other"), "GET"),
            ("another method", good, "DELETE"),
            ("another key", good.replace("f?", "g?"), "GET"),
            ("a longer life", good.replace("Expires=60", "Expires=600"), "GET"),
            ("more than seven days", link(shop, "GET", key, 604801), "GET"),
            ("no date", good.replace("X-Amz-Date", "X-Amz-Dote"), "GET")):
        status, answer = fetch(url, method)
        expect(status in (400, 403), f"a link with {what}: {status} {answer[:200]}")
    expect(fetch(good) == (200, b"by a link"), "the object is gone")


STORIES = ("buckets", "round_trip", "conditions", "odd_keys", "listing", "multipart", "delete_many", "copy",
           "presigned")
CASES = [*((f"boto3: {name}", lambda shop, name=name: shop.story("boto3_story.py", name))
           for name in STORIES),
         ("aws: round trip", aws_round_trip), ("aws: sync twice", aws_sync),
         ("aws: 50 MiB in parts", aws_multipart), ("aws: presigned", aws_presigned),
         ("mc: alias and ls", mc_alias), ("mc: round trip", mc_round_trip),
         ("mc: mirror twice", mc_mirror), ("mc: 50 MiB in parts", mc_multipart),
         ("mc: shared link", mc_presigned),
         ("rclone: round trip", rclone_round_trip), ("rclone: sync twice", rclone_sync),
         ("rclone: 50 MiB in parts", rclone_multipart),
         ("s3cmd: round trip", s3cmd_round_trip), ("s3cmd: sync twice", s3cmd_sync),
         ("s3cmd: 50 MiB in parts", s3cmd_multipart),
         *((f"nixl: {mode}", lambda shop, mode=mode: shop.story("nixl_obj.py", mode))
           for mode in ("standard", "required", "crt")),
         ("aws: a bucket of its own", aws_bucket), ("mc: a bucket of its own", mc_bucket),
         ("rclone: a bucket of its own", rclone_bucket), ("s3cmd: a bucket of its own", s3cmd_bucket),
         ("wrong signatures", signatures), ("presigned links, right and wrong", links)]


def scenario(run):
    nats, minio = run.nats().start(), run.minio().start()
    run.client(minio).create_bucket()
    run.file("front.cred", f"{ACCESS}:{SECRET}\n{BOB}:{BOBS_SECRET}")
    for label, store in (("directory", None), ("minio", minio)):
        gateway = run.gateway(nats, f"gw-{label}", s3_server=store, hot_capacity=1 << 30).start()
        shop = Shop(run, gateway, label)
        for number, (name, case) in enumerate(CASES):
            if run.args.only and run.args.only not in name:
                continue
            if run.args.once and (number + run.seed) % 2 != (store is None):
                continue  # its turn is on the other store
            with run.case(f"{name}, on {label}"):
                case(shop)
        if not run.args.only or run.args.only in "two gateways, two tenants":
            with run.case(f"two gateways, two tenants, on {label}"):
                buckets_of_two(run, nats, label, store, gateway)
        expect(gateway.alive(), lambda: f"the gateway ended: {gateway.tail()}")
        shutil.rmtree(shop.home, ignore_errors=True)


def options(parser):
    parser.add_argument("--only", help="cases that contain this")
    parser.add_argument("--once", action="store_true", help="each client's case on one of the stores, by turns")


if __name__ == "__main__":
    harness.main(scenario, options)
