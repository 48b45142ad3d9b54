# `kvtier g4 locks` on a bucket that stands still.
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
  LOCKS=("$KVTIER" --bucket kvtier g4 locks --s3 "http://127.0.0.1:$(cat "$S3/s3port")"
    --s3-credentials-file "$S3/cred")
}

teardown() {
  kill "$(cat "$BATS_TEST_TMPDIR/pid")"
}

@test "ls" {
  run "${LOCKS[@]}"
  status_is 0
  golden locks-ls
  run "${LOCKS[@]}" ls kvbm/
  status_is 0
  [ "${#lines[@]}" -eq 3 ]
  run --separate-stderr "${LOCKS[@]}" ls --limit 2
  status_is 0
  [ "${#lines[@]}" -eq 3 ]
  [[ $stderr == *"--limit 0 shows all"* ]]
}

@test "ls as JSON, JSON lines and YAML" {
  run "${LOCKS[@]}" ls -o json
  status_is 0
  echo "$output" | python3 -c '
import json, sys
s = json.load(sys.stdin)
assert s["schema_version"] == 1 and s["truncated"] is False
assert [lock["state"] for lock in s["locks"]] == ["held", "expired", "held", "malformed", "free"]
gc = s["locks"][1]
assert (gc["key"], gc["holder"], gc["epoch"], gc["age_ms"], gc["ttl_ms"]) == ("gc.lock", "gw1", 4, 63000, 60000)
assert gc["expired"] and not gc["malformed"]'
  run "${LOCKS[@]}" ls -o jsonl
  status_is 0
  [ "${#lines[@]}" -eq 1 ]
  run "${LOCKS[@]}" show gc -o yaml
  status_is 0
  golden locks-show-yaml
}

@test "show" {
  run "${LOCKS[@]}" show compact
  status_is 0
  golden locks-show
  run "${LOCKS[@]}" show kvbm/2:y.lock
  status_is 0
  output_has "malformed"
  run "${LOCKS[@]}" show nobody
  status_is 3
}

@test "break: one that is over, one that is held, one that is held by force" {
  run "${LOCKS[@]}" break gc
  status_is 0
  output_has "state     free"
  output_has "epoch     5"
  run "${LOCKS[@]}" break compact.lock
  status_is 6
  output_has "held by gw0"
  output_has "--force"
  run "${LOCKS[@]}" break compact.lock --force
  status_is 0
  output_has "epoch     8"
  run "${LOCKS[@]}" ls -o json
  echo "$output" | python3 -c '
import json, sys
states = [lock["state"] for lock in json.load(sys.stdin)["locks"]]
assert states == ["free", "free", "held", "malformed", "free"], states'
}

@test "a wrong command line" {
  run "${LOCKS[@]}" steal gc
  status_is 2
  run "${LOCKS[@]}" break
  status_is 2
  run "$KVTIER" g4 locks
  [ "$status" -ne 0 ]
  output_has "--s3"
}
