#!/usr/bin/env python3
"""Adds up ctest's JUnit files: lists failures, skipped tests with their reasons, and the one closing line.

usage: test_report.py FILE.xml... ["failed: WHAT"...]
Exits 0 if at least one test ran and none failed, else 1.
"""
import collections
import re
import sys
import xml.etree.ElementTree as ElementTree


def skip_reason(case):
    """The sentence a skipped test printed, or what ctest knows about it."""
    text = case.findtext("system-out") or ""
    for pattern in (r"^(?:SKIP(?:PED)?|skipped): (.+)$", r"Skipped\s*\n(.+)$", r"^.*: Skipped\s*\n?(.+)$"):
        match = re.search(pattern, text, re.MULTILINE)
        if match:
            return match.group(1).strip()
    skipped = case.find("skipped")
    message = skipped.get("message", "") if skipped is not None else ""
    return message or "no reason given"


def main(paths):
    passed, failed, skipped = 0, [], collections.defaultdict(list)
    for path in paths:
        if path.startswith("failed: "):
            failed.append(path.removeprefix("failed: "))
            continue
        try:
            cases = ElementTree.parse(path).getroot().iter("testcase")
        except (OSError, ElementTree.ParseError) as error:
            failed.append(f"{path}: no test report ({error})")
            continue
        ran_here = 0
        for case in cases:
            name, status = case.get("name"), case.get("status")
            if status == "run":
                passed += 1
                ran_here += 1
            elif status in ("notrun", "disabled"):
                reason = skip_reason(case)
                if "NOT_BUILT" in name or reason in ("", "Unable to find executable"):
                    failed.append(f"{name}: its program was not built")
                else:
                    skipped[reason].append(name)
            else:
                failed.append(name)
                ran_here += 1
        if not ran_here:
            failed.append(f"{path}: no test ran")
    for reason, names in sorted(skipped.items(), key=lambda item: -len(item[1])):
        print(f"skipped, {len(names)}: {reason}")
        for name in names[:5]:
            print(f"  {name}")
        if len(names) > 5:
            print(f"  and {len(names) - 5} more")
    for name in failed:
        print(f"FAILED {name}")
    print(f"{passed} passed, {len(failed)} failed, {sum(map(len, skipped.values()))} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
