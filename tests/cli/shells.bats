# Completion as the shells read it.
bats_require_minimum_version 1.5.0
load support

setup() {
  clean_environment
}

# What bash offers for the words given, the last of which is being typed.
bash_offers() {
  bash -c 'source <("$KVTIER" completion bash)
COMP_WORDS=(kvtier "$@"); COMP_CWORD=$#
_kvtier
echo "${COMPREPLY[@]}"' bash "$@"
}

@test "bash takes the script and completes commands, verbs, flags and values" {
  "$KVTIER" completion bash | bash -n
  [ "$(bash_offers bl)" = block ]
  [ "$(bash_offers g4 '')" = "ls stat get put verify usage fsck adopt compact gc quarantine locks" ]
  [ "$(bash_offers status --wa)" = --watch ]
  [ "$(bash_offers status --advisor-u)" = --advisor-url ]
  [ "$(bash_offers policy mode '')" = "off observe enforce" ]
  [ "$(bash_offers g4 ls --tier '')" = "any hot cold warm far" ]
  [ "$(bash_offers status -o '')" = "table wide json jsonl yaml csv" ]
}

@test "zsh takes the script" {
  command -v zsh >/dev/null || skip "no zsh"
  "$KVTIER" completion zsh >"$BATS_TEST_TMPDIR/_kvtier"
  zsh -n "$BATS_TEST_TMPDIR/_kvtier"
  run zsh -fc "autoload -Uz compinit; compinit -u -D; source '$BATS_TEST_TMPDIR/_kvtier'; echo \$_comps[kvtier]"
  status_is 0
  output_has _kvtier
}

@test "fish takes the script and completes" {
  command -v fish >/dev/null || skip "no fish"
  "$KVTIER" completion fish >"$BATS_TEST_TMPDIR/kvtier.fish"
  fish -n "$BATS_TEST_TMPDIR/kvtier.fish"
  run fish --no-config -c "source '$BATS_TEST_TMPDIR/kvtier.fish'; complete -C 'kvtier block '; complete -C 'kvtier g4 ls --ti'"
  status_is 0
  output_has show
  output_has --tier
}

@test "another shell is a usage error" {
  run "$KVTIER" completion tcsh
  status_is 2
}
