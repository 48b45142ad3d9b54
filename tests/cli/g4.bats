# `kvtier g4 ls`, `stat`, `verify`, `usage` on a bucket that stands still, without a gateway.
bats_require_minimum_version 1.5.0
load support

setup() {
  clean_environment
  S3=$BATS_TEST_TMPDIR
  python3 "$KVTIER_SOURCE/tests/cli/fake_s3.py" "$S3" >"$S3/log" 2>&1 3>&- &
  echo $! >"$S3/pid"
  wait_for 20 test -f "$S3/s3port"
  echo access:secret >"$S3/cred"
  chmod 600 "$S3/cred"
  URL=http://127.0.0.1:$(cat "$S3/s3port")
  BUCKET=(--s3 "$URL" --s3-credentials-file "$S3/cred")
}

teardown() {
  kill "$(cat "$BATS_TEST_TMPDIR/pid")"
}

@test "ls shows what is in the bucket, by kind" {
  run --separate-stderr "$KVTIER" g4 ls "${BUCKET[@]}"
  status_is 0
  golden g4-ls-bucket
  [[ $stderr == "15 objects, "* ]]
}

@test "ls takes a prefix, a limit and a key to begin behind" {
  run --separate-stderr "$KVTIER" g4 ls t/ "${BUCKET[@]}" -o json
  status_is 0
  echo "$output" | python3 -c '
import json, sys
block, lock = [json.loads(line) for line in sys.stdin]
assert (block["key"], block["kind"], block["namespace"], block["length"]) == ("t/0/0:11111112", "block", "t", 11)
assert len(block["hash"]) == 16 and (lock["kind"], lock["namespace"]) == ("lock", "")'
  run --separate-stderr "$KVTIER" g4 ls "${BUCKET[@]}" --limit 2
  status_is 0
  [ "${#lines[@]}" -eq 3 ]
  [[ $stderr == *"--limit 0 shows all"* ]]
  run --separate-stderr "$KVTIER" g4 ls "${BUCKET[@]}" --after notes/a.txt
  status_is 0
  [ "${#lines[@]}" -eq 3 ]
  run --separate-stderr "$KVTIER" g4 ls nothing/ "${BUCKET[@]}"
  status_is 0
  [ "${#lines[@]}" -eq 1 ]
  run "$KVTIER" g4 ls "${BUCKET[@]}" --tier hot
  status_is 2
}

@test "stat says what an object is and what is wrong with it" {
  run "$KVTIER" g4 stat 0/0:11111113 "${BUCKET[@]}"
  status_is 0
  golden g4-stat-bucket
  run "$KVTIER" g4 stat 0/0:11111114 "${BUCKET[@]}"
  status_is 8
  output_has "length differs from its metadata"
  run "$KVTIER" g4 stat 0/0:11111116 "${BUCKET[@]}"
  status_is 0
  output_has "kind         tombstone"
  run "$KVTIER" g4 stat 0/0:11111112 "${BUCKET[@]}"
  status_is 0
  output_has "no KVTier metadata"
  run "$KVTIER" g4 stat 0:11111113.meta "${BUCKET[@]}" -o json
  status_is 0
  output_has '"kind":"meta"'
  run "$KVTIER" g4 stat nobody "${BUCKET[@]}"
  status_is 3
  output_has "no such object in the bucket"
}

@test "verify reads every body" {
  run --separate-stderr "$KVTIER" g4 verify --all "${BUCKET[@]}"
  status_is 8
  golden g4-verify-bucket
  [[ $stderr == "9 objects, 9 copies read, 3 bad, 4 with nothing to check against" ]]
  run --separate-stderr "$KVTIER" g4 verify t/ "${BUCKET[@]}" -o json
  status_is 0
  [ "$(echo "$output" | wc -l)" -eq 1 ]
  run "$KVTIER" g4 verify nothing/ "${BUCKET[@]}"
  status_is 3
  run "$KVTIER" g4 verify "${BUCKET[@]}"
  status_is 2
}

@test "verify goes on where it was" {
  run --separate-stderr "$KVTIER" g4 verify --all "${BUCKET[@]}" --after 0/0:11111115
  status_is 8
  [[ $stderr == "5 objects, 5 copies read, 1 bad"* ]]
  cat >"$S3/state" <<JSON
{"schema_version":1,"walk":"verify kvtier $URL, keys of \"\"","after":"0/0:11111114","done":3,"bad":1,"finished":false}
JSON
  run --separate-stderr "$KVTIER" g4 verify --all "${BUCKET[@]}" --state "$S3/state"
  status_is 8
  [[ $stderr == "going on behind 0/0:11111114"*"9 objects, 6 copies read, 3 bad"* ]]
  grep -q '"finished":true' "$S3/state"
  run --separate-stderr "$KVTIER" g4 verify --all "${BUCKET[@]}" --state "$S3/state"
  status_is 8
  [[ $stderr == "9 objects, 9 copies read, 3 bad"* ]]
  run "$KVTIER" g4 verify t/ "${BUCKET[@]}" --state "$S3/state"
  status_is 6
  output_has "state of another walk"
}

@test "get gives what passes its check, put stores it with one" {
  run --separate-stderr "$KVTIER" g4 get 0/0:11111113 "${BUCKET[@]}"
  status_is 0
  [ "$output" = "a good block" ]
  run "$KVTIER" g4 get 0/0:11111115 "$S3/bad" "${BUCKET[@]}"
  status_is 8
  [ ! -e "$S3/bad" ]
  run "$KVTIER" g4 get 0/0:11111116 "${BUCKET[@]}"
  status_is 3
  output_has "a tombstone"
  run "$KVTIER" g4 get nobody "${BUCKET[@]}"
  status_is 3
  printf 'new bytes' >"$S3/new"
  run "$KVTIER" g4 put 0/0:11111118 "$S3/new" --fingerprint 00000000000000f1 "${BUCKET[@]}"
  status_is 0
  output_has "0/0:11111118: 9 bytes, etag"
  run "$KVTIER" g4 put 0/0:11111118 "$S3/new" "${BUCKET[@]}"
  status_is 6
  output_has "a block never changes"
  run "$KVTIER" g4 stat 0/0:11111118 "${BUCKET[@]}" -o json
  status_is 0
  output_has '"fingerprint":"00000000000000f1"'
  run "$KVTIER" g4 get 0/0:11111118 "$S3/back" "${BUCKET[@]}"
  status_is 0
  cmp "$S3/new" "$S3/back"
  for _ in 1 2; do
    run "$KVTIER" g4 put notes/b "$S3/new" "${BUCKET[@]}" -o json
    status_is 0
  done
  run "$KVTIER" g4 put notes/b "$S3/absent" "${BUCKET[@]}"
  status_is 2
  output_has "$S3/absent"
  run "$KVTIER" g4 put "$(printf 'k%.0s' {1..512})" "$S3/new" "${BUCKET[@]}"
  status_is 2
  output_has "a key has at most 511 bytes"
  run "$KVTIER" g4 put notes/b "$S3/new" --fingerprint x "${BUCKET[@]}"
  status_is 2
}

@test "get and put go to the gateway's S3 port, as the settings say, without --s3" {
  printf 'gateway:\n  data_url: %s\n  credentials_file: %s\n' "$URL" "$S3/cred" >"$S3/cli.yaml"
  printf 'by settings' >"$S3/new"
  run "$KVTIER" --config "$S3/cli.yaml" g4 put notes/settings "$S3/new"
  status_is 0
  run "$KVTIER" --config "$S3/cli.yaml" g4 get notes/settings
  status_is 0
  [ "$output" = "by settings" ]
  run "$KVTIER" --config "$S3/cli.yaml" g4 get notes/settings --bucket nobody
  status_is 3
  output_has "bucket nobody at $URL"
  run "$KVTIER" g4 get notes/settings
  status_is 2
  output_has "gateway.credentials_file"
  run "$KVTIER" --gateway-credentials-file "$S3/nothing" g4 get notes/settings
  status_is 2
}

@test "a bucket that would be passed over is an error" {
  for command in "g4 ls" "g4 stat x" "g4 verify --all" "g4 usage" "g4 fsck" "g4 gc"; do
    run "$KVTIER" $command --bucket other
    status_is 2
    output_has "--bucket is of the store at --s3"
  done
}

@test "usage" {
  run --separate-stderr "$KVTIER" g4 usage "${BUCKET[@]}"
  status_is 0
  golden g4-usage-bucket
  run --separate-stderr "$KVTIER" g4 usage "${BUCKET[@]}" -o json
  status_is 0
  echo "$output" | python3 -c '
import json, sys
answer = json.load(sys.stdin)
assert answer["source"] == "bucket" and answer["objects"] == 15 == sum(row["objects"] for row in answer["usage"])
assert [row["objects"] for row in answer["usage"] if row["namespace"] == "t"] == [1]'
}

@test "doctor says what the settings of a bucket do to a cap" {
  run "$KVTIER" doctor "${BUCKET[@]}"
  output_has "warn  s3 versions"
  output_has "warn  s3 object lock"
  output_has "rule old deletes \"0/\" after 7 days, but not the .meta"
  [[ $output != *"rule off"* ]]
}

@test "uploads that nobody completed are told, and given up by gc --yes" {
  python3 "$KVTIER_SOURCE/tests/cli/fake.py" "$S3" >"$S3/fake.log" 2>&1 3>&- &
  fake=$!
  wait_for 20 test -f "$S3/port"
  echo secret-token >"$S3/token"
  chmod 600 "$S3/token"
  gateway=(--gateway-url "http://127.0.0.1:$(cat "$S3/port")/g" --admin-token-file "$S3/token")
  run --separate-stderr "$KVTIER" g4 gc "${BUCKET[@]}" "${gateway[@]}" -o json
  status_is 0
  echo "$output" | grep -q '"key":"notes\\\?/large one","finding":"upload-left".*"remedy":"abort"}'
  run --separate-stderr "$KVTIER" g4 gc "${BUCKET[@]}" "${gateway[@]}" --older-than 10000d
  [[ $stderr == *"2 too young"* ]]
  run "$KVTIER" g4 fsck "${BUCKET[@]}" "${gateway[@]}"
  status_is 8
  output_has "upload-left"
  run --separate-stderr "$KVTIER" g4 gc "${BUCKET[@]}" "${gateway[@]}" --yes
  status_is 0
  [[ $stderr == *"3 done, 0 failed" ]]
  run --separate-stderr "$KVTIER" g4 gc "${BUCKET[@]}" "${gateway[@]}"
  [[ $output != *"upload-left"* ]]
  kill $fake
}

@test "no bucket, no server, no address: exit status, reason and the next command" {
  for command in "g4 ls" "g4 stat x" "g4 verify --all" "g4 usage" "g4 get x" "g4 locks ls" "g4 locks show x"; do
    run "$KVTIER" $command "${BUCKET[@]}" --bucket nobody
    status_is 3
    output_has "bucket nobody at $URL: "
    output_has "create the bucket, or name another with --bucket"
    output_has "kvtier doctor --s3 $URL --bucket nobody"
    run "$KVTIER" $command --s3 http://127.0.0.1:1 --s3-credentials-file "$S3/cred"
    status_is 5
    output_has "check the address"
  done
  run "$KVTIER" g4 locks ls
  status_is 2
  output_has "say where it is with --s3"
}

@test "a certificate that nobody here trusts, and a server without TLS" {
  openssl req -x509 -newkey rsa:2048 -nodes -keyout "$S3/key.pem" -out "$S3/cert.pem" -days 1 -subj /CN=localhost \
    -addext "subjectAltName=IP:127.0.0.1" 2>/dev/null
  python3 "$KVTIER_SOURCE/tests/cli/fake_s3.py" "$S3" "$S3/cert.pem" "$S3/key.pem" >"$S3/tls.log" 2>&1 3>&- &
  tls=$!
  wait_for 20 test -f "$S3/s3tlsport"
  secure=https://127.0.0.1:$(cat "$S3/s3tlsport")
  run "$KVTIER" g4 ls --s3 "$secure" --s3-credentials-file "$S3/cred"
  status_is 1
  output_has "--s3-ca-file"
  run "$KVTIER" doctor --s3 "$secure" --s3-credentials-file "$S3/cred"
  output_has "--s3-ca-file"
  run "$KVTIER" g4 ls --s3 "$secure" --s3-credentials-file "$S3/cred" --s3-ca-file "$S3/cert.pem"
  status_is 0
  AWS_CA_BUNDLE=$S3/cert.pem run "$KVTIER" g4 ls --s3 "$secure" --s3-credentials-file "$S3/cred"
  status_is 0
  dev=(dev --state "$S3/dev" --nats-server "$S3/no-server" --s3 "$secure" --s3-credentials-file "$S3/cred")
  run "$KVTIER" "${dev[@]}"
  [ "$status" -ne 0 ]
  output_has "SSL"
  run "$KVTIER" "${dev[@]}" --s3-ca-file "$S3/cert.pem"
  [ "$status" -ne 0 ]
  output_has "no-server"
  kill $tls
  python3 - "$S3" <<'PYTHON' 3>&- &
import os, socket, sys
server = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[1] + "/part", "w") as file:
    file.write(str(server.getsockname()[1]))
os.rename(sys.argv[1] + "/part", sys.argv[1] + "/plainport")
while True:
    client = server.accept()[0]
    client.recv(65536)
    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    client.close()
PYTHON
  plain=$!
  wait_for 20 test -f "$S3/plainport"
  run "$KVTIER" g4 ls --s3 "https://127.0.0.1:$(cat "$S3/plainport")" --s3-credentials-file "$S3/cred"
  kill $plain
  [ "$status" -ne 0 ]
  output_has "does not speak TLS"
}
