# Help, mistakes on the command line, settings, and servers that are not there.
bats_require_minimum_version 1.5.0
load support

setup() {
  clean_environment
  cd "$BATS_TEST_TMPDIR"
}

# A port nobody listens on: bound once, and free again.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

@test "help lists every command and exit status" {
  run "$KVTIER" --help
  status_is 0
  golden help
}

@test "help goes to standard output, and usage for nothing to standard error" {
  "$KVTIER" --help 2>err >out
  [ -s out ] && [ ! -s err ]
  run --separate-stderr "$KVTIER"
  status_is 2
  [ -z "$output" ]
  [ -n "$stderr" ]
}

@test "help of one command, three ways" {
  run "$KVTIER" help g4 verify
  status_is 0
  golden help-g4-verify
  first=$output
  run "$KVTIER" g4 verify --help
  [ "$output" = "$first" ]
  run "$KVTIER" -h g4 verify
  [ "$output" = "$first" ]
}

@test "every command has help and an example that parses" {
  "$KVTIER" help | sed -n '/^commands:/,/^$/p' | sed -n 's/^  \([a-z0-9]* *[a-z]*\)  .*/\1/p' |
    sed 's/ *$//' >commands
  [ "$(wc -l <commands)" -ge 20 ]
  while read -r command; do
    run "$KVTIER" help $command
    status_is 0
    output_has "usage: kvtier $command"
  done <commands
}

@test "version" {
  run "$KVTIER" --version
  status_is 0
  [[ $output =~ ^kvtier\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
  run "$KVTIER" version -o json
  status_is 0
  echo "$output" | python3 -c 'import json, sys; assert json.load(sys.stdin)["schema_version"] == 1'
}

@test "an unknown command suggests the nearest" {
  run "$KVTIER" stauts
  status_is 2
  output_has 'unknown command "stauts" (did you mean "status"?)'
  run "$KVTIER" block shwo 1
  status_is 2
  output_has 'did you mean "block show"?'
  run "$KVTIER" zzzzzz
  status_is 2
  [[ $output != *"did you mean"* ]]
}

@test "-o with a file says what it is for, and which flag writes one" {
  run "$KVTIER" policy plan -o plan.json
  status_is 2
  output_has '-o: "plan.json" looks like a file, and -o says how to print: --out FILE'
  run "$KVTIER" policy show -o./shown
  status_is 2
  output_has '-o: "./shown" looks like a file, and -o says how to print'
}

@test "an unknown flag suggests the nearest, of the command and of all" {
  run "$KVTIER" status --wach
  status_is 2
  output_has 'unknown flag --wach (did you mean --watch?)'
  run "$KVTIER" status --advisor-ulr http://x
  status_is 2
  output_has 'did you mean --advisor-url?'
  run "$KVTIER" status -x
  status_is 2
  output_has 'unknown flag -x'
}

@test "a noun without its verb lists its verbs" {
  run "$KVTIER" index
  status_is 2
  output_has "index match"
  output_has "index wants a command"
}

@test "wrong numbers of arguments" {
  run "$KVTIER" block show
  status_is 2
  output_has "block show wants HASH"
  run "$KVTIER" orders ls more
  status_is 2
  output_has 'one argument too many: "more"'
  run "$KVTIER" g4 verify
  status_is 2
  run "$KVTIER" g4 verify key --all
  status_is 2
}

@test "bad values name the flag" {
  run "$KVTIER" orders ls --limit many
  status_is 2
  output_has "limit"
  run "$KVTIER" orders ls --limit 0
  status_is 2
  run "$KVTIER" status -o xml
  status_is 2
  output_has "table|wide|json"
  run "$KVTIER" orders ls --limit
  status_is 2
  output_has "--limit wants a value"
  run "$KVTIER" block show nonsense
  status_is 2
  output_has "no hash"
}

@test "settings: flag before variable before file before default" {
  printf 'advisor:\n  url: http://file\n' >cli.yaml
  run "$KVTIER" --config cli.yaml config show --origin
  status_is 0
  output_has "http://file"
  KVTIER_ADVISOR_URL=http://variable run "$KVTIER" --config cli.yaml config show --origin
  output_has "http://variable"
  KVTIER_ADVISOR_URL=http://variable run "$KVTIER" --config cli.yaml --advisor-url http://flag config show
  output_has "http://flag"
}

@test "a wrong settings file is refused with its line" {
  printf 'advisor:\n  ulr: http://file\n' >cli.yaml
  run "$KVTIER" --config cli.yaml status
  status_is 2
  output_has "cli.yaml:2"
  output_has 'did you mean "advisor.url"'
  run "$KVTIER" --config missing.yaml status
  status_is 3
}

@test "the example file is good as it is" {
  "$KVTIER" config example >cli.yaml
  run "$KVTIER" --config cli.yaml config show
  status_is 0
}

@test "no server: what is missing, what to do next, exit status 5" {
  port=$(free_port)
  run "$KVTIER" orders ls --advisor-url "http://127.0.0.1:$port"
  status_is 5
  output_has "no advisor at http://127.0.0.1:$port"
  output_has "kvtier dev"
  output_has "kvtier --advisor-url URL orders ls"
  [[ $output != *--offline* ]]
  for command in "index stats" "index match 1" "index dump" "block show 1"; do
    run "$KVTIER" $command --advisor-url "http://127.0.0.1:$port"
    status_is 5
    output_has "--offline DIR"
    output_has "/var/lib/kvtier/advisor unless set"
    [[ $output != *HASH\ \ * ]]
  done
  run "$KVTIER" g4 ls --gateway-url "http://127.0.0.1:$port"
  status_is 5
  output_has "no gateway at"
  run "$KVTIER" events tail --nats-url "nats://127.0.0.1:$port"
  status_is 5
  output_has "no NATS at"
  run "$KVTIER" status --gateway-url "http://127.0.0.1:$port" --advisor-url "http://127.0.0.1:$port"
  status_is 5
  output_has "away"
}

@test "no server, JSON: the error is an object" {
  port=$(free_port)
  run --separate-stderr "$KVTIER" orders ls --json --advisor-url "http://127.0.0.1:$port"
  status_is 5
  echo "$output" | python3 -c 'import json, sys; assert json.load(sys.stdin)["error"]["code"] == "UNAVAILABLE"'
}

@test "offline without an index: what is wanted, exit status 3, and the folder is left as it was" {
  mkdir empty
  for command in "index stats" "index match 1" "index dump" "block show 1"; do
    run "$KVTIER" $command --offline empty
    status_is 3
    output_has "no index in empty"
    output_has "state.dir"
    run "$KVTIER" $command --offline missing
    status_is 3
  done
  [ ! -e missing ]
  [ ! -e empty/data.mdb ]
  mkdir foreign
  head -c 65536 /dev/urandom >foreign/data.mdb
  run "$KVTIER" index stats --offline foreign
  status_is 8
}

@test "doctor fails, and says for each line what to do" {
  port=$(free_port)
  run "$KVTIER" doctor --nats-url "nats://127.0.0.1:$port" --advisor-url "http://127.0.0.1:$port" \
    --gateway-url "http://127.0.0.1:$port" --state "$BATS_TEST_TMPDIR"
  status_is 1
  output_has "fail  nats"
  output_has "-> start nats-server -js"
  output_has "fail  advisor"
  output_has "fail  gateway"
  output_has "ok    disk"
}

# start_nats FILE: a server with that configuration; PORT is where.
start_nats() {
  PORT=$(free_port)
  nats-server -a 127.0.0.1 -p "$PORT" -c "$1" >nats.log 2>&1 3>&- &
  NATS=$!
  wait_for 10 grep -q "Server is ready" nats.log
}

teardown() {
  if [ -n "${NATS:-}" ]; then
    kill "$NATS"
    wait "$NATS" || true
  fi
}

@test "NATS that refuses our credentials: said as such, with what to do" {
  cat >nats.conf <<CONF
jetstream { store_dir: "$BATS_TEST_TMPDIR/js" }
authorization { users = [
  { user: all, password: pw }
  { user: most, password: pw, permissions: { publish: { deny: "kvtier.v1.orders.>" } } }
] }
CONF
  start_nats nats.conf
  for user in all most wrong; do
    echo "$user:pw" >$user
  done
  chmod 600 all most wrong
  url="nats://127.0.0.1:$PORT"
  run "$KVTIER" doctor --nats-url "$url"
  status_is 1
  output_has "fail  nats              NATS at $url refuses us without credentials"
  output_has "-> give what this server wants: --nats-user-file"
  run "$KVTIER" doctor --nats-url "$url" --nats-user-file wrong
  output_has "NATS at $url refuses these credentials"
  run "$KVTIER" events tail --nats-url "$url" --nats-user-file wrong
  status_is 1
  output_has "next: give what this server wants"
  run "$KVTIER" doctor --nats-url "$url" --nats-user-file missing
  output_has "fail  nats              NATS: open missing"
  run "$KVTIER" doctor --nats-url "$url" --nats-user-file all
  output_has "ok    nats              connected"
  [[ $output != *"nats orders"* ]] # there is no stream yet

  # The stream is made as the daemons would, by a NATS client in a few lines.
  python3 - "$PORT" <<'PY'
import json, socket, sys
nats = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
lines = nats.makefile("rb")
body = json.dumps({"name": "KVTIER_ORDERS", "subjects": ["kvtier.v1.orders.>"], "retention": "workqueue"})
nats.sendall(b'CONNECT {"verbose":false,"user":"all","pass":"pw"}\r\nSUB answer 1\r\n'
             + f"PUB $JS.API.STREAM.CREATE.KVTIER_ORDERS answer {len(body)}\r\n{body}\r\n".encode())
while not lines.readline().startswith(b"MSG"):
    pass
assert "error" not in json.loads(lines.readline())
PY
  run "$KVTIER" doctor --nats-url "$url" --nats-user-file all
  output_has "warn  nats orders       this client may publish orders; gateways execute only those signed"
  output_has "KVTIER_ORDERS is empty"
  run "$KVTIER" doctor --nats-url "$url" --nats-user-file most
  output_has "ok    nats orders       this client may not publish orders"
  # Asking has left nothing in the stream.
  run "$KVTIER" doctor --nats-url "$url" --nats-user-file all
  output_has "KVTIER_ORDERS is empty"
}

@test "a secret that others may read is refused" {
  echo secret >token
  chmod 644 token
  run "$KVTIER" policy mode observe --admin-token-file token
  status_is 1
  output_has "token"
  run "$KVTIER" policy mode observe
  status_is 2
  output_has "--admin-token-file"
}

@test "a full disk does not look like success" {
  [ -w /dev/full ] || skip "no /dev/full"
  run bash -c '"$KVTIER" help >/dev/full'
  [ "$status" -ne 0 ]
  run bash -c '"$KVTIER" workload generate --requests 1000 >/dev/full'
  [ "$status" -ne 0 ]
}

@test "policy validate: good, contradictory, unknown key, no YAML, missing" {
  printf 'policy:\n  hot_start: 80%%\n  hot_stop: 60%%\n' >good.yaml
  run "$KVTIER" policy validate good.yaml
  status_is 0
  output_has "hot 80% to 60%"
  printf 'policy:\n  hot_start: 60%%\n  hot_stop: 70%%\n' >bad.yaml
  run "$KVTIER" policy validate bad.yaml
  status_is 1
  output_has "must be below"
  printf 'policy:\n  hot_strt: 60%%\n' >bad.yaml
  run "$KVTIER" policy validate bad.yaml
  status_is 1
  output_has 'bad.yaml:2:3: unknown key "policy.hot_strt" (did you mean "policy.hot_start"?)'
  printf 'policy: [\n' >bad.yaml
  run "$KVTIER" policy validate bad.yaml
  status_is 1
  output_has "bad.yaml:"
  run "$KVTIER" policy validate none.yaml
  status_is 3
}
