#!/usr/bin/env bash
# On a machine that lacks something, the scripts name the step, what is wrong and the fix, and end with code 4.
# Commands are replaced by stand-ins that answer as such a machine would.
# usage: setup_test.sh ROOT CASE
set -euo pipefail
root=$1 case=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
unset CXX CUDACXX RUNMAX_CUDA

stand_in() { # NAME BODY
  printf '#!/bin/bash\n%s\n' "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}

# ask COMMAND...: runs scripts/lib functions with the stand-ins first in PATH; prints what they say.
ask() {
  local status=0
  output=$(cd "$work" && PATH="$work/bin:$PATH" bash -euo pipefail -c '
    root=$1; shift
    . "$root/scripts/lib/say.sh"; . "$root/scripts/lib/packages.sh"; . "$root/scripts/lib/build.sh"
    "$@"' - "$root" "$@" 2>&1) || status=$?
  echo "$output"
  code=$status
}

expect() { # CODE TEXT...
  local text
  [[ $code == "$1" ]] || { echo "exit code $code, wanted $1"; exit 1; }
  shift
  for text in "$@"; do
    [[ $output == *"$text"* ]] || { echo "did not say: $text"; exit 1; }
  done
}

nothing_installed() { stand_in dpkg-query 'exit 1'; }

case $case in
  no_install)
    nothing_installed
    ask ensure_packages 1 libhwy-dev libtbb-dev
    expect 4 "package check failed" "--no-install" "apt-get install -y --no-install-recommends libhwy-dev libtbb-dev"
    ;;
  no_root_and_no_sudo)
    nothing_installed
    stand_in sudo 'exit 1'
    # EUID cannot be set, so another user id is taken; without that right this user is not root already.
    if ((EUID == 0)); then
      chmod a+rx "$work" "$work/bin"
      code=0
      output=$(cd / && PATH="$work/bin:$PATH" setpriv --reuid=65534 --clear-groups bash -euo pipefail -c "
        $(cat "$root/scripts/lib/say.sh" "$root/scripts/lib/packages.sh")
        ensure_packages 0 libhwy-dev" 2>&1) || code=$?
      echo "$output"
    else
      ask ensure_packages 0 libhwy-dev
    fi
    expect 4 "no password-free sudo" "run as root: apt-get update && apt-get install -y --no-install-recommends libhwy-dev"
    ;;
  no_network)
    nothing_installed
    stand_in sudo 'while [[ ${1:-} == -n ]]; do shift; done; exec "$@"'
    stand_in apt-get 'echo "E: Failed to fetch x  Temporary failure resolving y"; exit 100'
    ask ensure_packages 0 libhwy-dev
    expect 4 "package installation failed" "no network?" "fix: connect this machine"
    ;;
  unknown_package)
    nothing_installed
    stand_in sudo 'while [[ ${1:-} == -n ]]; do shift; done; exec "$@"'
    stand_in apt-get 'echo "E: Unable to locate package libhwy-dev"; exit 100'
    ask ensure_packages 0 libhwy-dev
    expect 4 "knows no such package: libhwy-dev" "Debian 12, Ubuntu 24.04"
    ;;
  everything_there)
    stand_in dpkg-query 'printf "libhwy-dev=installed libtbb-dev=installed "'
    stand_in apt-get 'echo "apt-get was called"; exit 1'
    ask ensure_packages 0 libhwy-dev libtbb-dev
    expect 0
    [[ -z $output ]] || { echo "it was not quiet"; exit 1; }
    ;;
  no_browser)
    # Ubuntu has no chromium package: the tests that need it are skipped, everything else goes on.
    nothing_installed
    stand_in apt-cache 'echo "chromium:"; echo "  Candidate: (none)"'
    stand_in apt-get 'echo "apt-get was called"; exit 1'
    ask ensure_optional_packages 0 "the browser and its driver" chromium chromium-driver
    expect 0 "the browser and its driver cannot be installed here, so their tests are skipped: chromium chromium-driver"
    [[ $output != *"was called"* ]]
    ask ensure_optional_packages 1 "the browser and its driver" chromium
    expect 0 "are not installed, so their tests are skipped: chromium"
    ;;
  compiler_too_old)
    stand_in g++ 'echo "__clang__ __clang_major__ 11"'
    ask check_tools
    expect 4 "compiler check failed" "g++ 11, too old" "g++-12"
    ;;
  clang_too_old)
    stand_in g++ 'echo "1 13 4"'
    ask check_tools
    expect 4 "clang 13, too old" "CXX=clang++-14"
    ;;
  cmake_too_old)
    stand_in cmake 'echo "cmake version 3.22.1"'
    ask check_tools
    expect 4 "CMake check failed" "cmake 3.22.1 is too old" "pip install cmake"
    ;;
  disk_full)
    stand_in df 'printf "Filesystem blocks used available\nx 1 1 1024\n"'
    ask configure release
    expect 4 "configuring failed" "only 1 MiB are free" "free some space"
    ;;
  compiler_error)
    mkdir -p "$work/build/release"
    stand_in ninja 'echo "[1/2] a"; echo "FAILED: b.o"; echo "b.cpp:3: error: no"; exit 1'
    ask build release all
    expect 4 "b.cpp:3: error: no" "building failed" "build/release/build.log"
    ;;
  nothing_to_build)
    mkdir -p "$work/build/release"
    stand_in ninja 'echo "ninja: Entering directory x"; echo "ninja: no work to do."'
    ask build release all
    expect 0
    [[ -z $output ]] || { echo "it was not quiet"; exit 1; }
    ;;
  no_memory)
    mkdir -p "$work/build/release"
    stand_in ninja 'echo "FAILED: b.o"; echo "g++: fatal error: Killed signal terminated program cc1plus"; exit 1'
    ask build release all
    expect 4 "lack of memory"
    ;;
  nvcc_appears)
    # A build directory that was configured without nvcc is configured anew when there is one, and the other way round.
    mkdir -p "$work/build/release"
    : >"$work/build/release/build.ninja"
    printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\nRUNMAX_NVCC:INTERNAL=\nRUNMAX_CUDA:STRING=AUTO\n' "$work" >"$work/build/release/CMakeCache.txt"
    stand_in cmake 'echo "$*" >>called'
    stand_in nvcc 'exit 0'
    ask configure release
    expect 0
    grep -q -- "--fresh -DRUNMAX_CUDA=ON -DCMAKE_CUDA_COMPILER=$work/bin/nvcc" "$work/called"
    sed -i "s|RUNMAX_NVCC:INTERNAL=.*|RUNMAX_NVCC:INTERNAL=$work/bin/nvcc|" "$work/build/release/CMakeCache.txt"
    rm "$work/called"
    ask configure release
    expect 0
    [[ ! -e $work/called ]] || { echo "configured again although nothing changed"; exit 1; }
    sed -i "s|RUNMAX_NVCC:INTERNAL=.*|RUNMAX_NVCC:INTERNAL=/gone/nvcc|" "$work/build/release/CMakeCache.txt"
    ask configure release
    grep -q -- --fresh "$work/called"
    ;;
  *)
    echo "no case $case"
    exit 2
    ;;
esac
