# The generator from outside: determinism, shape, and measuring.
bats_require_minimum_version 1.5.0
load support

setup() {
  clean_environment
  cd "$BATS_TEST_TMPDIR"
}

@test "same seed, same bytes; another seed, other bytes" {
  "$KVTIER" workload generate --seed 7 --requests 2000 --out a
  "$KVTIER" workload generate --seed 7 --requests 2000 >b
  "$KVTIER" workload generate --seed 8 --requests 2000 --out c
  cmp a b
  ! cmp -s a c
  [ "$(wc -l <a)" -eq 2000 ]
}

@test "lines are the public schema" {
  "$KVTIER" workload generate --requests 500 --out a
  python3 - <<'PY'
import json
last = 0
for line in open("a"):
    request = json.loads(line)
    assert list(request) == ["timestamp", "input_length", "output_length", "hash_ids"]
    assert request["timestamp"] >= last and request["hash_ids"]
    last = request["timestamp"]
PY
}

@test "stats agree with a count by hand" {
  "$KVTIER" workload generate --requests 3000 --out a
  run --separate-stderr "$KVTIER" workload stats a --json
  status_is 0
  echo "$output" >stats
  python3 - <<'PY'
import json
stats = json.load(open("stats"))
seen, accesses, prefix, requests = set(), 0, 0, 0
for line in open("a"):
    ids = json.loads(line)["hash_ids"]
    requests += 1
    accesses += len(ids)
    known = True
    for i in ids:
        known = known and i in seen
        prefix += known
        seen.add(i)
assert stats["requests"] == requests == 3000
assert stats["block_accesses"] == accesses
assert stats["blocks"] == len(seen)
assert stats["prefix_hits"] == prefix
PY
}

@test "the shape follows the flags" {
  "$KVTIER" workload generate --requests 2000 --mean-turns 1 --system-tokens 0 --documents 0 --out lonely
  "$KVTIER" workload generate --requests 2000 --mean-turns 20 --out chatty
  lonely=$("$KVTIER" workload stats lonely --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["prefix_hits"])')
  chatty=$("$KVTIER" workload stats chatty --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["prefix_hits"])')
  [ "$lonely" -eq 0 ]
  [ "$chatty" -gt 20000 ]
}

@test "bad lines are named, the rest is measured, exit status 4" {
  "$KVTIER" workload generate --requests 3 --out a
  { head -1 a; echo '{"timestamp": "soon"}'; tail -2 a; } >b
  run "$KVTIER" workload stats b
  status_is 4
  output_has "b:2"
  output_has "requests        3"
  run "$KVTIER" workload stats none
  status_is 3
}

@test "impossible shapes are refused" {
  run "$KVTIER" workload generate --zipf 9
  status_is 2
  run "$KVTIER" workload generate --zipf x
  status_is 2
  run "$KVTIER" workload generate --context-tokens 2048
  status_is 2
  output_has "2048"
  run "$KVTIER" workload generate --requests 0
  status_is 2
}
