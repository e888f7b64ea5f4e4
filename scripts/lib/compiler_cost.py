#!/usr/bin/env python3
"""Compiler launcher: runs the compiler and notes what it cost, in seconds and in the memory of its largest process.

usage: compiler_cost.py LOG COMPILER ARGUMENT...
"""
import json
import os
import resource
import subprocess
import sys
import time


def main():
    log, command = sys.argv[1], sys.argv[2:]
    started = time.monotonic()
    code = subprocess.run(command, check=False).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    source = command[command.index("-c") + 1] if "-c" in command[:-1] else command[-1]
    record = {"source": os.path.relpath(source, os.environ.get("RUNMAX_ROOT", "/")), "cpu_s": round(used.ru_utime + used.ru_stime, 2),
              "wall_s": round(time.monotonic() - started, 2), "peak_mib": round(used.ru_maxrss / 1024)}
    with open(log, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
