"""scripts/results-table on made-up records and README files: results_table_test.py ROOT."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop())
FOLDER = "src/kernels/lesson"
README = "# x\n\n<!-- results: results/lab.json -->\nold\n<!-- end of results -->\n\nend\n"


def result(path, cache, **changes):
    return {"n": 256, "path": path, "kernel": f"cpu_{path}", "status": "ok", "max_abs_error": 1.5e-6,
            "gate_fraction": 0.0614, "gate_fraction_vs_naive": None if path == "naive" else 0.0669,
            "peak_bytes": 262144, "time_ms": {"naive": 0.5, "online": 2.0}[path], "spread": 0.01, "cache": cache,
            **changes}


class ResultsTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree(ROOT / "cmake", self.root / "cmake")
        shutil.copytree(ROOT / FOLDER, self.root / FOLDER)
        (self.root / "include/runmax").mkdir(parents=True)
        shutil.copy(ROOT / "include/runmax/online_softmax.hpp", self.root / "include/runmax")
        (self.root / "results").mkdir()
        (self.root / "README.md").write_text(README)
        self.record = {
            "schema": "runmax.lab", "version": 1, "passed": True, "commit": "0123456789ab", "compiler": "GNU 12.2.0",
            "date": "2026-01-02T03:04:05Z", "seed": 1,
            "device": {"kind": "cpu", "name": "A CPU", "threads": 2, "driver": "none"},
            "limits": {"copy_bytes_per_second": 2e10, "fma_flops_per_second": 2e11},
            "kernel_sources": [{"folder": FOLDER, "sha256": self.hash()}],
            "results": [result(p, c) for p in ("naive", "online") for c in ("warm", "cold")],
        }
        self.write()

    def hash(self):
        done = subprocess.run(["cmake", f"-DFOLDERS={FOLDER}", "-P", str(self.root / "cmake/KernelHash.cmake")],
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.split()[0], FOLDER)
        return done.stdout.split()[1]

    def write(self):
        (self.root / "results/lab.json").write_text(json.dumps(self.record))

    def table(self, *arguments):
        return subprocess.run([sys.executable, str(ROOT / "scripts/results-table"), "--root", str(self.root),
                               *arguments], capture_output=True, text=True, check=False)

    def refused(self, *words):
        done = self.table()
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual((self.root / "README.md").read_text(), README, "README.md was touched")

    def test_writes_the_table_and_then_finds_it_current(self):
        self.assertEqual(self.table("--check").returncode, 1)
        self.assertEqual(self.table().returncode, 0)
        text = (self.root / "README.md").read_text()
        self.assertIn("| 256 | online | `cpu_online` | 1.500e-06 | 0.0614 | 0.0669 | 256.0 KiB | 2.0000 ± 1.0 % |", text)
        self.assertIn("| 0.250 |", text)
        self.assertTrue(text.startswith("# x\n") and text.endswith("\nend\n"))
        self.assertEqual(self.table("--check").returncode, 0)

    def test_a_changed_kernel_source_makes_the_record_stale(self):
        self.table()
        path = next((self.root / FOLDER).rglob("*.hpp"))
        path.write_text(path.read_text() + "\n")
        done = self.table("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn(FOLDER, done.stderr)

    def test_a_change_of_the_shared_algebra_does_too(self):
        path = self.root / "include/runmax/online_softmax.hpp"
        path.write_text(path.read_text() + "\n")
        self.refused(FOLDER, "sources here are")

    def test_an_edited_figure_is_found(self):
        self.table()
        readme = self.root / "README.md"
        readme.write_text(readme.read_text().replace("2.0000", "1.0000"))
        self.assertEqual(self.table("--check").returncode, 1)

    def test_a_record_of_a_failed_run_is_refused(self):
        self.record["passed"] = False
        self.write()
        self.refused("a gate failed")

    def test_a_missing_malformed_or_foreign_record_is_refused(self):
        (self.root / "results/lab.json").unlink()
        self.refused("results/lab.json")
        (self.root / "results/lab.json").write_text("{")
        self.refused("is not JSON")
        self.record["schema"] = "other"
        self.write()
        self.refused("schema")

    def test_a_path_that_did_not_run_keeps_its_row(self):
        for r in self.record["results"][2:]:
            r.update(status="skipped", time_ms=None, spread=None, max_abs_error=None, gate_fraction=None,
                     peak_bytes=None)
        self.write()
        self.assertEqual(self.table().returncode, 0)
        self.assertIn("| 256 | online | `cpu_online` | skipped |", (self.root / "README.md").read_text())

    def bench(self, sha256):
        return {"schema": "runmax.bench_table", "version": 1, "passed": True, "commit": "0123456789ab",
                "compiler": "GNU 12.2.0", "date": "2026-01-02T03:04:05Z",
                "machine": {"name": "A CPU", "threads": 2, "simd": "AVX2"},
                "kernel_sources": [{"folder": FOLDER, "sha256": sha256}],
                "figures": [{"work": "q64:d64", "threads": 1, "figure": "share", "value": 0.5, "target": 0.4, "met": True},
                            {"work": "q64:d64, cold", "threads": 2, "figure": "ratio", "value": 1.25, "target": None,
                             "met": None}]}

    def test_a_table_of_the_bench_stands_in_a_document(self):
        self.record = self.bench(self.hash())
        self.write()
        (self.root / "docs").mkdir()
        page = self.root / "docs/bench.md"
        page.write_text(README)
        (self.root / "README.md").write_text("# x\n")
        done = self.table()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| `q64:d64` | 1 | share | 0.500 | 0.40 | met |", page.read_text())
        self.assertIn("| `q64:d64`, cold | 2 | ratio | 1.250 | – |  |", page.read_text())
        self.assertIn("(../results/lab.json)", page.read_text())
        self.assertIn("measured at commit `0123456789ab`", page.read_text())
        self.assertEqual(self.table("--check").returncode, 0)
        page.write_text(page.read_text().replace("0.500", "0.900"))
        self.assertEqual(self.table("--check").returncode, 1)

    def test_a_bench_older_than_its_sources_is_noticed_and_stands(self):
        self.record = self.bench("0" * 64)
        self.write()
        done = self.table()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("notice: results/lab.json: measured " + FOLDER, done.stdout)
        self.assertIn("0123456789ab", done.stdout)

    def test_a_bench_that_failed_is_refused(self):
        self.record = {**self.bench(self.hash()), "passed": False}
        self.write()
        self.refused("a gate failed")

    def test_a_table_of_a_gpu(self):
        self.record = {**self.bench(self.hash()), "schema": "runmax.gpu_table", "machine": {"name": "A GPU", "simd": "sm_90"},
                       "limits": {"fma_flops_per_s": 64e12, "tensor_flops_per_s": 890e12, "copy_bytes_per_s": 4.2e12},
                       "figures": [{"work": "q256:d64", "kernel": "cuda_x", "time_us": 4.25, "spread": 0.01, "tflops": 2.5,
                                    "share_of_limit": 0.25, "limit": "tensor/3", "cold_us": 1234.5,
                                    "gates": {"lesson gate": 0.0123, "second bar": 0.5},
                                    "peers": [{"name": "torch math", "time_us": 20, "over_runmax": 4.5}],
                                    "targets": [{"figure": "time, us", "value": 4.25, "bound": 5, "met": True}]}]}
        self.write()
        done = self.table()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| `q256:d64` | `cuda_x` | 4.2 µs ± 1.0 % | 2.5 | 0.250 of tensor/3 | 1.234 ms | 0.0123 | 0.500 | "
                      "torch math, 20.0 µs | 4.50 | time, us ≤ 5 | met |", (self.root / "README.md").read_text())

    def gpu(self):
        figures = [{"work": work, "kernel": "cuda_x", "time_us": us, "spread": 0.01, "tflops": 2.5, "share_of_limit": 0.25,
                    "limit": "tensor/3", "cold_us": None, "gates": {}, "targets": [],
                    "peers": [{"name": "torch math", "time_us": 2e4, "over_runmax": 4.5}] if us < 10 else []}
                   for work, us in (("q256:d64", 4.25), ("q512:d64", 8.0), ("q1024:d64", 4567.8))]
        return {**self.bench(self.hash()), "schema": "runmax.gpu_table", "machine": {"name": "A GPU", "simd": "sm_90"},
                "limits": {"fma_flops_per_s": 64e12}, "figures": figures}

    def test_a_short_table_has_the_problems_that_its_marker_names(self):
        self.record = self.gpu()
        self.write()
        readme = self.root / "README.md"
        readme.write_text(README.replace("lab.json", "lab.json q1024:d64 q256:d64"))
        self.assertEqual(self.table().returncode, 0)
        rows = [line for line in readme.read_text().splitlines() if line.startswith("| `")]
        self.assertEqual(rows, ["| `q1024:d64` | `cuda_x` | 4.568 ms | 2.5 | – | – | – |",
                                "| `q256:d64` | `cuda_x` | 4.2 µs | 2.5 | torch math | 20.000 ms | 4.50 |"])
        self.assertEqual(self.table("--check").returncode, 0)

    def test_a_short_table_of_a_problem_without_figure_or_of_another_record_is_refused(self):
        marker = README.replace("lab.json", "lab.json q2048:d64")
        (self.root / "README.md").write_text(marker)
        for record, word in ((self.gpu(), "q2048:d64"), (self.bench(self.hash()), "runmax.bench_table")):
            self.record = record
            self.write()
            done = self.table()
            self.assertEqual(done.returncode, 1)
            self.assertIn(word, done.stderr)
            self.assertEqual((self.root / "README.md").read_text(), marker)

    def test_a_table_in_the_notes_of_a_kernel(self):
        self.record = {**self.bench(self.hash()), "schema": "runmax.ceilings",
                       "rows": [{"what": "a load", "value": 1234.5, "unit": "cycles", "spread": 0.01},
                                {"what": "products at once", "value": 16.0, "unit": "products", "spread": 0.0}]}
        self.write()
        notes = self.root / FOLDER / "NOTES.md"
        notes.write_text(README)
        (self.root / "README.md").write_text("# x\n")
        self.assertEqual(self.table().returncode, 0)
        self.assertIn("| a load | 1234 ± 1.0 % | cycles |\n| products at once | 16 | products |", notes.read_text())
        self.assertIn("(../../../results/lab.json)", notes.read_text())

    def test_a_table_of_a_gpus_exponentials(self):
        row = {"function": "exp", "computes": "e^x", "used_by": "", "arguments": 1000, "worst_ulp": 1.5, "worst_at": -0.25,
               "largest_flushed_to_zero": 0.0, "per_cycle": 15.96, "spread": 0.001}
        self.record = {**self.bench(self.hash()), "schema": "runmax.cuda_exp2", "truth": "doubles",
                       "machine": {"name": "A GPU", "simd": "sm_90"},
                       "rows": [row, {**row, "function": "nothing", "computes": ""}]}
        self.write()
        self.assertEqual(self.table().returncode, 0)
        text = (self.root / "README.md").read_text()
        self.assertIn("| exp | e^x | – | 1.500 | -0.25 | – | 16.0 ± 0.1 % |", text)
        self.assertIn("| nothing | – | – | – | – | – | 16.0 ± 0.1 % |", text)

    def test_a_table_of_exponentials(self):
        self.record = {"schema": "runmax.exp2", "version": 1, "commit": "0123456789ab", "compiler": "GNU 12.2.0",
                       "date": "2026-01-02T03:04:05Z", "machine": {"name": "A CPU", "simd": "AVX2"},
                       "arguments": 1000, "truth": "MPFR 4.2.0",
                       "kernel_sources": [{"folder": FOLDER, "sha256": self.hash()}],
                       "rows": [{"function": "engine", "target": "AVX2", "computes": "2^x", "worst_ulp": 1.00049,
                                 "worst_at": -0.5, "largest_flushed_to_zero": 1.66e-38, "ns_per_element": 0.25,
                                 "spread": 0.01}]}
        self.write()
        self.assertEqual(self.table().returncode, 0)
        self.assertIn("| engine | AVX2 | 2^x | 1.000 | -0.5 | 1.660e-38 | 0.250 ± 1.0 % |",
                      (self.root / "README.md").read_text())

    def test_a_readme_without_a_table_is_left_alone(self):
        (self.root / "README.md").write_text("# x\n")
        done = self.table("--check")
        self.assertEqual(done.returncode, 0)
        self.assertIn("SKIPPED: ", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
