#!/usr/bin/env bash
# Fetches public-domain prose from Debian packages, unpacked without installing them, as whole documents:
#   OUTDIR/train/*.txt         novels, Opticks, the Devil's Dictionary, the Jargon File, the King James Bible, two commentaries
#   OUTDIR/validation/*.txt    two novels that are in no other file
# usage: jobs/fetch_text.sh OUTDIR
# Works as root or as a user, and fetches only what is not there yet. What cannot be had is left out with a line; it fails
# when too little remains. Lines stay hard-wrapped: `longwave prepare --unwrap` joins them.
set -euo pipefail

least_train=2000000      # bytes
least_validation=400000

fail() { printf '%s\n' "$*" >&2; exit 1; }

[ $# -eq 1 ] || fail "usage: jobs/fetch_text.sh OUTDIR"
out=$1
extract=$(cd "$(dirname "$0")" && pwd)/extract_text.py
for tool in apt-get dpkg-deb python3; do
  command -v "$tool" >/dev/null ||
    fail "fetch_text.sh needs $tool; it works on Debian. Elsewhere put text files into $out/train and $out/validation."
done
mkdir -p "$out/train" "$out/validation"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Package lists can be missing in a fresh container; only root can fetch them.
lists_seen=no
refresh_lists() {
  [ $lists_seen = no ] || return 0
  lists_seen=yes
  apt-cache show "$1" >/dev/null 2>&1 && return
  if [ "$(id -u)" -eq 0 ]; then apt-get update -qq || true
  elif command -v sudo >/dev/null; then sudo apt-get update -qq || true
  fi
}

# unpack PACKAGE: into $work/PACKAGE. apt-get compares the download with the checksum of the signed package list.
unpack() {
  local folder=$work/$1
  [ ! -d "$folder/root" ] || return 0
  mkdir -p "$folder/deb"
  refresh_lists "$1"
  (cd "$folder/deb" && apt-get download -qq "$1" >"$folder/log" 2>&1) || return 1
  mkdir "$folder/root"
  dpkg-deb -x "$folder"/deb/*.deb "$folder/root" 2>>"$folder/log" || { rm -rf "$folder/root"; return 1; }
}

# text SIDE/NAME LEAST-BYTES PACKAGE KIND PATH... [-- ARGUMENT]: one document, made from files below the package's root.
# A PATH may be a pattern. The text appears under its name when it is whole.
text() {
  local name=$1 least=$2 package=$3 kind=$4 size
  shift 4
  [ ! -s "$out/$name.txt" ] || return 0
  if ! unpack "$package"; then
    echo "left out $name: package $package cannot be fetched: $(tail -n 1 "$work/$package/log")"
    return 0
  fi
  local inputs=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    # shellcheck disable=SC2206  # patterns are to be expanded
    inputs+=("$work/$package/root/"$1)
    shift
  done
  [ $# -eq 0 ] || inputs+=("$2")
  if ! python3 "$extract" "$kind" "${inputs[@]}" >"$work/text" 2>"$work/log"; then
    echo "left out $name: $(tail -n 1 "$work/log")"
    return 0
  fi
  size=$(stat -c %s "$work/text")
  if [ "$size" -lt "$least" ]; then
    echo "left out $name: $size bytes of text, at least $least were expected"
    return 0
  fi
  mv "$work/text" "$out/$name.txt.partial"
  mv "$out/$name.txt.partial" "$out/$name.txt"
  echo "fetched $name.txt ($((size / 1000)) kB)"
}

novel() { text "$1" 400000 r-cran-janeaustenr janeausten usr/lib/R/site-library/janeaustenr/data/Rdata.rdb -- "$2"; }

sword_module() {  # NAME LEAST-BYTES PACKAGE: the Old Testament's index before the New one's
  text "$1" "$2" "$3" sword 'usr/share/sword/modules/*/*/*/ot.?zs' 'usr/share/sword/modules/*/*/*/nt.?zs'
}

go=usr/share/gocode/src/github.com
novel validation/persuasion Persuasion
text validation/sherlock-holmes 500000 golang-github-pierrec-lz4-dev book $go/pierrec/lz4/testdata/pg1661.txt
novel train/emma EMMA
novel train/mansfield-park "MANSFIELD PARK"
novel train/northanger-abbey "NORTHANGER ABBEY"
novel train/pride-and-prejudice "PRIDE AND PREJUDICE"
novel train/sense-and-sensibility "SENSE AND SENSIBILITY"
text train/tom-sawyer 350000 golang-github-pierrec-lz4-dev book $go/pierrec/lz4/testdata/Mark.Twain-Tom.Sawyer.txt
text train/opticks 450000 golang-github-andybalholm-brotli-dev book $go/andybalholm/brotli/testdata/Isaac.Newton-Opticks.txt
text train/devils-dictionary 300000 dict-devil dictd usr/share/dictd/devil.dict.dz
text train/jargon-file 1000000 jargon-text jargon usr/share/doc/jargon-text/jargon.txt.gz
sword_module train/king-james-bible 4000000 sword-text-kjv
sword_module train/concise-commentary 3000000 sword-comm-mhcc
sword_module train/treasury-of-david 10000000 sword-comm-tdavid

bytes() { cat "$out/$1"/*.txt 2>/dev/null | wc -c; }
check() {
  [ "$(bytes "$1")" -ge "$2" ] ||
    fail "too little text in $out/$1 ($(bytes "$1") bytes, at least $2 are needed); check the network, or put text files there."
}
check train $least_train
check validation $least_validation
echo "Text: $(($(bytes train) / 1000000)) MB to train on, $(($(bytes validation) / 1000)) kB held out, in $out"
