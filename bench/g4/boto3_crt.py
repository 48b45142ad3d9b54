#!/usr/bin/env python3
"""boto3's side of a pair (CRT transfers): files into a bucket or back, and the CPU seconds.

usage: boto3_crt.py up|down ENDPOINT BUCKET ACCESS SECRET FOLDER PREFIX COUNT SLOTS

Prints "work <bytes> <CPU s>" as bench_g4 does.  Loading modules and the first object, which starts
the CRT's threads, are not counted.  boto3 itself makes its CRT client for AWS alone (TLS, no
endpoint); this is the transfer manager below it, made for plain HTTP.
"""

import os
import resource
import sys
from concurrent.futures import ThreadPoolExecutor

from botocore.config import Config
from botocore.credentials import Credentials
from botocore.session import Session
from s3transfer.crt import (BotocoreCRTCredentialsWrapper, BotocoreCRTRequestSerializer,
                            CRTTransferManager, create_s3_crt_client)


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def transfers(endpoint, access, secret):
    provider = BotocoreCRTCredentialsWrapper(Credentials(access, secret))
    client = create_s3_crt_client("us-east-1", use_ssl=False,
                                  crt_credentials_provider=provider.to_crt_credentials_provider())
    serializer = BotocoreCRTRequestSerializer(Session(), {
        "region_name": "us-east-1", "endpoint_url": endpoint,
        "config": Config(s3={"addressing_style": "path"})})
    return CRTTransferManager(client, serializer)


def main():
    verb, endpoint, bucket, access, secret, folder, prefix, count, slots = sys.argv[1:]
    count, slots = int(count), int(slots)
    manager = transfers(endpoint, access, secret)

    def one(number):
        path, key = os.path.join(folder, f"{number:06}"), f"{prefix}/{number:06}"
        if verb == "up":
            manager.upload(path, bucket, key).result()
        else:
            manager.download(bucket, key, path).result()

    one(0)
    before = cpu_seconds()
    with ThreadPoolExecutor(slots) as pool:
        list(pool.map(one, range(1, count)))
    spent = cpu_seconds() - before
    manager.shutdown()  # files have their names only now
    moved = sum(os.path.getsize(os.path.join(folder, f"{number:06}")) for number in range(1, count))
    print(f"work {moved} {spent:.6f}")


if __name__ == "__main__":
    main()
