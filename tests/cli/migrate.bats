#!/usr/bin/env bats
# What is tested: kvtier migrate: what it prints, which requests it makes, and its exit status.
# How: fixed answers of an advisor that is none (fake.py), compared letter by letter.
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

@test "migrate status" {
  run $KVTIER_CONFIGURED migrate status
  status_is 0
  golden migrate-status
  run $KVTIER_CONFIGURED migrate status 12
  status_is 0
  golden migrate-status-job
  run $KVTIER_CONFIGURED migrate status 99
  status_is 3
  run $KVTIER_CONFIGURED migrate status twelve
  status_is 2
  output_has 'no job "twelve"'
}

@test "migrate status --watch ends with its job" {
  run $KVTIER_CONFIGURED migrate status 11 --watch=100ms
  status_is 0
  output_has "3000 of 3000 done"
}

@test "migrate pause, resume, cancel" {
  run $KVTIER_CONFIGURED migrate pause
  status_is 0
  [ "$output" = "paused: no order leaves until kvtier migrate resume" ]
  run $KVTIER_CONFIGURED migrate resume
  status_is 0
  [ "$output" = "resumed: orders leave again" ]
  run $KVTIER_CONFIGURED migrate pause 12
  status_is 0
  [ "$output" = "job 12 (purge of acme): paused" ]
  run $KVTIER_CONFIGURED migrate cancel 12
  status_is 0
  [ "$output" = "job 12 (purge of acme): cancelled" ]
  run $KVTIER_CONFIGURED migrate cancel 11
  status_is 6
  output_has "job 11 is done"
  run $KVTIER_CONFIGURED migrate cancel
  status_is 2
}

@test "migrate pause needs the token" {
  echo other >"$BATS_TEST_TMPDIR/other"
  chmod 600 "$BATS_TEST_TMPDIR/other"
  run $KVTIER_CONFIGURED migrate pause --admin-token-file "$BATS_TEST_TMPDIR/other"
  status_is 1
  output_has "the token in $BATS_TEST_TMPDIR/other is not the advisor's"
}
