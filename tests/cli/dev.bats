# `kvtier dev` with real children: it starts, answers, refuses a second one, and leaves nothing behind.
bats_require_minimum_version 1.5.0
load support

setup() {
  clean_environment
  STATE=$BATS_TEST_TMPDIR/state
  DEV=
}

teardown() {
  if [ -n "$DEV" ] && kill -0 "$DEV" 2>/dev/null; then
    kill -TERM "$DEV"
    wait "$DEV" || true
  fi
}

start_dev() {
  "$KVTIER" dev --state "$STATE" --hot-capacity 64MiB "$@" >"$BATS_TEST_TMPDIR/out" \
    2>"$BATS_TEST_TMPDIR/err" 3>&- &
  DEV=$!
  wait_for 60 dev_is_decided
  [ -f "$STATE/dev.json" ] || { cat "$BATS_TEST_TMPDIR/err"; return 1; }
}

# It runs, or it has given up.
dev_is_decided() {
  [ -f "$STATE/dev.json" ] || ! kill -0 "$DEV" 2>/dev/null
}

children() {
  tr ' ' '\n' <"/proc/$DEV/task/$DEV/children" | grep .
}

# Is any of these processes still there (and no corpse)?
any_alive() {
  local pid
  for pid in "$@"; do
    case $(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null) in
      '' | Z*) ;;
      *) return 0 ;;
    esac
  done
  return 1
}

none_alive() {
  ! any_alive "$@"
}

@test "dev starts everything, says where, and stops it all on SIGTERM" {
  start_dev
  pids=$(children)
  [ "$(echo "$pids" | wc -w)" -eq 3 ]
  wait_for 10 grep -q 'KVTier runs' "$BATS_TEST_TMPDIR/out"
  wait_for 30 "$KVTIER" --config "$STATE/cli.yaml" status
  run "$KVTIER" --config "$STATE/cli.yaml" doctor --state "$STATE"
  status_is 0
  output_has "ok    nats"
  output_has "ok    gateway s3"
  output_has "ok    conditional put"
  output_has "warn  nats orders       this client may publish orders; gateways execute only those signed"
  output_has "KVTIER_ORDERS is empty"
  run "$KVTIER" --config "$STATE/cli.yaml" policy mode observe
  status_is 0
  for secret in admin-token orders-key front; do
    [ "$(stat -c %a "$STATE/secrets/$secret")" = 600 ]
  done
  python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d["schema_version"] == 1 and d["nats_url"].startswith("nats://127.0.0.1:")' "$STATE/dev.json"
  kill -TERM "$DEV"
  wait "$DEV"
  none_alive $pids
  [ ! -e "$STATE/dev.json" ]
}

@test "Ctrl-C ends it with status 0" {
  # A background job of a script ignores SIGINT; this one must not.
  python3 - "$KVTIER" "$STATE" <<'PY'
import os, signal, subprocess, sys, time
dev = subprocess.Popen([sys.argv[1], "dev", "--state", sys.argv[2], "--hot-capacity", "64MiB"],
                       stdout=subprocess.DEVNULL,
                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
deadline = time.monotonic() + 60
while not os.path.exists(os.path.join(sys.argv[2], "dev.json")):
    assert dev.poll() is None and time.monotonic() < deadline
    time.sleep(0.05)
dev.send_signal(signal.SIGINT)
assert dev.wait(40) == 0, dev.returncode
PY
}

@test "a second dev on the same folder is refused by name" {
  start_dev
  run "$KVTIER" dev --state "$STATE"
  status_is 5
  output_has "process $DEV"
  any_alive $(children)
}

@test "a child that dies stops all, with its log and status 1" {
  start_dev
  pids=$(children)
  for pid in $pids; do
    case $(readlink "/proc/$pid/exe") in */kvtier-advisor) kill -9 "$pid" ;; esac
  done
  status=0
  wait "$DEV" || status=$?
  [ "$status" -eq 1 ]
  grep -q 'kvtier-advisor was killed by signal 9' "$BATS_TEST_TMPDIR/err"
  none_alive $pids
}

@test "kill -9 of dev takes the children along, and the folder can be used again" {
  start_dev
  pids=$(children)
  kill -9 "$DEV"
  wait "$DEV" || true
  wait_for 30 none_alive $pids
  rm -f "$STATE/dev.json"
  start_dev
  wait_for 30 "$KVTIER" --config "$STATE/cli.yaml" status
}

@test "what is missing is said, and nothing is left running" {
  run "$KVTIER" dev --state "$STATE" --nats-server /no/such/program
  status_is 3
  output_has "/no/such/program"
  run "$KVTIER" dev --state "$STATE" --s3 http://127.0.0.1:1
  status_is 3
  output_has "AWS_ACCESS_KEY_ID"
  AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b run "$KVTIER" dev --state "$STATE" --s3 http://127.0.0.1:1
  status_is 5
  output_has "http://127.0.0.1:1 bucket kvtier"
  run "$KVTIER" dev --state "$STATE" --create-bucket
  status_is 2
  run "$KVTIER" dev --state /proc/nowhere
  [ "$status" -ne 0 ]
}

@test "a wrong setting in the folder's file is shown with its line" {
  start_dev
  kill -TERM "$DEV"
  wait "$DEV"
  printf 'policy:\n  hot_strt: 50%%\n' >"$STATE/advisor.yaml"
  run "$KVTIER" dev --state "$STATE"
  status_is 1
  output_has 'advisor.yaml:2'
}

@test "what a worker does can be seen from every side" {
  worker=$KVTIER_BUILD/worker/kvtier-worker
  start_dev
  cd "$BATS_TEST_TMPDIR"
  cli="$KVTIER --config $STATE/cli.yaml"
  $cli events tail --limit 50 --json >live 2>live.err 3>&- &
  tail=$!
  "$KVTIER" workload generate --requests 60 --duration 5s --sessions 5 --out workload.jsonl
  "$worker" --config "$STATE/worker.yaml" --name w --trace workload.jsonl --block-size 64KiB --gpu off \
    --g1-size 1MiB --g2-size 2MiB --g3-size 4MiB --stay --report report.json >worker.log 2>&1 3>&- &
  pid=$!
  # Some blocks have gone all the way down, and events of it have come by.
  wait_for 60 bash -c "[ \$($cli g4 ls --json 2>/dev/null | wc -l) -ge 10 ]"
  wait $tail
  [ "$(wc -l <live)" -eq 50 ]
  python3 -c 'import json; assert all(json.loads(l)["type"] in ("store", "remove") for l in open("live"))'

  run $cli events tail --from-start --no-follow --json
  status_is 0
  [ "$(echo "$output" | wc -l)" -gt 50 ]
  run $cli events tail --from-start --limit 3
  status_is 0
  output_has "store"

  $cli g4 ls --json 2>/dev/null >objects
  read -r key hash < <(python3 -c 'import json; o = json.loads(open("objects").readline()); print(o["key"], o["hash"])')
  run $cli g4 stat "$key"
  status_is 0
  output_has "block        $hash"
  run $cli g4 verify "$key"
  status_is 0
  wait_for 20 $cli block show "$hash"
  run $cli block show "$hash"
  output_has "cold@kvtier"
  run $cli index match "$hash"
  status_is 0
  output_has "G4"
  run $cli index stats
  output_has "w-0"
  kill -TERM $pid
  wait $pid
  python3 -c 'import json; r = json.load(open("report.json")); assert all(w["wrong_bytes"] == 0 for w in r["workers"])'
}

# The advisor has applied all there is: two looks in a row, some seconds apart, are the same.  (A worker
# that left is dropped in steps, and a gateway publishes behind its answers.)
index_rests() {
  $cli index dump --json 2>/dev/null | sort >"$1.new" || return 1
  if [ -s "$1" ] && cmp -s "$1" "$1.new"; then return 0; fi
  mv "$1.new" "$1"
  sleep 3
  return 1
}

@test "what the advisor knew can be read when it is down" {
  start_dev
  cd "$BATS_TEST_TMPDIR"
  cli="$KVTIER --config $STATE/cli.yaml"
  "$KVTIER" workload generate --requests 120 --duration 5s --sessions 10 --out workload.jsonl
  "$KVTIER_BUILD/worker/kvtier-worker" --config "$STATE/worker.yaml" --name w --trace workload.jsonl \
    --block-size 64KiB --gpu off --g1-size 1MiB --g2-size 2MiB --g3-size 4MiB >worker.log 2>&1
  wait_for 60 index_rests dump.live
  [ "$(wc -l <dump.live)" -ge 100 ]
  mapfile -t hashes < <(python3 -c '
import json
rows = [json.loads(line) for line in open("dump.live")]
chain = {row["parent"]: row["hash"] for row in rows}
hash = next(row["hash"] for row in rows if row["position"] == 0)
while hash:
    print(hash)
    hash = chain.get(hash)')
  $cli index match "${hashes[@]}" 00000000000000aa --json >match.live
  $cli block show "${hashes[0]}" --json >block.live
  $cli index stats --json >stats.live

  # Beside a running advisor ...  (Its memory may know a parent from a worker that is gone, where the
  # store has what the gateway says, which knows none; verify compares those that both know.)
  "$KVTIER" index dump --offline "$STATE/advisor" --json | sort >dump.store
  diff <(sed 's/"parent":"[^"]*",//' dump.store) <(sed 's/"parent":"[^"]*",//' dump.live)
  $cli index verify --offline "$STATE/advisor"
  kill -TERM "$DEV"
  wait "$DEV"
  # ... and without it, where the other way says how.
  run $cli index stats
  status_is 5
  output_has "--offline DIR"
  "$KVTIER" index dump --offline "$STATE/advisor" --json | sort | cmp - dump.store
  "$KVTIER" index match "${hashes[@]}" 00000000000000aa --offline "$STATE/advisor" --json >match.down
  "$KVTIER" block show "${hashes[0]}" --offline "$STATE/advisor" --json >block.down
  "$KVTIER" index stats --offline "$STATE/advisor" --json >stats.down
  python3 - <<'PY'
import json

def load(name):
    with open(name) as file:
        return json.load(file)

def places(answer, key):
    return sorted(json.dumps(row, sort_keys=True) for row in answer[key])

live, down = load("match.live"), load("match.down")
assert live["blocks"] == down["blocks"] and len(live["blocks"]) >= 2
assert [row.pop("uncertain") for row in live["matches"]] == [False] * len(live["matches"])
assert places(live, "matches") == places(down, "matches") != []
live, down = load("block.live"), load("block.down")
for member in ("hash", "parent", "position", "namespace", "tokens_hash", "size", "ranks"):
    assert live[member] == down[member], member
assert places(live, "places") == places(down, "places") != []
live, down = load("stats.live"), load("stats.down")
assert (live["blocks"], live["places"]) == (down["blocks"], down["places"])
assert places(live, "holders") == places(down, "holders")
assert down["committed_seq"] > 0
PY
  run "$KVTIER" index stats --offline "$STATE/advisor"
  output_has "cold@kvtier"
  output_has "of the event stream"
  run "$KVTIER" index dump --offline "$STATE/advisor" --limit 3
  [ "$(echo "$output" | wc -l)" -eq 4 ]
  run "$KVTIER" block show 00000000000000aa --offline "$STATE/advisor"
  status_is 3
}

@test "a damaged object is found by verify" {
  start_dev
  cd "$BATS_TEST_TMPDIR"
  cli="$KVTIER --config $STATE/cli.yaml"
  "$KVTIER" workload generate --requests 60 --duration 5s --sessions 5 --out workload.jsonl
  "$KVTIER_BUILD/worker/kvtier-worker" --config "$STATE/worker.yaml" --name w --trace workload.jsonl \
    --block-size 64KiB --gpu off --g1-size 1MiB --g2-size 2MiB --g3-size 4MiB >worker.log 2>&1
  run $cli g4 verify --all
  status_is 0
  victim=$(find "$STATE/cold" -type f -size +60k | head -1)
  [ -n "$victim" ]
  printf 'X' | dd of="$victim" bs=1 seek=30000 conv=notrunc status=none
  run $cli g4 verify --all
  status_is 8
  output_has "BAD   cold"
}
