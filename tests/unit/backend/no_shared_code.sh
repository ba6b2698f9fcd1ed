#!/bin/sh
# no_shared_code.sh NM OBJECT...: fails when an object has a symbol that the linker merges with other objects' (weak or
# unique), and names it.
nm=$1
shift
symbols=$("$nm" -A -C "$@") || exit 1
shared=$(printf '%s\n' "$symbols" | grep -E '[0-9a-f] [WVu] ')
[ -z "$shared" ] && exit 0
printf 'symbols shared between instruction sets:\n%s\n' "$shared"
exit 1
