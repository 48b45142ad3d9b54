#!/usr/bin/env bats
# What is tested: kvtier policy plan and apply: what they print, which plans they refuse, and their exit status.
# How: fixed answers of an advisor that is none (fake.py), which signs by what docs/formats.md says.
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

expiring() {
  printf 'version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n# expire\n' >"$BATS_TEST_TMPDIR/policy.yaml"
}

@test "policy plan says what would be done, and saves it" {
  run $KVTIER_CONFIGURED policy plan
  status_is 0
  output=$(sed -E 's/^plan     [0-9a-f]{16}$/plan     DIGEST/' <<<"$output") # another each time
  golden policy-plan
  expiring
  cd "$BATS_TEST_TMPDIR"
  run $KVTIER_CONFIGURED policy plan policy.yaml --out plan.json
  status_is 0
  output_has "warning  2 blocks will be deleted"
  output_has "saved as plan.json; do it: kvtier policy apply plan.json --yes"
  run $KVTIER_CONFIGURED policy plan policy.yaml --json
  status_is 0
  python3 -c 'import json, sys; assert json.load(sys.stdin)["kind"] == "kvtier-plan"' <<<"$output"
  run $KVTIER_CONFIGURED policy plan missing.yaml
  status_is 3
}

@test "policy plan tells every mistake of a policy, and sends nothing" {
  cd "$BATS_TEST_TMPDIR"
  cp "$KVTIER_SOURCE/tests/policies/wrong/schedule-nonsense.yaml" .
  run "$KVTIER" policy validate schedule-nonsense.yaml
  status_is 1
  [ "$(grep -c '^schedule-nonsense.yaml:' <<<"$output")" -gt 1 ]
  told=$output
  run $KVTIER_CONFIGURED policy plan schedule-nonsense.yaml
  status_is 1
  [ "$output" = "$told" ]
}

@test "policy apply asks for --yes, and does it once" {
  cd "$BATS_TEST_TMPDIR"
  $KVTIER_CONFIGURED policy plan --out plan.json
  run $KVTIER_CONFIGURED policy apply plan.json
  status_is 10
  output_has "nothing was done; --yes does it"
  run $KVTIER_CONFIGURED policy apply plan.json --yes
  status_is 0
  output_has "blocks   3 of 3 done, 0 failed"
  run $KVTIER_CONFIGURED policy apply plan.json --yes # it is done, and stays so
  status_is 0
  output_has "job      13: plan "
  run $KVTIER_CONFIGURED policy apply plan.json --yes --detach
  status_is 0
  output_has "job 13 has it; look at it: kvtier migrate status 13"
  run $KVTIER_CONFIGURED policy apply plan.json
  status_is 10
  output_has "it was given as job 13, which is done; look at it: kvtier migrate status 13"
}

@test "policy apply of a plan whose policy is no longer in force is no success" {
  cd "$BATS_TEST_TMPDIR"
  $KVTIER_CONFIGURED policy rollback # what the tests before this one put in force
  $KVTIER_CONFIGURED policy plan --out plan.json
  $KVTIER_CONFIGURED policy apply plan.json --yes
  $KVTIER_CONFIGURED policy rollback
  for flags in "" --yes "--yes --detach"; do
    # shellcheck disable=SC2086 # several flags
    run $KVTIER_CONFIGURED policy apply plan.json $flags
    status_is 6
    output_has "the plan was given as job 13, which is done; version 3 of the policy is in force since"
    output_has "make it anew: kvtier policy plan"
  done
}

@test "policy apply that breaks off names the job that waits" {
  cd "$BATS_TEST_TMPDIR"
  printf 'version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n# refuse\n' >policy.yaml
  $KVTIER_CONFIGURED policy plan policy.yaml --out plan.json
  run $KVTIER_CONFIGURED policy apply plan.json --yes
  status_is 6
  output_has "run this again, or end it: kvtier migrate cancel 13"
}

@test "policy apply refuses what deletes too much, and what is stale" {
  cd "$BATS_TEST_TMPDIR"
  expiring
  $KVTIER_CONFIGURED policy plan policy.yaml --out plan.json
  run $KVTIER_CONFIGURED policy apply plan.json --yes # the policy allows one
  status_is 7
  output_has "it deletes 2 blocks and 1 are allowed; --max-delete 2 allows it"
  run $KVTIER_CONFIGURED policy apply plan.json --yes --max-delete 2
  status_is 6
  output_has "the plan is stale: 2 of 5 blocks are no longer where it says"
  python3 - <<'PY'
import copy, hashlib, json, os, sys
sys.path.insert(0, os.environ["KVTIER_SOURCE"] + "/tests/cli")
from plans import signed
plan = json.load(open("plan.json"))
for name, change in (("young", {"created_ms": plan["created_ms"] + 1}), ("cut", {"moves": plan["moves"][:1]}),
                     ("other", {"policy": "x"}), ("none", {"kind": "x"})):
    json.dump({**plan, **change}, open(name + ".json", "w"))
for name, path, value in (("calm", "warnings", []), ("fewer", "verbs", {}), ("cheap", "cost", 0), ("sums", "tiers", [])):
    json.dump({**plan, "summary": {**plan["summary"], path: value}}, open(name + ".json", "w"))
lies = copy.deepcopy(plan)
lies["summary"]["verbs"]["delete"]["blocks"] = 1
json.dump(signed(lies), open("lies.json", "w"))
json.dump(signed({**plan, "created_ms": 1}), open("old.json", "w"), indent=1)
PY
  run $KVTIER_CONFIGURED policy apply old.json --yes --max-delete 2
  status_is 6
  output_has "it is older than a day"
  run $KVTIER_CONFIGURED policy apply young.json --yes
  status_is 8
  run $KVTIER_CONFIGURED policy apply cut.json --yes
  status_is 8
  output_has "the plan was changed since it was made"
  run $KVTIER_CONFIGURED policy apply other.json --yes
  status_is 8
  for name in calm fewer cheap sums lies; do # what people agree to is part of the plan
    run $KVTIER_CONFIGURED policy apply $name.json
    status_is 8
  done
  run $KVTIER_CONFIGURED policy apply none.json --yes
  status_is 2
  output_has "this is no plan; make one: kvtier policy plan FILE --out plan.json"
  run $KVTIER_CONFIGURED policy apply policy.yaml --yes
  status_is 2
  output_has "this is no plan; make one: kvtier policy plan FILE --out plan.json"
  head -c 100 plan.json >torn.json
  run $KVTIER_CONFIGURED policy apply torn.json --yes
  status_is 2
  output_has "torn.json:1:"
  run $KVTIER_CONFIGURED policy apply missing.json --yes
  status_is 3
}
