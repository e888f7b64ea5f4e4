"""The GPU's table is a function of its records; a record that is kept is whole: gpu_table_test.py ROOT."""

import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True
import cuda_table  # noqa: E402


def result(problem, implementation, clock, cache, samples, **more):
    return {"problem": problem, "implementation": implementation, "kernel": "cuda_" + implementation, "clock": clock,
            "cache": cache, "time_us": sorted(samples)[len(samples) // 2], "samples_us": samples, "spread": 0.01,
            "tflops": 200.0, "share_of_limit": 0.7, "limit": "tensor/3", "gate_fraction": 0.1, "status": "ok",
            "reason": "", "gates": {"lesson gate": 0.1, "second bar": 0.5}, **more}


def figures(name, *results):
    return cuda_table.figures([{"name": name, "record": {"results": list(results)}}])


class GpuTable(unittest.TestCase):
    def test_one_head_is_judged_by_its_graphs_and_a_time_is_to_be_at_most_its_target(self):
        row, = figures("one-head", result("q256:d64", "runmax", "graph", "warm", [4, 4.5, 6]),
                       result("q256:d64", "runmax", "events", "warm", [9, 9, 9]),
                       result("q256:d64", "runmax", "events", "cold", [12, 12, 12]),
                       result("q256:d64", "torch math", "graph", "warm", [20, 27, 36]),
                       result("q256:d64", "torch efficient", "graph", "warm", [20, 18, 21]))
        self.assertEqual((row["time_us"], row["cold_us"], row["clock"]), (4.5, 12, "graph"))
        self.assertEqual([p["name"] for p in row["peers"]], ["torch efficient", "torch math"])
        self.assertEqual(row["peers"][0]["over_runmax"], 4)  # of 5, 4 and 3.5, round by round
        self.assertEqual(row["targets"], [{"figure": "time, us", "value": 4.5, "bound": 5, "met": True}])

    def test_many_heads_are_judged_by_events_and_a_rate_is_to_be_at_least_its_target(self):
        problem = "b4:h32:q4096:d64"
        row, = figures("many-heads-64", result(problem, "runmax", "events", "warm", [3000, 3000, 3000]),
                       result(problem, "runmax", "graph", "warm", [1, 1, 1]),
                       result(problem, "torch efficient", "events", "warm", [12000, 12000, 12000]))
        self.assertEqual([(t["figure"], t["value"], t["met"]) for t in row["targets"]],
                         [("TFLOP/s", 200.0, True), ("torch efficient / runmax", 4, False)])

    def test_what_was_not_timed_makes_no_row(self):
        self.assertEqual(figures("one-head", result("q256:d64", "runmax", "graph", "warm", [1], ) | {"time_us": None}), [])

    def test_every_target_is_of_a_problem_that_is_measured(self):
        measured = {problem for m in cuda_table.MEASUREMENTS for problem in m.problems}
        self.assertLessEqual(set(cuda_table.TARGETS), measured)

    def test_kept_records_are_whole(self):
        paths = [p for p in sorted((ROOT / "results").glob("*-bench.json"))
                 if json.loads(p.read_text())["schema"] == "runmax.gpu_table"]
        if not paths:
            self.skipTest("results/ has no record of a GPU's table")
        for path in paths:
            record = json.loads(path.read_text())
            self.assertFalse(record["part"], "a part of the table is no record")
            self.assertTrue(record["passed"])
            self.assertFalse(record["commit"].endswith("-modified"), "measured on sources that are in no commit")
            for one in record["runs"]:
                if one["record"]:
                    self.assertEqual((one["record"]["schema"], one["record"]["passed"]), ("runmax.bench", True))
                    for r in one["record"]["results"]:
                        self.assertTrue(r["share_of_limit"] is None or r["share_of_limit"] <= 1, r["problem"])
            self.assertEqual(cuda_table.figures(record["runs"]), record["figures"], "the figures are not those of the runs")
            self.assertEqual(cuda_table.text(record), path.with_suffix(".txt").read_text(), "the text is not the record's")


if __name__ == "__main__":
    unittest.main()
