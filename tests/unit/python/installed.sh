#!/bin/sh
# What is tested: the Python package as it is installed, beside the installed libraries.
#
# usage: installed.sh BUILD SOURCE CC
set -eu
build=$1 source=$2 cc=$3

python=
for one in "${KVT_PYTHON:-}" python3 /usr/bin/python3; do
    if [ -n "$one" ] && "$one" -c 'import cffi, pytest' 2>/dev/null; then
        python=$one
        break
    fi
done
if [ -z "$python" ]; then
    echo "no Python with cffi and pytest: scripts/install-deps --test"
    [ "${CI:-}" = true ] && exit 1
    exit 77
fi

prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
for component in libkvbm kvtier-publisher kvtier-python; do
    cmake --install "$build" --component $component --prefix "$prefix" > "$prefix/log"
done
package=$(dirname "$(find "$prefix" -path '*/kvtier/_abi.py')")
KVTIER_INCLUDE_DIR=$(dirname "$(dirname "$(find "$prefix" -name publisher.h)")")
export KVTIER_INCLUDE_DIR CC="$cc" PYTHONPATH="${package%/kvtier}" PYTHONDONTWRITEBYTECODE=1
unset KVTIER_LIBRARY_DIR
"$python" -m pytest -q -p no:cacheprovider "$source/python/tests"
