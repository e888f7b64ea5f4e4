# shellcheck shell=bash
# Configuring and building a preset, quietly when there is nothing to do.

# Prints the nvcc that the build will use, or nothing: CUDACXX, then PATH, then /usr/local/cuda/bin.
find_nvcc() {
  local candidate
  for candidate in "${CUDACXX:-}" nvcc /usr/local/cuda/bin/nvcc; do
    if [[ -n $candidate ]] && command -v "$candidate" >/dev/null 2>&1; then
      command -v "$candidate"
      return 0
    fi
  done
}

# cached PRESET NAME: an entry of the preset's CMake cache, or nothing.
cached() {
  local file=build/$1/CMakeCache.txt
  [[ -f $file ]] && sed -n "s/^$2:[A-Z]*=//p" "$file" | head -1
}

# Compilers that run at once: one a core, as far as 2 GiB of memory for each allow.
build_jobs() {
  local cores memory_kib jobs
  cores=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || echo 0)
  jobs=$((memory_kib / (2 * 1024 * 1024)))
  ((jobs > cores)) && jobs=$cores
  ((jobs < 1)) && jobs=1
  echo "$jobs"
}

# Says in one line whether the release build has CUDA kernels, and why.
say_cuda() {
  local nvcc
  nvcc=$(find_nvcc)
  if [[ ${RUNMAX_CUDA:-$(cached release RUNMAX_CUDA)} == OFF ]]; then
    say "CUDA kernels are not built: RUNMAX_CUDA=OFF"
  elif [[ -n $nvcc ]]; then
    say "CUDA kernels are built with $nvcc"
  else
    say "CUDA kernels are not built: no nvcc in CUDACXX, PATH or /usr/local/cuda/bin"
  fi
}

# configure PRESET [CMAKE ARGUMENT...]: does nothing if the build directory already says all of that.
configure() {
  local preset=$1 argument arguments=() fresh=() needed=0
  shift
  [[ -f build/$preset/build.ninja ]] || needed=1
  if [[ -f build/$preset/CMakeCache.txt && $(cached "$preset" CMAKE_HOME_DIRECTORY) != "$PWD" ]]; then
    fresh=(--fresh)  # the clone was moved
  fi
  if [[ -n ${CXX:-} && $preset != fuzz && -f build/$preset/CMakeCache.txt ]]; then
    [[ $(command -v "${CXX%% *}") == "$(cached "$preset" CMAKE_CXX_COMPILER)" ]] || fresh=(--fresh)
  fi
  if [[ $preset == release || $preset == static ]]; then
    local wanted=${RUNMAX_CUDA:-$(cached "$preset" RUNMAX_CUDA)} nvcc=""
    [[ ${wanted:-AUTO} == OFF ]] || nvcc=$(find_nvcc)
    if [[ $(cached "$preset" RUNMAX_NVCC) != "$nvcc" ]]; then
      # CMake remembers compilers, also that there was none; a new one needs a new cache. Objects stay.
      [[ -f build/$preset/CMakeCache.txt ]] && fresh=(--fresh)
      needed=1
    fi
    if [[ $wanted == OFF ]]; then
      arguments+=(-DRUNMAX_CUDA=OFF)
    elif [[ -n $nvcc ]]; then
      arguments+=(-DRUNMAX_CUDA=ON "-DCMAKE_CUDA_COMPILER=$nvcc")
    else
      arguments+=(-DRUNMAX_CUDA=AUTO)
    fi
  fi
  for argument in "$@"; do
    local name=${argument#-D}
    [[ $(cached "$preset" "${name%%=*}") == "${name#*=}" ]] || needed=1
    arguments+=("$argument")
  done
  if ((${#fresh[@]})); then
    needed=1
    # A build directory that was made for the program alone stays so: its machine may have no test packages.
    if [[ " ${arguments[*]}" != *" -DRUNMAX_BUILD_TESTS="* && $(cached "$preset" RUNMAX_BUILD_TESTS) == OFF ]]; then
      arguments+=(-DRUNMAX_BUILD_TESTS=OFF)
    fi
  fi
  ((needed)) || return 0

  local free_kib
  free_kib=$(df -Pk . | awk 'NR == 2 {print $4}')
  ((free_kib > 1024 * 1024)) ||
    fail "configuring" "only $((free_kib / 1024)) MiB are free where the clone lies; a build takes up to 1 GiB" \
      "free some space, or clone to another disk"
  mkdir -p "build/$preset"
  local log=build/$preset/configure.log
  say "configuring $preset"
  if ! cmake --preset "$preset" "${fresh[@]}" "${arguments[@]}" >"$log" 2>&1 </dev/null; then
    cp "$log" "build/$preset/configure-failed.log"
    grep -n -A12 'CMake Error' "$log" | head -40 >&2 || tail -20 "$log" >&2
    local fix="read build/$preset/configure.log; remove build/$preset to start over"
    grep -qi 'nvcc\|CUDA' <(grep -A12 'CMake Error' "$log") && fix="$fix; RUNMAX_CUDA=OFF builds without CUDA"
    rm -f "build/$preset/build.ninja"
    fail "configuring" "CMake ended with the error above" "$fix"
  fi
}

# Configures for the program alone, unless the tests are configured already.
configure_program() {
  if [[ -f build/release/CMakeCache.txt ]]; then
    configure release
  else
    configure release -DRUNMAX_BUILD_TESTS=OFF
  fi
}

# build PRESET TARGET...: brings the targets up to date; says nothing if they are.
build() {
  local preset=$1 log=build/$1/build.log started=$SECONDS
  shift
  : >"$log"
  if ! NINJA_STATUS='[%f/%t] ' ninja -C "build/$preset" -j "$(build_jobs)" "$@" 2>&1 </dev/null |
    show_progress "building $preset" "$log"; then
    sed -n '/^FAILED:/,$p' "$log" | head -60 >&2
    if grep -q 'No space left on device' "$log"; then
      fail "building" "the disk is full" "free some space, then run this again"
    elif grep -q 'Killed signal terminated\|out of memory' "$log"; then
      fail "building" "a compiler was ended for lack of memory" "each takes up to 2 GiB: close other programs and run this again"
    fi
    fail "building" "the compiler's first complaint is above" "all of them are in $log"
  fi
  # Some steps, such as noting the commit, run every time; only what was compiled is worth a line.
  if grep -qE '^\[[0-9]+/[0-9]+\] (Building|Linking)' "$log"; then
    say "built $preset: $* ($((SECONDS - started)) s)"
  fi
}
