# Manual pages, example files and what is installed.
bats_require_minimum_version 1.5.0
load support

setup() {
  clean_environment
}

lint() {
  local page
  for page in "$@"; do
    # groff's own warnings; man-db adds the macros.
    if command -v man >/dev/null; then
      LC_ALL=C.UTF-8 MANROFFSEQ= MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null
    fi
    head -5 "$page" | grep -q '^\.TH '
    grep -q '^\.SH NAME' "$page"
  done
}

@test "every page is clean roff" {
  pages=("$KVTIER_BUILD"/man/man1/*.1)
  [ "${#pages[@]}" -ge 20 ]
  run lint "${pages[@]}"
  status_is 0
  [ -z "$output" ]
  for page in "$KVTIER_BUILD"/man/man8/*.8; do
    [ -e "$page" ] || continue
    run lint "$page"
    status_is 0
    [ -z "$output" ]
  done
}

@test "every command has its page" {
  "$KVTIER" help | sed -n '/^commands:/,/^$/p' | sed -n 's/^  \([a-z0-9]* *[a-z]*\)  .*/\1/p' |
    sed 's/ *$//; s/ /-/' >"$BATS_TEST_TMPDIR/commands"
  while read -r command; do
    [ -s "$KVTIER_BUILD/man/man1/kvtier-$command.1" ]
  done <"$BATS_TEST_TMPDIR/commands"
  [ -s "$KVTIER_BUILD/man/man1/kvtier.1" ]
}

@test "example files are what their programs accept" {
  run "$KVTIER" --config "$KVTIER_BUILD/man/examples/cli.yaml" config show
  status_is 0
  for noun in worker advisor gateway; do
    example=$KVTIER_BUILD/man/examples/$noun.yaml
    [ -e "$example" ] || continue
    for program in "$KVTIER_BUILD"/*/kvtier-$noun; do
      run "$program" --config "$example" config show
      status_is 0
    done
  done
  [ ! -e "$KVTIER_BUILD/man/examples/advisor.yaml" ] ||
    "$KVTIER" policy validate "$KVTIER_BUILD/man/examples/advisor.yaml"
}
