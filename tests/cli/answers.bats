# What the commands make of servers' answers: tables letter by letter, JSON by parsing it.
bats_require_minimum_version 1.5.0
load support

setup_file() {
  start_fake
}

teardown_file() {
  stop_fake
}

setup() {
  clean_environment
  export KVTIER_CONFIGURED="$KVTIER --config $BATS_FILE_TMPDIR/cli.yaml"
}

@test "status" {
  run $KVTIER_CONFIGURED status
  status_is 0
  golden status
}

@test "top prints once without a terminal, and nothing of a name moves the cursor" {
  run $KVTIER_CONFIGURED top
  status_is 0
  golden top
  run $KVTIER_CONFIGURED top --once -o json
  status_is 0
  echo "$output" | python3 -c 'import json, sys; assert json.load(sys.stdin)["reads"]["miss"] == 50'
}

@test "top without an advisor says what to do" {
  run $KVTIER_CONFIGURED top --once --advisor-url http://127.0.0.1:1
  status_is 5
  output_has "kvtier dev"
}

@test "status as JSON holds both answers" {
  run --separate-stderr $KVTIER_CONFIGURED status --json
  status_is 0
  echo "$output" | python3 -c '
import json, sys
s = json.load(sys.stdin)
assert s["schema_version"] == 1 and s["errors"] == {}
assert s["advisor"]["events"]["applied"] == 12345 and s["gateway"]["hot"]["blocks"] == 768'
}

@test "status with one server away shows the other and exits with 5" {
  run $KVTIER_CONFIGURED status --gateway-url http://127.0.0.1:1
  status_is 5
  output_has "gateway  away"
  output_has "12345 applied"
  run $KVTIER_CONFIGURED status --advisor-url http://127.0.0.1:1
  status_is 5
  output_has "advisor  away"
  output_has "hot@gw0"
}

@test "status --watch repeats until it is told to stop, then exits with 0" {
  $KVTIER_CONFIGURED status --watch=100ms --json >"$BATS_TEST_TMPDIR/out" 3>&- &
  pid=$!
  wait_for 20 bash -c "[ \$(wc -l <'$BATS_TEST_TMPDIR/out') -ge 3 ]"
  kill -INT $pid
  wait $pid
}

@test "an answer that is no JSON is an error and no crash" {
  run $KVTIER_CONFIGURED status --gateway-url "http://127.0.0.1:$(cat "$BATS_FILE_TMPDIR/port")/bad"
  status_is 5
  output_has "gateway  away"
}

@test "whoever is no advisor is told from one that has nothing" {
  at=http://127.0.0.1:$(cat "$BATS_FILE_TMPDIR/port")
  for path in site other; do
    run $KVTIER_CONFIGURED policy show --advisor-url "$at/$path"
    status_is 1
    output_has "$at/$path has no such path (HTTP 404): is this an advisor?"
  done
  run $KVTIER_CONFIGURED policy show --advisor-url "$at/bad/v1/status?"
  status_is 1
  output_has "answers with no JSON: is this an advisor?"
  python3 - "$BATS_TEST_TMPDIR/port" 3>&- <<'PY' &
import os, socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    server.settimeout(60)
    with open(sys.argv[1] + ".part", "w", encoding="utf-8") as file:
        file.write(str(server.getsockname()[1]))
    os.rename(sys.argv[1] + ".part", sys.argv[1])
    client, _ = server.accept()
    client.recv(4096)
    client.sendall(b"SSH-2.0-something\r\n")
    client.close()
PY
  wait_for 20 test -f "$BATS_TEST_TMPDIR/port"
  run $KVTIER_CONFIGURED policy show --advisor-url "http://127.0.0.1:$(cat "$BATS_TEST_TMPDIR/port")"
  wait $!
  status_is 1
}

@test "block show" {
  run $KVTIER_CONFIGURED block show deadbeef00000000
  status_is 3
  output_has "no such thing"
  run $KVTIER_CONFIGURED block show 0xdeadbeef
  status_is 0
  golden block-show
  run $KVTIER_CONFIGURED block show 0xcc
  status_is 0
  output_has "used       1 time through a gateway"
}

@test "index stats, match, dump" {
  run $KVTIER_CONFIGURED index stats
  status_is 0
  golden index-stats
  run $KVTIER_CONFIGURED index match 00000000deadbeef 00000000000000aa
  status_is 0
  golden index-match
  run $KVTIER_CONFIGURED index dump
  status_is 0
  golden index-dump
  run $KVTIER_CONFIGURED index dump --limit 3 --json
  status_is 0
  [ "$(echo "$output" | wc -l)" -eq 3 ]
}

@test "an advisor that reads its index says so, and what is on disk alone is counted apart" {
  run --separate-stderr $KVTIER_CONFIGURED --advisor-url "http://127.0.0.1:$(cat "$BATS_FILE_TMPDIR/port")/loading" index stats
  status_is 0
  [ "${lines[0]}" = "10 blocks in 12 places" ]
  [ "${lines[1]}" = "and 7 with places on disk alone" ]
  [[ $stderr == *"reading its index into memory after a start: 1.00 MiB of 4.00 MiB"* ]]
}

@test "sources ls, sources show" {
  run $KVTIER_CONFIGURED sources ls
  status_is 0
  golden sources-ls
  run $KVTIER_CONFIGURED sources show kvtier
  status_is 0
  golden sources-show
  run $KVTIER_CONFIGURED sources show dyn
  status_is 0
  output_has "waiting: no connection"
  run $KVTIER_CONFIGURED sources show nobody
  status_is 3
  run --separate-stderr $KVTIER_CONFIGURED sources ls --json
  status_is 0
  [ "$(echo "$output" | wc -l)" -eq 1 ]
}

@test "tier ls" {
  run $KVTIER_CONFIGURED tier ls
  status_is 0
  golden tier-ls
  run $KVTIER_CONFIGURED tier ls -o wide
  status_is 0
  output_has "REFUSED"
  run --separate-stderr $KVTIER_CONFIGURED tier ls -o json
  status_is 0
  echo "$output" | python3 -c '
import json, sys
tiers = json.load(sys.stdin)["tiers"]
assert [t["level"] for t in tiers] == ["G3", "G4"], tiers
assert [t["state"] for t in tiers] == ["silent", "silent"], tiers'
  run --separate-stderr $KVTIER_CONFIGURED tier ls -o json --advisor-url "http://127.0.0.1:$(cat "$BATS_FILE_TMPDIR/port")/live"
  status_is 0
  echo "$output" | python3 -c '
import json, sys
states = [t["state"] for t in json.load(sys.stdin)["tiers"]]
assert states == ["ok", "draining", "stuck", "unhealthy", "silent"], states'
  run $KVTIER_CONFIGURED tier ls --advisor-url http://127.0.0.1:1
  status_is 5
}

@test "prefix top, prefix tree" {
  run $KVTIER_CONFIGURED prefix top
  status_is 0
  golden prefix-top
  run $KVTIER_CONFIGURED prefix tree 0xdeadbeef
  status_is 0
  golden prefix-tree
  run $KVTIER_CONFIGURED prefix tree 0xdeadbeef --depth 0
  status_is 0
  output_has "1 more child"
  [[ $output != *children* ]]
  run --separate-stderr $KVTIER_CONFIGURED prefix tree 0xdeadbeef -o json
  echo "$output" | python3 -c '
import json, sys
root = json.load(sys.stdin)["tree"]
assert root["children"][0]["left_out"] == 5 and root["subtree"]["blocks"] == 3, root'
  # Tiers that few gateways have: where something is in them, and with -o wide.
  run $KVTIER_CONFIGURED prefix tree 0xdeadbeef --namespace four/m
  status_is 0
  golden prefix-tree-warm
  run $KVTIER_CONFIGURED prefix top -o wide
  status_is 0
  golden prefix-top-wide
  run $KVTIER_CONFIGURED prefix top -o csv
  status_is 0
  output_has ",subtree.warm.bytes,subtree.cold.bytes,subtree.far.bytes"
  run $KVTIER_CONFIGURED prefix tree 0x77
  status_is 3
  run $KVTIER_CONFIGURED prefix tree nonsense
  status_is 2
}

@test "prefix pin, unpin, warm, purge" {
  run $KVTIER_CONFIGURED prefix pin 0xdeadbeef --dry-run
  status_is 10
  golden prefix-pin-dry
  run $KVTIER_CONFIGURED prefix pin 0xdeadbeef --for 1h
  status_is 0
  output_has "kvtier migrate status"
  python3 -c '
import json, sys, time
asked = json.load(open(sys.argv[1]))
assert asked["verb"] == "pin" and abs(asked["until_ms"] / 1000 - time.time() - 3600) < 60, asked' "$BATS_FILE_TMPDIR/asked"
  run $KVTIER_CONFIGURED prefix pin 0xdeadbeef --for 2
  status_is 2
  output_has "--for: 2 is below the least, 1s; a number without a unit is milliseconds: add s, m, h or d"
  run $KVTIER_CONFIGURED prefix pin 0xdeadbeef --for 2ms
  status_is 2
  [[ $output != *"without a unit"* ]]
  run $KVTIER_CONFIGURED prefix unpin 0xdeadbeef
  status_is 0
  run $KVTIER_CONFIGURED prefix warm 0xdeadbeef
  status_is 9
  run $KVTIER_CONFIGURED prefix warm 0xdeadbeef --to warm --dry-run
  status_is 10
  golden prefix-warm-dry
  grep -q '"to": "warm"' "$BATS_FILE_TMPDIR/asked"
  run $KVTIER_CONFIGURED prefix warm 0xdeadbeef --to far
  status_is 2
  output_has "none of hot|warm|cold"
  run $KVTIER_CONFIGURED prefix purge 0xdeadbeef </dev/null
  status_is 2
  output_has "--yes"
  run $KVTIER_CONFIGURED prefix purge 0xdeadbeef --yes
  status_is 0
  grep -q '"verb": "delete"' "$BATS_FILE_TMPDIR/asked"
  run $KVTIER_CONFIGURED prefix purge 0x77 --yes
  status_is 3
  run $KVTIER_CONFIGURED prefix pin nonsense
  status_is 2
  echo other >"$BATS_TEST_TMPDIR/other"
  chmod 600 "$BATS_TEST_TMPDIR/other"
  run $KVTIER_CONFIGURED prefix unpin 0xdeadbeef --admin-token-file "$BATS_TEST_TMPDIR/other"
  status_is 1
}

@test "tenant usage" {
  run $KVTIER_CONFIGURED tenant usage
  status_is 0
  golden tenant-usage
  run $KVTIER_CONFIGURED tenant usage acme
  status_is 0
  output_has "acme/qwen"
  run $KVTIER_CONFIGURED tenant usage four
  status_is 0
  golden tenant-usage-four
  run $KVTIER_CONFIGURED tenant usage -o wide
  status_is 0
  output_has "TENANT  BLOCKS       HOT  WARM      COLD  FAR   WORKERS"
  run $KVTIER_CONFIGURED tenant usage acme -o csv
  status_is 0
  output_has "namespace,blocks,hot_places,hot_bytes,warm_places,warm_bytes,cold_places,cold_bytes,far_places,far_bytes"
  run $KVTIER_CONFIGURED tenant usage gone
  status_is 3
  output_has 'knows nothing of "gone"'
  run $KVTIER_CONFIGURED tenant usage -
  status_is 0
  golden tenant-usage-unnamed
  run $KVTIER_CONFIGURED tenant usage - -o json
  status_is 0
  echo "$output" | python3 -c '
import json, sys
rows = json.load(sys.stdin)["namespaces"]
assert [(r["namespace"], r["worker_places"]) for r in rows] == [("", 5)], rows'
}

@test "tenant purge asks, says what there is, and proves place by place" {
  run $KVTIER_CONFIGURED tenant purge gone </dev/null
  status_is 2
  output_has "--yes"
  run $KVTIER_CONFIGURED tenant purge a/b --yes
  status_is 2
  run $KVTIER_CONFIGURED tenant purge gone --dry-run
  status_is 10
  golden tenant-purge-dry
  run $KVTIER_CONFIGURED tenant purge gone --yes
  status_is 0
  golden tenant-purge
  run $KVTIER_CONFIGURED tenant purge gone --dry-run
  status_is 9
  [ "$output" = "nothing of tenant gone was found at gw0; who is known: kvtier tenant usage" ]
  run $KVTIER_CONFIGURED tenant purge gone --model llama --dry-run
  status_is 9
  output_has "nothing of namespace gone/llama was found"
  for how in --dry-run --yes; do
    run $KVTIER_CONFIGURED tenant purge - $how
    status_is 2
    output_has '"-" is what belongs to no tenant'
  done
  run $KVTIER_CONFIGURED tenant purge gone --yes --gateway-url "http://127.0.0.1:$(cat "$BATS_FILE_TMPDIR/port")/minio"
  status_is 8
  output_has "by record and by key"
  output_has "keeps versions"
  output_has "NOT PROVEN"
  run $KVTIER_CONFIGURED tenant purge gone --yes --gateway-url "http://127.0.0.1:$(cat "$BATS_FILE_TMPDIR/port")/dark"
  status_is 8
  output_has "gw0: what could not be looked at      1  NO      quarantine: it cannot be read"
  output_has "nobody can list them with cold.kind driver"
  output_has "NOT PROVEN"
  run $KVTIER_CONFIGURED tenant purge gone --dry-run --gateway-url "http://127.0.0.1:$(cat "$BATS_FILE_TMPDIR/port")/dark"
  status_is 8
  output_has "1  could not be looked at: quarantine: it cannot be read"
  here="http://127.0.0.1:$(cat "$BATS_FILE_TMPDIR/port")"
  run $KVTIER_CONFIGURED tenant purge gone --model m --yes --gateway-others "$here/gw1,http://127.0.0.1:1,$here/g"
  status_is 8
  output_has "gw0: copies in quarantine"
  output_has "gw1: copies in quarantine"
  output_has "http://127.0.0.1:1: all of it"
  output_has "when it answers: kvtier tenant purge gone --model m"
  [ "$(grep -c "gw0: rows of the catalog" <<<"$output")" -eq 1 ]
  run $KVTIER_CONFIGURED tenant purge gone --dry-run --gateway-others "$here/gw1,http://127.0.0.1:1"
  status_is 8
  output_has "no gateway at http://127.0.0.1:1"
  run $KVTIER_CONFIGURED tenant purge gone --yes --gateway-url "$here/gw1"
  status_is 8
  output_has "gw0: volume, uploads, quarantine"
  output_has "--gateway-others URL,URL"
  run $KVTIER_CONFIGURED tenant purge acme --yes --settle 0s
  status_is 8
  output_has "still knows of some"
  echo other >"$BATS_TEST_TMPDIR/other"
  chmod 600 "$BATS_TEST_TMPDIR/other"
  run $KVTIER_CONFIGURED tenant purge gone --yes --admin-token-file "$BATS_TEST_TMPDIR/other"
  status_is 1
  output_has "run it again"
}

@test "route: ask, workers, requests, free" {
  run $KVTIER_CONFIGURED route ask 00000000deadbeef 00000000000000aa --namespace acme/llama --g4-weight 0.5 --workers w0,w1
  status_is 0
  golden route-ask
  [ "$(cat "$BATS_FILE_TMPDIR/asked")" = '{"explain": true, "g4_weight": 0.5, "hashes": ["00000000deadbeef", "00000000000000aa"], "namespace": "acme/llama", "workers": ["w0", "w1"]}' ]
  printf '1, 2\n3 4,5\n' >"$BATS_TEST_TMPDIR/tokens"
  run $KVTIER_CONFIGURED route ask --tokens "$BATS_TEST_TMPDIR/tokens" --block-tokens 2 --request-id r --json
  status_is 0
  [ "$(echo "$output" | python3 -c 'import json, sys; print(json.load(sys.stdin)["booked"])')" = True ]
  [ "$(cat "$BATS_FILE_TMPDIR/asked")" = '{"block_tokens": 2, "explain": true, "namespace": "", "request_id": "r", "tokens": [1, 2, 3, 4, 5]}' ]
  run $KVTIER_CONFIGURED route ask 1 --workers nobody
  status_is 3
  output_has "who is there: kvtier route workers"
  run $KVTIER_CONFIGURED route ask 1 --request-id r --admin-token-file "$BATS_TEST_TMPDIR/absent"
  status_is 2
  output_has "admin.token_file: open secret file $BATS_TEST_TMPDIR/absent: No such file"
  [[ $output != *"who is there"* ]]
  run $KVTIER_CONFIGURED route ask
  status_is 2
  long=$(printf 'x%.0s' {1..128})
  for id in "" "$long"; do
    run $KVTIER_CONFIGURED route ask 1 --request-id "$id"
    status_is 2
    output_has "a request's id has 1 to 127 bytes, this one ${#id}"
    run $KVTIER_CONFIGURED route free "$id"
    status_is 2
    output_has "a request's id has 1 to 127 bytes"
  done
  run $KVTIER_CONFIGURED route ask 1 --g4-weight -1
  status_is 2
  output_has '--g4-weight: "-1" is not a ratio'
  run $KVTIER_CONFIGURED route ask 1 --tokens "$BATS_TEST_TMPDIR/tokens"
  status_is 2
  echo "1 two" >"$BATS_TEST_TMPDIR/tokens"
  run $KVTIER_CONFIGURED route ask --tokens "$BATS_TEST_TMPDIR/tokens"
  status_is 2
  [[ $output == *'"two" is no token'* ]]
  printf '1 2\0 3' >"$BATS_TEST_TMPDIR/tokens"
  run $KVTIER_CONFIGURED route ask --tokens "$BATS_TEST_TMPDIR/tokens"
  status_is 2
  output_has "a NUL among the tokens"
  run $KVTIER_CONFIGURED route workers
  status_is 0
  golden route-workers
  run $KVTIER_CONFIGURED route workers --advisor-url "http://127.0.0.1:$(cat "$BATS_FILE_TMPDIR/port")/a/"
  status_is 0
  run $KVTIER_CONFIGURED route requests
  status_is 0
  golden route-requests
  run $KVTIER_CONFIGURED route free "a b"
  status_is 0
  run $KVTIER_CONFIGURED route free again
  status_is 9
  run $KVTIER_CONFIGURED route free stranger
  status_is 3
}

@test "orders ls, policy show" {
  run $KVTIER_CONFIGURED orders ls
  status_is 0
  golden orders-ls
  run $KVTIER_CONFIGURED policy show
  status_is 0
  golden policy-show
}

@test "block explain" {
  run $KVTIER_CONFIGURED block explain deadbeef00000000 --namespace team/llama
  status_is 0
  golden block-explain
  run $KVTIER_CONFIGURED block explain deadbeef00000000 --on second_cold_hit -o json
  status_is 0
  output_has '"source":"second_cold_hit"'
  run $KVTIER_CONFIGURED block explain 17
  status_is 3
  run $KVTIER_CONFIGURED block explain 17 --on tuesday
  status_is 2
  run $KVTIER_CONFIGURED block explain deadbeef0000000g
  status_is 2
}

@test "policy history, install, rollback" {
  cp "$KVTIER_SOURCE/config/policies/default.yaml" "$KVTIER_SOURCE/tests/policies/wrong/tab.yaml" "$BATS_TEST_TMPDIR"
  cd "$BATS_TEST_TMPDIR"
  run $KVTIER_CONFIGURED policy history
  status_is 0
  golden policy-history
  run $KVTIER_CONFIGURED policy history -o csv
  status_is 0
  output_has "2,1699999880000,200,rollback of 1,"
  run $KVTIER_CONFIGURED policy show --text
  status_is 0
  [ "$output" = "version: 1" ]
  run $KVTIER_CONFIGURED policy show --text default.yaml
  status_is 2
  run $KVTIER_CONFIGURED policy install default.yaml --if-version 3
  status_is 0
  golden policy-install
  output_has "$(wc -c <default.yaml): demote"
  run --separate-stderr $KVTIER_CONFIGURED policy install default.yaml
  status_is 0
  [ -z "$stderr" ]
  echo "# in force already" >>default.yaml
  run --separate-stderr $KVTIER_CONFIGURED policy install default.yaml
  status_is 0
  [ "$stderr" = "kvtier: already in force as version 3: nothing was changed" ]
  output_has "version        3"
  run $KVTIER_CONFIGURED policy install default.yaml --if-version 2
  status_is 6
  output_has "version 3 is in force, not 2"
  run $KVTIER_CONFIGURED policy install tab.yaml
  status_is 1
  output_has "tab.yaml:3:1: a tab"
  run $KVTIER_CONFIGURED policy install none.yaml
  status_is 3
  run $KVTIER_CONFIGURED policy rollback
  status_is 0
  output_has "rollback of 2"
  run $KVTIER_CONFIGURED policy rollback 1 -o json
  status_is 0
  output_has '"source":"rollback of 1"'
  run $KVTIER_CONFIGURED policy rollback 9
  status_is 3
  run $KVTIER_CONFIGURED policy rollback zero
  status_is 2
}

@test "policy mode sends the token" {
  run $KVTIER_CONFIGURED policy mode observe
  status_is 0
  output_has "mode           observe, by kvtier policy mode; the settings say enforce"
  echo other >"$BATS_TEST_TMPDIR/other"
  chmod 600 "$BATS_TEST_TMPDIR/other"
  run $KVTIER_CONFIGURED policy mode observe --admin-token-file "$BATS_TEST_TMPDIR/other"
  status_is 1
  output_has "the token in $BATS_TEST_TMPDIR/other is not the advisor's"
  # A flag that was left out, not a token that is wrong.
  run "$KVTIER" --config <(grep -v ^admin "$BATS_FILE_TMPDIR/cli.yaml") policy mode observe
  status_is 2
  output_has "this needs the admin token: --admin-token-file FILE"
  run $KVTIER_CONFIGURED policy mode nonsense
  status_is 2
}

@test "g4 ls walks all pages, and takes a prefix and a limit" {
  run --separate-stderr $KVTIER_CONFIGURED g4 ls
  status_is 0
  golden g4-ls
  run --separate-stderr $KVTIER_CONFIGURED g4 ls 0/3 --json
  status_is 0
  [ "$(echo "$output" | wc -l)" -eq 1 ]
  run --separate-stderr $KVTIER_CONFIGURED g4 ls --limit 2 --json
  [ "$(echo "$output" | wc -l)" -eq 2 ]
}

@test "g4 stat" {
  run $KVTIER_CONFIGURED g4 stat 0/1:k1
  status_is 0
  golden g4-stat
  run $KVTIER_CONFIGURED g4 stat 0/9:none
  status_is 3
  [[ $output != *"block show"* ]]
  run $KVTIER_CONFIGURED g4 stat 00000000deadbeef
  status_is 3
  output_has "a KEY is [NAMESPACE/]RANK/POSITION:"
  output_has "kvtier block show 00000000deadbeef"
}

@test "g4 adopt starts a walk, watches it and says what it came to" {
  run $KVTIER_CONFIGURED g4 adopt --show
  status_is 0
  output_has "adoption  needed"
  output_has "not kept until all of the bucket is counted"
  run --separate-stderr $KVTIER_CONFIGURED g4 adopt
  status_is 4
  golden g4-adopt
  [[ $stderr == *"what is left: kvtier g4 fsck"* ]]
  run --separate-stderr $KVTIER_CONFIGURED g4 adopt --rate 5 --json --detach
  status_is 0
  echo "$output" | python3 -c '
import json, sys
adoption = json.load(sys.stdin)["adoption"]
assert (adoption["state"], adoption["rate"]) == ("running", 5), adoption'
  run --separate-stderr $KVTIER_CONFIGURED g4 adopt --stop
  status_is 0
  [[ $stderr == *"it was stopped; go on with it: kvtier g4 adopt"* ]]
  for flags in "--stop --show" "--rate 0" "now" "--stop --rate 7" "--show --rate 7"; do
    run $KVTIER_CONFIGURED g4 adopt $flags
    status_is 2
  done
  run "$KVTIER" --gateway-url http://127.0.0.1:1 g4 adopt --show
  status_is 5
}

@test "g4 adopt: Ctrl-C ends the watching and says what the gateway does" {
  # A background job of a script ignores SIGINT; these must not.
  python3 - "$KVTIER" "$BATS_FILE_TMPDIR" <<'PY'
import os, signal, subprocess, sys, time
program, folder = sys.argv[1:]
url = f"http://127.0.0.1:{open(folder + '/port').read().strip()}/slow"
for flags, says, never in (([], "it goes on in the gateway", "told to stop"),
                           (["--stop"], "it was told to stop", "goes on in the gateway")):
    run = subprocess.Popen([program, "--gateway-url", url, "--admin-token-file", f"{folder}/token", "g4", "adopt", *flags],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    deadline = time.monotonic() + 30
    while not os.path.exists(f"{folder}/looked"):  # it watches
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=30)
    os.unlink(f"{folder}/looked")
    assert run.returncode == 10 and says in err and never not in err, (run.returncode, err)
PY
}

@test "g4 compact has a namespace packed, or says what that would do" {
  packs="$KVTIER_CONFIGURED --gateway-url http://127.0.0.1:$(cat "$BATS_FILE_TMPDIR/port")/packs"
  run --separate-stderr $packs g4 compact acme/llama --dry-run
  status_is 0
  golden g4-compact-dry
  run --separate-stderr $packs g4 compact acme/llama
  status_is 0
  golden g4-compact
  run --separate-stderr $packs g4 compact acme/llama --dry-run --json
  status_is 0
  echo "$output" | python3 -c '
import json, sys
row = json.load(sys.stdin)
assert (row["schema_version"], row["namespace"], row["outlook"]["pack_blocks"]) == (1, "acme/llama", 240), row'
  run --separate-stderr $packs g4 compact acme/llama
  status_is 4
  [[ $stderr == *"the gateway could not do it: the bucket is away"* ]]
  run --separate-stderr timeout 60 $KVTIER_CONFIGURED --gateway-url "http://127.0.0.1:$(cat "$BATS_FILE_TMPDIR/port")/shut" g4 compact acme/llama
  status_is 10
  [[ $stderr == *"not done yet: the bucket takes nothing"* ]]
  run $packs g4 compact another
  status_is 3
  output_has "not among packed.namespaces"
  run $packs g4 compact
  status_is 2
  run $KVTIER_CONFIGURED --gateway-url http://127.0.0.1:1 g4 compact acme/llama
  status_is 5
}

@test "g4 verify: good is 0, bad is 8, all counts" {
  run $KVTIER_CONFIGURED g4 verify 0/1:k1
  status_is 0
  run $KVTIER_CONFIGURED g4 verify 0/3:k3
  status_is 8
  output_has "length 5, expected 6"
  run $KVTIER_CONFIGURED g4 verify --all
  status_is 8
  output_has "5 objects, 5 copies read, 1 bad"
}

@test "g4 quarantine: by list, id and key" {
  run $KVTIER_CONFIGURED g4 quarantine
  status_is 0
  golden g4-quarantine
  run $KVTIER_CONFIGURED g4 quarantine show 00060a24181e4000
  status_is 0
  golden g4-quarantine-show
  run $KVTIER_CONFIGURED g4 quarantine show 0/3:k3 -o json
  status_is 0
  output_has '"schema_version":1'
  run $KVTIER_CONFIGURED g4 quarantine show nobody
  status_is 3
  run $KVTIER_CONFIGURED g4 quarantine show
  status_is 2
  run $KVTIER_CONFIGURED g4 quarantine drop
  status_is 2
}

@test "g4 quarantine restore and drop say what they would do; --yes does it" {
  run --separate-stderr $KVTIER_CONFIGURED g4 quarantine restore --all
  status_is 4
  golden g4-quarantine-restore
  [[ $stderr == "0 of 1 can be put back" ]]
  run --separate-stderr $KVTIER_CONFIGURED g4 quarantine drop 0/3:k3
  status_is 0
  [[ $output == "drop "* && $stderr == "1 of 1 to be dropped; --yes does it" ]]
  run --separate-stderr $KVTIER_CONFIGURED g4 quarantine drop 00060a24181e4000 --yes -o json
  status_is 0
  output_has '"done":true'
  output_has '"action":"drop"'
  run $KVTIER_CONFIGURED g4 quarantine restore nobody
  status_is 3
  for words in "restore --all 0/3:k3" "ls --all" "show 0/3:k3 --yes" "restore" "remove 0/3:k3"; do
    run $KVTIER_CONFIGURED g4 quarantine $words
    status_is 2
  done
  : >"$BATS_TEST_TMPDIR/no-token"
  run $KVTIER_CONFIGURED g4 quarantine drop --all --admin-token-file "$BATS_TEST_TMPDIR/no-token"
  status_is 1
}

@test "g4 fsck: findings, and nothing changed" {
  run --separate-stderr $KVTIER_CONFIGURED g4 fsck
  status_is 8
  golden g4-fsck
  [[ $stderr == "7 keys: 1 damaged, 1 row-without-object, 1 swapped, 1 lock-over, 1 foreign-key; nothing was changed"* ]]
  run --separate-stderr $KVTIER_CONFIGURED g4 fsck -o jsonl
  status_is 8
  [ "$(echo "$output" | wc -l)" -eq 6 ]
  run $KVTIER_CONFIGURED g4 fsck --gateway-url http://127.0.0.1:1
  status_is 5
  output_has "kvtier dev"
}

@test "g4 fsck tells a bucket that is away from a gateway that is" {
  run $KVTIER_CONFIGURED g4 fsck --gateway-url "http://127.0.0.1:$(cat "$BATS_FILE_TMPDIR/port")/away"
  status_is 5
  output_has "the bucket could not be listed: Couldn't connect to server (HTTP 503)"
  output_has "what is wrong: kvtier doctor"
  [[ $output != *"kvtier dev"* && $output != *"no gateway at"* ]]
}

@test "g4 fsck --repair says what came of it" {
  run --separate-stderr $KVTIER_CONFIGURED g4 fsck --repair
  status_is 4
  golden g4-fsck-repair
  [[ $stderr == *"; 1 done, 2 failed" ]]
  : >"$BATS_TEST_TMPDIR/no-token"
  run $KVTIER_CONFIGURED g4 fsck --repair --admin-token-file "$BATS_TEST_TMPDIR/no-token"
  [ "$status" -ne 0 ]
}

@test "g4 fsck goes on where it was" {
  run --separate-stderr $KVTIER_CONFIGURED g4 fsck --after 0/3:k3
  [[ $stderr == "going on behind 0/3:k3"*"foreign-key"* ]]
  [[ $output != *"0/1:k1"* ]]
  run --separate-stderr $KVTIER_CONFIGURED g4 fsck --state "$BATS_TEST_TMPDIR/state"
  status_is 8
  grep -q '"finished":true' "$BATS_TEST_TMPDIR/state"
}

@test "g4 gc says what it would do; --yes does it" {
  run --separate-stderr $KVTIER_CONFIGURED g4 gc
  status_is 0
  golden g4-gc
  [[ $stderr == *"nothing was changed: --yes does it" ]]
  run --separate-stderr $KVTIER_CONFIGURED g4 gc --yes
  status_is 0
  [[ $stderr == *"1 done, 0 failed" ]]
}

@test "YAML says what JSON says, whatever the command" {
  for command in "status" "block show 0xdeadbeef" "index stats" "index dump" "g4 ls" "g4 stat 0/1:k1" \
    "index match 00000000deadbeef 00000000000000aa" "sources ls" "sources show dyn" "orders ls" "route ask 1" "route workers" "route requests" \
    "policy show" "g4 verify --all" "g4 usage" "g4 fsck" "g4 gc" "g4 quarantine" "config show --origin" "doctor" "block show deadbeef00000000"; do
    $KVTIER_CONFIGURED $command -o json >"$BATS_TEST_TMPDIR/json" 2>/dev/null || true
    $KVTIER_CONFIGURED $command -o yaml >"$BATS_TEST_TMPDIR/yaml" 2>"$BATS_TEST_TMPDIR/err" || true
    python3 - "$BATS_TEST_TMPDIR/json" "$BATS_TEST_TMPDIR/yaml" "$command" <<'PYTHON'
import json, re, sys, yaml

text, objects, at = open(sys.argv[1]).read(), [], 0
while text[at:].strip():
    at += len(text[at:]) - len(text[at:].lstrip())
    value, at = json.JSONDecoder().raw_decode(text, at)
    objects.append(value)
documents = list(yaml.safe_load_all(open(sys.argv[2])))

def steady(value):  # what differs from run to run
    if isinstance(value, dict):
        moving = {"time_ms", "now_ms", "free_bytes", "output"}
        return {k: steady(v) for k, v in value.items() if k not in moving and not k.startswith("clock")}
    if isinstance(value, str):
        return re.sub(r"[0-9.]+ \w+ free \([0-9]+%\)", "free", value)
    return [steady(v) for v in value] if isinstance(value, list) else value

assert objects, f"{sys.argv[3]}: no JSON"
assert steady(documents) == steady(objects), f"{sys.argv[3]}:\n{documents}\n{objects}"
PYTHON
    run ! grep -q "written whole" "$BATS_TEST_TMPDIR/err"
  done
}

@test "YAML leaves alone what has a form of its own" {
  for command in "help status" "completion bash" "manual" "config example" "workload generate --requests 3"; do
    diff <($KVTIER_CONFIGURED $command) <($KVTIER_CONFIGURED $command -o yaml)
  done
}

@test "a stream in YAML comes document by document" {
  $KVTIER_CONFIGURED status --watch=100ms -o yaml >"$BATS_TEST_TMPDIR/out" 3>&- &
  pid=$!
  wait_for 20 bash -c "[ \$(grep -c '^---\$' '$BATS_TEST_TMPDIR/out') -ge 2 ]"
  kill -INT $pid
  wait $pid
  run bash -c "$KVTIER_CONFIGURED index dump -o yaml | head -1"
  status_is 0
  [ "$(echo "$output" | wc -l)" -eq 1 ]
}

@test "a closed pipe ends a walk quietly" {
  run bash -c "$KVTIER_CONFIGURED index dump --json | head -1"
  status_is 0
  [ "$(echo "$output" | wc -l)" -eq 1 ]
}
