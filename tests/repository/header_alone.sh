#!/usr/bin/env bash
# A public header compiles when it is the only thing included, at its own language level, without a warning.
# usage: header_alone.sh COMPILER STANDARD INCLUDE_DIR HEADER
set -euo pipefail
compiler=$1 standard=$2 include=$3 header=$4
if ! command -v "$compiler" >/dev/null; then
  echo "SKIPPED: $compiler is not installed"
  exit 0
fi
printf '#include "%s"\n#include "%s"\nint main() { return 0; }\n' "$header" "$header" |
  "$compiler" "-std=$standard" -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only "-I$include" -x c++ -
