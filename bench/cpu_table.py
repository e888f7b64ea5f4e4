#!/usr/bin/env python3
"""Runs the CPU's table of measurements with `runmax bench` and writes them as one record and as text.

usage: bench/cpu_table.py --program PROGRAM --out FOLDER [--peers] [--through COMMAND] [--only NAME,...] [--resume]

  --peers      PyTorch and ggml in the same runs (bench/peers-cpu)
  --through    start each measurement through this command, for example one that keeps the machine quiet
  --only       these measurements alone; the record then says that it is a part
  --resume     keep what FOLDER/cpu-bench.json has of the same commit and passed; measure the rest

A measurement that contradicts itself, more than a limit, is made again, up to three times.

FOLDER/cpu-bench.json has every `runmax bench` record whole and the figures derived from them; FOLDER/cpu-bench.txt is
for reading. Exit code 1 if a bench failed; a target that is missed is a result, not a failure.
"""
import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys


LENGTHS = (512, 2048, 4096)


class Measurement:
    """One `runmax bench` command."""

    def __init__(self, name, problems, *options, peers=""):
        self.name, self.problems, self.options, self.peers = name, problems, options, peers


def measurements(threads):
    both = "1" if threads == 1 else f"1,{threads}"
    warm = ("--cache", "warm")
    rows = []
    for length in LENGTHS:
        for dim in (64, 128):
            peers = "torch flash,torch math,ggml" if length == 512 else "torch flash,ggml"
            rows.append(Measurement(f"forward-{length}-{dim}", [f"h8:q{length}:d{dim}"], "--threads", both, *warm,
                                    "--time-limit", "10", peers=peers))
    rows.append(Measurement("causal", ["h8:q4096:d64", "h8:q4096:d64:causal"], "--threads", str(threads), *warm,
                            "--time-limit", "10", peers="torch flash"))
    for dim in (64, 128):
        rows.append(Measurement(f"backward-2048-{dim}", [f"h8:q2048:d{dim}"], "--backward", "--threads", both, *warm,
                                "--time-limit", "10", peers="torch flash"))
    rows.append(Measurement("decode", ["hq32:hk8:q1:k32768:d128"], "--threads", str(threads), "--time-limit", "10",
                            peers="torch flash,ggml"))
    rows.append(Measurement("naive", [f"q{n}:d64" for n in (256, 512, 1024, 2048, 4096)], "--kernel",
                            "cpu_online,cpu_naive", "--threads", str(threads), *warm, "--time-limit", "10"))
    for dim in (64, 128):
        rows.append(Measurement(f"avx2-2048-{dim}", [f"h8:q2048:d{dim}"], "--simd", "AVX2", "--threads", both, *warm,
                                "--time-limit", "10"))
    return rows


def run(measurement, program, through, with_peers):
    """The first of three tries that passes, else the last."""
    for _ in range(3):
        one = try_run(measurement, program, through, with_peers)
        if one["refused"] or one["record"]["passed"]:
            break
        print(f"cpu_table: {measurement.name} failed", file=sys.stderr)
    return one


def earlier(folder, commit):
    """Runs of an earlier record of this commit that passed, by name."""
    path = folder / "cpu-bench.json"
    if not path.is_file():
        return {}
    runs = json.loads(path.read_text())["runs"]
    return {one["name"]: one for one in runs
            if one["record"] and one["record"]["passed"] and one["record"]["commit"] == commit}


def try_run(measurement, program, through, with_peers):
    command = [str(program), "bench", *measurement.problems, *measurement.options, "--json"]
    if with_peers and measurement.peers:
        command += ["--peers-command", f"bench/peers-cpu --only '{measurement.peers}'"]
    done = subprocess.run([*through, *command], stdout=subprocess.PIPE, text=True, check=False)
    shown = shlex.join(["runmax", *command[1:]])
    if done.returncode == 2:
        return {"name": measurement.name, "command": shown, "refused": True, "record": None}
    if done.returncode not in (0, 1) or not done.stdout.strip():
        raise SystemExit(f"cpu_table: {shown} ended with {done.returncode}")
    return {"name": measurement.name, "command": shown, "refused": False, "record": json.loads(done.stdout)}


def pick(runs, name, cache="warm", **wanted):
    """Results of a measurement, warm unless named, that have these fields."""
    found = [r for one in runs if one["name"] == name and one["record"] for r in one["record"]["results"]]
    return [r for r in found if r["cache"] == cache and r["status"] == "ok"
            and all(r[key] == value for key, value in wanted.items())]


def paired(numerator, denominator):
    """Median over the rounds of one time over another."""
    pairs = zip(numerator["samples_us"], denominator["samples_us"])
    return statistics.median(a / b for a, b in pairs)


def figures(runs, threads):
    """What the table asks, as {work, threads, figure, value, target, met}."""
    rows = []

    def add(work, count, figure, value, target):
        rows.append({"work": work, "threads": count, "figure": figure, "value": value, "target": target,
                     "met": None if target is None else value >= target})

    def against(name, ours, count, peer, label, target):
        for other in pick(runs, name, ours["cache"], implementation=peer, threads=count):
            if other["problem"] == ours["problem"]:
                add(ours["problem"], count, label, paired(other, ours), target)

    counts = sorted({1, threads})
    for length in LENGTHS:
        for dim in (64, 128):
            name = f"forward-{length}-{dim}"
            target = 0.78 if length == 512 else 0.86 if dim == 64 else 0.90
            for count in counts:
                for ours in pick(runs, name, implementation="runmax", threads=count):
                    add(ours["problem"], count, "share of the FMA peak", ours["share_of_limit"], target)
                    against(name, ours, count, "torch flash", "PyTorch flash / runmax", 1.5)
                    against(name, ours, count, "torch math", "PyTorch math / runmax", None)
                    against(name, ours, count, "ggml", "ggml / runmax", 2.0)
            if threads > 1:
                for one in pick(runs, name, implementation="runmax", threads=1):
                    for many in pick(runs, name, implementation="runmax", threads=threads):
                        add(one["problem"], threads, f"1 thread / {threads} threads", paired(one, many),
                            0.95 * threads if length >= 1024 else None)
    for causal in pick(runs, "causal", implementation="runmax", problem="h8:q4096:d64:causal"):
        for full in pick(runs, "causal", implementation="runmax", problem="h8:q4096:d64"):
            add(causal["problem"], threads, "full / causal", paired(full, causal), 1.8)
        against("causal", causal, threads, "torch flash", "PyTorch flash / runmax", None)
    for dim in (64, 128):
        name = f"backward-2048-{dim}"
        for count in counts:
            for ours in pick(runs, name, implementation="runmax", threads=count):
                add(ours["problem"] + ", backward", count, "share of the FMA peak", ours["share_of_limit"], 0.70)
                for other in pick(runs, name, implementation="torch flash", threads=count):
                    add(ours["problem"] + ", backward", count, "PyTorch flash / runmax", paired(other, ours), 1.5)
    for cache, target in (("warm", 0.80), ("cold", None)):
        for ours in pick(runs, "decode", cache, implementation="runmax"):
            add(ours["problem"] + ", " + cache, threads, "share of the read bandwidth", ours["share_of_limit"], target)
            if cache == "warm":
                against("decode", ours, threads, "torch flash", "PyTorch flash / runmax", None)
                against("decode", ours, threads, "ggml", "ggml / runmax", None)
    for online in pick(runs, "naive", kernel="cpu_online"):
        for naive in pick(runs, "naive", kernel="cpu_naive", problem=online["problem"]):
            add(online["problem"], threads, "naive / online", paired(naive, online),
                1.3 if online["problem"] == "q4096:d64" else None)
    for dim in (64, 128):
        for count in counts:
            for ours in pick(runs, f"avx2-2048-{dim}", implementation="runmax", threads=count):
                add(ours["problem"] + ", AVX2 forced", count, "share of AVX2's FMA peak", ours["share_of_limit"], 0.82)
    return rows


def text(record):
    lines = [f"{record['machine']['name']}, {record['machine']['simd']}, {record['machine']['threads']} threads",
             f"commit {record['commit']}, {record['compiler']}, {record['date']}", ""]
    head = ("work", "threads", "figure", "value", "target", "")
    rows = [head] + [(f["work"], str(f["threads"]), f["figure"], f"{f['value']:.3f}",
                      "" if f["target"] is None else f"{f['target']:.2f}",
                      {None: "", True: "met", False: "missed"}[f["met"]]) for f in record["figures"]]
    widths = [max(len(row[c]) for row in rows) for c in range(len(head))]
    for row in rows:
        lines.append("  ".join(cell.rjust(w) if c in (1, 3, 4) else cell.ljust(w)
                               for c, (cell, w) in enumerate(zip(row, widths))).rstrip())
    lines += ["", "ratios: medians over the rounds of times taken in turns; shares: docs/bench.md", "", "times, ms:"]
    for one in record["runs"]:
        if one["record"] is None:
            lines.append(f"  {one['name']}: refused")
            continue
        for r in one["record"]["results"]:
            who = r["kernel"] if r["implementation"] == "runmax" else r["implementation"]
            time = "-" if r["time_us"] is None else f"{r['time_us'] / 1000:10.3f} ± {100 * r['spread']:.1f} %"
            lines.append(f"  {one['name']:18} {r['problem']:26} {who:12} {r['threads']} {r['cache']:4} {time}  "
                         f"{r['status'] if r['status'] != 'ok' else ''}{r['reason'][:60]}".rstrip())
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--through", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    probe = json.loads(subprocess.run([arguments.program, "bench", "q16:d16", "--repeat", "1", "--json"],
                                      stdout=subprocess.PIPE, text=True, check=True).stdout)
    threads = probe["machine"]["threads"]
    only = set(arguments.only.split(",")) if arguments.only else None
    wanted = [m for m in measurements(threads) if only is None or m.name in only]
    kept = earlier(arguments.out, probe["commit"]) if arguments.resume else {}
    runs = []
    for number, measurement in enumerate(wanted, 1):
        if measurement.name in kept:
            runs.append(kept[measurement.name])
            continue
        print(f"cpu_table: {number} of {len(wanted)}: {measurement.name}", file=sys.stderr)
        runs.append(run(measurement, arguments.program, shlex.split(arguments.through), arguments.peers))
    record = {"schema": "runmax.bench_table", "version": 1, "part": only is not None,
              **{key: probe[key] for key in ("runmax", "commit", "compiler", "date", "machine", "kernel_sources")},
              "passed": all(one["refused"] or one["record"]["passed"] for one in runs),
              "figures": figures(runs, threads), "runs": runs}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "cpu-bench.json").write_text(json.dumps(record, indent=1) + "\n")
    (arguments.out / "cpu-bench.txt").write_text(text(record))
    sys.stdout.write(text(record))
    return 0 if record["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
