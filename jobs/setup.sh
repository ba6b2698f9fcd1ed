# shellcheck shell=bash disable=SC2034
# Sourced by jobs/quickstart.sh and tests/run.sh: installs what is missing from Debian and builds into build/.
# Works as root or as a user with sudo; doing it again changes nothing.

longwave_packages=(
  g++ cmake ninja-build pkg-config git ca-certificates python3
  libopenmpi-dev openmpi-bin libdnnl-dev libyaml-cpp-dev libfmt-dev nlohmann-json3-dev libcli11-dev libxxhash-dev
  libsentencepiece-dev zlib1g-dev gnuplot-nox
)

say() { printf '%s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# install_packages NAME...: those that dpkg does not know as installed.
install_packages() {
  command -v dpkg-query >/dev/null || fail "This script installs Debian packages; here is no dpkg. Install by hand: $*"
  local name missing=()
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${Status}' "$name" 2>/dev/null)" = "install ok installed" ] || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null || fail "Run as root or install sudo; missing packages: ${missing[*]}"
  say "Installing ${#missing[@]} packages from Debian: ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    fail "apt-get could not install them; see above."
}

# build TESTS TARGET...: configures when needed, with the tests when TESTS is ON, then builds what changed.
build() {
  local tests=$1 log
  shift
  if [ ! -f build/build.ninja ] || { [ "$tests" = ON ] && ! grep -q '^LONGWAVE_TESTS:BOOL=ON' build/CMakeCache.txt; }; then
    say "Configuring into build/"
    log=$(mktemp)
    cmake -S . -B build -G Ninja "-DLONGWAVE_TESTS=$tests" >"$log" 2>&1 || { cat "$log"; rm -f "$log"; fail "cmake failed."; }
    rm -f "$log"
  fi
  say "Building (several minutes the first time)"
  ninja -C build --quiet "$@" || fail "The build failed."
}

# Open MPI refuses root and more ranks than cores unless told; on a laptop or in CI both are wanted.
prepare_mpi() {
  if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_plm_rsh_agent=
}
