"""Runs `runmax lab` and holds it to its interface: lab_program.py CLAIM PROGRAM."""

import json
import os
import re
import subprocess
import sys

program = sys.argv[2]


def run(*arguments, ok=(0,)):
    device = [] if "--device" in arguments else ["--device", "cpu"]
    done = subprocess.run([program, "lab", *device, *arguments], capture_output=True, text=True,
                          env={**os.environ, "NO_COLOR": ""}, check=False)
    assert done.returncode in ok, f"exit code {done.returncode}, wanted one of {ok}: {done.stderr}"
    return done


def lab_json(*arguments):
    return json.loads(run("--json", *arguments).stdout)


NUMBER = (int, float)
OPTIONAL_NUMBER = (int, float, type(None))

KEYS = {
    "schema": str, "version": int, "runmax": str, "commit": str, "compiler": str, "date": str, "seed": int,
    "device": dict, "limits": dict, "method": dict, "kernel_sources": list, "costs": list, "resources": list,
    "results": list, "ratios": list, "skipped": list, "predictions": list, "meaning": str, "passed": bool,
}
COST_KEYS = {
    "n": int, "score_bytes": int, "naive_bytes": int, "floor_bytes": int, "online_requested_bytes": int,
    "ratio": NUMBER, "flops": NUMBER, "intensity_naive": NUMBER, "intensity_online": NUMBER,
}
RESULT_KEYS = {
    "n": int, "path": str, "kernel": str, "status": str, "reason": str, "max_abs_error": OPTIONAL_NUMBER,
    "gate_fraction": OPTIONAL_NUMBER, "gate_fraction_vs_naive": OPTIONAL_NUMBER, "rtol": OPTIONAL_NUMBER,
    "peak_bytes": OPTIONAL_NUMBER, "time_ms": OPTIONAL_NUMBER, "spread": OPTIONAL_NUMBER, "cache": str,
}
PREDICTION_KEYS = {"name": str, "held": (bool, type(None)), "figures": str, "reason": str}


def check_keys(where, value, keys):
    for key, kind in keys.items():
        assert key in value, f"{where}: no key {key}"
        assert isinstance(value[key], kind), f"{where}.{key}: {value[key]!r} is no {kind}"


def claim_json():
    record = lab_json("--n", "256")
    check_keys("record", record, KEYS)
    assert record["schema"] == "runmax.lab"
    assert record["device"]["kind"] == "cpu"
    assert [c["n"] for c in record["costs"]] == [256]
    check_keys("costs[0]", record["costs"][0], COST_KEYS)
    assert record["costs"][0]["ratio"] == 6.0
    cells = [(r["path"], r["cache"]) for r in record["results"]]
    assert cells == [(p, c) for p in ("naive", "online", "runmax") for c in ("warm", "cold")], cells
    for r in record["results"]:
        check_keys(f"{r['path']}/{r['cache']}", r, RESULT_KEYS)
        assert r["status"] in ("ok", "refused", "skipped"), r
        if r["status"] == "ok":
            assert 0 < r["gate_fraction"] < 1, r
            assert r["max_abs_error"] > 0 and r["time_ms"] > 0 and r["spread"] >= 0, r
            assert r["rtol"] == 1e-5, r
            assert r["peak_bytes"] >= 16 * 256 * 64, r
    assert any(r["status"] == "ok" for r in record["results"])
    for ratio in record["ratios"]:
        check_keys("ratio", ratio, {"n": int, "naive_over_online": OPTIONAL_NUMBER})
    assert len(record["predictions"]) == 5
    for p in record["predictions"]:
        check_keys(p["name"], p, PREDICTION_KEYS)
    assert record["resources"] == []
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["date"])
    folders = [s["folder"] for s in record["kernel_sources"]]
    assert folders == ["src/kernels/forward/cpu", "src/kernels/lesson"], folders
    assert all(len(s["sha256"]) == 64 for s in record["kernel_sources"])
    assert record["passed"] is True


def claim_order():
    """Bytes stand before any time, and the sections in their order."""
    done = run("--n", "64,256")
    text = done.stdout
    sections = ["Device", "What the matrix costs", "Gate", "Resources", "Results",
                "What the skipped bytes are worth", "Five predictions", "What this means"]
    places = [text.index("\n" + s + "\n") for s in sections]
    assert places == sorted(places), places
    first_time = re.search(r"\bms\b", text)
    assert first_time and first_time.start() > text.index("score matrix"), "a time stands before the bytes"
    assert text.index("Results") < first_time.start()
    assert "max(1e-5, 4*2^-23*sqrt(256)) = 1.000e-05" in text
    assert "\x1b" not in text, "colour although stdout is no terminal"
    assert "\x1b" not in done.stderr and "\r" not in done.stderr, "stderr is no terminal"
    assert "every gate passed" in text
    wide = [line for line in text.splitlines() if len(line) > 80]
    assert not wide, f"wider than 80 columns: {wide[:3]}"


def claim_errors():
    """Bad arguments: exit 2, one line on stderr, nothing on stdout."""
    for arguments in (["--n", "0"], ["--n", "-5"], ["--n", "4194305"], ["--threads", "-1"], ["--time-limit", "0"],
                      ["--device", "tpu"]):
        done = run(*arguments, ok=(2,))
        assert done.stdout == "", arguments
        assert len(done.stderr.strip().splitlines()) == 1, (arguments, done.stderr)
        assert arguments[0] in done.stderr, done.stderr
    for arguments in (["--n", "many"], ["--n", "4,,5"], ["--n", ""], ["--n", "99999999999999999999"], ["--seed", "x"], ["--wrong"], ["stray"]):
        done = run(*arguments, ok=(2,))
        assert done.stdout == "", arguments
        assert len(done.stderr.strip().splitlines()) == 1, (arguments, done.stderr)


def claim_lengths():
    """A length that fits no tile is a result, and a path that would take too long is skipped with the estimate."""
    record = lab_json("--n", "100,1,16384,3", "--time-limit", "0.001")
    assert [c["n"] for c in record["costs"]] == [1, 3, 100, 16384], "lengths are sorted"
    for r in record["results"]:
        if r["n"] < 16384:
            assert r["status"] in ("ok", "refused"), r
        else:
            assert r["status"] in ("skipped", "refused"), r
        assert r["status"] == "ok" or r["reason"], "whoever does not run says why"
    assert any("--time-limit" in r["reason"] for r in record["results"])
    assert record["passed"] is True


def claim_pitfalls():
    """Every mistake is made or said not to apply, and the ones that can be made here do their harm."""
    record = lab_json("--n", "64", "--pitfalls")
    pitfalls = record["pitfalls"]
    for p in pitfalls:
        check_keys(p["name"], p, {"name": str, "shown": (bool, type(None)), "figures": str, "meaning": str})
        assert p["meaning"], p
    assert len(pitfalls) == 6, [p["name"] for p in pitfalls]
    outlier, own_maximum, not_finite = pitfalls[:3]
    assert outlier["shown"] and own_maximum["shown"] and not_finite["shown"], pitfalls[:3]
    assert "first tile passes" in outlier["figures"] and "last tile fails" in outlier["figures"], outlier
    assert [p["shown"] for p in pitfalls[4:]] == [None, None], "a CPU has no banks and no launches"


def claim_repeatable():
    """Two runs agree in everything but times, and another seed gives other errors."""
    def stable(record):
        return [(r["n"], r["path"], r["status"], r["max_abs_error"], r["gate_fraction"],
                 r["gate_fraction_vs_naive"], r["peak_bytes"]) for r in record["results"]]
    first, second = lab_json("--n", "96,256"), lab_json("--n", "96,256")
    assert stable(first) == stable(second)
    assert first["costs"] == second["costs"]
    other = lab_json("--n", "96,256", "--seed", "2")
    assert stable(first) != stable(other)


globals()[f"claim_{sys.argv[1]}"]()
