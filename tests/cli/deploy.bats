# Units and containers, as far as a machine without them allows, and an installation into a prefix.
bats_require_minimum_version 1.5.0
load support

setup() {
  clean_environment
  cd "$BATS_TEST_TMPDIR"
}

# In CI nothing is skipped for a missing tool.
missing() {
  [ "${CI:-}" != true ] || { echo "missing: $1"; return 1; }
  skip "no $1"
}

# The units with a program that exists, which is all that depends on where things get installed.
copy_units() {
  mkdir -p units
  for unit in "$KVTIER_BUILD"/deploy/*.service; do
    sed 's|^ExecStart=.*|ExecStart=/bin/true|' "$unit" >"units/${unit##*/}"
  done
  [ "$(ls units | wc -l)" -eq 3 ]
}

# Without the service manager's own tool: sections, lines, and every hardening line.
read_unit() {
  awk '
    /^\[.*\]$/ { section = $0; if (section !~ /^\[(Unit|Service|Install)\]$/) exit 1; next }
    /^(#|$)/ { next }
    !/^[A-Z][A-Za-z]*=/ || section == "" { print FILENAME ": " $0; bad = 1 }
    END { exit bad }' "$1"
  grep '^[A-Z]' "$KVTIER_SOURCE/deploy/hardening.conf" | while read -r line; do
    grep -qxF "$line" "$1" || { echo "$1 lacks $line"; return 1; }
  done
}

@test "units are what the service manager understands" {
  copy_units
  for unit in units/*.service; do
    read_unit "$unit"
    command -v systemd-analyze >/dev/null || continue
    # man pages are not installed here, and other machines' units are none of our business.
    run systemd-analyze verify --man=no --recursive-errors=no "./$unit"
    status_is 0
    [[ $output != *"${unit##*/}"* ]]
  done
}

@test "units expose little" {
  copy_units
  command -v systemd-analyze >/dev/null || skip "no systemd-analyze to score them; lines are checked"
  for unit in units/*.service; do
    run systemd-analyze security --offline=true --threshold=20 --no-pager "./$unit"
    status_is 0
  done
}

@test "units name settings and secrets that their programs have" {
  for unit in "$KVTIER_BUILD"/deploy/*.service; do
    program=$(basename "$unit" .service)
    grep -q "^ExecStart=.*/$program\$" "$unit"
    for path in "$KVTIER_BUILD"/*/"$program"; do
      [ -x "$path" ] || continue
      for key in $(sed -n 's/^Environment=KVTIER_\([A-Z0-9_]*\)=.*/\1/p' "$unit"); do
        "$path" config show | sed 's/:.*//' | tr 'a-z.' 'A-Z_' | grep -qx "$key"
      done
    done
    for credential in $(sed -n 's/^Environment=.*%d\/\(.*\)/\1/p' "$unit"); do
      grep -q "^LoadCredential=$credential:" "$unit"
    done
  done
}

@test "compose.yaml is consistent" {
  if docker compose version >/dev/null 2>&1; then
    docker compose -f "$KVTIER_SOURCE/deploy/compose.yaml" config -q
  fi
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import yaml' 2>/dev/null; then
      run "$python" "$KVTIER_SOURCE/tests/cli/compose.py" "$KVTIER_SOURCE" \
        "$KVTIER_BUILD"/advisor/kvtier-advisor "$KVTIER_BUILD"/gateway/kvtier-gateway
      status_is 0
      return
    fi
  done
  missing "PyYAML (python3-yaml)"
}

@test "an installation into a prefix is whole, and its programs run from there" {
  run cmake --install "$KVTIER_BUILD" --prefix "$BATS_TEST_TMPDIR/prefix"
  status_is 0
  for file in bin/kvtier bin/kvtier-worker bin/kvtier-advisor bin/kvtier-gateway \
    share/man/man1/kvtier.1 share/man/man8/kvtier-gateway.8 \
    share/bash-completion/completions/kvtier share/zsh/site-functions/_kvtier \
    share/fish/vendor_completions.d/kvtier.fish share/doc/kvtier/examples/gateway.yaml \
    share/doc/kvtier/examples/policies/default.yaml share/kvtier/policy.schema.json \
    lib/systemd/system/kvtier-gateway.service include/kvtier/version.h include/kvtier/block.h; do
    [ -s "prefix/$file" ] || { echo "not installed: $file"; return 1; }
  done
  for program in kvtier kvtier-worker kvtier-advisor kvtier-gateway; do
    run "prefix/bin/$program" --version
    status_is 0
  done
}
