"""Runs `runmax bench` and holds it to its interface: bench_program.py CLAIM PROGRAM."""

import json
import os
import re
import subprocess
import sys

program = sys.argv[2]


def run(*arguments, ok=(0,)):
    done = subprocess.run([program, "bench", *arguments], capture_output=True, text=True,
                          env={**os.environ, "NO_COLOR": ""}, check=False)
    assert done.returncode in ok, f"exit code {done.returncode}, wanted one of {ok}: {done.stderr}"
    return done


def bench_json(*arguments):
    """A machine that does other things besides may measure a limit too low: then the bench must say so."""
    done = run("--json", "--repeat", "3", *arguments, ok=(0, 1))
    record = json.loads(done.stdout)
    for r in record["results"]:
        assert r["status"] == "ok" or (r["status"] == "wrong" and "limit was measured wrongly" in r["reason"]), r
    assert record["passed"] == (done.returncode == 0) == all(r["share_of_limit"] <= 1 for r in record["results"])
    return record


NUMBER = (int, float)
KEYS = {
    "schema": str, "version": int, "runmax": str, "commit": str, "compiler": str, "date": str, "machine": dict,
    "method": str, "flops_formula": str, "bytes_formula": str, "rounds": int, "seconds": NUMBER, "limits": dict,
    "kernel_sources": list, "results": list, "passed": bool,
}
RESULT_KEYS = {
    "problem": str, "pass": str, "implementation": str, "kernel": str, "computed_as": str, "threads": int,
    "cache": str, "status": str, "reason": str, "gate": str, "gate_fraction": NUMBER, "flops": NUMBER,
    "bytes": NUMBER, "time_us": NUMBER, "spread": NUMBER, "fastest_us": NUMBER, "tflops": NUMBER,
    "bytes_per_s": NUMBER, "limit": str, "share_of_limit": NUMBER, "best_share_of_limit": NUMBER,
    "samples_us": list, "time_over_first": NUMBER, "repeat": str,
}


def check_keys(where, value, keys):
    for key, kind in keys.items():
        assert key in value, f"{where}: no key {key}"
        assert isinstance(value[key], kind), f"{where}.{key}: {value[key]!r} is no {kind}"


def claim_json():
    record = bench_json("q300:d64:causal", "--threads", "1")
    check_keys("record", record, KEYS)
    assert record["schema"] == "runmax.bench" and record["version"] == 1
    assert record["rounds"] == 3
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["date"])
    assert record["machine"]["kind"] == "cpu" and record["machine"]["simd"]
    assert [s["folder"] for s in record["kernel_sources"]] == ["src/kernels/forward/cpu"]
    assert all(len(s["sha256"]) == 64 for s in record["kernel_sources"])
    assert [r["cache"] for r in record["results"]] == ["warm", "cold"]
    for r in record["results"]:
        check_keys(r["cache"], r, RESULT_KEYS)
        assert r["problem"] == "q300:d64:causal" and r["kernel"] == "cpu_online"
        assert 0 < r["gate_fraction"] < 1
        assert r["flops"] == 2 * (300 * 301 / 2) * 128, "flops are those of the visible keys"
        assert r["bytes"] == 4 * 128 * 600 + 4 * 300
        assert len(r["samples_us"]) == 3 and 0 < r["fastest_us"] <= r["time_us"] <= max(r["samples_us"])
        assert abs(r["tflops"] - r["flops"] / r["time_us"] * 1e-6) < 1e-9
        assert abs(r["bytes_per_s"] / (r["bytes"] / r["time_us"] * 1e6) - 1) < 1e-9
        assert 0 < r["share_of_limit"] <= r["best_share_of_limit"]
        assert r["repeat"].startswith("runmax check q300:d64:causal ")
    assert record["limits"]["fma"][0]["flops_per_s"] > 1e9
    assert {r["cache"] for r in record["limits"]["read"]} == {"warm", "cold"}
    assert all(r["bytes_per_s"] > 0 for r in record["limits"]["read"])
    assert record["limits"]["copy_bytes_per_s"] > 0


def claim_turns():
    """Every problem with every kernel and number of threads, each against the first of its problem."""
    record = bench_json("q64:d64", "hq2:q100:d32", "--kernel", "cpu_naive,cpu_online", "--threads", "1,0", "--cache",
                        "warm")
    cells = [(r["problem"], r["kernel"], r["threads"]) for r in record["results"]]
    every = record["machine"]["threads"]
    assert cells == [(p, k, t) for p in ("q64:d64", "h2:q100:d32") for k in ("cpu_naive", "cpu_online")
                     for t in (1, every)], cells
    assert [r["time_over_first"] for r in record["results"] if (r["kernel"], r["threads"]) == ("cpu_naive", 1)][0] == 1
    assert all(r["cache"] == "warm" and r["time_over_first"] > 0 for r in record["results"])
    assert [s["threads"] for s in record["limits"]["fma"]] == sorted({1, every})
    for s in record["limits"]["fma"]:
        check_keys("fma", s, {"flops_per_s": NUMBER, "one_thread_flops_per_s": NUMBER, "scaling": NUMBER,
                              "scales": bool, "tries": int})


def claim_backward():
    record = bench_json("hq4:hk2:q90:k100:d32:causal", "--backward", "--threads", "1")
    assert [s["folder"] for s in record["kernel_sources"]] == ["src/kernels/backward/cpu"]
    assert record["flops_formula"] == "2 * visible_pairs * (3 * head_dim + 2 * value_dim)", record["flops_formula"]
    pairs = 4 * sum(11 + i for i in range(90))
    for r in record["results"]:
        assert r["pass"] == "backward" and r["kernel"] == "cpu_backward" and r["gate"] == "gradient gate", r
        assert 0 < r["gate_fraction"] < 1 and r["flops"] == 2 * pairs * 160, r
        assert r["bytes"] == 4 * 32 * 4 * (4 * 90 + 2 * 100) + 4 * 4 * 90, r


def claim_text():
    done = run("q64:d64", "hq4:hk2:q1:k500:d64", "--repeat", "3", ok=(0, 1))
    assert ("FAILED" in done.stdout) == (done.returncode == 1)
    assert "2 * visible_pairs * (head_dim + value_dim)" in done.stdout, "the formula is printed"
    assert "FMA on " in done.stdout and "copy of " in done.stdout
    lines = done.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines), max(lines, key=len)
    heads = [n for n, line in enumerate(lines) if line.startswith("  kernel ")]
    assert len(heads) == 2, done.stdout
    for n in heads:
        for word in ("share", "gate"):
            assert lines[n].count(word) == 1
        rows = lines[n + 1:n + 3]
        assert "warm" in rows[0] and "cold" in rows[1] and " ±" in rows[0], rows
        end = lines[n].index("share of") + len("share of")
        for row in rows:
            assert re.search(r" \d\.\d{3} (fma|read)$", row[:end]), f"not aligned: {row!r}"
    assert "\x1b" not in done.stdout + done.stderr
    assert "round 3 of 3" in done.stderr, "progress goes to stderr"


def claim_errors():
    """Bad arguments: exit 2, one line on stderr, nothing on stdout."""
    for arguments, word in ((["q0x"], "q0x"), (["q64:d64", "--threads", "-1"], "--threads"),
                            (["q64:d64", "--threads", "100000"], "100000"), (["q64:d64", "--threads", "two"], "two"),
                            (["q64:d64", "--kernel", "nobody"], "nobody"), (["q64:d64", "--repeat", "-2"], "-2"),
                            (["q64:d64", "--time-limit", "0"], "--time-limit"), (["q64:d64", "--simd", "AVX9"], "AVX9"),
                            (["q64:d64", "--cache", "hot"], "hot"), (["q64:d64", "--graph-nodes", "-1"], "--graph-nodes"), (["q64:d64", "--device", "gpu"], "gpu"),
                            (["q64:hq3:hk2:d64"], "kv_heads"), (["q64:d64:e4m3"], "e4m3"), (["q0:k5:d64"], "query"), ([], "problem"),
                            (["q64:d64", "--wrong"], "--wrong")):
        done = run(*arguments, ok=(2,))
        assert done.stdout == "", arguments
        complaint = [line for line in done.stderr.strip().splitlines() if line.startswith("runmax: ")]
        assert len(complaint) == 1 and word in complaint[0], (arguments, done.stderr)


def claim_gpu():
    """Without a GPU: exit 4 and one line. With one: its record."""
    done = run("q300:d64", "--device", "cuda", "--repeat", "3", "--json", ok=(0, 4))
    if done.returncode == 4:
        assert done.stdout == ""
        assert len(done.stderr.strip().splitlines()) == 1 and "cuda" in done.stderr, done.stderr
        return
    record = json.loads(done.stdout)
    check_keys("record", record, KEYS)
    assert record["machine"]["kind"] == "cuda" and record["limits"]["tensor_flops_per_s"] > record["limits"]["fma_flops_per_s"]
    assert [(r["cache"], r["clock"]) for r in record["results"]] == [
        ("warm", "events"), ("warm", "graph"), ("cold", "events")]
    for r in record["results"]:
        check_keys(r["clock"], r, RESULT_KEYS)
        assert r["threads"] == 0 and 0 < r["gates"]["second bar"] < 1 and 0 < r["share_of_limit"] <= 1, r
    for option in (["--backward"], ["--simd", "AVX2"], ["--threads", "2"]):
        assert run("q300:d64", "--device", "cuda", *option, ok=(2,)).stderr.count("runmax: ") == 1


def claim_simd():
    """One instruction set alone, for the kernel and for the peak."""
    best = bench_json("q256:d64", "--threads", "1", "--cache", "warm")
    for name in ("AVX2", "SSE4"):
        done = run("--json", "--repeat", "3", "q256:d64", "--threads", "1", "--cache", "warm", "--simd", name, ok=(0, 1, 2))
        if done.returncode == 2:
            print(f"SKIPPED: this processor or build has no {name}")
            return
        record = json.loads(done.stdout)
        assert record["machine"]["simd"] == name
        if name == "SSE4":  # no FMA; AVX2 and AVX-512 reach the same peak on processors that halve their wide units
            assert record["limits"]["fma"][0]["flops_per_s"] < 0.8 * best["limits"]["fma"][0]["flops_per_s"], name


def claim_peers():
    """Others' implementations run in the same turns, before the same gates; what they do wrong is theirs."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("SKIPPED: numpy is not installed")
        return
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    def command(behaviour):
        return f"exec '{sys.executable}' '{root}/tests/bench/numpy_peer.py' '{root}' {behaviour}"

    def results(*arguments):
        done = run("--json", "--repeat", "3", "--threads", "1", "--cache", "warm", *arguments, ok=(0, 1))
        return json.loads(done.stdout)["results"], done.returncode

    both, _ = results("hq4:hk2:q70:k90:d32:causal", "b2:q5:k64:d48", "--peers-command", command("honest"))
    assert [(r["implementation"], r["problem"][:2]) for r in both] == [
        ("runmax", "hq"), ("numpy", "hq"), ("runmax", "b2"), ("numpy", "b2")], both
    ours, theirs, _, refused = both
    assert theirs["status"] == "ok" and theirs["kernel"] == "plain" and theirs["computed_as"] == "f64", theirs
    assert 0 < theirs["gate_fraction"] < ours["gate_fraction"], "double is nearer"
    assert len(theirs["samples_us"]) == 3 and theirs["time_over_first"] > 0
    assert refused["status"] == "refused" and refused["reason"] == "has no 48" and refused["time_us"] is None, refused

    (_, theirs), code = results("q70:k90:d32", "--peers-command", command("wrong"))
    assert code == 1 and theirs["status"] == "rejected" and "o[0,0,0,1]" in theirs["reason"], theirs
    assert theirs["samples_us"] == [], "what is wrong is not timed"

    for behaviour, word in (("dies", "ended"), ("silent", "good morning"), ("", "ended")):
        peers = command(behaviour) if behaviour else "exec false"
        done = run("q64:d64", "--repeat", "1", "--peers-command", peers, ok=(4,))
        assert done.stdout == ""
        complaint = [line for line in done.stderr.splitlines() if line.startswith("runmax: ")]
        assert len(complaint) == 1 and word in complaint[0], done.stderr


globals()[f"claim_{sys.argv[1]}"]()
