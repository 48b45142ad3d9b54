#!/bin/sh
# What is tested: libkvbm as it is installed: an example builds against it by pkg-config, with the
# shared and with the static library, in C and in C++; the shared one shows kvt_ symbols only; a
# program can have both our libraries, linked statically, in either order.
#
# usage: installed.sh BUILD SOURCE CC
set -eu
build=$1 source=$2 cc=$3
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
for component in libkvbm kvtier-publisher; do
    cmake --install "$build" --component $component --prefix "$prefix" > "$prefix/log"
done

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name libkvbm.pc)")
libraries=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH
expected=$(printf '0 of 2 blocks were there\n2 of 3 blocks were there')

check() {
    said=$(LD_LIBRARY_PATH=$libraries "$prefix/$1")
    [ "$said" = "$expected" ] || { echo "$1 said: $said"; exit 1; }
}

# shellcheck disable=SC2046 # the flags are words
"$cc" -std=c11 -Wall -Wextra -Werror -o "$prefix/shared" "$source/kvbm/example/blocks.c" \
    $(pkg-config --cflags --libs libkvbm)
check shared
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -Werror -o "$prefix/static" "$source/kvbm/example/blocks.c" \
    $(pkg-config --cflags libkvbm) "$libraries/libkvbm.a" -pthread
check static
cat > "$prefix/both.c" << 'END'
#include <stdio.h>

#include <kvtier/kvbm.h>
#include <kvtier/publisher.h>

int
main(void)
{
    struct kvt_pool_options options = {.size = sizeof(options)};
    struct kvt_publisher *publisher;
    struct kvt_pool *pool;

    puts(kvt_err_name(kvt_pool_new(&pool, &options, NULL)));
    puts(kvt_err_name(
        kvt_publisher_open(&publisher, &(struct kvt_publisher_options){.size = 1}, NULL)));
    kvt_publisher_close(publisher, false);
    kvt_pool_free(pool);
}
END
for order in "kvbm kvtier-publisher" "kvtier-publisher kvbm"; do
    archives=
    for name in $order; do
        archives="$archives $libraries/lib$name.a"
    done
    # shellcheck disable=SC2046,SC2086
    "$cc" -std=c11 -Wall -Wextra -Werror -o "$prefix/both" "$prefix/both.c" \
        $(pkg-config --cflags libkvbm kvtier-publisher) $archives \
        $(pkg-config --libs --static kvtier-publisher | sed 's/-lkvtier-publisher//') -pthread
    said=$("$prefix/both" | tr '\n' ' ')
    [ "$said" = "INVALID INVALID " ] || { echo "both ($order) said: $said"; exit 1; }
done
if command -v c++ > "$prefix/log"; then
    printf '#include "kvtier/kvbm.h"\nint main() { kvt_pool_free(nullptr); }\n' > "$prefix/plus.cc"
    # shellcheck disable=SC2046
    c++ -std=c++17 -Wall -Wextra -Werror -o "$prefix/plus" "$prefix/plus.cc" \
        $(pkg-config --cflags --libs libkvbm)
    LD_LIBRARY_PATH=$libraries "$prefix/plus"
fi

shown=$(nm -D --defined-only "$libraries/libkvbm.so" | awk '{ print $NF }')
for function in $(sed -n 's/^.*\b\(kvt_[a-z_]*\)(.*/\1/p' "$source/include/kvtier/kvbm.h" |
        sort -u); do
    case $function in
    *_fn | kvt_token_seed) continue ;;
    esac
    echo "$shown" | grep -q "^$function@@KVBM_0$" || { echo "$function is not shown"; exit 1; }
done
if echo "$shown" | grep -vE '^(kvt_[a-z_]+@@KVBM_0|KVBM_0)$'; then
    echo "these are shown and should not be"
    exit 1
fi
