# kvtier policy simulate: figures people choose by.
bats_require_minimum_version 1.5.0
load support

setup() {
  clean_environment
  cd "$BATS_TEST_TMPDIR"
  # Chats a, b and c share x; b comes once.
  {
    echo '{"timestamp": 0, "input_length": 3, "output_length": 1, "hash_ids": [1, 10, 11]}'
    echo '{"timestamp": 1000, "input_length": 3, "output_length": 1, "hash_ids": [1, 20, 21]}'
    echo '{"timestamp": 2000, "input_length": 4, "output_length": 1, "hash_ids": [1, 10, 11, 12]}'
    echo '{"timestamp": 3000, "input_length": 3, "output_length": 1, "hash_ids": [1, 30, 31]}'
    echo '{"timestamp": 4000, "input_length": 5, "output_length": 1, "hash_ids": [1, 10, 11, 12, 13]}'
  } >trace
}

@test "a small trace, as a table" {
  run "$KVTIER" policy simulate trace --orderings lru,fifo --sizes 3,5 --block-size 1MiB \
    --promotion always
  status_is 0
  golden policy-simulate
}

@test "a small trace, counted by hand" {
  "$KVTIER" policy simulate trace --orderings lru --sizes 5 --promotion always -o json >answer
  python3 - <<'PY'
import json
answer = json.load(open("answer"))
assert answer["requests"] == 5 and answer["reads"] == 18 and answer["blocks"] == 9
lru = answer["runs"][0]
# Requests 2 to 5 hit x, [x 10 11], x and, of [x 10 11 12 13], whatever five places held.
assert lru["hot_reads"] + lru["cold_reads"] == 18 - 9
assert lru["prefix_hits"] <= lru["best_hits"] == 9
assert lru["demotions"] >= 9 - 5 and lru["puts"] <= lru["demotions"]
cost = (lru["hot_reads"] + 10 * lru["cold_reads"] + lru["promotions"] + lru["demotions"]) / 9
assert abs(lru["read_cost"] - cost) < 1e-3
assert answer["pick"]["ordering"] == "lru" and answer["pick"]["why"]
PY
}

@test "the same seed, the same figures; what is asked for is there" {
  "$KVTIER" policy simulate --seed 3 --requests 400 --sizes 5%,20% -o json >a
  "$KVTIER" policy simulate --seed 3 --requests 400 --sizes 20%,5%,5% -o json >b
  cmp a b
  "$KVTIER" workload generate --seed 3 --requests 400 --out file
  "$KVTIER" policy simulate file --sizes 5%,20% -o json >c
  cmp a c
  [ "$(python3 -c 'import json; print(*[r["ordering"] for r in json.load(open("a"))["runs"][:9]])')" = \
    "rhi lru lfu fifo s3fifo arc gdsf prefix idle" ]
}

@test "a plugin stands beside the others" {
  run "$KVTIER" policy simulate trace --orderings lru --sizes 4 \
    --plugin "$KVTIER_BUILD/policy/ordering_clock.so" -o json
  status_is 0
  output_has '"ordering":"clock"'
  [ "$("$KVTIER" policy simulate trace --orderings lru,rhi --sizes 4,5 -o csv | wc -l)" -eq 5 ]
  run "$KVTIER" policy simulate trace --plugin "$KVTIER_BUILD/tests/unit/policy/ordering_bad_abi.so"
  [ "$status" -ne 0 ]
  output_has "made for ordering ABI 2"
}

@test "reports stand alone" {
  "$KVTIER" policy simulate trace --sizes 3,5 --report page.html >/dev/null
  "$KVTIER" policy simulate trace --sizes 3,5 --report picture.svg >/dev/null
  python3 - <<'PY'
import re, xml.dom.minidom
page, picture = open("page.html").read(), open("picture.svg").read()
xml.dom.minidom.parseString(picture)
for text in (page, picture):
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r'(src|href)=|url\(|@import|<script', text)
assert "<b>Pick:</b>" in page and "<svg" in page
PY
  run "$KVTIER" policy simulate trace --report page.pdf
  status_is 2
}

# Tenants acme and zeta, and three tiers.
write_policy() {
  cat >policy.yaml <<'YAML'
version: 1
tiers:
  ssd: {level: G3, capacity: 5MiB, prices: {gib_month: 80000, latency: 1ms}}
  near: {level: G4, capacity: 8MiB, prices: {gib_month: 20000, put_1k: 5, get_1k: 4, latency: 40ms}}
  far: {level: G4, prices: {gib_month: 4000, put_1k: 20, get_1k: 10, egress_gib: 30, latency: 120ms}}
defaults: {order_by: lru}
rules:
  - {id: up, from: near, to: ssd, on: second_cold_hit}
  - {id: back, from: far, to: ssd, on: second_cold_hit, promote_by: price}
  - {id: down, from: ssd, to: near, trigger: {start: 80%, stop: 60%}}
  - {id: on-down, from: near, to: far, trigger: {start: 75%, stop: 50%}}
  - {id: pack, in: near, do: compact, on: fragmentation}
quotas:
  - {tenant: zeta, tier: ssd, hard: 1MiB}
modes: {mode: enforce}
YAML
  sed 's/"hash_ids"/"namespace": "acme\/llama", "hash_ids"/' trace >tenants
  echo '{"timestamp": 5000, "input_length": 2, "output_length": 1, "namespace": "zeta/llama", "hash_ids": [1, 10]}' >>tenants
}

@test "a policy over its tiers, as a table and as JSON" {
  write_policy
  run "$KVTIER" policy simulate tenants --policy policy.yaml --block-size 1MiB
  status_is 0
  golden policy-simulate-tiers
  "$KVTIER" policy simulate tenants --policy policy.yaml --block-size 1MiB -o json >answer
  python3 - <<'PY'
import json
answer = json.load(open("answer"))
assert answer["requests"] == 6 and answer["reads"] == 20 and answer["blocks"] == 11, answer
tiers = {tier["name"]: tier for tier in answer["tiers"]}
assert sum(tier["reads"] for tier in tiers.values()) == answer["known_reads"] == 9
assert tiers["near"]["puts"] >= 11 and tiers["ssd"]["most_blocks"] <= 4 and tiers["near"]["blocks"] < 6
for edge in answer["edges"]:
    assert edge["bytes"] == edge["copied"] << 20
flow = {(edge["from"], edge["to"]): edge["blocks"] for edge in answer["edges"]}
came = 11 - sum(flow.get(("ssd", to), 0) for to in tiers) + sum(flow.get((tier, "ssd"), 0) for tier in tiers)
assert tiers["ssd"]["blocks"] == came
assert answer["quotas"] == [{"tenant": "zeta", "tier": "ssd", "soft": 0, "hard": 1 << 20, "used": 1 << 20}]
assert answer["left_out"] == ["pack"] and answer["ordering"] == "lru"
PY
}

@test "tiers of a policy may have other sizes" {
  write_policy
  "$KVTIER" policy simulate tenants --policy policy.yaml --block-size 1MiB --orderings rhi \
    --capacity ssd=100MiB,near=0B -o json >answer
  [ "$(python3 -c 'import json; a = json.load(open("answer")); print(a["ordering"], *[t["reads"] for t in a["tiers"]], a["tiers"][0]["capacity_bytes"] >> 20)')" = \
    "rhi 9 0 0 100" ]
  for flags in "--capacity nvme=1GiB" "--capacity ssd" "--capacity ssd=much" "--orderings rhi,lru" "--report a.html"; do
    # shellcheck disable=SC2086 # flag and value
    run "$KVTIER" policy simulate tenants --policy policy.yaml $flags
    status_is 2
  done
  run "$KVTIER" policy simulate tenants --policy nowhere.yaml
  status_is 3
  echo "version: 2" >wrong.yaml
  run "$KVTIER" policy simulate tenants --policy wrong.yaml
  status_is 1
}

@test "a flag that would change nothing is refused, and another named" {
  write_policy
  for flags in "--sizes 5%" "--promotion never" "--second-requests 9" "--idle-requests 9" "--price-put 1" \
    "--price-get 1" "--price-hot 1" "--price-cold 1" "--price-transfer 1" "--report a.html" "--seed 2" \
    "--requests 9"; do
    # shellcheck disable=SC2086 # flag and value
    run "$KVTIER" policy simulate tenants --policy policy.yaml $flags
    status_is 2
    output_has "${flags%% *}: "
  done
  run "$KVTIER" policy simulate tenants --policy policy.yaml --sizes 5%
  output_has "--sizes: not with --policy: --capacity says its tiers' sizes"
  run "$KVTIER" policy simulate tenants --capacity ssd=1GiB
  status_is 2
  output_has "--capacity: of the tiers of a --policy"
  run "$KVTIER" policy simulate tenants --policy policy.yaml --move-cost 3 --cold-read-cost 20
  status_is 0
}

@test "a tier that would hold more than it may is told of" {
  write_policy
  sed '/id: on-down/d' policy.yaml >kept.yaml
  run "$KVTIER" policy simulate tenants --policy kept.yaml --block-size 1MiB
  status_is 0
  output_has "near would need 11.00 MiB, which is more than it may hold: no rule demotes or expires what it has; a gateway at its cap refuses new blocks"
  sed 's/id: on-down,/id: on-down, when: depth > 9,/' policy.yaml >picky.yaml
  run "$KVTIER" policy simulate tenants --policy picky.yaml --block-size 1MiB
  output_has "near would need 11.00 MiB, which is more than it may hold: its rules let too little go;"
  run "$KVTIER" policy simulate tenants --policy policy.yaml --block-size 1MiB
  [[ $output != *"would need"* ]]
}

@test "what limits keep back is told" {
  write_policy
  sed -i 's/id: on-down,/id: on-down, limits: {rate: 180KiB\/s, per_run: 2},/; s/id: down,/id: down, limits: {per_run: 2},/
    s/modes: {mode: enforce}/modes: {mode: enforce, canary: 70%}/' policy.yaml
  run "$KVTIER" policy simulate tenants --policy policy.yaml --block-size 1MiB
  status_is 0
  golden policy-simulate-limits
  "$KVTIER" policy simulate tenants --policy policy.yaml --block-size 1MiB -o json >answer
  python3 - <<'PY'
import json
answer = json.load(open("answer"))
rules = {rule["id"]: rule for rule in answer["rules"]}
assert rules["down"]["per_run_stops"] > 0 and rules["down"]["blocks"] == 2, rules
assert rules["on-down"]["rate_waited_ms"] > 0 and answer["observed"] > 0 and answer["staged"] == 0
PY
}

@test "what cannot be meant is refused" {
  for flags in "--sizes 0" "--sizes 5x" "--orderings nope" "--price-put -1" "--move-cost a" "--promotion soon"; do
    # shellcheck disable=SC2086 # flag and value
    run "$KVTIER" policy simulate trace $flags
    status_is 2
  done
  run "$KVTIER" policy simulate nowhere
  status_is 3
  head -1 trace >once
  run "$KVTIER" policy simulate once
  output_has "no block is read twice"
  { cat trace; echo broken; } >partly
  run "$KVTIER" policy simulate partly --sizes 3
  status_is 4
  output_has "partly:6"
  run "$KVTIER" policy simulate "$KVTIER_SOURCE/config/policies/default.yaml"
  status_is 2
  output_has "default.yaml: no trace and no recording; a policy is tested with kvtier policy plan and kvtier policy test"
  [ "${#lines[@]}" -le 2 ]
}
