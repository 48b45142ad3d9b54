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
