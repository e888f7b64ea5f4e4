#!/usr/bin/env python3
"""The checks of this folder find what they are for: each is shown a planted fault, and the right form beside it."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts" / "lib"))
import docs  # noqa: E402
import includes  # noqa: E402
import kernels  # noqa: E402
import symbols  # noqa: E402
import test_report  # noqa: E402
import words  # noqa: E402


class Tree(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def includes_of(self, path, text):
        self.write(path, text)
        return [line for line in includes.check(self.root) if line.startswith(path + ":")]


class Includes(Tree):
    def setUp(self):
        super().setUp()
        for header in ("include/runmax/problem.hpp", "include/runmax/online_softmax.hpp", "src/registry/registry.hpp",
                       "src/reference/reference.hpp", "src/runtime/device_memory.hpp", "src/device/ptx/mma.cuh",
                       "src/device/tile/tile.cuh", "src/device/softmax/rows.cuh", "src/kernels/forward/simt/launch.hpp",
                       "src/kernels/forward/simt/config.hpp", "src/kernels/forward/mma/launch.hpp",
                       "apps/cli/output.hpp", "lesson/costs.hpp", "tests/helper.hpp"):
            self.write(header, "")

    def refused(self, path, line, why):
        found = self.includes_of(path, f"// One idea.\n{line}\n")
        self.assertEqual(len(found), 1, f"{path} with {line}: {found}")
        self.assertIn(why, found[0])
        self.assertTrue(found[0].startswith(f"{path}:2:"), found[0])

    def allowed(self, path, line):
        self.assertEqual(self.includes_of(path, f"// One idea.\n{line}\n"), [])

    def test_public_headers_see_the_standard_library_and_each_other(self):
        self.allowed("include/runmax/a.hpp", "#include <vector>")
        self.allowed("include/runmax/a.hpp", '#include "runmax/problem.hpp"')
        self.refused("include/runmax/a.hpp", '#include "registry/registry.hpp"', "does not see")
        self.refused("include/runmax/a.hpp", "#include <fmt/core.h>", "does not use fmt")
        self.refused("include/runmax/a.hpp", "#include <cuda_runtime.h>", "does not use cuda")

    def test_the_algebra_stands_alone(self):
        self.allowed("include/runmax/online_softmax.hpp", "#include <cmath>")
        self.refused("include/runmax/online_softmax.hpp", '#include "runmax/problem.hpp"', "stands alone")

    def test_reference_headers_name_files_relative_to_themselves(self):
        self.allowed("src/reference/rows.hpp", '#include "../../include/runmax/online_softmax.hpp"')
        self.allowed("src/reference/rows.hpp", '#include "reference.hpp"')
        self.refused("src/reference/rows.hpp", '#include "runmax/problem.hpp"', "relative to itself")
        self.refused("src/reference/rows.hpp", '#include "../registry/registry.hpp"', "does not see")
        self.allowed("src/gate/gate.hpp", '#include "../reference/reference.hpp"')
        self.refused("src/reference/rows.hpp", '#include "../runtime/device_memory.hpp"', "does not see")

    def test_problem_sees_public_headers_only(self):
        self.allowed("src/problem/text.cpp", '#include "runmax/problem.hpp"')
        self.refused("src/problem/text.cpp", '#include "registry/registry.hpp"', "does not see")

    def test_registry_and_plan_see_a_leaf_by_its_launch_header(self):
        self.allowed("src/registry/list.cpp", '#include "kernels/forward/simt/launch.hpp"')
        self.refused("src/registry/list.cpp", '#include "kernels/forward/simt/config.hpp"', "does not see")
        self.refused("src/plan/plan2.cpp", '#include "kernels/forward/simt/config.hpp"', "does not see")
        self.refused("src/registry/list.cpp", '#include "reference/reference.hpp"', "does not see")

    def test_a_leaf_sees_device_code_and_itself_and_no_other_leaf(self):
        self.allowed("src/kernels/forward/simt/kernel.cuh", '#include "kernels/forward/simt/config.hpp"')
        self.allowed("src/kernels/forward/simt/kernel.cuh", '#include "device/ptx/mma.cuh"')
        self.refused("src/kernels/forward/simt/kernel.cuh", '#include "kernels/forward/mma/launch.hpp"', "does not see")
        self.refused("src/kernels/forward/simt/kernel.cuh", '#include "registry/registry.hpp"', "does not see")
        self.refused("src/kernels/forward/cpu/engine.cpp", "#include <cuda_runtime.h>", "does not use cuda")

    def test_device_code_includes_downwards(self):
        self.allowed("src/device/tile/load.cuh", '#include "device/ptx/mma.cuh"')
        self.allowed("src/device/softmax/fold.cuh", '#include "device/tile/tile.cuh"')
        self.refused("src/device/ptx/load.cuh", '#include "device/tile/tile.cuh"', "only downwards")
        self.refused("src/device/tile/load.cuh", '#include "device/softmax/rows.cuh"', "only downwards")

    def test_apps_see_public_headers_and_tools_more(self):
        self.allowed("apps/files/npy.cpp", '#include "runmax/problem.hpp"')
        self.refused("apps/files/npy.cpp", '#include "reference/reference.hpp"', "does not see")
        self.refused("apps/files/npy.cpp", "#include <CLI/CLI.hpp>", "does not use cli")
        self.allowed("apps/cli/main.cpp", "#include <CLI/CLI.hpp>")
        self.allowed("apps/lab/lab.cpp", '#include "lesson/costs.hpp"')
        self.refused("apps/lab/lab.cpp", "#include <cuda_runtime.h>", "does not use cuda")
        self.allowed("apps/lab/gpu/probe.cu", "#include <cuda_runtime.h>")

    def test_nothing_outside_tests_sees_tests(self):
        self.refused("src/plan/plan2.cpp", '#include "tests/helper.hpp"', "does not see")
        self.allowed("tests/plan/plan_test.cpp", '#include "helper.hpp"')

    def test_missing_and_bracketed_files_are_refused(self):
        self.refused("src/plan/plan2.cpp", '#include "plan/none.hpp"', "no such file")
        self.refused("src/plan/plan2.cpp", "#include <runmax/problem.hpp>", "in quotes")
        self.refused("src/plan/plan2.cpp", "#include <Eigen/Dense>", "neither")

    def test_a_folder_without_a_rule_is_refused(self):
        self.refused("src/novelty/a.cpp", "#include <vector>", "no rule")

    def test_cuda_host_calls_stay_where_they_belong(self):
        call = "void f() { cudaMalloc(nullptr, 1); }\n"
        self.assertEqual(len(self.includes_of("src/plan/plan2.cpp", call)), 1)
        self.assertEqual(self.includes_of("src/runtime/memory.cpp", call), [])
        self.assertEqual(self.includes_of("src/kernels/forward/simt/launch.cu", call), [])
        self.assertEqual(self.includes_of("src/plan/plan3.cpp", "// cudaMalloc( is not called here\n"), [])
        self.assertEqual(self.includes_of("src/plan/plan4.cpp", 'const char* text = "cudaMalloc(): 2";\n'), [])


class Words(unittest.TestCase):
    def test_machine_paths_hosts_and_loose_ends_are_found(self):
        # Put together here, so that no search of the sources takes a sample for the real thing.
        for line in ("see /" + "home/someone/file", "cd /" + "root/place", "cd /" + "work/place", "https:" + "//packages.example/stable",
                     "// TO" + "DO later", "<" * 7 + " HEAD"):
            self.assertEqual(len(words.findings("f", line)), 1, line)

    def test_ordinary_text_is_not(self):
        for line in ("/usr/local/cuda/bin/nvcc", "the home/away ratio", "the work/time ratio", "$HOME/" + "home/x", "TO" + "DO(#7): more", "a == b",
                     "build/" + "root/x", "../" + "work/x"):
            self.assertEqual(words.findings("f", line), [], line)


class Symbols(unittest.TestCase):
    def test_the_interface_is_allowed_and_nothing_else(self):
        self.assertEqual(symbols.foreign(["runmax::plan(runmax::Problem const&)", "runmax_plan", "vtable for runmax::X"]), [])
        strangers = ["std::vector<int>::push_back(int&&)", "hwy::Warn()", "cudaMalloc", "runmaxed"]
        self.assertEqual(symbols.foreign(strangers), strangers)


class Kernels(unittest.TestCase):
    def test_a_kernel_is_documented_by_its_exact_name(self):
        self.assertEqual(kernels.undocumented(["cpu_online", "cpu"], "the `cpu_online` engine"), ["cpu"])


class Docs(Tree):
    def found(self, text):
        self.write("README.md", text)
        return docs.check(self.root, None)

    def setUp(self):
        super().setUp()
        self.write("docs/there.md", "# A heading, with *marks*\n")
        self.write("src/plan/plan.cpp", "")
        self.write("CMakePresets.json", '{"configurePresets": [{"name": "release"}]}')
        self.write("scripts/test", "case $1 in --all) ;; esac\n")
        (self.root / "scripts/test").chmod(0o755)

    def test_links_need_their_file_and_their_anchor(self):
        self.assertEqual(self.found("[a](docs/there.md) [b](docs/there.md#a-heading-with-marks) [c](https:" + "//x.org)"), [])
        self.assertIn("does not exist", self.found("[a](docs/gone.md)")[0])
        self.assertIn("no heading", self.found("[a](docs/there.md#gone)")[0])

    def test_paths_in_code_marks_exist(self):
        self.assertEqual(self.found("`src/plan/` and `src/plan/{plan,plan}.cpp` and `src/*/plan.cpp` and `a/b`"), [])
        self.assertIn("src/gone/", self.found("`src/gone/`")[0])
        self.assertEqual(len(self.found("`src/plan/{plan,gone}.cpp`")), 1)

    def test_commands_in_blocks_exist(self):
        self.assertEqual(self.found("```sh\n./scripts/test --all  # everything\ncmake --preset release\n```\n"), [])
        self.assertIn("does not exist", self.found("```sh\n./scripts/gone\n```\n")[0])
        self.assertIn("no option --none", self.found("```sh\n./scripts/test --none\n```\n")[0])
        self.assertIn("no preset", self.found("```sh\ncmake --preset gone\n```\n")[0])
        self.assertIn("does not exist", self.found("    ./scripts/gone\n")[0])


class Report(Tree):
    CASES = {
        "passed": '<testcase name="A.Passes" status="run"/>',
        "failed": '<testcase name="A.Fails" status="fail"><failure message=""/></testcase>',
        "skipped": '<testcase name="A.Skips" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
                   '<system-out>a.cpp:3: Skipped\nno GPU: driver error 35\n\n[  SKIPPED ] A.Skips</system-out></testcase>',
        "skipped script": '<testcase name="b" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
                          '<system-out>skipped: no numpy</system-out></testcase>',
        "not built": '<testcase name="a_NOT_BUILT" status="notrun"><skipped message="Unable to find executable"/></testcase>',
    }

    def report(self, *kinds, more=()):
        self.write("report.xml", "<testsuite>" + "".join(self.CASES[kind] for kind in kinds) + "</testsuite>")
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = test_report.main([str(self.root / "report.xml"), *more])
        return code, output.getvalue().splitlines()

    def test_counts_stand_alone_on_the_last_line(self):
        code, lines = self.report("passed", "skipped")
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertIn("skipped, 1: no GPU: driver error 35", lines)
        self.assertIn("skipped, 1: no numpy", self.report("passed", "skipped script")[1])

    def test_a_failure_or_a_missing_program_fails(self):
        self.assertEqual(self.report("passed", "failed")[0], 1)
        self.assertEqual(self.report("passed", "not built")[0], 1)
        self.assertEqual(self.report("passed", more=["failed: tidy"])[0], 1)

    def test_a_run_without_tests_fails(self):
        self.assertEqual(self.report()[0], 1)
        self.assertEqual(self.report("skipped")[0], 1)
        self.assertEqual(self.report("passed", more=[str(self.root / "gone.xml")])[0], 1)


if __name__ == "__main__":
    unittest.main()
