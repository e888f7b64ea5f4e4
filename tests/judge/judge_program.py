"""`runmax judge` as a program: judge_program.py CLAIM PROGRAM ROOT_OR_CANDIDATE."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

CLAIM, PROGRAM, GIVEN = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])


def run(*arguments, environment=None):
    return subprocess.run([PROGRAM, "judge", *map(str, arguments)], capture_output=True, text=True, check=False,
                          env={**os.environ, **(environment or {})})


def judged(file, *options):
    """The report of a candidate as JSON, after checking that verdict and exit code agree."""
    done = run(file, "--json", "-", *options)
    assert done.stdout.startswith("{"), done
    report = json.loads(done.stdout)
    codes = {"accepted": 0, "rejected": 1, "not-run": 4, "build-failed": 5, "crashed": 6}
    assert done.returncode == codes[report["verdict"]] == report["exit_code"], (done.returncode, report["verdict"], report["reason"])
    return report


def refused(done, code, *words):
    """One line on stderr besides progress, nothing on stdout."""
    assert done.returncode == code, (done.returncode, done.stderr)
    complaints = [line for line in done.stderr.splitlines() if line.startswith("runmax: ")]
    assert done.stdout == "" and len(complaints) == 1, done
    for word in words:
        assert word in complaints[0], (word, complaints[0])


def starter(folder, name="mine.cpp"):
    file = folder / name
    done = run("new", file)
    assert done.returncode == 0 and str(file) in done.stdout, done
    return file


def claim_accepted(folder):
    """The file that `new` writes is right, is timed, and every figure of the exercise is there."""
    report = judged(starter(folder), "--seed", 7, "--max-n", 128)
    assert report["verdict"] == "accepted", report["reason"]
    assert report["schema"] == "runmax.judge" and report["version"] == 1 and report["seed"] == 7
    assert 0 < report["gate_fraction_vs_naive_1024"] < 1
    assert report["crossover_n"] is None and report["largest_n"] == 128, "three sweeps on one core win nowhere"
    assert [row["n"] for row in report["timing"]] == [64, 128]
    for row in report["timing"]:
        assert row["candidate_us"] > row["floor_us"] > 0 and row["naive_us"] > row["floor_us"], row
        assert row["outputs_checked"] > 10 and row["rows_checked"] == row["n"], row
        assert abs(row["naive_over_candidate"] - row["naive_us"] / row["candidate_us"]) < 1e-9
    assert len(report["cases"]) > 40 and all(case["outcome"] == "passed" for case in report["cases"])
    blind = {case["name"]: case["blind_to"].split() for case in report["cases"] if not case["counts"]}
    assert "mean-of-values" in blind["equal"] and "best-key-value" in blind["length-1"], blind
    enforced = {line["name"]: line for line in report["isolation"]}
    assert enforced["guard pages"]["enforced"] and enforced["file size"]["enforced"]
    assert all(line["enforced"] or line["why"] for line in report["isolation"])
    if os.geteuid() == 0:
        assert enforced["user"]["enforced"], enforced["user"]


def claim_report(folder):
    """What a person reads first, and what the other forms of the report hold."""
    file = starter(folder)
    wrong = file.read_text().replace("o[i * d + c] += weight * v[j * d + c];", "o[i * d + c] += weight * v[j * d + c] * (j < 1);")
    file.write_text(wrong)
    done = run(file, "--seed", 3, "--json", folder / "r.json", "--html", folder / "r.html")
    assert done.returncode == 1, done
    first = done.stdout.splitlines()[:3]
    assert first[0].startswith("REJECTED  " + str(file)) and "cases passed" in first[0], first
    assert first[2].startswith("worst gate fraction against naive at n = 1024: ") and first[2].endswith("starts to win at: not timed"), first
    assert re.search(r"query row \d+, head dimension \d+: got \S+, want \S+, bound ", done.stdout)
    assert f"repeat: runmax judge {file} --case exercise-1024 --seed 3" in done.stdout
    assert "\x1b" not in done.stdout, "no colours where nobody sees them"
    report = json.loads((folder / "r.json").read_text())
    assert report["verdict"] == "rejected" and report["timing"] == [] and report["crossover_n"] is None
    failed = next(case for case in report["cases"] if case["outcome"] == "failed")
    assert set(failed["offender"]) == {"batch", "head", "row", "dim", "got", "want", "bound"}
    assert "rows" in report["error_map"] and len(report["error_map"]["digits"]) == report["error_map"]["rows"] * report["error_map"]["columns"]
    page = (folder / "r.html").read_text()
    assert page.startswith("<!doctype html>") and '"schema":"runmax.judge"' in page


def claim_errors(folder):
    """Bad input is one clear line and exit code 2."""
    file = starter(folder)
    refused(run("new", file), 2, "exists already")
    assert "three things" in run("hint", 1).stdout.replace("\n", " ") and run("hint", 2).stdout
    refused(run("hint", 3), 2, "must be 1 or 2, got 3")
    refused(run("new", folder / "mine.txt"), 2, "must end in .cpp")
    refused(run("new", folder / "x.cu", "--tier", "kernel"), 2, "must be host or device", "'kernel'")
    refused(run(folder / "none.cpp"), 2, "none.cpp")
    (folder / "mine.py").write_text("x")
    refused(run(folder / "mine.py"), 2, ".py", "must end in .cpp, .c, .cu or .so")
    refused(run(file, "--quick", "--full"), 2, "--quick, --full")
    refused(run(file, "--case", "nothing"), 2, "no case 'nothing'", "loud-last")
    refused(run(file, "--threads", 100000), 2, "--threads")
    refused(run(file, "--device", "tpu"), 2, "--device")
    refused(run(file, "--device", "cuda"), 2, "--device", "runs on the CPU")
    refused(run(file, "--json", folder / "no" / "r.json"), 2, "r.json")
    (folder / "empty.cpp").write_text("")
    refused(run(folder / "empty.cpp"), 2, "is empty")
    (folder / "bad.cpp").write_text("// runmax-judge\n// lengths: many\n")
    refused(run(folder / "bad.cpp"), 2, "bad.cpp: line 2: lengths: must be A..B", "'many'")
    (folder / "x.so").write_text("no library")
    report = judged(folder / "x.so")
    assert report["verdict"] == "build-failed" and "not an ELF file" in report["reason"]


def claim_not_built(folder):
    """Compiler errors come with the candidate's own name and line numbers, exit code 5; a bomb is stopped."""
    file = folder / "broken.cpp"
    file.write_text("// one\n// two\nextern \"C\" int attention( { return 0; }\n")
    done = run(file)
    assert done.returncode == 5 and done.stdout.startswith("BUILD-FAILED"), done
    assert "broken.cpp:3:" in done.stdout and "/runmax-judge-" not in done.stdout, done.stdout
    file.write_text("int attention() { return 0; }\n")
    report = judged(file)
    assert report["verdict"] == "build-failed" and 'extern "C"' in report["reason"], report["reason"]
    file.write_text("template <int n> struct Bomb { Bomb<2 * n> a; Bomb<2 * n + 1> b; };\n"
                    "extern \"C\" int attention() { return sizeof(Bomb<1>); }\n")
    begin = time.monotonic()
    assert judged(file)["verdict"] == "build-failed" and time.monotonic() - begin < 130
    file.write_text("#include \"/etc/shadow\"\nextern \"C\" int attention();\n")
    report = judged(file)
    if os.geteuid() == 0:
        assert "Permission denied" in report["build"]["output"], report["build"]["output"]
    assert report["verdict"] == "build-failed"


def claim_cuda(folder):
    """Without a GPU a .cu file is compiled, and its errors have its own line numbers."""
    if not shutil.which("nvcc"):
        done = run("new", folder / "mine.cu")
        assert done.returncode == 0
        refused(run(folder / "mine.cu"), 4, "nvcc")
        print("SKIPPED: no nvcc to compile with; that it is missed was checked")
        return
    file = starter(folder, "mine.cu")
    report = judged(file)
    if report["verdict"] == "not-run":
        assert "GPU" in report["reason"]
    file.write_text(file.read_text().replace("float max = -INFINITY;", "float max = MINUS_INFINITY;"))
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "MINUS_INFINITY" in text)
    report = judged(file)
    assert report["verdict"] == "build-failed" and f"mine.cu({line})" in report["build"]["output"], report["build"]


def claim_repeats(folder):
    """The printed command gives the same verdict on the same element again."""
    file = starter(folder)
    file.write_text(file.read_text().replace("std::exp(score(j) - max) / sum", "std::exp(score(j) - max) / sum * (i == 40 ? 1.01f : 1.0f)"))
    report = judged(file)
    failed = [case for case in report["cases"] if case["outcome"] == "failed"]
    assert failed and all(case["offender"]["row"] == 40 for case in failed), [c["message"] for c in failed]
    assert "row 40" in report["reason"] or report["diagnosis"] is None
    words = failed[0]["repeat"].split()
    assert words[:2] == ["runmax", "judge"]
    again = judged(*words[2:])
    assert len(again["cases"]) == 1 and again["cases"][0]["message"] == failed[0]["message"]


def claim_any_timed_call(folder):
    """Whichever timed output is spoiled, by one element, it is found. Cases make at most 12 calls in a process."""
    file = starter(folder)
    right = file.read_text().replace('extern "C"', 'static int calls;\n\nextern "C"', 1)
    for call in (13, 80, 81, 257, 400):
        file.write_text(right.replace("  return 0;\n}", f"  if (++calls == {call}) o[sq * d - 1] += 0.01f;\n  return 0;\n}}"))
        report = judged(file, "--max-n", 64)
        assert report["verdict"] == "rejected" and report["diagnosis"] == "wrong-when-timed", (call, report["reason"])
        assert "query row 63, head dimension 63" in report["reason"], (call, report["reason"])


def claim_library(folder):
    """A built library, its manifest beside it, and a name that is the system's."""
    source = starter(folder)
    library = folder / "mine.so"
    compiler = os.environ.get("CXX", "g++")
    subprocess.run([compiler, "-O2", "-std=c++20", "-shared", "-fPIC", "-o", library, source], check=True)
    (folder / "mine.so.judge").write_text("runmax-judge\nlengths: 1..64\n")
    report = judged(library, "--max-n", 64)
    # It serves more than it claims, and serves it right.
    assert report["verdict"] == "rejected" or report["verdict"] == "accepted", report["reason"]
    assert report["candidate"]["lengths"] == "1..64" and report["largest_n"] == 64, report["reason"]
    source.write_text(source.read_text() + '\nextern "C" void* memcpy(void* to, const void*, unsigned long) { return to; }\n')
    subprocess.run([compiler, "-O2", "-std=c++20", "-shared", "-fPIC", "-fno-builtin", "-o", library, source], check=True)
    report = judged(library)
    assert report["verdict"] == "build-failed" and report["diagnosis"] == "exports-system-symbol", report


def claim_proof(_):
    """A planted fault is found for what it is; an honest kernel is accepted, every time."""
    beside = GIVEN.with_name(GIVEN.name + ".judge")
    text = (beside if beside.exists() else GIVEN).read_text()
    finding = re.search(r"^// Finding: (.+)", text, re.M)
    if finding.group(1) == "none":
        repeats = int(os.environ.get("RUNMAX_JUDGE_REPEATS", "2"))
        for repeat in range(repeats):
            report = judged(GIVEN, "--max-n", 128)
            assert report["verdict"] == "accepted", (repeat, report["reason"])
        return
    report = judged(GIVEN, "--max-n", 128)
    assert report["verdict"] in ("rejected", "crashed", "build-failed"), report["reason"]
    allowed = finding.group(1).split(" | ")
    assert report["diagnosis"] in allowed, (report["diagnosis"], allowed, report["reason"])


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        globals()["claim_" + CLAIM](pathlib.Path(folder))


main()
