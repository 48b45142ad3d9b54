# `kvtier events` and `index verify|export|import` on a real NATS server and real advisors.
bats_require_minimum_version 1.5.0
load support

setup_file() {
  start_nats "$BATS_FILE_TMPDIR/nats"
}

teardown_file() {
  kill "$(cat "$BATS_FILE_TMPDIR/nats/pid")"
}

setup() {
  clean_environment
  T=$BATS_TEST_TMPDIR
  N=$(cat "$BATS_FILE_TMPDIR/nats/url")
  PIDS=()
  export TZ=UTC
}

teardown() {
  local pid
  if [ -z "${BATS_TEST_COMPLETED:-}" ]; then # what the daemons said
    tail -n 5 "$T"/*.log "$T"/*.err "$T"/dev/log/* 2>/dev/null || true
  fi
  for pid in ${PIDS[@]+"${PIDS[@]}"}; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
}

# start_nats FOLDER: writes FOLDER/{url,pid}.
start_nats() {
  mkdir -p "$1"
  nats-server -js -sd "$1/js" -a 127.0.0.1 -p -1 --ports_file_dir "$1" >"$1/log" 2>&1 3>&- &
  echo $! >"$1/pid"
  wait_for 20 bash -c "ls '$1'/nats-server_*.ports >/dev/null 2>&1"
  python3 -c 'import glob, json, sys; print(json.load(open(glob.glob(sys.argv[1] + "/*.ports")[0]))["nats"][0])' \
    "$1" >"$1/url"
}

# start_advisor NAME NATS [FLAGS]: its address in $T/NAME.url, its folder $T/NAME.
start_advisor() {
  local name=$1 nats=$2
  shift 2
  "$KVTIER_BUILD/advisor/kvtier-advisor" --nats-url "$nats" --state-dir "$T/$name" --admin-port 0 \
    --publishers-gone-after 1h "$@" >"$T/$name.log" 2>&1 3>&- &
  PIDS+=($!)
  wait_for 30 grep -q '"event":"started"' "$T/$name.log"
  sed -n 's/.*admin port \([0-9]*\).*/http:\/\/127.0.0.1:\1/p' "$T/$name.log" | head -1 >"$T/$name.url"
}

# dump NAME: its places, one a line, sorted.
dump() {
  "$KVTIER" --advisor-url "$(cat "$T/$1.url")" index dump -o json | sort
}

places_are() {
  [ "$(dump "$1" | wc -l)" -eq "$2" ]
}

same_stores() {
  cmp -s <("$KVTIER" index dump --offline "$1" -o json | sort) <("$KVTIER" index dump --offline "$2" -o json | sort)
}

# export_says FILE: what an export says, sorted: where its runs are cut and when it was made says nothing.
export_says() {
  python3 - "$1" <<'PY'
import json, sys
said = []
for row in map(json.loads, open(sys.argv[1])):
    row.pop("time_ms", None)
    if row["row"] != "run":
        said.append({**row, "lines": 0})
        continue
    parent, tokens = row.pop("parent"), row.pop("tokens", [0] * row["count"])
    for at, block in enumerate(row.pop("hashes")):
        said.append({**row, "count": 1, "hash": block, "tokens": tokens[at], "parent": parent,
                     "position": row["position"] + at})
        parent = block
print("\n".join(sorted(json.dumps(each, sort_keys=True) for each in said)))
PY
}

# chain FIRST COUNT [MEMBERS]: stores of a chain of blocks.
chain() {
  awk -v first="$1" -v count="$2" -v more="${3:-}" 'BEGIN {
    for (i = 0; i < count; i++)
      printf "{\"type\":\"store\",\"hash\":\"%016x\",\"parent\":\"%016x\",\"position\":%d,\"size\":64%s}\n",
        first + i, i == 0 ? 0 : first + i - 1, i, more
  }'
}

@test "inject --dry-run prints the bytes of docs/formats.md" {
  run bash -c "printf '%s\n' \
    '{\"type\":\"store\",\"hash\":\"00000000000000aa\",\"size\":64,\"tier\":\"G2\",\"dp_rank\":3}' \
    '{\"type\":\"remove\",\"hash\":\"00000000000000aa\",\"tier\":\"G4\",\"location\":\"cold@b\",\"ranks\":3}' |
    '$KVTIER' events inject --dry-run --worker w --namespace a.b --incarnation 7 --first-seq 9 2>/dev/null |
    sed 's/cf0000[0-9a-f]\{12\}9[0-9a-f]/TIME/'"
  status_is 0
  golden events-inject
}

@test "inject says which line it does not understand" {
  run bash -c "printf '{\"type\":\"store\",\"hash\":\"aa\"}\n' | '$KVTIER' events inject --dry-run"
  status_is 2
  output_has "line 1"
  run bash -c "printf '\n{\"type\":\"stored\"}\n' | '$KVTIER' events inject --dry-run"
  status_is 2
  output_has "line 2: type"
  run bash -c "printf '{\"type\":\"bye\"}\n{\"type\":\"bye\"}\n' | '$KVTIER' events inject --dry-run"
  status_is 2
  output_has "nothing may follow a bye"
  run bash -c "printf '{\"type\":\"store\",\"hash\":\"00000000000000aa\",\"tier\":\"G4\"}' | '$KVTIER' events inject --dry-run"
  status_is 2
  output_has "G4 wants a location"
}

@test "what is injected is tailed, recorded, and shown again from the recording" {
  "$KVTIER" --nats-url "$N" events record "$T/core.rec" --subject 'kvtier.v1.events._.0.rec' --count 3 \
    2>"$T/record.err" 3>&- &
  PIDS+=($!)
  wait_for 20 grep -q listening "$T/record.err"
  chain 4096 10 | "$KVTIER" --nats-url "$N" events inject --worker rec --incarnation 5 --batch 4 --core
  wait "${PIDS[0]}"
  PIDS=()
  run --separate-stderr "$KVTIER" events tail --from-recording "$T/core.rec"
  status_is 0
  output=$(echo "$output" | cut -c 27-)
  golden events-recording
  run --separate-stderr "$KVTIER" events tail --from-recording "$T/core.rec" -o json --limit 2
  status_is 0
  echo "$output" | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
assert [row["seq"] for row in rows] == [1, 2] and rows[1]["parent"] == "%016x" % 4096
assert all(row["schema_version"] == 1 and row["worker"] == "rec" for row in rows)'
}

@test "foreign dialects are shown in their own words, with the reason for what is left out" {
  "$KVTIER" --nats-url "$N" events record "$T/d.rec" --dialect dynamo --count 5 2>"$T/record.err" 3>&- &
  PIDS+=($!)
  wait_for 20 grep -q listening "$T/record.err"
  python3 "$KVTIER_SOURCE/tests/cli/publish.py" "$N" <<'TEXT'
namespace.n.component.c.kv-events {"worker_id":7,"event":{"event_id":1,"data":{"stored":{"parent_hash":null,"start_position":0,"blocks":[{"block_hash":1,"tokens_hash":2},{"block_hash":3,"tokens_hash":4}]}},"dp_rank":1}}
namespace.n.component.c.kv_events {"worker_id":7,"event":{"event_id":2,"data":{"removed":{"block_hashes":[18446744073709551615]}},"dp_rank":1}}
namespace.n.component.c.kv-events {"worker_id":7,"event":{"event_id":3,"data":"cleared","dp_rank":1}}
namespace.n.component.c.kv-events {"worker_id":7,"event":{"event_id":4,"data":{"exploded":{}},"dp_rank":1}}
namespace.n.component.c.kv-events no event
TEXT
  wait "${PIDS[0]}"
  PIDS=()
  run --separate-stderr "$KVTIER" events tail --from-recording "$T/d.rec"
  status_is 4
  output=$(echo "$output" | cut -c 27- | sort)
  golden events-dynamo
  run --separate-stderr "$KVTIER" events tail --from-recording "$T/d.rec" -o json
  status_is 4
  echo "$output" | python3 -c '
import json, sys
rows = {row["event_id"]: row for row in map(json.loads, sys.stdin)}
assert rows[1]["position"] == 0 and [b["tokens_hash"][-1] for b in rows[1]["blocks"]] == ["2", "4"]
assert rows[2]["blocks"][0]["hash"] == "f" * 16 and rows[3]["tier"] == "all"
assert rows[4]["type"] == "skip" and rows[4]["why"] == "unknown_kind"
assert all(row["dialect"] == "dynamo" and row["worker"] == "7" for row in rows.values())'
}

@test "a recording that is torn, damaged or none says so, each with its status" {
  python3 - "$T" <<'PY'
import struct, sys
def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff
def text(word):
    return bytes([0xa0 + len(word)]) + word.encode()
def record(n):
    body = b"\x96" + b"\xcf" + struct.pack(">Q", n * 10**9) + text("kvtier") + text("core") + text("t.x") + b"\0\xc4\x01" + bytes([n])
    return struct.pack("<II", len(body), crc32c(body)) + body
good = [record(n) for n in range(3)]
bad = bytearray(good[1]); bad[-1] ^= 1
for name, parts in {"good": good, "torn": good[:2] + [good[2][:-3]], "bad": [good[0], bytes(bad), good[2]]}.items():
    open(f"{sys.argv[1]}/{name}.rec", "wb").write(b"KVTREC1\n" + b"".join(parts))
PY
  run --separate-stderr "$KVTIER" --nats-url "$N" events replay "$T/good.rec" --speed max -o json
  status_is 0
  output_has '"messages":3'
  run "$KVTIER" --nats-url "$N" events replay "$T/torn.rec" --speed max
  status_is 4
  output_has "ends inside a record"
  run "$KVTIER" --nats-url "$N" events replay "$T/bad.rec" --speed max
  status_is 8
  output_has "at offset $((8 + ($(wc -c <"$T/good.rec") - 8) / 3)): bad checksum"
  run "$KVTIER" --nats-url "$N" events replay "$T/bad.rec" --speed max --skip-bad
  status_is 4
  output_has "2 messages"
  run "$KVTIER" --nats-url "$N" events replay "$T/good.rec" --speed nonsense
  status_is 2
  run "$KVTIER" --nats-url "$N" events replay "$KVTIER_SOURCE/README.md"
  status_is 8
  output_has "no recording"
  run "$KVTIER" --nats-url "$N" events replay "$T/nowhere"
  status_is 3
}

@test "replay keeps the time between messages, scaled" {
  python3 - "$T/slow.rec" <<'PY'
import struct, sys
def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff
out = b"KVTREC1\n"
for n in range(3):
    body = b"\x96\xcf" + struct.pack(">Q", 10**18 + n * 2 * 10**9) + b"\xa6kvtier\xa1c\xa3t.x\0\xc4\0"
    out += struct.pack("<II", len(body), crc32c(body)) + body
open(sys.argv[1], "wb").write(out)
PY
  run --separate-stderr "$KVTIER" --nats-url "$N" events replay "$T/slow.rec" --speed 4 -o json
  status_is 0
  echo "$output" | python3 -c 'import json, sys; s = json.load(sys.stdin)["seconds"]; assert 1.0 <= s < 4.0, s'
}

@test "record ends with Ctrl-C and keeps what came; a file is not overwritten; --size is kept" {
  "$KVTIER" --nats-url "$N" events record "$T/a.rec" --subject t.ctrl -o json >"$T/out" 2>"$T/record.err" 3>&- &
  pid=$!
  wait_for 20 grep -q listening "$T/record.err"
  printf 't.ctrl one\nt.ctrl two\n' | python3 "$KVTIER_SOURCE/tests/cli/publish.py" "$N"
  wait_for 20 bash -c "[ \$(wc -c <'$T/a.rec') -gt 60 ]"
  kill -INT $pid
  wait $pid
  grep -q '"messages":2' "$T/out"
  run "$KVTIER" --nats-url "$N" events record "$T/a.rec" --subject t.ctrl --duration 100ms
  status_is 6
  run "$KVTIER" --nats-url "$N" events record "$T/a.rec" --subject t.ctrl --duration 100ms --force
  status_is 0
  output_has "0 messages"
  start_advisor one "$N" # it makes the stream
  chain 1 100 | "$KVTIER" --nats-url "$N" events inject --worker size --batch 1 --incarnation 1
  run "$KVTIER" --nats-url "$N" events record "$T/b.rec" --stream KVTIER_EVENTS --no-follow --size 2KiB
  status_is 7
  output_has "do not rotate"
  [ "$(wc -c <"$T/b.rec")" -le 2048 ]
  run "$KVTIER" --nats-url nats://127.0.0.1:1 events record "$T/c.rec"
  status_is 5
}

# The index twice the same, three seconds apart: nobody has anything to say any more.
index_rests() {
  $cli index dump --json 2>/dev/null | sort >"$1.new" || return 1
  if [ -s "$1" ] && cmp -s "$1" "$1.new"; then return 0; fi
  mv "$1.new" "$1"
  sleep 3
  return 1
}

@test "a whole system's traffic, recorded and replayed into a fresh advisor, gives the same index" {
  "$KVTIER" dev --state "$T/dev" --hot-capacity 64MiB >"$T/dev.out" 2>"$T/dev.err" 3>&- &
  PIDS+=($!)
  wait_for 60 test -f "$T/dev/dev.json"
  cli="$KVTIER --config $T/dev/cli.yaml"
  "$KVTIER" workload generate --requests 120 --duration 5s --sessions 10 --out "$T/workload.jsonl"
  "$KVTIER_BUILD/worker/kvtier-worker" --config "$T/dev/worker.yaml" --name w --trace "$T/workload.jsonl" \
    --block-size 64KiB --gpu off --g1-size 1MiB --g2-size 2MiB --g3-size 4MiB --events-g1 >"$T/worker.log" 2>&1
  chain 100000 300 ',"tier":"G2"' | $cli events inject --worker other --batch 7
  wait_for 60 index_rests "$T/one.places"
  [ "$(wc -l <"$T/one.places")" -ge 400 ]
  $cli events record "$T/all.rec" --stream KVTIER_EVENTS --no-follow
  start_nats "$T/second"
  N=$(cat "$T/second/url")
  start_advisor two "$N"
  "$KVTIER" --nats-url "$N" events replay "$T/all.rec" --speed max --jetstream
  wait_for 60 places_are two "$(wc -l <"$T/one.places")"
  # The stores are the same; memory may know more parents, of holders that are gone.
  wait_for 20 same_stores "$T/dev/advisor" "$T/two"
  diff <(dump two | sed 's/"parent":"[^"]*",//') <(sed 's/"parent":"[^"]*",//' "$T/one.places")
  run $cli index verify --offline "$T/dev/advisor" --log "$T/all.rec"
  status_is 0
  output_has "messages, compared with the store"
  "$KVTIER" --advisor-url "$(cat "$T/two.url")" index verify --offline "$T/two"
  # And its requests can be simulated.
  run --separate-stderr "$KVTIER" policy simulate "$T/all.rec" --orderings lru --sizes 20% -o json
  status_is 0
  [[ $stderr == *"as workers stored blocks"* ]]
  simulated=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["requests"])' <<<"$output")
  [ "$simulated" -ge 60 ] && [ "$simulated" -le 250 ]
  kill "$(cat "$T/second/pid")"
}

@test "verify, export beside a running advisor, import, and the same index again" {
  start_nats "$T/nats"
  N=$(cat "$T/nats/url")
  start_advisor one "$N"
  chain 256 2500 | "$KVTIER" --nats-url "$N" events inject --worker w1 --namespace t/m
  chain 256 40 ',"tier":"G2","dp_rank":2,"ranks":3,"tokens_hash":"00000000000000ff"' |
    "$KVTIER" --nats-url "$N" events inject --worker w2
  wait_for 20 places_are one 2540
  run "$KVTIER" --advisor-url "$(cat "$T/one.url")" index verify --offline "$T/one"
  status_is 0
  golden index-verify
  "$KVTIER" --advisor-url "$(cat "$T/one.url")" index export "$T/http.jsonl"
  "$KVTIER" index export "$T/offline.jsonl" --offline "$T/one"
  [ "$(export_says "$T/http.jsonl" | wc -l)" -gt 2540 ]
  diff <(export_says "$T/http.jsonl") <(export_says "$T/offline.jsonl")
  run "$KVTIER" index export "$T/http.jsonl" --offline "$T/one"
  status_is 6
  run "$KVTIER" index import "$T/http.jsonl" --state "$T/one"
  status_is 5
  output_has "another advisor runs"
  dump one >"$T/one.places"

  run "$KVTIER" index import "$T/http.jsonl" --state "$T/two"
  status_is 0
  output_has "2540 blocks in 2540 places, 2 publishers"
  run "$KVTIER" index import "$T/http.jsonl" --state "$T/two"
  status_is 6
  output_has "--force throws it away"
  run "$KVTIER" index verify --offline "$T/two" --store-only
  status_is 0
  kill "${PIDS[0]}"
  wait "${PIDS[0]}"
  start_advisor two "$N"
  dump two | cmp - "$T/one.places"
  run "$KVTIER" --advisor-url "$(cat "$T/two.url")" index verify --offline "$T/two"
  status_is 0
  kill "$(cat "$T/nats/pid")"
}

@test "an export made while events come, imported, is brought up to date by the stream" {
  start_nats "$T/nats"
  N=$(cat "$T/nats/url")
  start_advisor one "$N"
  chain 1 5000 >"$T/events.jsonl"
  for worker in a b c; do
    "$KVTIER" --nats-url "$N" events inject --file "$T/events.jsonl" --worker "$worker" --batch 5
  done >/dev/null 3>&- &
  injector=$!
  wait_for 20 bash -c "[ \$('$KVTIER' index stats --offline '$T/one' -o json | sed 's/.*\"places\":\([0-9]*\).*/\1/') -gt 1000 ]"
  "$KVTIER" --advisor-url "$(cat "$T/one.url")" index export "$T/x.jsonl"
  wait $injector
  wait_for 30 places_are one 15000
  run "$KVTIER" index import "$T/x.jsonl" --state "$T/two"
  status_is 0
  "$KVTIER" index verify --offline "$T/two" --store-only
  start_advisor two "$N"
  wait_for 30 places_are two 15000
  same_stores "$T/one" "$T/two"
  kill "$(cat "$T/nats/pid")"
}

@test "sources of a running advisor: its own, and one of another dialect" {
  start_nats "$T/nats"
  N=$(cat "$T/nats/url")
  printf 'version: 1\nsources:\n  - {name: kvtier, kind: kvtier-jetstream}\n  - {name: dyn, kind: dynamo-nats, namespace: llm}\n' \
    >"$T/sources.yaml"
  start_advisor one "$N" --sources-file "$T/sources.yaml"
  cli="$KVTIER --advisor-url $(cat "$T/one.url")"
  chain 1 50 | "$KVTIER" --nats-url "$N" events inject --worker w1
  for n in 1 2; do
    printf 'namespace.n.component.c.kv-events {"worker_id":7,"event":{"event_id":%d,"data":{"stored":{"parent_hash":null,"blocks":[{"block_hash":%d,"tokens_hash":2}]}},"dp_rank":3}}\n' $n $n
  done | python3 "$KVTIER_SOURCE/tests/cli/publish.py" "$N"
  wait_for 20 bash -c "$cli sources show dyn -o json | grep -q '\"messages\":2'"
  run --separate-stderr $cli sources ls -o jsonl
  status_is 0
  echo "$output" | python3 -c '
import json, sys
own, dyn = json.load(sys.stdin)["sources"]
assert (own["name"], own["kind"], own["state"], own["events"], own["publishers"]) == ("kvtier", "kvtier-jetstream", "running", 50, 1), own
assert (dyn["name"], dyn["namespace"], dyn["malformed"], dyn["publishers"]) == ("dyn", "llm", 0, 1), dyn'
  run --separate-stderr $cli sources show dyn -o json
  echo "$output" | python3 -c '
import json, sys
publisher, = json.load(sys.stdin)["publisher_list"]
assert (publisher["dp_rank"], publisher["worker_id"], publisher["namespace"]) == (3, 7, "llm"), publisher'
  run $cli sources show kvtier
  status_is 0
  output_has "w1"
  run $cli sources show nobody
  status_is 3
  kill "$(cat "$T/nats/pid")"
}

@test "an import that is cut short, foreign or damaged leaves nothing behind" {
  start_nats "$T/nats"
  N=$(cat "$T/nats/url")
  start_advisor one "$N"
  chain 1 50 | "$KVTIER" --nats-url "$N" events inject --worker w1
  wait_for 20 places_are one 50
  "$KVTIER" index export "$T/x.jsonl" --offline "$T/one"
  run bash -c "head -2 '$T/x.jsonl' | '$KVTIER' index import - --state '$T/two'"
  status_is 8
  output_has "cut short"
  run bash -c "sed 3d '$T/x.jsonl' | '$KVTIER' index import - --state '$T/two'"
  status_is 8
  run bash -c "sed 's/\"version\":[0-9]*/\"version\":99/' '$T/x.jsonl' | '$KVTIER' index import - --state '$T/two'"
  status_is 1
  output_has "version 99"
  place=$(grep -n -m 1 '"position"' "$T/x.jsonl" | cut -d: -f1)
  run bash -c "sed '${place}s/position/pos/' '$T/x.jsonl' | '$KVTIER' index import - --state '$T/two'"
  status_is 1
  output_has "line $place"
  run "$KVTIER" index import "$KVTIER_SOURCE/README.md" --state "$T/two"
  status_is 1
  [ ! -e "$T/two/import.part" ]
  run "$KVTIER" index stats --offline "$T/two"
  status_is 0
  output_has "0 blocks in 0 places"
  run "$KVTIER" index import "$T/x.jsonl" --state "$T/three" --db-max 1MiB
  status_is 0
  kill "$(cat "$T/nats/pid")"
}

@test "verify finds what the store and the memory do not agree on" {
  start_nats "$T/nats"
  N=$(cat "$T/nats/url")
  start_advisor one "$N"
  chain 1 50 | "$KVTIER" --nats-url "$N" events inject --worker w1
  wait_for 20 places_are one 50
  "$KVTIER" index export "$T/x.jsonl" --offline "$T/one"
  # The store of another day: one block less, one of another size.
  python3 - "$T/x.jsonl" >"$T/y.jsonl" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])][:-1]
run, = (row for row in rows if row["row"] == "run")
rows.remove(run)
for first, last, size in (0, 18, 64), (18, 19, 65), (19, 49, 64):
    hashes = run["hashes"][first:last]
    rows.append({**run, "hashes": hashes, "count": last - first, "position": first, "size": size,
                 "parent": run["hashes"][first - 1] if first else run["parent"]})
for row in rows + [{"row": "end", "lines": len(rows)}]:
    print(json.dumps(row, separators=(",", ":")))
PY
  "$KVTIER" index import "$T/y.jsonl" --state "$T/two"
  run "$KVTIER" --advisor-url "$(cat "$T/one.url")" index verify --offline "$T/two"
  status_is 1
  output_has "the store does not have the block"
  output_has "the store has another size"
  output_has "50 places in memory, 49 in the store"
  "$KVTIER" --nats-url "$N" events record "$T/log.rec" --stream KVTIER_EVENTS --no-follow
  run "$KVTIER" index verify --offline "$T/one" --store-only --log "$T/log.rec"
  status_is 0
  run "$KVTIER" index verify --offline "$T/two" --store-only --log "$T/log.rec"
  status_is 1
  output_has "49 places in the store, 50 by the log"
  output_has "PROBLEMS FOUND"
  run --separate-stderr "$KVTIER" --advisor-url "$(cat "$T/one.url")" index verify --offline "$T/two" -o json
  status_is 1
  echo "$output" | python3 -c 'import json, sys; a = json.load(sys.stdin); assert a["problem_count"] == 3, a'
  kill "$(cat "$T/nats/pid")"
}

@test "an advisor that does not write what workers hold: verify and export know it" {
  start_nats "$T/nats"
  N=$(cat "$T/nats/url")
  start_advisor one "$N" --index-durable=false
  chain 1 50 ',"tier":"G2"' | "$KVTIER" --nats-url "$N" events inject --worker w1
  chain 1 20 ',"tier":"G4","location":"cold@b"' | "$KVTIER" --nats-url "$N" events inject --worker g1
  wait_for 20 places_are one 70
  run "$KVTIER" --advisor-url "$(cat "$T/one.url")" index verify --offline "$T/one"
  status_is 0
  output_has "memory  20 places, compared with the store"
  output_has "not written (index.durable)"
  "$KVTIER" --advisor-url "$(cat "$T/one.url")" index export "$T/http.jsonl"
  "$KVTIER" index export "$T/offline.jsonl" --offline "$T/one"
  [ "$(export_says "$T/http.jsonl" | wc -l)" -gt 20 ]
  diff <(export_says "$T/http.jsonl") <(export_says "$T/offline.jsonl")
  run "$KVTIER" index import "$T/http.jsonl" --state "$T/two"
  status_is 0
  output_has "20 blocks in 20 places"
  kill "$(cat "$T/nats/pid")"
}
