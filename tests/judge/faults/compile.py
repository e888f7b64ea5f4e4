#!/usr/bin/env python3
"""Every planted fault compiles, without a warning, as somebody would hand it in.

usage: compile.py ROOT cpu|some_cuda|all_cuda C++COMPILER
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

# One on the shared kernel with a state of its own, one that stands alone.
SOME_CUDA = {"cuda/replays-by-count.cu", "cuda/precision-fp16.cu", "honest/workspace.cu"}
# Its own flags: it needs the library.
NEEDS_LIBRARY = {"honest/engine.cpp"}


def commands(root, which, compiler, scratch):
    faults = root / "apps/judge/faults"
    for path in sorted(faults.glob("*/*.cpp" if which == "cpu" else "*/*.cu")):
        name = path.relative_to(faults).as_posix()
        if which == "cpu" and name not in NEEDS_LIBRARY:
            yield name, [compiler, "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", path]
        elif which == "all_cuda" or name in SOME_CUDA:
            for architecture in ("sm_75", "sm_90a") if which == "all_cuda" else ("sm_75",):
                yield name, ["nvcc", "-std=c++17", f"-arch={architecture}", "-Werror", "all-warnings", "-cubin", "-o",
                             scratch / "kernel.cubin", path]


def main():
    root, which, compiler = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if which != "cpu":
        for folder in ("/usr/local/cuda/bin",):
            os.environ["PATH"] += os.pathsep + folder
        if not shutil.which("nvcc"):
            print("SKIPPED: there is no nvcc here, which compiles CUDA candidates")
            return 0
    compiled, failed = 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, command in commands(root, which, compiler, pathlib.Path(scratch)):
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
            compiled += 1
            if done.returncode != 0 or done.stderr:
                failed += 1
                print(f"{name}: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    print(f"{compiled} compiled, {failed} failed")
    return 1 if failed or not compiled else 0


if __name__ == "__main__":
    sys.exit(main())
