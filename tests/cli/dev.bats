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
  wait_for 60 dev_is_there || { cat "$BATS_TEST_TMPDIR/err"; return 1; }
}

dev_is_there() {
  [ -f "$STATE/dev.json" ]
}

children() {
  ps -o pid= --ppid "$DEV" | tr -d ' '
}

# Is any of these processes still there (and no corpse)?
any_alive() {
  local pid
  for pid in "$@"; do
    case $(ps -o stat= -p "$pid" 2>/dev/null) in
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
  victim=$(ps -o pid=,comm= --ppid "$DEV" | awk '$2 ~ /advisor/ {print $1}')
  kill -9 "$victim"
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
