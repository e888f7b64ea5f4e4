#!/usr/bin/env python3
"""Runs the GPU's table of measurements with `runmax bench --device cuda` and writes them as one record and as text.

usage: bench/cuda_table.py --program PROGRAM --out FOLDER --name NAME [--no-peers] [--only NAME,...] [--kernel NAMES]

  --name       FOLDER/NAME-bench.json and FOLDER/NAME-bench.txt are written
  --no-peers   without PyTorch (bench/peers_cuda.py, in the python3 of this PATH)
  --only       these measurements alone; if one with a target is not among them, the record says that it is a part.
               exp2 and ceilings are programs beside PROGRAM that write records of their own, FOLDER/NAME-exp2.json and
               FOLDER/NAME-ceilings.json
  --kernel     kernels to time, separated by commas, instead of what plan picks

The record has every `runmax bench` record whole and the figures derived from them. Exit code 1 if a bench failed; a
target that is missed is a result, not a failure.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time


class Measurement:
    """One `runmax bench` command and how its figures are taken: events around warm runs, or replayed graphs."""

    def __init__(self, name, clock, problems, *options):
        self.name, self.clock, self.problems, self.options = name, clock, problems, options


def many_heads(heads, dim, length, causal):
    """16384 tokens of 2048 channels."""
    batch = 16384 // length
    return (f"b{batch}:" if batch > 1 else "") + f"h{heads}:q{length}:d{dim}" + (":causal" if causal else "")


MEASUREMENTS = [
    Measurement("one-head", "graph", [f"q{n}:d64" for n in (256, 1024, 4096, 16384, 131072)], "--graph-nodes", "50",
                "--time-limit", "15"),
    *(Measurement(f"many-heads-{dim}", "events",
                  [many_heads(heads, dim, length, causal) for length in (1024, 4096, 16384) for causal in (False, True)],
                  "--time-limit", "12") for heads, dim in ((32, 64), (16, 128))),
    Measurement("options", "events", ["b4:h32:q4096:d64:window=511,0", "h8:q4096:d256", "h8:q4096:d64:softcap=30"],
                "--cache", "warm", "--time-limit", "4"),
    Measurement("sixteen-bit", "events", ["b4:h32:q4096:d64:bf16", "b4:h16:q4096:d128:bf16", "b4:h16:q4096:d128:f16"],
                "--cache", "warm", "--time-limit", "4"),
]

# Programs that print a record themselves.
PROGRAMS = {"exp2": "cuda_exp2", "ceilings": "cuda_ceilings"}

# problem: (figure, bound); a time is to be at most its bound, everything else at least.
TARGETS = {
    **{f"q{n}:d64": [("time, us", us)] for n, us in ((256, 5), (1024, 8), (4096, 27), (16384, 360), (131072, 23000))},
    **{many_heads(32, 64, n, False): [("TFLOP/s", 190), ("torch efficient / runmax", 5)] for n in (4096, 16384)},
    **{many_heads(32, 64, n, True): [("TFLOP/s", 165)] for n in (4096, 16384)},
    **{many_heads(16, 128, n, False): [("TFLOP/s", 210), ("torch efficient / runmax", 4.5)] for n in (4096, 16384)},
    **{many_heads(16, 128, n, True): [("TFLOP/s", 185)] for n in (4096, 16384)},
    many_heads(32, 64, 1024, False): [("TFLOP/s", 145)],
    many_heads(16, 128, 1024, False): [("TFLOP/s", 165)],
}


def run(measurement, arguments):
    command = [str(arguments.program), "bench", *measurement.problems, "--device", "cuda", *measurement.options, "--json"]
    if arguments.kernel:
        command += ["--kernel", arguments.kernel]
    if not arguments.no_peers:
        command += ["--peers"]
    begin = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(f"cuda_table: {measurement.name}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    shown = " ".join(["runmax", *command[1:]])
    if done.returncode == 2:
        return {"name": measurement.name, "command": shown, "refused": True, "record": None}
    if done.returncode not in (0, 1) or not done.stdout.strip():
        raise SystemExit(f"cuda_table: {shown} ended with {done.returncode}")
    return {"name": measurement.name, "command": shown, "refused": False, "record": json.loads(done.stdout)}


def keep_record(name, arguments):
    """Runs one of PROGRAMS. The ceilings are those of Hopper: elsewhere there are none to keep."""
    program = arguments.program.parent / PROGRAMS[name]
    done = subprocess.run([str(program)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 4:
        return
    if done.returncode != 0:
        raise SystemExit(f"cuda_table: {program} ended with {done.returncode}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / f"{arguments.name}-{name}.json").write_text(done.stdout)


def paired(numerator, denominator):
    """Median over the rounds of one time over another."""
    return statistics.median(a / b for a, b in zip(numerator["samples_us"], denominator["samples_us"]))


def figures(runs):
    """A row for each problem and kernel of runmax."""
    rows = []
    for measurement in MEASUREMENTS:
        results = [r for one in runs if one["name"] == measurement.name and one["record"]
                   for r in one["record"]["results"] if r["time_us"] is not None]
        timed = [r for r in results if r["clock"] == measurement.clock and r["cache"] == "warm"]
        for ours in (r for r in timed if r["implementation"] == "runmax"):
            peers = [{"name": r["implementation"], "time_us": r["time_us"], "over_runmax": paired(r, ours),
                      "gate_fraction": r["gate_fraction"]}
                     for r in timed if r["implementation"] != "runmax" and r["problem"] == ours["problem"]]
            cold = [r for r in results if r["cache"] == "cold" and r["kernel"] == ours["kernel"]
                    and r["problem"] == ours["problem"] and r["implementation"] == "runmax"]
            row = {"work": ours["problem"], "kernel": ours["kernel"], "clock": ours["clock"],
                   **{key: ours[key] for key in ("time_us", "spread", "tflops", "share_of_limit", "limit", "gates")},
                   "cold_us": cold[0]["time_us"] if cold else None,
                   "peers": sorted(peers, key=lambda peer: peer["time_us"]), "targets": []}
            value = {"time, us": ours["time_us"], "TFLOP/s": ours["tflops"],
                     **{f"{peer['name']} / runmax": peer["over_runmax"] for peer in peers}}
            for figure, bound in TARGETS.get(ours["problem"], []):
                if figure in value:
                    met = value[figure] <= bound if figure.startswith("time") else value[figure] >= bound
                    row["targets"].append({"figure": figure, "value": value[figure], "bound": bound, "met": met})
            rows.append(row)
    return rows


def text(record):
    limits = record["limits"]
    lines = [f"{record['machine']['name']}, {record['machine']['simd']}",
             f"commit {record['commit']}, {record['compiler']}, {record['date']}",
             f"FP32 FMA {limits['fma_flops_per_s'] / 1e12:.1f}, fp16 tensor cores {limits['tensor_flops_per_s'] / 1e12:.0f} "
             f"TFLOP/s, copy {limits['copy_bytes_per_s'] / 1e12:.2f} TB/s", ""]
    rows = [("work", "kernel", "time", "±", "TFLOP/s", "share", "cold", "gate", "second", "best peer", "its time", "ratio", "targets")]
    for f in record["figures"]:
        best = f["peers"][0] if f["peers"] else None
        gates = f["gates"]
        rows.append((f["work"], f["kernel"], f"{f['time_us']:.1f} us", f"{100 * f['spread']:.1f} %", f"{f['tflops']:.1f}",
                     f"{f['share_of_limit']:.3f} {f['limit']}", "-" if f["cold_us"] is None else f"{f['cold_us']:.1f} us",
                     f"{gates.get('lesson gate', gates.get('rounding gate', 0)):.4f}",
                     f"{gates['second bar']:.3f}" if "second bar" in gates else "-",
                     best["name"] if best else "-", f"{best['time_us']:.1f} us" if best else "-",
                     f"{best['over_runmax']:.2f}" if best else "-",
                     "; ".join(f"{t['figure']} {t['value']:.4g} of {t['bound']} {'met' if t['met'] else 'missed'}"
                               for t in f["targets"])))
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines += ["  ".join(cell.ljust(w) if c in (0, 1, 9, 12) else cell.rjust(w)
                        for c, (cell, w) in enumerate(zip(row, widths))).rstrip() for row in rows]
    for one in record["runs"]:
        if one["record"] is None:
            lines.append(f"{one['name']}: refused, no kernel here serves it")
            continue
        lines += [f"{r['problem']} {r['implementation']}: {r['status']}: {r['reason']}" for r in one["record"]["results"]
                  if r["status"] != "ok" and r["clock"] == "events" and r["cache"] == "warm"]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--kernel", default="")
    arguments = parser.parse_args()
    arguments.program = arguments.program.resolve()  # a bare name would be looked for in PATH
    names = [*(m.name for m in MEASUREMENTS), *PROGRAMS]
    only = set(arguments.only.split(",")) if arguments.only else set(names)
    unknown = only - set(names)
    if unknown:
        parser.error(f"--only: the measurements are {', '.join(names)}, got {', '.join(unknown)}")
    for name in PROGRAMS:
        if name in only:
            keep_record(name, arguments)
    if only <= set(PROGRAMS):
        return 0
    runs = [run(m, arguments) for m in MEASUREMENTS if m.name in only]
    records = [one["record"] for one in runs if one["record"]]
    if not records:
        raise SystemExit("cuda_table: no kernel here serves any of the problems")
    sources = {source["folder"]: source for record in records for source in record["kernel_sources"]}
    record = {"schema": "runmax.gpu_table", "version": 1, "part": bool(arguments.kernel) or any(m.name not in only for m in MEASUREMENTS if TARGETS.keys() & set(m.problems)),
              **{key: records[0][key] for key in ("runmax", "commit", "compiler", "date", "machine")},
              "kernel_sources": list(sources.values()),
              "limits": {key: records[-1]["limits"][key] for key in ("fma_flops_per_s", "tensor_flops_per_s", "copy_bytes_per_s")},
              "passed": all(one["passed"] for one in records), "figures": figures(runs), "runs": runs}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / f"{arguments.name}-bench.json").write_text(json.dumps(record, indent=1) + "\n")
    (arguments.out / f"{arguments.name}-bench.txt").write_text(text(record))
    sys.stdout.write(text(record))
    return 0 if record["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
