#!/usr/bin/env python3
"""The shared library shows its interface and nothing else, and stays small.

usage: symbols.py NM LIBRARY
"""
import pathlib
import re
import subprocess
import sys

ALLOWED = re.compile(r"^(runmax::|runmax_|(typeinfo|typeinfo name|vtable) for runmax::)")
LIMIT_BYTES = 20 * 1024 * 1024


def foreign(names):
    """Exported names that are not the interface."""
    return [name for name in names if not ALLOWED.match(name)]


def main():
    nm, library = sys.argv[1:]
    lines = subprocess.run([nm, "-DC", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    names = [line.split(maxsplit=2)[2] for line in lines.splitlines()]
    strangers = foreign(names)
    for name in strangers:
        print(f"exported, and not of the interface: {name}")
    size = pathlib.Path(library).stat().st_size
    print(f"{len(names)} exported symbols, {size / 2**20:.2f} MiB of {LIMIT_BYTES // 2**20}")
    wanted = ("runmax::plan(", "runmax::run(", "runmax::attention(", "runmax::merge(", "runmax::version(")
    missing = [name for name in wanted if not any(symbol.startswith(name) for symbol in names)]
    for name in missing:
        print(f"not exported: {name})")
    return 1 if strangers or missing or size > LIMIT_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
