"""The page in a real browser: Debian's chromium, driven by selenium. One claim a run.

usage: page_browser.py CLAIM PROGRAM ROWS_PROGRAM ARTEFACTS

PROGRAM is runmax, ROWS_PROGRAM the native twin of page/runmax.wasm. Screenshots go to the folder ARTEFACTS. Where the
browser, its driver or selenium is missing, the reason is printed as SKIPPED.
"""

import base64
import json
import math
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

CLAIM, PROGRAM, ROWS, ARTEFACTS = sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
DEFAULT_ROW = [0.8, 2, -0.5, 1.1, 0.3, 1.6, -1.2, 0.9, 1.4, -0.3, 1.8, 0.2, 0.6, 4, 1, -0.8]


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(0)


try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    skip("no selenium for this Python (apt-get install python3-selenium)")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
if not BROWSER:
    skip("no chromium (apt-get install chromium)")
if not DRIVER:
    skip("no chromedriver (apt-get install chromium-driver)")


class Page:
    """The page open in a browser of its own, from a file, with what it logs and asks for."""

    def __init__(self, file, width=1200, height=900, dark=False, reduced_motion=True):
        options = Options()
        options.binary_location = BROWSER
        for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars",
                         "force-color-profile=srgb", "disable-background-networking", "disable-component-update",
                         "disable-extensions", "no-first-run", f"window-size={width},{height}"):
            options.add_argument("--" + argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.driver.set_script_timeout(50)
        self.file = file.resolve().as_uri()
        self.look(width, height, dark, reduced_motion)
        self.driver.get(self.file)
        self.wait("document.documentElement.dataset.ready === ''")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def look(self, width, height, dark=False, reduced_motion=True, media=""):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"}]})

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition, seconds=10):
        end = time.monotonic() + seconds
        while not self.js(f"return Boolean({condition})"):
            assert time.monotonic() < end, f"waited {seconds} s for: {condition}"
            time.sleep(0.02)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0]).textContent", selector)

    def click(self, selector):
        self.one(selector).click()

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def select(self, selector, value):
        self.js("const s = document.querySelector(arguments[0]); s.value = arguments[1];"
                "s.dispatchEvent(new Event('input', {bubbles: true})); s.dispatchEvent(new Event('change', {bubbles: true}))",
                selector, value)

    def focus_ground(self):
        self.js("document.activeElement.blur()")

    # What is shown: the state table's column "after" and the table of four ways, as text.
    def where(self):
        return self.text("#where")

    def rows(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0] + ' tbody tr')]"
                       ".map((r) => [...r.children].map((c) => c.textContent.trim()))", selector)

    def screenshot(self, name, selector=None):
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        box = self.js("const b = arguments[0] ? document.querySelector(arguments[0]).getBoundingClientRect() : null;"
                      "return b ? [b.left + scrollX, b.top + scrollY, b.width, b.height]"
                      " : [0, 0, innerWidth, document.documentElement.scrollHeight]", selector)
        picture = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": {
            "x": box[0], "y": box[1], "width": box[2], "height": box[3], "scale": 1}})
        (ARTEFACTS / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))

    def assert_quiet(self):
        """No word in the console, and no request but for the file itself."""
        logged = [entry["message"] for entry in self.driver.get_log("browser")]
        assert not logged, f"console: {logged[:3]}"
        asked = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.add(message["params"]["request"]["url"])
        assert self.file in asked, "the log of requests does not even hold the page"
        others = {url for url in asked - {self.file} if not url.startswith("data:")}
        assert not others, f"asked for {sorted(others)}"


def native(*arguments):
    return subprocess.run([ROWS, *map(str, arguments)], check=True, capture_output=True).stdout


def number(value):
    return float(value) if isinstance(value, str) else value


def shown(x, digits=4):
    """A number as page/dom.js writes it."""
    x = number(x)
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    if x == 0:
        return "0"
    if not 1e-4 <= abs(x) < 1e6:
        mantissa, exponent = f"{x:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        text = f"{mantissa}e{int(exponent)}"
    else:
        text = repr(float(f"{x:.{digits}g}")).removesuffix(".0")
    return text.replace("-", "−")


def value(text):
    """The number that the page shows."""
    return float(text.replace("−", "-").replace("∞", "inf"))


def native_steps(scores, tile=4):
    return json.loads(native("steps", tile, *scores))


def check_shown_step(page, steps, at, column=0):
    """The tables after step `at` hold the native program's numbers."""
    step = steps[at - 1]
    after = [row[4] for row in page.rows("#state")]
    assert after == [shown(step["max"]), shown(step["sum"]), *map(shown, step["out"])], (at, after, step)
    answers = [row[5] for row in page.rows("#state")][2:]
    assert answers == [shown(x) for x in step["result"]], (at, answers, step)
    ways = [row[1] for row in page.rows("#ways")]
    wanted = [shown(step[key][column]) for key in ("truth", "result", "not_rescaled", "per_tile")]
    assert ways == wanted, (at, ways, wanted)


def claim_bits(page_file):
    """Page and native program give the same bits on 10,000 rows: every step of every rule, truth and merges."""
    data = native("bits", 10000)
    compare = """
            const data = Uint8Array.from(atob(arguments[0]), (c) => c.charCodeAt(0)).buffer, core = globalThis.runmax;
            const view = new DataView(data), count = view.getUint32(0, true), wrong = [];
            let at = 4;
            const hashOf = () => { let h = 2166136261; return {
              words(words) { for (const w of words) h = Math.imul(h ^ w, 16777619); },
              floats(f) { const w = new Uint32Array(f.slice().buffer); f.forEach((x, i) => { if (x !== x) w[i] = 0x7fc00000; }); this.words(w); },
              doubles(f) { const w = new Uint32Array(f.slice().buffer);
                f.forEach((x, i) => { if (x !== x) w[2 * i] = 0, w[2 * i + 1] = 0x7ff80000; }); this.words(w); },
              value: () => h >>> 0 }; };
            for (let i = 0; i < count; ++i) {
              const [keys, tile, cuts, want] = [0, 4, 8, 12].map((o) => view.getUint32(at + o, true));
              at += 16;
              core.scores.set(new Float32Array(data, at, 16));
              core.values.set(new Float32Array(data, at + 64, 64));
              at += 320;
              const hash = hashOf(), tiles = core.sweep(tile, keys).count, tree = core.tree(cuts, tile, keys);
              for (let rule = 0; rule < 3; ++rule) hash.floats(core.steps.subarray(rule * 640, rule * 640 + 40 * tiles));
              hash.doubles(core.truth.subarray(0, 4 * tiles));
              hash.floats(core.nodes.subarray(0, 12 * tree.count));
              if (hash.value() !== want) wrong.push([i, keys, tile, cuts]);
            }
            return {count, left: data.byteLength - at, wrong};"""
    with Page(page_file) as page:
        found = page.js(compare, base64.b64encode(data).decode())
        assert found["count"] == 10000 and found["left"] == 0, found
        assert not found["wrong"], f"{len(found['wrong'])} rows differ; row, keys, tile, cuts: {found['wrong'][:3]}"
        # The comparison sees one bit: the same first rows, each with the last bit of its first score flipped.
        few = bytearray(data[:4 + 100 * 336])
        struct.pack_into("<I", few, 0, 100)
        for row in range(100):
            few[4 + row * 336 + 16] ^= 1
        found = page.js(compare, base64.b64encode(bytes(few)).decode())
        assert len(found["wrong"]) > 50, f"a flipped bit shows in {len(found['wrong'])} of 100 rows only"
        print("10000 rows, the same bits")


def claim_mouse(page_file):
    """Clicks step through the default row to the library's values; both mistakes are off at the last tile."""
    steps = native_steps(DEFAULT_ROW)
    with Page(page_file) as page:
        assert page.where() == "Nothing seen yet"
        for at in range(1, 5):
            page.click("#step")
            assert page.where() == f"Tile {at} of 4"
            check_shown_step(page, steps, at)
        assert not page.one("#step").is_enabled()
        off = [value(row[2]) for row in page.rows("#ways")[1:]]
        assert off[0] < 1e-5 and off[1] > 0.5 and off[2] > 0.05, off
        page.screenshot("stepper-last-tile", "#stepper")
        page.click("#back")
        assert page.where() == "Tile 3 of 4"
        check_shown_step(page, steps, 3)
        assert value(page.rows("#ways")[2][2]) < 1e-5, "the missing rescale does not show before the maximum moves"
        page.click("#reset")
        assert page.where() == "Nothing seen yet" and not page.one("#back").is_enabled()
        page.js("document.getElementById('speed').value = 3")
        page.click("#play")
        page.wait("document.getElementById('where').textContent === 'Tile 4 of 4'", 8)
        assert page.text("#play") == "Play"
        check_shown_step(page, steps, 4)
        page.assert_quiet()


CLAIMS = {name.removeprefix("claim_"): function for name, function in list(globals().items()) if name.startswith("claim_")}


def main():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "runmax page.html"
        subprocess.run([PROGRAM, "page", "-o", str(file)], check=True, capture_output=True)
        CLAIMS[CLAIM](file)


if __name__ == "__main__":
    main()
