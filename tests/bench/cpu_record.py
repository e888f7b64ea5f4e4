"""The record of the CPU's table is whole: cpu_record.py ROOT."""

import json
import pathlib
import sys

NUMBER = (int, float)
KEYS = {"schema": str, "version": int, "part": bool, "runmax": str, "commit": str, "compiler": str, "date": str,
        "machine": dict, "kernel_sources": list, "passed": bool, "figures": list, "runs": list}
FIGURE_KEYS = {"work": str, "threads": int, "figure": str, "value": NUMBER, "target": (*NUMBER, type(None)),
               "met": (bool, type(None))}


def check_keys(where, value, keys):
    for key, kind in keys.items():
        assert key in value, f"{where}: no key {key}"
        assert isinstance(value[key], kind), f"{where}.{key}: {value[key]!r} is no {kind}"


def main():
    root = pathlib.Path(sys.argv[1])
    path = root / "results/cpu-bench.json"
    if not path.is_file():
        print("SKIPPED: there is no results/cpu-bench.json")
        return
    record = json.loads(path.read_text())
    check_keys("record", record, KEYS)
    assert record["schema"] == "runmax.bench_table" and record["version"] == 1
    assert record["part"] is False, "a part of the table is no record"
    assert record["passed"] is True
    assert not record["commit"].endswith("-modified"), "measured on sources that are in no commit"
    for n, figure in enumerate(record["figures"]):
        check_keys(f"figures[{n}]", figure, FIGURE_KEYS)
        assert (figure["met"] is None) == (figure["target"] is None)
        assert figure["target"] is None or figure["met"] == (figure["value"] >= figure["target"]), figure
        assert "share" not in figure["figure"] or 0 < figure["value"] <= 1, figure
    for one in record["runs"]:
        assert not one["refused"], f"{one['name']} did not run"
        assert one["record"]["schema"] == "runmax.bench" and one["record"]["passed"] is True
        for result in one["record"]["results"]:
            assert result["status"] in ("ok", "refused"), result["reason"]
    # The figures are those of the runs.
    sys.path.insert(0, str(root / "bench"))
    sys.dont_write_bytecode = True
    import cpu_table  # pylint: disable=import-error,import-outside-toplevel
    again = cpu_table.figures(record["runs"], record["machine"]["threads"])
    assert again == record["figures"], "the figures are not those of the runs"
    assert cpu_table.text(record) == (root / "results/cpu-bench.txt").read_text(), "the text is not the record's"


main()
