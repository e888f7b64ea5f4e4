#!/usr/bin/env bash
# Builds the lesson's program by its one line, from the repository's root, and checks how it ends.
# usage: one_line.sh NVCC SOURCE_DIRECTORY WORK_DIRECTORY
set -euo pipefail
nvcc=$1 source=$2 work=$3

# The line leaves its result where it stands, so it runs in a copy that has what a clone has.
rm -rf "$work"
mkdir -p "$work"
cp -r "$source/lesson" "$source/include" "$source/src" "$work"
cd "$work"
PATH=$(dirname "$nvcc"):$PATH
nvcc -std=c++17 -O3 -arch=sm_75 -o attention lesson/attention.cu

./attention --help | grep -q '^usage: attention'
code=0
./attention --n 100 2>error.txt || code=$?
[[ $code == 2 ]] || { echo "--n 100: exit code $code instead of 2"; exit 1; }
grep -q 'multiples of 64' error.txt

code=0
./attention --n 64,256 >out.txt 2>error.txt || code=$?
if nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  [[ $code == 0 ]] || { echo "exit code $code instead of 0 on a machine with a GPU"; cat error.txt out.txt; exit 1; }
else
  [[ $code == 4 ]] || { echo "exit code $code instead of 4 on a machine without a GPU"; cat error.txt; exit 1; }
  [[ $(wc -l <error.txt) == 1 ]] || { echo "more than one line of error:"; cat error.txt; exit 1; }
  grep -q '^attention: no GPU: ' error.txt
  [[ ! -s out.txt ]] || { echo "printed results without a GPU"; exit 1; }
fi
