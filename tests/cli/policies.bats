# Policy files: checked, tested, shown, compared.
bats_require_minimum_version 1.5.0
load support

setup() {
  clean_environment
  cd "$BATS_TEST_TMPDIR"
  cp "$KVTIER_SOURCE"/config/policies/*.yaml "$KVTIER_SOURCE"/tests/policies/wrong/*.yaml .
}

@test "every policy that comes with KVTier is good and passes its tests" {
  for name in default small-hot tenants four-tiers; do
    run "$KVTIER" policy validate $name.yaml
    status_is 0
    output_has "$name.yaml: good: mode observe"
    run "$KVTIER" policy test $name.yaml
    status_is 0
    output_has ", 0 failed"
  done
}

@test "policy validate tells every mistake with its line" {
  run "$KVTIER" policy validate units-mixed.yaml
  status_is 1
  golden policy-validate-wrong
  run "$KVTIER" policy validate schedule-nonsense.yaml
  status_is 1
  golden policy-validate-many
  run "$KVTIER" policy validate none.yaml
  status_is 3
}

@test "policy validate as JSON" {
  run --separate-stderr "$KVTIER" policy validate units-mixed.yaml -o json
  status_is 1
  golden policy-validate-wrong-json
  run --separate-stderr "$KVTIER" policy validate default.yaml -o json
  status_is 0
  [ "$output" = '{"schema_version":1,"file":"default.yaml","valid":true,"mode":"observe","tiers":2,"classes":0,"rules":3,"quotas":0,"tests":4}' ]
}

@test "what is no policy is not taken for one" {
  run "$KVTIER" policy test none.yaml
  status_is 3
  printf 'policy:\n  hot_start: 80%%\n' >settings.yaml
  run "$KVTIER" policy validate settings.yaml
  status_is 0
  output_has "hot 80% to"
  run "$KVTIER" policy test settings.yaml
  status_is 1
  output_has 'unknown key "policy" in a policy'
}

@test "policy validate: a file that was cut short is no settings file" {
  : >empty.yaml
  run "$KVTIER" policy validate empty.yaml
  status_is 1
  golden policy-validate-empty
  printf '# hot volumes\n\n' >comments.yaml
  run "$KVTIER" policy validate comments.yaml
  status_is 1
  output_has "the file is empty"
  printf 'log: {level: info}\n' >log.yaml
  run "$KVTIER" policy validate log.yaml
  status_is 1
  golden policy-validate-log
  run --separate-stderr "$KVTIER" policy validate log.yaml -o json
  status_is 1
  [[ $output == *'"valid":false'* ]]
  printf 'policy:\n' >cut.yaml
  run "$KVTIER" policy validate cut.yaml
  status_is 1
  printf 'log: {level: info}\npolicy:\n' >settings.yaml # as the example file is, which sets nothing
  run "$KVTIER" policy validate settings.yaml
  status_is 0
  printf 'log: {level: info}\npolicy.hot_start: 80%%\n' >dotted.yaml
  run "$KVTIER" policy validate dotted.yaml
  status_is 0
  printf 'policy:\n  hot_strat: 80%%\n' >mistaken.yaml
  run "$KVTIER" policy validate mistaken.yaml
  status_is 1
  output_has "hot_start"
}

@test "policy test says which rule won and why" {
  sed 's/fanout: 40/fanout: 4/; s/last_access: 2h, fill: 62%/last_access: 20m, fill: 92%/' small-hot.yaml >changed.yaml
  run "$KVTIER" policy test changed.yaml
  status_is 1
  golden policy-test-failed
  run "$KVTIER" policy test changed.yaml -o yaml
  status_is 1
  golden policy-test-failed-yaml
}

@test "policy test says that there is nothing to be tested" {
  sed '/^tests:/,$d' default.yaml >none-in-it.yaml
  run "$KVTIER" policy test none-in-it.yaml
  status_is 0
  [ "$output" = "no tests in none-in-it.yaml; they go below tests: (docs/policies.md)" ]
  run "$KVTIER" policy test none-in-it.yaml -o json
  status_is 0
  [ "$output" = '{"schema_version":1,"file":"none-in-it.yaml","tests":[],"passed":0,"failed":0}' ]
}

@test "policy show fills in defaults and says where values are from" {
  run "$KVTIER" policy show default.yaml
  status_is 0
  golden policy-show-file
  run "$KVTIER" policy show default.yaml -o json
  status_is 0
  echo "$output" | python3 -c '
import json, sys
rows = {row["key"]: row for row in json.load(sys.stdin)["policy"]}
assert rows["rules.drain-hot.do"]["value"] == "demote"
assert rows["rules.drain-hot.do"]["origin"] == "inferred"
assert rows["modes.canary"] == {"key": "modes.canary", "value": "100%", "origin": "built in", "line": 0}'
  run "$KVTIER" policy show default.yaml -o csv
  status_is 0
  output_has 'rules,"bring-back, drain-hot, drain-cold",written,10'
  run "$KVTIER" policy show default.yaml -o wide
  status_is 0
  output_has "G2 is host memory"
  run "$KVTIER" policy show tab.yaml
  status_is 1
  output_has "tab.yaml:3:1: a tab"
}

@test "policy diff: meaning counts, not spelling" {
  sed 's/start: 85%/start: 90%/; s/mode: observe/mode: enforce/; s/cold: {level: G4}/cold: {level: "G4"}/' default.yaml >changed.yaml
  sed '/^#/d; s/85%/0.85/' default.yaml >same.yaml
  run "$KVTIER" policy diff default.yaml same.yaml --detailed-exitcode
  status_is 0
  [ -z "$output" ]
  run "$KVTIER" policy diff default.yaml changed.yaml
  status_is 0
  golden policy-diff
  run "$KVTIER" policy diff default.yaml changed.yaml --detailed-exitcode -o json
  status_is 10
  [ "$output" = '{"schema_version":1,"changes":[{"change":"changed","key":"rules.drain-hot.trigger.start","old":"85%","new":"90%"},{"change":"changed","key":"modes.mode","old":"observe","new":"enforce"}]}' ]
  run "$KVTIER" policy diff default.yaml none.yaml
  status_is 3
  run "$KVTIER" policy diff default.yaml tab.yaml
  status_is 1
}

@test "policy diff: tests count when they are asked for" {
  sed 's/a full hot volume/an overfull hot volume/' default.yaml >tested.yaml
  run --separate-stderr "$KVTIER" policy diff default.yaml tested.yaml --detailed-exitcode
  status_is 0
  [ -z "$output" ]
  [ "$stderr" = "1 more in tests; --tests shows them" ]
  run --separate-stderr "$KVTIER" policy diff default.yaml tested.yaml --detailed-exitcode -o json
  status_is 0
  [ "$output" = '{"schema_version":1,"changes":[]}' ]
  run "$KVTIER" policy diff default.yaml tested.yaml --tests --detailed-exitcode
  status_is 10
  golden policy-diff-tests
}

@test "policy schema is the published one, and the manual has the reference" {
  "$KVTIER" policy schema >schema.json
  cmp schema.json "$KVTIER_SOURCE/config/policy.schema.json"
  python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["$schema"].endswith("2020-12/schema")' schema.json
  run "$KVTIER" policy schema --as markdown
  status_is 0
  output_has '| `id` (needed) | name | | Its name, once in the file. |'
  run "$KVTIER" policy schema --as yaml
  status_is 2
}

@test "help of the policy commands has examples" {
  for command in validate test diff schema show; do
    run "$KVTIER" policy $command --help
    status_is 0
    output_has "kvtier policy $command"
    output_has "example"
  done
}
