#!/usr/bin/env python3
"""Includes go one way. Reads every source and refuses an include that its folder may not have.

usage: includes.py ROOT
"""
import pathlib
import re
import sys

SOURCES = {".h", ".hpp", ".cpp", ".cuh", ".cu"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# A header of the C++ standard library, or of C's: no folder, no suffix (or one of C's own).
C_HEADERS = {"assert.h", "errno.h", "fcntl.h", "inttypes.h", "limits.h", "math.h", "signal.h", "stddef.h", "stdint.h",
             "stdio.h", "stdlib.h", "string.h", "time.h", "unistd.h", "sched.h", "dlfcn.h", "elf.h", "grp.h", "poll.h"}
# Headers of the operating system, for the few places that ask it something.
SYSTEM = re.compile(r"^(sys|linux)/\w+\.h$")
CUDA = re.compile(r"^(cuda|cuda_\w+|device_launch_parameters|sm_\w+|mma|cooperative_groups|vector_types)\.h$"
                  r"|^cuda/|^cub/")

THIRD_PARTY = {
    "cuda": CUDA,
    "intrinsics": re.compile(r"^\w+intrin\.h$"),
    "highway": re.compile(r"^hwy/"),
    "tbb": re.compile(r"^(oneapi/)?tbb/"),
    "fmt": re.compile(r"^fmt/"),
    "json": re.compile(r"^nlohmann/"),
    "cli": re.compile(r"^CLI/"),
    "gtest": re.compile(r"^(gtest|gmock)/"),
    "rapidcheck": re.compile(r"^rapidcheck"),
    "oracles": re.compile(r"^(mpfr|sleef)\.h$"),
}

PUBLIC = "include/runmax/"

# The one file that a layer above may see of a kernel leaf: its host-side launch header, or the lesson's plain C++ form.
LEAF_HOST = re.compile(r"^src/kernels/.*/(launch|host)\.hpp$")
PURE = ("src/problem/", "src/reference/", "src/gate/", "src/inputs/")

# folder: (what it may see of the repository, what it may see of others). The longest matching folder decides. A
# compiled pattern matches a path from the root, a string is a prefix of one. A folder always sees itself.
RULES = {
    PUBLIC: ([], []),
    "src/problem/": ([PUBLIC], []),
    "src/reference/": ([PUBLIC], []),
    "src/gate/": ([PUBLIC, "src/reference/"], []),
    "src/inputs/": ([PUBLIC], []),
    "src/registry/": ([PUBLIC, LEAF_HOST, "src/runtime/workers.hpp"], []),
    "src/plan/": ([PUBLIC, LEAF_HOST, "src/problem/", "src/registry/", "src/runtime/"], []),
    "src/runtime/": ([PUBLIC], ["cuda", "highway", "tbb", "system"]),
    "src/device/": ([PUBLIC], ["cuda"]),
    "src/kernels/lesson/": ([PUBLIC], ["cuda"]),
    "src/kernels/forward/cpu/": ([PUBLIC, "src/runtime/workers.hpp"], ["highway", "tbb"]),
    "src/kernels/backward/cpu/": ([PUBLIC, "src/runtime/workers.hpp", "src/kernels/forward/cpu/"], ["highway", "tbb"]),
    "src/kernels/": ([PUBLIC, "src/device/", "src/runtime/launch.cuh"], ["cuda"]),
    "lesson/": ([PUBLIC, "src/kernels/lesson/", "src/reference/", "src/gate/", "src/inputs/"], ["cuda"]),
    "apps/": ([PUBLIC], ["fmt", "json", "system"]),
    "apps/cli/main.cpp": ([PUBLIC, "apps/"], ["cli"]),
    "apps/cli/": ([PUBLIC, "apps/", *PURE, "src/registry/", "src/runtime/"], ["fmt", "json", "system"]),
    "apps/check/": ([PUBLIC, "apps/", *PURE, "src/registry/", "src/runtime/"], ["fmt", "system"]),
    "apps/measure/": ([PUBLIC, "lesson/statistics.hpp", "src/runtime/"],
                      ["fmt", "highway", "tbb", "system"]),  # it measures the machine itself
    "apps/measure/gpu/": ([PUBLIC, "apps/measure/", "src/runtime/", "src/device/"], ["cuda"]),
    "apps/bench/gpu/": ([PUBLIC, "apps/", *PURE, "src/registry/", "src/runtime/"], ["cuda", "fmt"]),
    "apps/bench/": ([PUBLIC, "apps/", *PURE, "src/registry/", "src/runtime/"], ["fmt", "json", "highway", "system"]),
    "apps/lab/": ([PUBLIC, "apps/", *PURE, "src/registry/", "src/runtime/", "lesson/", "src/kernels/lesson/", LEAF_HOST],
                  ["fmt", "json", "highway", "tbb", "intrinsics", "system"]),  # it measures the machine itself
    "apps/judge/faults/": ([], ["cuda", "system"]),  # what anybody hands in: no file of the repository
    "apps/judge/faults/honest/engine.cpp": ([PUBLIC], []),
    "apps/judge/": ([PUBLIC, "apps/", *PURE, "src/registry/", "src/runtime/", "lesson/"], ["fmt", "json", "system"]),
    "apps/judge/diagnosis/": ([PUBLIC, "src/problem/", "src/reference/", "src/gate/", "src/inputs/"], []),  # pure
    "apps/page/": ([PUBLIC, "apps/"], ["fmt", "json"]),
    "page/": ([PUBLIC, "lesson/costs.hpp"], []),
    "apps/judge/gpu/": ([PUBLIC, "apps/files/", "apps/judge/"], ["cuda"]),
    "apps/lab/gpu/": ([PUBLIC, "apps/", *PURE, "src/registry/", "src/runtime/", "lesson/", "src/kernels/"], ["cuda", "fmt"]),
    "bench/": ([PUBLIC, "bench/", "apps/measure/", "lesson/statistics.hpp", "src/kernels/forward/cpu/exp2-inl.hpp",
                "src/device/"], ["highway", "json", "intrinsics", "oracles", "cuda"]),
    "bench/ceilings/": ([PUBLIC, "bench/", "apps/measure/", "lesson/statistics.hpp", "src/device/",
                         "src/kernels/forward/hopper/"], ["json", "cuda"]),
    "tests/install/consumer/": ([PUBLIC], []),
    "tests/": ([""], list(THIRD_PARTY) + ["system"]),
}

# Layers of src/device/, lowest first: each sees itself and those before it.
DEVICE_LAYERS = [["ptx"], ["mma", "tile"], ["pipeline", "softmax", "schedule"], ["planes"]]

# These build from a clone with nvcc alone, so they name their own files relative to themselves.
RELATIVE_ONLY = ("lesson/", "src/kernels/lesson/", "src/reference/", "src/gate/", "src/inputs/", "page/")
# .cpp files of those folders are compiled by CMake, with include paths; their headers and CUDA files are not.
RELATIVE_SUFFIXES = {".hpp", ".cuh", ".cu"}
SELF_CONTAINED = "include/runmax/online_softmax.hpp"

# Where an include in quotes or brackets is looked for, besides the includer's own folder.
INCLUDE_PATHS = ["include", "src", "apps", "", "tests"]

# Headers that CMake writes into the build directory.
GENERATED = {"measure/build_info.hpp"}

# CUDA host calls belong to the runtime, to kernels' launch code and to what measures a GPU.
CUDA_CALL = re.compile(r"\bcu(da)?[A-Z]\w+\s*\(")
CUDA_CALLERS = re.compile(r"^(src/runtime/|src/kernels/.*\.(cu|cuh)$|apps/(bench|judge|lab|measure)/gpu/|bench/|lesson/.*\.cuh?$|tests/.*\.(cu|cpp|hpp|cuh)$)")


def rule_for(path):
    matching = [folder for folder in RULES if path.startswith(folder)]
    return max(matching, key=len) if matching else None


def resolve(root, path, name):
    """The repository file that an include names, and whether it was found relative to the includer."""
    here = (root / path).parent / name
    if here.is_file():
        return here.resolve().relative_to(root.resolve()).as_posix(), True
    for base in INCLUDE_PATHS:
        candidate = root / base / name
        if candidate.is_file():
            return candidate.resolve().relative_to(root.resolve()).as_posix(), False
    return None, False


def is_standard(name):
    return re.fullmatch(r"[a-z_0-9]+(/[a-z_0-9]+)?", name) is not None or name in C_HEADERS


def own_folder(path):
    """The folder that a file may include from freely: its kernel leaf, its app, its part of src."""
    parts = path.split("/")
    if path.startswith("src/kernels/lesson/"):
        return "src/kernels/lesson/"
    if path.startswith("src/kernels/"):
        return "/".join(parts[:4]) + "/" if len(parts) > 4 else "/".join(parts[:-1]) + "/"
    if path.startswith(("src/", "apps/")):
        return "/".join(parts[:2]) + "/"
    return parts[0] + "/" if not path.startswith(PUBLIC) else PUBLIC


def device_layer(path):
    folder = path.split("/")[2]
    for depth, layer in enumerate(DEVICE_LAYERS):
        if folder in layer:
            return depth
    return None


def problem_with(root, path, bracket, name):
    """Why this include is not allowed, or None."""
    folder = rule_for(path)
    if folder is None:
        return "its folder has no rule in tests/repository/includes.py"
    seen, others = RULES[folder]
    target, relative = resolve(root, path, name)
    if target is None and name in GENERATED and path.startswith("apps/" + name.split("/")[0] + "/"):
        return None
    if target is None:
        for party, pattern in THIRD_PARTY.items():
            if pattern.match(name):
                return None if party in others else f"{folder} does not use {party}"
        if SYSTEM.match(name):
            return None if "system" in others else f"{folder} asks the operating system nothing"
        if bracket == '"':
            return "there is no such file"
        return None if is_standard(name) else "neither the standard library's nor a known dependency's"
    if bracket == "<":
        return "files of this repository are included in quotes"
    if path == SELF_CONTAINED:
        return "this header stands alone"
    if path.startswith(RELATIVE_ONLY) and pathlib.PurePosixPath(path).suffix in RELATIVE_SUFFIXES and not relative:
        return "this file builds without include paths, so it names files relative to itself"
    if target.startswith("src/device/") and path.startswith("src/device/"):
        mine, its = device_layer(path), device_layer(target)
        if path.split("/")[2] != target.split("/")[2] and (mine is None or its is None or its >= mine):
            return "src/device/ includes only downwards: ptx, then mma and tile, then pipeline, softmax, schedule, then planes"
        return None
    if target.startswith(own_folder(path)):
        return None
    for allowed in seen:
        if allowed.match(target) if isinstance(allowed, re.Pattern) else target.startswith(allowed):
            return None
    return f"{folder} does not see {target}"


def sources(root):
    for top in ("include", "src", "lesson", "apps", "page", "tests", "examples", "bench", "emulator",
                "python"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix in SOURCES and file.is_file():
                yield file.relative_to(root).as_posix()


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda match: "\n" * match.group().count("\n"), text, flags=re.DOTALL)
    return re.sub(r"//[^\n]*", "", text)


def check(root):
    """Every violation, as one line."""
    found = []
    for path in sources(root):
        text = (root / path).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                reason = problem_with(root, path, match.group(1), match.group(2))
                if reason:
                    found.append(f"{path}:{number}: includes {match.group(2)}: {reason}")
        if not CUDA_CALLERS.match(path):
            # String literals hold names of CUDA functions too, in messages.
            code = re.sub(r'"(\\.|[^"\\\n])*"', '""', without_comments(text))
            for number, line in enumerate(code.splitlines(), 1):
                call = CUDA_CALL.search(line)
                if call:
                    found.append(f"{path}:{number}: calls {call.group().rstrip('( ')}: CUDA host calls belong to "
                                 "src/runtime, launch code and apps/*/gpu")
    return found


def main():
    root = pathlib.Path(sys.argv[1])
    files = list(sources(root))
    violations = check(root)
    print("\n".join(violations))
    print(f"{len(files)} files, {len(violations)} violations")
    return 1 if violations or not files else 0


if __name__ == "__main__":
    sys.exit(main())
