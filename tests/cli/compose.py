#!/usr/bin/env python3
"""Check deploy/compose.yaml as far as a machine without a container engine can.

usage: compose.py SOURCE PROGRAM...   PROGRAM prints its settings with `config show`.

Needs PyYAML.  Checks references between services and volumes, that every KVTIER_* variable is a
setting of the program that gets it, that every file of /run/kvtier-secrets is made by the service
`secrets`, and that no image floats on `latest`.
"""
import os
import re
import subprocess
import sys

import yaml

source, programs = sys.argv[1], {os.path.basename(path): path for path in sys.argv[2:]}
with open(os.path.join(source, "deploy/compose.yaml"), encoding="utf-8") as file:
    compose = yaml.safe_load(file)

problems = []


def want(condition, text):
    if not condition:
        problems.append(text)


services, volumes = compose["services"], compose["volumes"]
made = set(re.findall(r"> ([a-z0-9-]+)\s*$", services["secrets"]["command"][-1], re.MULTILINE))
want({"nats", "minio", "advisor", "gateway", "secrets"} <= set(services), "a service is missing")
for name, service in services.items():
    want(set(service) <= {"image", "build", "restart", "read_only", "cap_drop", "security_opt", "tmpfs",
                          "volumes", "command", "entrypoint", "healthcheck", "depends_on", "environment",
                          "ports"}, f"{name}: a key that is no service's")
    image = service["image"]
    want(image == "kvtier" or (":" in image and not image.endswith(":latest")), f"{name}: floating image {image}")
    for other, how in service.get("depends_on", {}).items():
        want(other in services, f"{name}: depends on {other}, which is none")
        want(how["condition"] != "service_healthy" or "healthcheck" in services.get(other, {}),
             f"{name}: waits for the health of {other}, which has no check")
    for volume in service.get("volumes", []):
        want(volume.split(":")[0] in volumes, f"{name}: no volume {volume}")
    for port in service.get("ports", []):
        want(port.startswith("127.0.0.1:"), f"{name}: {port} is open to everybody")
    for key, value in service.get("environment", {}).items():
        match = re.fullmatch(r"/run/kvtier-secrets/(.+)", str(value))
        want(match is None or match[1] in made, f"{name}: nobody makes {value}")
    program = programs.get((service.get("command") or [""])[0])
    if program is None:
        continue
    shown = subprocess.run([program, "config", "show"], capture_output=True, text=True, check=True,
                           env={key: value for key, value in os.environ.items()
                                if not key.startswith("KVTIER_")}).stdout
    known = {"KVTIER_" + line.split(":")[0].upper().replace(".", "_") for line in shown.splitlines()}
    for key in service.get("environment", {}):
        want(key in known, f"{name}: {key} is no setting of {os.path.basename(program)}")
    want(service.get("read_only") and service.get("cap_drop") == ["ALL"], f"{name}: not hardened")

for path in re.findall(r"dockerfile: (\S+)", open(os.path.join(source, "deploy/compose.yaml"), encoding="utf-8").read()):
    want(os.path.exists(os.path.join(source, path)), f"no {path}")

print("\n".join(problems) or "compose.yaml: good")
sys.exit(bool(problems))
