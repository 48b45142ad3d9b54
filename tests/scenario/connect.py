#!/usr/bin/env python3
"""docs/connect: every command in it is run, in the order it stands there, against real servers."""

import os
import re
import subprocess

import yaml

import harness
from harness import ACCESS, SECRET, expect

FOLDER = os.path.join(harness.ROOT, "docs", "connect")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = {"sh", "yaml", "json"}


def blocks_of(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        found = BLOCK.findall(file.read())
    expect({kind for kind, _ in found} <= KINDS, f"{name}: what is run is marked sh")
    return found


def client(name):
    return subprocess.run([os.path.join(harness.ROOT, "scripts", "clients"), name], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()


def settings_of(run, page, blocks):
    """The files that the page shows, and what they say of the gateway."""
    gateway, sources = {}, None
    for kind, text in blocks:
        if kind != "yaml":
            continue
        name = text.split("\n", 1)[0].removeprefix("# ")
        said = yaml.safe_load(text)
        if name == "gateway.yaml":
            gateway = {f"{part}.{key}": value for part, keys in said.items() for key, value in keys.items()}
        elif name == "sources.yaml":
            sources = run.file(f"{page}-sources.yaml", text)
        else:
            raise harness.Failure(f"{page}: nobody reads {name}")
    return gateway, sources


def page_case(run, nats, page, tools):
    label = page.removesuffix(".md")
    blocks = blocks_of(page)
    gateway_settings, sources = settings_of(run, label, blocks)
    gateway = run.gateway(nats, f"gw-{label}", hot_capacity=1 << 26, **gateway_settings).start()
    advisor = run.advisor(nats, f"advisor-{label}", **({"sources.file": sources} if sources else {})).start()
    work = os.path.join(run.folder, f"work-{label}")
    os.makedirs(work)
    python, nixl = tools
    env = {"PATH": f"{os.path.dirname(run.program('kvtier'))}:{python}/bin:{os.environ['PATH']}", "HOME": work,
           "LANG": "C.UTF-8", "S3": f"http://127.0.0.1:{gateway.front}", "PORT": str(gateway.front),
           "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1",
           "AWS_EC2_METADATA_DISABLED": "true", "NO_PROXY": "127.0.0.1,localhost,.localhost", "PYTHONPATH": nixl,
           "KVTIER_GATEWAY_URL": f"http://127.0.0.1:{gateway.admin}", "KVTIER_NATS_URL": nats.url,
           "KVTIER_ADVISOR_URL": f"http://127.0.0.1:{advisor.admin}",
           "KVTIER_ADMIN_TOKEN_FILE": f"{run.folder}/token"}
    for number, text in enumerate(text for kind, text in blocks if kind == "sh"):
        with run.case(f"{page}, commands {number + 1}: {text.split(chr(10), 1)[0][:50]}"):
            done = subprocess.run(["bash", "-euxc", text], cwd=work, env=env, stdin=subprocess.DEVNULL, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                  timeout=120 * run.slow)
            expect(done.returncode == 0, f"ends with {done.returncode}: {done.stdout[-1500:]}")
    advisor.stop()
    gateway.stop()


def scenario(run):
    tools = client("python"), client("nixl")
    nats = run.nats().start()
    pages = sorted(os.listdir(FOLDER))
    expect(pages == ["dynamo.md", "lmcache.md", "nixl.md", "vllm.md"], f"pages: {pages}")
    for page in pages:
        page_case(run, nats, page, tools)


if __name__ == "__main__":
    harness.main(scenario)
