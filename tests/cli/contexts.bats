# Named installations: what is kept, which one counts, and what a damaged file does.
bats_require_minimum_version 1.5.0
load support

setup() {
  clean_environment
  cd "$BATS_TEST_TMPDIR"
  FILE=$XDG_CONFIG_HOME/kvtier/contexts.yaml
}

origin() { # KEY: what config show says of it
  "$KVTIER" "${@:2}" config show --origin | grep "^$1:"
}

@test "add, use, ls, rm" {
  run "$KVTIER" context ls
  status_is 0
  output_has "no contexts; add one"
  "$KVTIER" context add prod --advisor-url http://prod:1 --gateway-url http://prod:2 --bucket kv --admin-token-file token
  "$KVTIER" context add lab --advisor-url http://lab:1
  "$KVTIER" context use prod
  run "$KVTIER" context ls
  status_is 0
  golden context-ls
  run "$KVTIER" context ls -o json
  echo "$output" | python3 -c '
import json, os, sys
rows = json.load(sys.stdin)["contexts"]
assert [(r["name"], r["current"]) for r in rows] == [("lab", False), ("prod", True)], rows
assert rows[1]["settings"]["admin.token_file"] == os.getcwd() + "/token", rows'
  run "$KVTIER" context rm prod
  status_is 0
  run "$KVTIER" context ls --names
  [ "$output" = lab ]
  [[ $(origin advisor.url) == *default* ]]
  run "$KVTIER" context rm prod
  status_is 3
  run "$KVTIER" context use lba
  status_is 3
  output_has 'did you mean "lab"?'
}

@test "flag before variable before context before file before default" {
  printf 'advisor:\n  url: http://file\n' >cli.yaml
  "$KVTIER" context add a --advisor-url http://context-a
  "$KVTIER" context add b --advisor-url http://context-b
  [[ $(origin advisor.url --config cli.yaml) == *"http://file  # file"* ]]
  "$KVTIER" context use a
  [[ $(origin advisor.url) == *"http://context-a  # context a"* ]]
  [[ $(origin advisor.url --context b) == *"http://context-b  # context b"* ]]
  [[ $(KVTIER_CONTEXT=b origin advisor.url) == *"http://context-b  # context b"* ]]
  [[ $(KVTIER_CONTEXT=b origin advisor.url --context a) == *"context-a"* ]]
  [[ $(KVTIER_ADVISOR_URL=http://variable origin advisor.url) == *"http://variable  # environment"* ]]
  [[ $(origin advisor.url --advisor-url http://flag) == *"http://flag  # flag"* ]]
  [[ $(origin gateway.url) == *"# default"* ]]
  run "$KVTIER" config show --context nobody
  status_is 3
  output_has 'no context is called "nobody"'
  "$KVTIER" context use -
  [[ $(origin advisor.url) == *default* ]]
}

@test "a file that is named is not mixed with the context in use" {
  printf 'advisor:\n  url: http://file\n' >cli.yaml
  "$KVTIER" context add prod --advisor-url http://prod --nats-url nats://prod:1
  "$KVTIER" context use prod
  [[ $(origin advisor.url --config cli.yaml) == *"http://file  # file"* ]]
  [[ $(origin nats.url --config cli.yaml) == *"# default"* ]]
  [[ $(origin advisor.url --config cli.yaml --context prod) == *"http://prod  # context prod"* ]]
  [[ $(KVTIER_CONTEXT=prod origin advisor.url --config cli.yaml) == *"http://prod  # context prod"* ]]
  [[ $(origin advisor.url) == *"http://prod  # context prod"* ]]
  printf 'current: gone\n' >"$FILE" # nor hindered by it
  "$KVTIER" --config cli.yaml config show
  run "$KVTIER" --config cli.yaml --context prod config show
  status_is 3
}

@test "the file is the owner's, and nothing secret is in it" {
  "$KVTIER" context add prod --advisor-url http://prod:1
  [ "$(stat -c %a "$FILE")" = 600 ]
  run "$KVTIER" context add prod --gateway-url http://prod:2
  status_is 6
  output_has "--replace"
  "$KVTIER" context add prod --gateway-url http://prod:2 --replace
  [[ $(origin advisor.url --context prod) == *"http://prod:1"* ]]
  [[ $(origin gateway.url --context prod) == *"http://prod:2"* ]]
  run "$KVTIER" context add leak --nats-url nats://me:hunter2@bus:4222
  [ "$status" -ne 0 ]
  [[ $output != *hunter2* ]]
  run grep -r hunter2 "$XDG_CONFIG_HOME"
  [ "$status" -ne 0 ]
  run "$KVTIER" context add empty
  status_is 2
  run "$KVTIER" context add -- -x --advisor-url http://x
  status_is 2
  chmod 666 "$FILE"
  run "$KVTIER" config show
  [ "$status" -ne 0 ]
  output_has "chmod 600"
}

@test "a wrong file is refused with its line, and can be mended" {
  mkdir -p "$XDG_CONFIG_HOME/kvtier"
  printf 'current: ""\ncontexts:\n  a:\n    advisor.ulr: http://x\n' >"$FILE"
  run "$KVTIER" config show
  status_is 2
  output_has "contexts.yaml:4"
  output_has "advisor.ulr"
  run "$KVTIER" context ls
  [ "$status" -ne 0 ]
  printf 'current: gone\n' >"$FILE"
  run "$KVTIER" status
  status_is 3
  output_has 'no context is called "gone"'
  "$KVTIER" context use -
  "$KVTIER" config show
}

@test "adding from many shells at once loses none" {
  for i in $(seq 12); do
    "$KVTIER" context add "c$i" --advisor-url "http://c$i" 2>/dev/null 3>&- &
  done
  wait
  [ "$("$KVTIER" context ls --names | wc -l)" -eq 12 ]
}

@test "without a home there are no contexts" {
  unset XDG_CONFIG_HOME HOME
  "$KVTIER" config show
  run "$KVTIER" context add a --advisor-url http://x
  [ "$status" -ne 0 ]
  output_has "HOME"
}

@test "completion knows the names" {
  "$KVTIER" context add prod --advisor-url http://prod:1
  mkdir bin
  ln -s "$KVTIER" bin/kvtier
  PATH=$PWD/bin:$PATH run bash -c '
    source <(kvtier completion bash)
    COMP_WORDS=(kvtier context use p) COMP_CWORD=3
    _kvtier
    echo "${COMPREPLY[*]}"
    COMP_WORDS=(kvtier status --context p) COMP_CWORD=3
    _kvtier
    echo "${COMPREPLY[*]}"'
  status_is 0
  [ "$output" = $'prod\nprod' ]
}
