#!/usr/bin/env python3
"""What the documents name exists: links and their anchors, paths, scripts, presets, subcommands and their options.

usage: docs.py ROOT [PROGRAM]
"""
import glob
import json
import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
TOP = ("src/", "include/", "apps/", "tests/", "scripts/", "docs/", "lesson/", "cmake/", "results/", "examples/", "bench/",
       "python/", "page/", "emulator/", ".ci/")
PATH = re.compile(r"^(\./)?(" + "|".join(re.escape(top) for top in TOP) + r")[\w./*{},+-]*$")
COMMAND = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(\./scripts/\w[\w-]*|(?:\S*/)?runmax)(?: (.*))?$")


def anchor(heading):
    """The anchor that a heading gets."""
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", lambda match: match.group(1) or "", heading.strip()).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def split(text):
    """The prose with fenced blocks blanked, and the lines of the fenced blocks with their language."""
    prose, blocks, language = [], [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"^\s*(```|~~~)\s*(\w*)", line)
        if fence:
            language = (fence.group(2) or "plain") if language is None else None
            prose.append("")
        elif language is None and re.match(r"^    \S", line):
            blocks.append((number, "plain", line.strip()))
            prose.append("")
        elif language is None:
            prose.append(line)
        else:
            blocks.append((number, language, line.strip()))
            prose.append("")
    return prose, blocks


def headings(path):
    prose, _ = split(path.read_text(encoding="utf-8"))
    return {anchor(line.lstrip("#")) for line in prose if re.match(r"^#+ ", line)}


def expand(pattern):
    """Braces as the shell reads them."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if not match:
        return [pattern]
    return [one for part in match.group(1).split(",")
            for one in expand(pattern[:match.start()] + part + pattern[match.end():])]


class Program:
    """What the program says about itself."""

    def __init__(self, path):
        self.path, self.helps = path, {}

    def help(self, *words):
        if words not in self.helps:
            run = subprocess.run([self.path, *words, "--help"], capture_output=True, text=True, check=False)
            self.helps[words] = run.stdout if run.returncode == 0 else None
        return self.helps[words]

    def complaint(self, words):
        """Why this command line cannot be right, or None."""
        words = [re.sub(r"[\[\]]", "", word) for word in words]
        if not words or words[0].startswith("-") or re.fullmatch(r"[A-Z.…]+", words[0]):
            return None
        text = self.help(words[0])
        if text is None:
            return f"runmax has no command {words[0]}"
        for word in words[1:]:
            option = re.match(r"--[a-z][\w-]*", word)
            if option and option.group() != "--help" and not re.search(re.escape(option.group()) + r"\b(?!-)", text):
                return f"runmax {words[0]} has no option {option.group()}"
        return None


def command_complaint(root, line, program, presets):
    match = COMMAND.match(re.sub(r"\s+#.*$", "", line.rstrip("\\").strip()))
    for preset in re.findall(r"--preset[ =](\w+)", line):
        if preset not in presets:
            return f"there is no preset {preset}"
    if not match:
        return None
    name, rest = match.group(1), (match.group(2) or "")
    rest = re.split(r"\s[|&;>]", " " + rest)[0].split()
    if name.startswith("./scripts/"):
        script = root / name
        if not script.is_file():
            return f"{name} does not exist"
        if not script.stat().st_mode & 0o100:
            return f"{name} is not executable"
        script_name = script.name
        if script_name not in ("runmax", "lab"):
            text = script.read_text(encoding="utf-8")
            for word in rest:
                option = re.match(r"--[a-z][\w-]*", word)
                if option and option.group() not in text:
                    return f"{name} has no option {option.group()}"
            return None
        rest = [word for word in rest if word != "--no-install"]
        if script_name == "lab":
            rest = ["lab", *rest]
    return program.complaint(rest) if program else None


def check_file(root, path, program, presets):
    found = []
    name = path.relative_to(root).as_posix()
    prose, blocks = split(path.read_text(encoding="utf-8"))

    def complain(number, what):
        found.append(f"{name}:{number}: {what}")

    for number, line in enumerate(prose, 1):
        plain = CODE.sub(lambda match: " " * len(match.group()), line)
        for match in LINK.finditer(plain if "](" in plain else line):
            target = match.group(1) or match.group(2)
            if re.match(r"^[a-z]+:", target):
                continue
            file_part, _, fragment = target.partition("#")
            file = (path.parent / file_part) if file_part else path
            if not file.exists():
                complain(number, f"links to {target}, which does not exist")
            elif fragment and file.suffix == ".md" and fragment not in headings(file):
                complain(number, f"links to {target}: no heading has that anchor")
        for match in CODE.finditer(line):
            code = match.group(1).strip()
            if PATH.match(code):
                for one in expand(code.rstrip(".,")):
                    if not glob.glob(str(root / one)):
                        complain(number, f"names {one}, which does not exist")
            else:
                complaint = command_complaint(root, code, program, presets) if " " in code or "/" in code else None
                if complaint:
                    complain(number, complaint)
    for number, language, line in blocks:
        if language in ("sh", "bash", "console", "shell", "plain"):
            complaint = command_complaint(root, line, program, presets)
            if complaint:
                complain(number, complaint)
    return found


def documents(root):
    skipped = {"build", ".git", ".cache", "node_modules"}
    return sorted(path for path in root.rglob("*.md") if not skipped & set(path.relative_to(root).parts))


def check(root, program):
    presets_file = root / "CMakePresets.json"
    presets = set()
    if presets_file.is_file():
        presets = {preset["name"] for preset in json.loads(presets_file.read_text())["configurePresets"]}
    return [line for path in documents(root) for line in check_file(root, path, program, presets)]


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    program = Program(sys.argv[2]) if len(sys.argv) > 2 else None
    found = check(root, program)
    print("\n".join(found))
    print(f"{len(documents(root))} documents, {len(found)} findings")
    return 1 if found or not documents(root) else 0


if __name__ == "__main__":
    sys.exit(main())
