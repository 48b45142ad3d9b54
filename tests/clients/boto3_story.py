#!/usr/bin/env python3
"""boto3 as people use it: default settings, default checksums.  One story a run.

usage: boto3_story.py STORY ENDPOINT BUCKET ACCESS SECRET PREFIX      exit 0: it held
"""

import hashlib
import io
import os
import sys
import time
import urllib.request

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

ODD = ("a:b", "a=b", "a+b", "a@b", "a%b", "a%2Fb", "a b", " lead", "tilde~(x)!'*", "ü/ß", "日本/語.txt",
       "&amp;<k>", "?q#f")


def code_of(call, *args, **named):
    try:
        call(*args, **named)
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]
    return 200, ""


def same(left, right, what):
    if left != right:
        raise SystemExit(f"{what}: {str(left)[:200]} is not {str(right)[:200]}")


def round_trip(client, bucket, prefix):
    for size in (0, 1, 1000, 65536, 3 << 20):
        key, body = f"{prefix}/r{size}", os.urandom(size)
        put = client.put_object(Bucket=bucket, Key=key, Body=body, ContentType="text/x-kv",
                                Metadata={"colour": "blue"})
        head = client.head_object(Bucket=bucket, Key=key)
        same(head["ContentLength"], size, "length")
        same(head["ETag"], put["ETag"], "ETag")
        same(head["ContentType"], "text/x-kv", "content type")
        same(head["Metadata"], {"colour": "blue"}, "metadata")
        got = client.get_object(Bucket=bucket, Key=key)
        same(got["Body"].read(), body, f"{size} bytes")
        same(got["ETag"], put["ETag"], "ETag of GET")
        if size > 10:
            part = client.get_object(Bucket=bucket, Key=key, Range="bytes=3-9")
            same(part["Body"].read(), body[3:10], "a range")
            same(part["ContentRange"], f"bytes 3-9/{size}", "its range")
            part = client.get_object(Bucket=bucket, Key=key, Range=f"bytes={size - 4}-{size + 99}")
            same(part["Body"].read(), body[-4:], "a range past the end")
        client.delete_object(Bucket=bucket, Key=key)
        same(code_of(client.head_object, Bucket=bucket, Key=key)[0], 404, "HEAD after DELETE")
        same(code_of(client.get_object, Bucket=bucket, Key=key), (404, "NoSuchKey"), "GET after DELETE")


def conditions(client, bucket, prefix):
    key = f"{prefix}/c"
    etag = client.put_object(Bucket=bucket, Key=key, Body=b"one", IfNoneMatch="*")["ETag"]
    same(code_of(client.put_object, Bucket=bucket, Key=key, Body=b"two", IfNoneMatch="*"),
         (412, "PreconditionFailed"), "If-None-Match on what is there")
    same(code_of(client.put_object, Bucket=bucket, Key=key, Body=b"two", IfMatch='"x"')[0], 412,
         "If-Match on another")
    same(code_of(client.put_object, Bucket=bucket, Key=key + "0", Body=b"two", IfMatch=etag)[0], 404,
         "If-Match on nothing")
    same(code_of(client.get_object, Bucket=bucket, Key=key, IfNoneMatch=etag)[0], 304, "not modified")
    same(code_of(client.get_object, Bucket=bucket, Key=key, IfMatch='"x"')[0], 412, "GET If-Match")
    client.put_object(Bucket=bucket, Key=key, Body=b"two", IfMatch=etag)
    same(client.get_object(Bucket=bucket, Key=key)["Body"].read(), b"two", "after If-Match")


def odd_keys(client, bucket, prefix):
    for name in ODD:
        client.put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=name.encode())
    listed = [item["Key"] for page in client.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=f"{prefix}/", PaginationConfig={"PageSize": 3})
        for item in page.get("Contents", ())]
    same(listed, sorted((f"{prefix}/{name}" for name in ODD), key=str.encode), "the listing")
    for name in ODD:
        got = client.get_object(Bucket=bucket, Key=f"{prefix}/{name}")["Body"].read()
        same(got, name.encode(), f"object {name!r}")


def listing(client, bucket, prefix):
    names = [f"{prefix}/{a}/{b}" for a in "xyz" for b in range(4)] + [f"{prefix}/top"]
    for name in names:
        client.put_object(Bucket=bucket, Key=name, Body=b"1")
    for call, page in ((client.list_objects_v2, "list_objects_v2"), (client.list_objects, "list_objects")):
        answer = call(Bucket=bucket, Prefix=f"{prefix}/", Delimiter="/")
        same([item["Prefix"] for item in answer["CommonPrefixes"]],
             [f"{prefix}/{a}/" for a in "xyz"], f"prefixes of {page}")
        same([item["Key"] for item in answer["Contents"]], [f"{prefix}/top"], f"keys of {page}")
        walked = [item["Key"] for part in client.get_paginator(page).paginate(
            Bucket=bucket, Prefix=f"{prefix}/", PaginationConfig={"PageSize": 2})
            for item in part.get("Contents", ())]
        same(walked, sorted(names), f"pages of {page}")
        folders = [item["Prefix"] for part in client.get_paginator(page).paginate(
            Bucket=bucket, Prefix=f"{prefix}/", Delimiter="/", PaginationConfig={"PageSize": 1})
            for item in part.get("CommonPrefixes", ())]
        same(folders, [f"{prefix}/{a}/" for a in "xyz"], f"pages of prefixes of {page}")


def multipart(client, bucket, prefix):
    body = os.urandom(50 << 20)
    config = TransferConfig(multipart_threshold=8 << 20, multipart_chunksize=8 << 20)
    client.upload_fileobj(io.BytesIO(body), bucket, f"{prefix}/m", Config=config)
    head = client.head_object(Bucket=bucket, Key=f"{prefix}/m")
    same(head["ContentLength"], len(body), "length")
    digests = [hashlib.md5(body[at:at + (8 << 20)]).digest() for at in range(0, len(body), 8 << 20)]
    same(head["ETag"], f'"{hashlib.md5(b"".join(digests)).hexdigest()}-{len(digests)}"', "ETag")
    out = io.BytesIO()
    client.download_fileobj(bucket, f"{prefix}/m", out, Config=config)
    same(hashlib.sha256(out.getvalue()).hexdigest(), hashlib.sha256(body).hexdigest(), "50 MiB")
    upload = client.create_multipart_upload(Bucket=bucket, Key=f"{prefix}/n")["UploadId"]
    client.upload_part(Bucket=bucket, Key=f"{prefix}/n", UploadId=upload, PartNumber=1, Body=b"x")
    client.abort_multipart_upload(Bucket=bucket, Key=f"{prefix}/n", UploadId=upload)
    same(code_of(client.list_parts, Bucket=bucket, Key=f"{prefix}/n", UploadId=upload),
         (404, "NoSuchUpload"), "an aborted upload")


def delete_many(client, bucket, prefix):
    keys = [f"{prefix}/{number}" for number in range(30)]
    for key in keys:
        client.put_object(Bucket=bucket, Key=key, Body=b"1")
    done = client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})
    same(sorted(item["Key"] for item in done["Deleted"]), sorted(keys), "deleted")
    same(client.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/")["KeyCount"], 0, "what is left")


def copy(client, bucket, prefix):
    client.put_object(Bucket=bucket, Key=f"{prefix}/from", Body=b"body", Metadata={"a": "b"})
    client.copy_object(Bucket=bucket, Key=f"{prefix}/to",
                       CopySource={"Bucket": bucket, "Key": f"{prefix}/from"})
    got = client.get_object(Bucket=bucket, Key=f"{prefix}/to")
    same((got["Body"].read(), got["Metadata"]), (b"body", {"a": "b"}), "the copy")


def presigned(client, bucket, prefix):
    place = {"Bucket": bucket, "Key": f"{prefix}/a b+c"}
    put = urllib.request.Request(client.generate_presigned_url("put_object", Params=place),
                                 data=b"by a link", method="PUT", headers={"Content-Type": ""})
    with urllib.request.urlopen(put) as answer:
        same(answer.status, 200, "PUT by a link")
    with urllib.request.urlopen(client.generate_presigned_url("get_object", Params=place)) as answer:
        same(answer.read(), b"by a link", "GET by a link")


def buckets(client, bucket, prefix):
    same(prefix != "", True, "prefix")
    same(bucket in [item["Name"] for item in client.list_buckets()["Buckets"]], True, "ListBuckets")
    client.head_bucket(Bucket=bucket)
    same(client.get_bucket_location(Bucket=bucket)["LocationConstraint"], None, "location")
    same(code_of(client.head_bucket, Bucket="no-such-bucket-here")[0], 404, "HEAD of no bucket")
    same(code_of(client.get_object, Bucket="no-such-bucket-here", Key="k"), (404, "NoSuchBucket"),
         "GET in no bucket")
    own = "own-" + hashlib.sha256(f"{bucket} {prefix}".encode()).hexdigest()[:20]
    client.create_bucket(Bucket=own)
    client.create_bucket(Bucket=own)  # once more in us-east-1: as the first time
    made = {item["Name"]: item["CreationDate"] for item in client.list_buckets()["Buckets"]}
    same(abs(made[own].timestamp() - time.time()) < 600, True, "creation date")
    for name in ("ab", "192.168.5.123", "foo_bar", "foo-", "foo..bar", "foo.-bar"):
        same(code_of(client.create_bucket, Bucket=name), (400, "InvalidBucketName"), f"bucket {name}")
    keys = ["0/0:11111112", "a b", "dir/k", "ü"]
    for key in keys:
        client.put_object(Bucket=own, Key=key, Body=key.encode())
        client.copy_object(Bucket=bucket, Key=f"{prefix}/b/{key}", CopySource={"Bucket": own, "Key": key})
        copied = client.get_object(Bucket=bucket, Key=f"{prefix}/b/{key}")
        same(copied["Body"].read(), key.encode(), "a copy from another bucket")
    same([item["Key"] for item in client.list_objects_v2(Bucket=own)["Contents"]], keys, "its keys")
    folded = client.list_objects(Bucket=own, Delimiter="/")
    same([item["Prefix"] for item in folded["CommonPrefixes"]], ["0/", "dir/"], "its prefixes")
    same([(item["Key"], item["VersionId"]) for item in client.list_object_versions(Bucket=own)["Versions"]],
         [(key, "null") for key in keys], "its versions")
    same("Status" in client.get_bucket_versioning(Bucket=own), False, "versioning")
    same(client.get_bucket_acl(Bucket=own)["Grants"][0]["Permission"], "FULL_CONTROL", "its ACL")
    same(code_of(client.get_bucket_policy, Bucket=own), (404, "NoSuchBucketPolicy"), "its policy")
    same(code_of(client.put_bucket_acl, Bucket=own, ACL="public-read"), (501, "NotImplemented"), "public")
    upload = client.create_multipart_upload(Bucket=own, Key="big")["UploadId"]
    same([item["UploadId"] for item in client.list_multipart_uploads(Bucket=own)["Uploads"]], [upload],
         "its uploads")
    same(code_of(client.delete_bucket, Bucket=own), (409, "BucketNotEmpty"), "DELETE of a full bucket")
    for key in keys:
        client.delete_object(Bucket=own, Key=key, VersionId="null")
    client.delete_bucket(Bucket=own)
    same(code_of(client.delete_bucket, Bucket=own), (404, "NoSuchBucket"), "DELETE of no bucket")
    same(code_of(client.put_object, Bucket=own, Key="k"), (404, "NoSuchBucket"), "PUT in no bucket")


STORIES = {name: story for name, story in list(globals().items())
           if callable(story) and name in ("round_trip", "conditions", "odd_keys", "listing", "multipart",
                                           "delete_many", "copy", "presigned", "buckets")}


def main():
    story, endpoint, bucket, access, secret, prefix = sys.argv[1:]
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1",
                          aws_access_key_id=access, aws_secret_access_key=secret,
                          config=Config(signature_version="s3v4", s3={"addressing_style": "path"},
                                        retries={"total_max_attempts": 1}, connect_timeout=5,
                                        read_timeout=60))
    STORIES[story](client, bucket, prefix)


if __name__ == "__main__":
    main()
