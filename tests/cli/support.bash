# Shared by all suites.  KVTIER is the program, KVTIER_SOURCE the tree, KVTIER_BUILD the build folder.
# KVTIER_UPDATE=1 writes golden files instead of comparing with them.

# Nothing of the machine's own settings may leak in.
clean_environment() {
  local name
  while IFS='=' read -r name _; do
    case $name in
      KVTIER | KVTIER_BUILD | KVTIER_SOURCE | KVTIER_UPDATE) ;;
      KVTIER_* | NATS_* | AWS_*) unset "$name" ;;
    esac
  done < <(env)
  # The contexts of whoever runs this, too.
  export XDG_CONFIG_HOME=${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}/config
  export AWS_EC2_METADATA_DISABLED=true # a cloud's own service would be asked, and may answer
}

# For setup_file: an advisor and a gateway that are none (fake.py), with settings for them in
# cli.yaml.
start_fake() {
  FAKE=$BATS_FILE_TMPDIR
  # Started without the suite's own file descriptors, or bats waits for it.
  python3 "$KVTIER_SOURCE/tests/cli/fake.py" "$FAKE" >"$FAKE/log" 2>&1 3>&- &
  echo $! >"$FAKE/pid"
  for _ in $(seq 200); do
    [ -f "$FAKE/port" ] && break
    sleep 0.05
  done
  [ -f "$FAKE/port" ]
  echo secret-token >"$FAKE/token"
  chmod 600 "$FAKE/token"
  cat >"$FAKE/cli.yaml" <<YAML
advisor: {url: "http://127.0.0.1:$(cat "$FAKE/port")/a"}
gateway: {url: "http://127.0.0.1:$(cat "$FAKE/port")/g"}
admin: {token_file: "$FAKE/token"}
YAML
}

stop_fake() {
  kill "$(cat "$BATS_FILE_TMPDIR/pid")"
}

# golden NAME: $output must be what the file says.
golden() {
  local file=$KVTIER_SOURCE/tests/cli/golden/$1.txt
  if [ -n "${KVTIER_UPDATE:-}" ]; then
    printf '%s\n' "$output" >"$file"
    return
  fi
  diff -u "$file" <(printf '%s\n' "$output")
}

# Expect an exit status, showing what came when it is another.
status_is() {
  if [ "$status" -ne "$1" ]; then
    printf 'exit status %s, expected %s; output:\n%s\n' "$status" "$1" "$output"
    return 1
  fi
}

output_has() {
  case $output in
    *"$1"*) ;;
    *) printf 'not in the output: %s\noutput:\n%s\n' "$1" "$output"; return 1 ;;
  esac
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      echo "not in time: $*"
      return 1
    fi
    sleep 0.05
  done
}
