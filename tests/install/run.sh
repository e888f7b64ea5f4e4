#!/usr/bin/env bash
# Installs a build of runmax, moves the tree, and uses it as a stranger would.
# usage: run.sh STEP BUILD_DIR WORK_DIR
set -euo pipefail
step=$1 build=$2 work=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
installed=$work/moved

configure() { cmake -G Ninja -S "$here/consumer" -B "$work/$1" -DCMAKE_BUILD_TYPE=Release "${@:2}"; }

# refuse COMMAND...: fails if the command finds something.
refuse() {
  if "$@"; then return 1; fi
}

case $step in
  install)
    rm -rf "$work"
    cmake --install "$build" --prefix "$work/prefix"
    mv "$work/prefix" "$installed"
    ;;
  find_package)
    configure found "-DCMAKE_PREFIX_PATH=$installed"
    cmake --build "$work/found"
    "$work/found/consumer"
    ;;
  other_version)
    # 0.1 serves 0.1.x alone: both a newer major and an older minor must be refused, in CMake's words.
    for wanted in 0.0 0.2 1.0; do
      if configure "wanted-$wanted" "-DCMAKE_PREFIX_PATH=$installed" "-DRUNMAX_WANTED=$wanted" >"$work/wanted.log" 2>&1; then
        echo "find_package(runmax $wanted) was satisfied"
        exit 1
      fi
      grep -q "compatible with requested version \"$wanted\"" <(tr '\n' ' ' <"$work/wanted.log" | tr -s ' ')
    done
    ;;
  pkg_config)
    export PKG_CONFIG_PATH
    PKG_CONFIG_PATH=$(dirname "$(find "$installed" -name runmax.pc)")
    libraries=$(pkg-config --variable=libdir runmax)
    static=()
    [[ -e $libraries/librunmax.so ]] || static=(--static)
    # shellcheck disable=SC2046
    "${CXX:-c++}" -std=c++20 -o "$work/by-pkg-config" "$here/consumer/main.cpp" \
      $(pkg-config "${static[@]}" --cflags --libs runmax) "-Wl,-rpath,$libraries"
    "$work/by-pkg-config"
    ;;
  program)
    cd /
    "$installed/bin/runmax" --version
    "$installed/bin/runmax" plan q64:d64 --device cpu
    ;;
  needs)
    # What a user's machine must have besides: the C++ runtime, oneTBB and libhwy, and no CUDA library.
    library=$(find "$installed" -name 'librunmax.so.*.*.*')
    needed=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
    echo "$needed"
    refuse grep -vE '^(libtbb|libhwy|libhwy_contrib|libstdc\+\+|libm|libgcc_s|libc|ld-linux-x86-64|libpthread|libdl|librt)\.so' <<<"$needed"
    readelf -d "$library" | refuse grep -E 'R(UN)?PATH'
    ;;
  subproject)
    configure subproject "-DRUNMAX_SOURCE=$root" -DRUNMAX_CUDA=OFF
    # Its tests, tools and install rules are not the outer project's.
    ninja -C "$work/subproject" -t targets all | refuse grep -E '^(runmax_cli|.*_test): '
    [[ ! -e $work/subproject/runmax/runmaxConfig.cmake ]]
    ;;
  subproject_builds)
    configure subproject "-DRUNMAX_SOURCE=$root" -DRUNMAX_CUDA=OFF
    cmake --build "$work/subproject"
    "$work/subproject/consumer"
    ;;
  *)
    echo "no step $step"
    exit 2
    ;;
esac
