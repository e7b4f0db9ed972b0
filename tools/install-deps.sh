#!/usr/bin/env bash
# tools/install-deps.sh GROUP...: installs the Debian packages that dlrun needs and that are missing. Groups:
#   build   compilers, build tools and libraries of the programs and benchmarks
#   test    what the tests need besides                              fuzz   clang with libFuzzer
#   framework  PyTorch and Open MPI, for the tests that train with them, and for a benchmark
# docs/dependencies.md says why each is here. Nothing missing: nothing happens and nothing is printed. Root, or a user with sudo.
# Sourced after lib.sh it gives install_deps GROUP...

dlrun_packages() {
  local group
  for group in "$@"; do
    case $group in
      build) echo ca-certificates git g++ cmake ninja-build ccache pkg-config \
        libcaf-dev cppzmq-dev libzmq3-dev capnproto libcapnp-dev libboost-dev libssl-dev libcurl4-openssl-dev \
        libsqlite3-dev libeigen3-dev libzstd-dev zlib1g-dev liblzma-dev libbz2-dev libexpected-dev libfmt-dev libcli11-dev \
        libtomlplusplus-dev nlohmann-json3-dev libyaml-cpp-dev python3 python3-venv ;;
      test) echo libgtest-dev libgmock-dev clang-format-14 iproute2 curl openssl ;;
      fuzz) echo clang-14 libclang-rt-14-dev ;;
      framework) echo python3-torch python3-numpy python3-mpi4py openmpi-bin libopenmpi-dev ;;
      *) die "no such group of packages: $group" ;;
    esac
  done
}

apt_run() {
  if [ "$(id -u)" = 0 ]; then
    env DEBIAN_FRONTEND=noninteractive apt-get "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive apt-get "$@"
  fi
}

install_deps() {
  local package missing=()
  for package in $(dlrun_packages "$@"); do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "these packages are missing and there is no apt-get here: ${missing[*]}"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "not root and no sudo: ask for apt-get install ${missing[*]}"
    sudo -v || die "sudo is needed once to run: apt-get install ${missing[*]}"
  fi
  say "    will be installed from Debian: ${missing[*]}"
  step "updating the list of packages" apt_run update
  step "installing ${#missing[@]} packages" apt_run install -y --no-install-recommends "${missing[@]}"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  . "$(dirname "$0")/lib.sh"
  [ $# -gt 0 ] || { sed -n '2,8p' "$0"; exit 2; }
  start_log install-deps
  install_deps "$@"
fi
