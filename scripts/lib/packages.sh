# shellcheck shell=bash
# What a machine must have, and how it gets it: Debian and Ubuntu packages through apt-get, nothing else.

library_packages=(libhwy-dev libtbb-dev libfmt-dev libcli11-dev nlohmann-json3-dev)
bench_packages=(libmpfr-dev libsleef-dev python3)
peer_packages=(python3-venv)
test_packages=(libgtest-dev librapidcheck-dev python3-numpy)
analysis_packages=(clang libclang-rt-dev clang-tidy-14 clang-format-14)
# Tests of the page: a browser and who drives it; a compiler for page/runmax.wasm. Where the archive has them not,
# those tests are skipped and say so.
browser_packages=(chromium chromium-driver python3-selenium)
wasm_packages=(clang-14 lld-14)

# missing_packages PACKAGE...: those that dpkg does not have installed.
missing_packages() {
  local package installed
  installed=" $(dpkg-query -W -f='${Package}=${db:Status-Status} ' "$@" 2>/dev/null || true) "
  for package in "$@"; do
    [[ $installed == *" $package=installed "* ]] || printf '%s\n' "$package"
  done
}

# package_unless COMMAND PACKAGE: the package, if the command is not there. A compiler or CMake that came from
# elsewhere is as good as Debian's.
package_unless() { command -v "$1" >/dev/null 2>&1 || printf '%s\n' "$2"; }

# ensure_packages no_install PACKAGE...: installs what is missing. Needs root or a sudo that asks nothing.
ensure_packages() {
  local no_install=$1
  shift
  local missing=()
  if ! command -v dpkg-query >/dev/null 2>&1; then
    # Not a Debian: CMake finds the libraries or names the one that it misses.
    return 0
  fi
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0

  local line="apt-get install -y --no-install-recommends ${missing[*]}"
  if ((no_install)); then
    fail "package check" "--no-install was given and these packages are missing: ${missing[*]}" \
      "run as root: apt-get update && $line"
  fi
  local as_root=()
  if ((EUID != 0)); then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    else
      fail "package installation" \
        "these packages are missing, and this user is not root and has no password-free sudo: ${missing[*]}" \
        "run as root: apt-get update && $line"
    fi
  fi

  local log
  log=$(mktemp)
  say "installing ${#missing[@]} packages with apt-get: ${missing[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 -o Acquire::Retries=2)
  # A broken list of somebody else's does not matter as long as the packages themselves arrive.
  "${as_root[@]}" "${apt[@]}" update >"$log" 2>&1 </dev/null || true
  if ! "${as_root[@]}" "${apt[@]}" install -y --no-install-recommends "${missing[@]}" 2>&1 </dev/null |
    show_progress "installing" "$log"; then
    grep -E '^(E|W|Err)[: ]' "$log" | sort -u | head -8 >&2 || true
    local reason
    if grep -q 'No space left on device\|not enough free space' "$log"; then
      rm -f "$log"
      fail "package installation" "the disk is full" "free about 1 GiB on the root file system, then run this again"
    elif grep -q 'Temporary failure resolving\|Could not connect\|Could not resolve\|Connection timed out\|Network is unreachable\|Unable to connect' "$log"; then
      reason="apt-get cannot reach its package server (no network?)"
    elif grep -q 'Unable to locate package' "$log"; then
      reason="apt-get knows no such package: $(grep -o 'Unable to locate package .*' "$log" | awk '{print $5}' | tr '\n' ' ')"
      rm -f "$log"
      fail "package installation" "$reason" \
        "use Debian 12, Ubuntu 24.04 or newer with their main and universe archives enabled, or install the libraries by hand and use --no-install"
    else
      reason="apt-get ended with an error (above)"
    fi
    rm -f "$log"
    fail "package installation" "$reason" "connect this machine to the network and run this again, or install by hand and use --no-install: $line"
  fi
  rm -f "$log"
}

# known_packages PACKAGE...: those that apt-get could install here.
known_packages() {
  local package
  for package in "$@"; do
    if LC_ALL=C apt-cache policy "$package" 2>/dev/null | grep -q '^  Candidate: [^(]'; then printf '%s\n' "$package"; fi
  done
}

# ensure_optional_packages no_install WHAT PACKAGE...: installs all of them or, where one cannot be had, none, and
# says so: the tests that need them are then skipped with the reason.
ensure_optional_packages() {
  local no_install=$1 what=$2 missing=() known=()
  shift 2
  command -v dpkg-query >/dev/null 2>&1 || return 0
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ((no_install)); then
    say "$what are not installed, so their tests are skipped: ${missing[*]}"
    return 0
  fi
  mapfile -t known < <(known_packages "${missing[@]}")
  if ((${#known[@]} < ${#missing[@]})); then
    say "$what cannot be installed here, so their tests are skipped: ${missing[*]}"
    return 0
  fi
  ensure_packages 0 "${missing[@]}"
}

# ensure_packages_for no_install PURPOSE...: what the purposes need, in one go. Purposes: build (the library and
# the program), test, analysis (fuzzing and clang-tidy), bench (its oracles), peers (PyTorch and ggml).
ensure_packages_for() {
  local no_install=$1 purpose packages=() tools=()
  shift
  for purpose in "$@"; do
    case $purpose in
      build)
        mapfile -t tools < <(
          package_unless "${CXX:-g++}" g++
          package_unless cmake cmake
          package_unless ninja ninja-build
          package_unless pkg-config pkg-config
        )
        packages+=("${tools[@]}" "${library_packages[@]}")
        ;;
      bench) packages+=("${bench_packages[@]}") ;;
      peers) packages+=("${peer_packages[@]}") ;;
      test) packages+=("${test_packages[@]}") ;;
      analysis) packages+=("${analysis_packages[@]}") ;;
    esac
  done
  ensure_packages "$no_install" "${packages[@]}"
  if [[ " $* " == *" test "* ]]; then
    ensure_optional_packages "$no_install" "the browser and its driver" "${browser_packages[@]}"
    ensure_optional_packages "$no_install" "the WebAssembly compiler and linker" "${wasm_packages[@]}"
  fi
}

# version_at_least HAVE WANT
version_at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -1) == "$2" ]]; }

# Refuses compilers and CMakes that are known not to work, before they produce pages of errors.
check_tools() {
  local compiler=${CXX:-g++} id
  command -v "${compiler%% *}" >/dev/null 2>&1 ||
    fail "compiler check" "$compiler is not there" "install g++ 12 or newer, or set CXX"
  # shellcheck disable=SC2086
  # A here-string, not a pipe: a compiler that does not read its input must not fail the writer.
  id=$($compiler -E -P -x c++ - 2>/dev/null <<<"__clang__ __clang_major__ __GNUC__" | tail -1) ||
    fail "compiler check" "$compiler cannot preprocess an empty file" "install g++ 12 or newer, or set CXX"
  local is_clang clang_major gnu_major
  read -r is_clang clang_major gnu_major <<<"$id"
  if [[ $is_clang == 1 ]]; then
    ((clang_major >= 14)) ||
      fail "compiler check" "$compiler is clang $clang_major, too old: runmax needs g++ 12 or clang 14, or newer" \
        "install a newer one and set CXX, for example CXX=clang++-14"
  elif ! ((gnu_major >= 12)); then
    fail "compiler check" "$compiler is g++ $gnu_major, too old: runmax needs g++ 12 or clang 14, or newer" \
      "install one (apt-get install -y g++-12) and set CXX=g++-12, or use Debian 12 or Ubuntu 24.04"
  fi
  command -v cmake >/dev/null 2>&1 || fail "CMake check" "cmake is not there" "install CMake 3.25 or newer"
  command -v ninja >/dev/null 2>&1 || fail "Ninja check" "ninja is not there" "install ninja-build"
  local cmake_version
  cmake_version=$(cmake --version | sed -n '1s/^cmake version \([0-9.]*\).*/\1/p')
  version_at_least "$cmake_version" 3.25 ||
    fail "CMake check" "cmake $cmake_version is too old: the presets need 3.25 or newer" \
      "pip install cmake, and put it first in PATH"
}
