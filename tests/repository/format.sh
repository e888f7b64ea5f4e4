#!/usr/bin/env bash
# Every source is formatted by the pinned clang-format.
# usage: format.sh ROOT
set -euo pipefail
if ! command -v clang-format-14 >/dev/null; then
  echo "SKIPPED: clang-format-14 is not installed (./scripts/format installs it)"
  exit 0
fi
if [[ ! -e $1/.git ]]; then
  echo "SKIPPED: these sources are not a git clone, so nothing says which files are the repository's"
  exit 0
fi
exec "$1/scripts/format" --check --no-install
