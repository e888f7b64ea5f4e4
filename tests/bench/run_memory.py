"""One head of 131072 tokens in `runmax run` needs less than 300 MB, inputs and outputs counted: run_memory.py PROGRAM."""

import array
import os
import random
import resource
import subprocess
import sys
import tempfile

LENGTH, DIM, LIMIT = 131072, 64, 300 * 10**6


def write(path, seed):
    """(LENGTH, DIM) of float32, random rows that come again after 4096."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({LENGTH}, {DIM}), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    draw = random.Random(seed)
    block = array.array("f", (draw.uniform(-2, 2) for _ in range(4096 * DIM))).tobytes()
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        for _ in range(LENGTH // 4096):
            file.write(block)


def rows(path, first, count):
    with open(path, "rb") as file:
        data = file.read(10)
        file.seek(10 + int.from_bytes(data[8:10], "little") + 4 * DIM * first)
        return array.array("f", file.read(4 * DIM * count))


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = {name: os.path.join(folder, name + ".npy") for name in ("q", "k", "v", "o", "lse")}
        for seed, name in enumerate("qkv"):
            write(path[name], seed)
        done = subprocess.run([sys.argv[1], "run", "--device", "cpu", *(part for name in "qkv" for part in (f"--{name}", path[name])),
                               "--out", path["o"], "--lse", path["lse"]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        first, again, last = rows(path["o"], 0, 4096), rows(path["o"], 4096, 4096), rows(path["o"], LENGTH - 4096, 4096)
        # Keys come 32 times each, so a row's output is that of 4096 keys, and equal queries have equal outputs.
        assert first == again == last, "equal rows have other outputs"
        largest = max(abs(x) for x in first)
        assert 0.1 < largest <= 2, f"the largest mean of values in [-2, 2] is {largest}"
    print(f"peak resident set {peak / 1e6:.1f} MB of {LIMIT / 1e6:.0f} MB; inputs and outputs are "
          f"{(4 * LENGTH * DIM + LENGTH) * 4 / 1e6:.1f} MB")
    assert peak < LIMIT


main()
