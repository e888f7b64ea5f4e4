"""`runmax page` and `runmax lab --html` as programs: page_program.py CLAIM PROGRAM ROOT."""

import json
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

CLAIM, PROGRAM, ROOT = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
LAB = ROOT / "results" / "h200-lab.json"


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)


def refused(done, code, *words):
    """One line on stderr, nothing on stdout."""
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stdout == "" and done.stderr.startswith("runmax: ") and done.stderr.count("\n") == 1, done
    for word in words:
        assert word in done.stderr, (word, done.stderr)


def claim_output(folder):
    """One file, whole, small, that names no other."""
    file = folder / "a page.html"
    done = run("page", "-o", file)
    assert done.returncode == 0 and done.stderr == "", done
    assert re.fullmatch(re.escape(str(file)) + r": \d+ kB, \d+ records; open it in a browser\n", done.stdout), done.stdout
    assert [path.name for path in folder.iterdir()] == [file.name], "nothing beside it"
    text = file.read_text()
    assert len(text.encode()) < 400_000, len(text.encode())
    assert text.startswith("<!doctype html>") and text.endswith("</html>\n")
    assert not re.search(r"\{\{[a-z]+\}\}|<!--only|<!--end", text.replace("<script type", "")), "the template is filled"
    for reference in re.findall(r"""(?:src|href|action|data|srcset|poster)\s*=\s*["']?([^"'\s>]+)""", re.sub(r"<script type=\"module\">.*?</script>", "", text, flags=re.S)):
        assert reference.startswith(("#", "data:,")), reference
    for way_out in ("url(", "@import", "fetch(", "XMLHttpRequest", "WebSocket", "sendBeacon", "import(", "EventSource", "http:", "https:", "innerHTML", "eval("):
        assert way_out not in text.replace("wasm-unsafe-eval", ""), way_out
    assert str(ROOT) not in text and str(folder) not in text, "no path of this machine"
    assert run("page", "-o", folder / "again.html").returncode == 0
    assert (folder / "again.html").read_bytes() == file.read_bytes(), "the same page every time"
    # Other records instead of those that ship.
    assert "1 record;" in run("page", "-o", file, "--record", LAB).stdout
    assert file.read_text().count('"schema":"runmax.lab"') == 1
    assert "3 records;" in run("page", "-o", file, "--record", LAB, LAB, LAB).stdout


def claim_errors(folder):
    """A bad record is one clear line and exit 2; what stood at the output stays."""
    output = folder / "page.html"
    output.write_text("old")
    record = json.loads(LAB.read_text())
    bad = folder / "bad.json"

    def with_bad(text, *words):
        bad.write_text(text) if isinstance(text, str) else bad.write_bytes(text)
        refused(run("page", "-o", output, "--record", LAB, bad), 2, str(bad), *words)
        assert output.read_text() == "old"
        assert {path.name for path in folder.iterdir()} == {"page.html", "bad.json"}

    def changed(change, *words):
        copy = json.loads(json.dumps(record))
        change(copy)
        with_bad(json.dumps(copy), *words)

    with_bad("", "is not JSON")
    with_bad("{", "is not JSON")
    with_bad(b"\xff\xfe\x00", "is not JSON")
    with_bad("[" * 200_000, "is not JSON")
    with_bad("[" * 200_000 + "]" * 200_000, "must be one JSON object, got array")
    with_bad("{}", "schema", "is missing")
    with_bad("[]", "must be one JSON object")
    with_bad('{"schema": "runmax.lab\\nevil", "version": 1}', "schema")
    with_bad(" " * (1 << 20) + "{}", "at most 1048576 bytes")
    changed(lambda r: r.update(version=2), "version: must be 1, got 2")
    changed(lambda r: r.update(schema="other"), "schema: must be", "'other'")
    changed(lambda r: r.pop("results"), "results: is missing")
    changed(lambda r: r["results"][3].pop("time_ms"), "results[3].time_ms: is missing")
    changed(lambda r: r["results"][3].update(time_ms="fast"), "results[3].time_ms: must be a number of at least 0 or null", "'fast'")
    changed(lambda r: r["results"][3].update(time_ms=-1), "results[3].time_ms", "got -1")
    changed(lambda r: r["results"][0].update(n=0.5), "results[0].n: must be an integer", "got 0.5")
    changed(lambda r: r["device"].update(name=None), "device.name: must be a string", "got null")
    changed(lambda r: r.update(limits=[]), "limits: must be an object, got array")
    changed(lambda r: r.update(results=[7]), "results[0]: must be an object, got 7")
    changed(lambda r: r.update(results=[{}] * 1001), "results: must be a list of at most 1000 entries")
    changed(lambda r: r.update(meaning="x" * 5000), "meaning: must be a string of at most 4096 bytes")
    with_bad(re.sub(r'"ridge_flops_per_byte": [^,]+', '"ridge_flops_per_byte": 1e999', json.dumps(record)), "a number in it is too large")
    refused(run("page", "-o", output, "--record", folder / "none.json"), 2, "none.json", "No such file")
    refused(run("page", "-o", output, "--record", folder), 2, "is not a regular file")
    refused(run("page", "-o", output, "--record", *[LAB] * 13), 2, "--record: must be at most 12 files, got 13")
    refused(run("page", "-o", folder / "no" / "page.html"), 2, "no/page.html: the directory cannot be used")
    refused(run("page", "-o", folder), 2, "is not a regular file")
    assert run("page").returncode == 2, "-o must be given"

    # What the machine lacks is another exit code, and leaves an older page as it was.
    old = folder / "old.html"
    old.write_text("keep")
    done = subprocess.run([PROGRAM, "page", "-o", old], capture_output=True, text=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
    refused(done, 4, "old.html", "cannot be written")
    assert old.read_text() == "keep" and [p.name for p in folder.iterdir() if "old" in p.name] == ["old.html"]
    assert output.read_text() == "old"
    # The lab refuses before it measures.
    refused(run("lab", "--html", folder / "no" / "lab.html"), 2, "no/lab.html: the directory cannot be used")
    done = run("page", "--help")
    assert done.returncode == 0 and "runmax page -o runmax.html --record" in done.stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        globals()["claim_" + CLAIM](pathlib.Path(temporary))
