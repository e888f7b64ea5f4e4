#!/usr/bin/env python3
"""What must not stand in a file of this repository: paths and hosts of one machine, work left for later.

usage: words.py ROOT
"""
import pathlib
import re
import subprocess
import sys

# Spelled in pieces, so that this file does not hold the words itself.
LEFT_OVER = ("TO" + "DO", "FIX" + "ME", "X" * 3)
FORBIDDEN = [
    (re.compile(r"(?<![\w.$}])/(home|Users|root|work|workspace)/\w"), "a path of somebody's machine"),
    (re.compile(r"https?://(?!arxiv\.org/)[\w.-]+"), "a host; papers at arxiv.org are the only ones named"),
    (re.compile(r"\b(" + "|".join(LEFT_OVER) + r")\b(?!\(#\d+\))"), "work left for later without an issue: write its (#7)"),
    (re.compile(r"^(<{7}|={7}|>{7})( |$)"), "a merge conflict"),
]


def findings(path, text):
    return [f"{path}:{number}: {match.group().strip()}: {why}"
            for number, line in enumerate(text.splitlines(), 1)
            for pattern, why in FORBIDDEN
            for match in [pattern.search(line)] if match]


def tracked(root):
    listing = subprocess.run(["git", "-c", f"safe.directory={root}", "ls-files", "-z"], cwd=root, check=True,
                             capture_output=True, text=True).stdout
    return [name for name in listing.split("\0") if name]


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    if not (root / ".git").exists():
        print("SKIPPED: these sources are not a git clone, so nothing says which files are the repository's")
        return 0
    found, read = [], 0
    for name in tracked(root):
        if not (root / name).is_file():
            continue
        data = (root / name).read_bytes()
        if b"\0" in data[:4096]:
            continue
        read += 1
        found += findings(name, data.decode("utf-8", errors="replace"))
    print("\n".join(found))
    print(f"{read} files, {len(found)} findings")
    return 1 if found or not read else 0


if __name__ == "__main__":
    sys.exit(main())
