#!/bin/sh
# What is tested: libkvbm as it is installed: its examples build against it by pkg-config, with the
# shared and with the static library, in C and in C++; both show what the headers declare and
# nothing else; what stranger_*.c check holds; a program can have both our libraries, linked
# statically, in either order.
#
# usage: installed.sh BUILD SOURCE CC
set -eu
build=$1 source=$2 cc=$3
headers="attach.h block.h error.h kvbm.h layout.h offload.h storage.h ticket.h token.h transfer.h volume.h"
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
for component in libkvbm kvtier-publisher; do
    cmake --install "$build" --component $component --prefix "$prefix" > "$prefix/log"
done

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name libkvbm.pc)")
libraries=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH
examples=$(dirname "$(find "$prefix" -name blocks.c)")
[ "$(wc -l < "$examples/blocks.c")" -le 60 ] || { echo "the first example has grown"; exit 1; }
blocks=$(printf '0 of 2 blocks were there\n2 of 3 blocks were there')

# program, what it must say
check() {
    said=$(cd "$prefix" && LD_LIBRARY_PATH=$libraries "./$1")
    [ "$said" = "$2" ] || { echo "$1 said: $said"; exit 1; }
}

# shellcheck disable=SC2046 # the flags are words
"$cc" -std=c11 -Wall -Wextra -Werror -o "$prefix/shared" "$examples/blocks.c" \
    $(pkg-config --cflags --libs libkvbm)
check shared "$blocks"
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -Werror -o "$prefix/static" "$examples/blocks.c" \
    $(pkg-config --cflags libkvbm) "$libraries/libkvbm.a" \
    $(pkg-config --libs --static libkvbm | sed 's/-lkvbm//')
check static "$blocks"
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -Werror -o "$prefix/volume" "$examples/folder_volume.c" \
    $(pkg-config --cflags --libs libkvbm)
check volume "$(printf 'put: OK\nget: OK, 7\nanother: NOTFOUND')"
check volume "$(printf 'put: EXISTS\nget: OK, 7\nanother: NOTFOUND')"
# The code of the documentation is one program.
awk '/^```c$/ { code = 1; next } /^```$/ { code = 0 } code' "$source/docs/libkvbm.md" > "$prefix/documented.c"
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -Werror -o "$prefix/documented" "$prefix/documented.c" \
    $(pkg-config --cflags --libs libkvbm)
check documented 'OK, 4 layers, 707'
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
        $(pkg-config --libs --static libkvbm kvtier-publisher |
            sed 's/-lkvbm//; s/-lkvtier-publisher//')
    said=$("$prefix/both" | tr '\n' ' ')
    [ "$said" = "INVALID INVALID " ] || { echo "both ($order) said: $said"; exit 1; }
done
# What a stranger's program may do, every byte compared.
for test in copies shapes tiers; do
    # shellcheck disable=SC2046
    "$cc" -std=gnu11 -Wall -Wextra -Werror -I"$source" -o "$prefix/$test" \
        "$source/tests/unit/kvbm/public/stranger_$test.c" $(pkg-config --cflags --libs libkvbm)
    TMPDIR=$prefix LD_LIBRARY_PATH=$libraries "$prefix/$test"
done
if command -v c++ > "$prefix/log"; then
    for header in $headers; do
        echo "#include \"kvtier/$header\""
    done > "$prefix/plus.cc"
    echo 'int main() { kvt_pool_free(nullptr); kvt_layout_free(nullptr); }' >> "$prefix/plus.cc"
    # shellcheck disable=SC2046
    c++ -std=c++17 -Wall -Wextra -Werror -o "$prefix/plus" "$prefix/plus.cc" \
        $(pkg-config --cflags --libs libkvbm)
    LD_LIBRARY_PATH=$libraries "$prefix/plus"
fi

# Both show the functions that the headers declare, each of them and nothing else.
declared=$(cd "$prefix/include/kvtier" &&
    sed -n 's/^.*\b\(kvt_[a-z_]*\)(.*/\1/p' $headers | grep -v '_fn$' | sort -u)
[ "$(echo "$declared" | wc -l)" -gt 50 ] || { echo "few functions: $declared"; exit 1; }
nm -D --defined-only "$libraries/libkvbm.so" | awk '{ print $NF }' | grep -v '^KVBM_0$' |
    sed 's/@@KVBM_0$//' | sort -u > "$prefix/shown.so"
nm -g --defined-only "$libraries/libkvbm.a" | awk 'NF == 3 { print $NF }' |
    sort -u > "$prefix/shown.a"
for kind in so a; do
    echo "$declared" | diff - "$prefix/shown.$kind" > "$prefix/log" || {
        echo "libkvbm.$kind does not show what the headers declare:"
        cat "$prefix/log"
        exit 1
    }
done
