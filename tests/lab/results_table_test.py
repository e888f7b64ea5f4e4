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

    def test_a_readme_without_a_table_is_left_alone(self):
        (self.root / "README.md").write_text("# x\n")
        done = self.table("--check")
        self.assertEqual(done.returncode, 0)
        self.assertIn("SKIPPED: ", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
