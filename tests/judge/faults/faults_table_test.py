"""scripts/faults-table on made-up candidates: faults_table_test.py ROOT."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop())
PAGE = "# x\n\n<!-- faults -->\nold\n<!-- end of faults -->\n\nend\n"
MISTAKES = '      {"no-scale", Term::score, "...",\n      {"no-max", Term::maximum, "...",\n'


class FaultsTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("apps/judge/diagnosis/mistakes.cpp", MISTAKES)
        self.write("docs/faults.md", PAGE)
        self.candidate("cpu/no-scale.cpp", "Fault: no scale.", "no-scale")
        self.candidate("cpu/no-max.cpp", "Fault: no maximum.", "no-max")
        self.candidate("cuda/no-max.cu", "Fault: no maximum.", "no-max")
        self.candidate("cpu/sleeps.cpp", "Fault: it sleeps.", "hang | crash")
        self.candidate("honest/plain.cpp", "Honest, near a cheat: slow.", "none")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def candidate(self, name, first, finding):
        self.write("apps/judge/faults/" + name, f"// {first}\n// Finding: {finding}\n\nint x;\n")

    def run_script(self, *options):
        return subprocess.run([sys.executable, ROOT / "scripts/faults-table", "--root", self.root, *options],
                              capture_output=True, text=True, check=False)

    def page(self):
        return (self.root / "docs/faults.md").read_text()

    def test_writes_what_the_candidates_say_and_nothing_else(self):
        self.assertEqual(self.run_script("--check").returncode, 1)
        self.assertEqual(self.page(), PAGE)
        self.assertEqual(self.run_script().returncode, 0)
        page = self.page()
        self.assertIn("| `no-scale` | CPU | no scale |\n| `no-max` | CPU and CUDA | no maximum |", page)
        self.assertIn("| `sleeps` | CPU | it sleeps | `hang` or `crash` |", page)
        self.assertIn("| `plain.cpp` | near a cheat: slow |", page)
        self.assertNotIn("old", page)
        self.assertTrue(page.endswith("<!-- end of faults -->\n\nend\n"))
        self.assertEqual(self.run_script("--check").returncode, 0)

    def refused(self, part):
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn(part, done.stderr)
        self.assertEqual(self.page(), PAGE)

    def test_refuses_a_candidate_that_does_not_say_what_it_is(self):
        self.write("apps/judge/faults/cpu/odd.cpp", "int attention();\n")
        self.refused("apps/judge/faults/cpu/odd.cpp: must open with")

    def test_refuses_a_mistake_that_nothing_plants(self):
        self.write("apps/judge/diagnosis/mistakes.cpp", MISTAKES + '      {"no-sum", Term::sum, "..."\n')
        self.refused("nothing plants no-sum")

    def test_refuses_another_finding_than_the_name_of_a_mistake(self):
        self.candidate("cuda/no-max.cu", "Fault: no maximum.", "no-scale")
        self.refused("no-max is a mistake's name")

    def test_refuses_a_fault_without_a_finding_and_an_honest_one_with_one(self):
        self.candidate("cpu/sleeps.cpp", "Fault: it sleeps.", "none")
        self.refused("sleeps.cpp: a fault has a finding")
        self.candidate("cpu/sleeps.cpp", "Fault: it sleeps.", "hang")
        self.candidate("honest/plain.cpp", "Honest: slow.", "hang")
        self.refused("plain.cpp: a fault has a finding")


if __name__ == "__main__":
    unittest.main()
