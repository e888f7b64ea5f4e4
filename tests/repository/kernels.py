#!/usr/bin/env python3
"""Every kernel of the registry is documented by its name.

usage: kernels.py ROOT PROGRAM
"""
import json
import pathlib
import subprocess
import sys


def undocumented(names, text):
    return [name for name in names if f"`{name}`" not in text]


def main():
    root, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    listing = subprocess.run([program, "list", "--json"], check=True, capture_output=True, text=True).stdout
    names = [kernel["name"] for kernel in json.loads(listing)["kernels"]]
    text = "\n".join(path.read_text(encoding="utf-8") for path in [*root.glob("*.md"), *(root / "docs").rglob("*.md")])
    missing = undocumented(names, text)
    for name in missing:
        print(f"no document names the kernel `{name}`")
    print(f"{len(names)} kernels, {len(missing)} undocumented")
    return 1 if missing or not names else 0


if __name__ == "__main__":
    sys.exit(main())
