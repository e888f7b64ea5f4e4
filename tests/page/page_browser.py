"""The page in a real browser: Debian's chromium, driven by selenium. One claim a run.

usage: page_browser.py CLAIM PROGRAM ROWS_PROGRAM ARTEFACTS

PROGRAM is runmax, ROWS_PROGRAM the native twin of page/runmax.wasm. Screenshots go to the folder ARTEFACTS. Where the
browser, its driver or selenium is missing, the reason is printed as SKIPPED.
"""

import base64
import decimal
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
AXE = pathlib.Path(__file__).parents[2] / "build" / "axe.min.js"
DEFAULT_ROW = [0.8, 2, -0.5, 1.1, 0.3, 1.6, -1.2, 0.9, 1.4, -0.3, 1.8, 0.2, 0.6, 4, 1, -0.8]


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(0)


try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
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
        # Where every core is busy, chromium may not answer its driver in time; then once more.
        try:
            self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        except WebDriverException:
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

    def wait(self, condition, seconds=30):
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

    def screenshot(self, name, selector=None, until=None):
        """The whole page, or the box of one element, or from one element to the end of another."""
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        self.js("scrollTo(0, 0)")  # else the header sticks in the middle of it
        box = self.js("if (!arguments[0]) return [0, 0, innerWidth, document.documentElement.scrollHeight];"
                      "const [a, b] = [arguments[0], arguments[1] || arguments[0]].map((s) => document.querySelector(s).getBoundingClientRect());"
                      "return [a.left + scrollX, a.top + scrollY, a.width, b.bottom - a.top]", selector, until)
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
    assert value(page.text("#lse")) == value(shown(step["lse"], 6)) or math.isnan(number(step["lse"])), (at, page.text("#lse"), step)
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
        page.focus_ground()
        page.screenshot("stepper-last-tile", "#stepper")
        page.screenshot("readme", "#stepper > .card", "#stepper > .split")
        page.click("#back")
        assert page.where() == "Tile 3 of 4"
        check_shown_step(page, steps, 3)
        assert value(page.rows("#ways")[2][2]) < 1e-5, "the missing rescale does not show before the maximum moves"
        page.click("#reset")
        assert page.where() == "Nothing seen yet" and not page.one("#back").is_enabled()
        page.js("document.getElementById('speed').value = 3")
        page.click("#play")
        page.wait("document.getElementById('where').textContent === 'Tile 4 of 4'", 30)
        assert page.text("#play") == "Play"
        check_shown_step(page, steps, 4)
        page.assert_quiet()


def step_through(page, scores, tile=4):
    """Steps from the first tile to the last and compares every shown number with the native program's."""
    steps = native_steps(scores, tile)
    page.click("#reset")
    for at in range(1, len(steps) + 1):
        page.click("#step")
        assert page.where() == f"Tile {at} of {len(steps)}"
        check_shown_step(page, steps, at)
    return steps


def row_of(page):
    return page.js("return [...globalThis.runmax.scores].map(String)")


def claim_presets(page_file):
    """Every preset, every tile size and typed values step to the library's values."""
    with Page(page_file) as page:
        names = page.js("return [...document.getElementById('preset').options].map((o) => o.textContent)")
        assert len(names) == 8, names
        rows = []
        for preset in range(7):
            page.select("#preset", str(preset))
            rows.append(row_of(page))
            step_through(page, rows[-1])
        assert len({tuple(row) for row in rows}) == 7
        largest = [[float(x) for x in row].index(max(float(x) for x in row if x != "NaN")) for row in rows[:2]]
        assert largest[0] >= 12 and largest[1] < 4, largest
        assert "NaN" in rows[6] and "-Infinity" in rows[5]
        assert page.rows("#ways")[1][1] == "NaN", "a visible NaN shows"
        page.select("#preset", "5")
        page.click("#step")
        assert [row[4] for row in page.rows("#state")] == ["−∞", "0", "0", "0", "0", "0"], "a masked tile leaves the state"
        page.select("#preset", "0")
        for tile in (1, 3, 7, 16):
            page.select("#tile", str(tile))
            step_through(page, DEFAULT_ROW, tile)
        page.select("#tile", "4")
        box = page.one("#key-value")
        for typed, wanted in (("7.5", "7.5"), ("-inf", "-Infinity"), ("nan", "NaN"), ("−2,25", "-2.25"), ("1e30", "1.0000000150474662e+30")):
            box.send_keys(Keys.CONTROL, "a")
            box.send_keys(typed)
            assert row_of(page)[13] == wanted, (typed, row_of(page)[13])
            assert page.js("return document.getElementById('preset').value") == "own"
        before = row_of(page)
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys("twelve")
        assert box.get_attribute("aria-invalid") == "true" and row_of(page) == before, "what is no number changes nothing"
        page.focus_ground()
        assert box.get_attribute("aria-invalid") is None
        step_through(page, before)
        page.assert_quiet()


def claim_keyboard(page_file):
    """Everything can be reached and used without a pointer."""
    with Page(page_file) as page:
        page.press(Keys.ARROW_RIGHT)
        page.press(Keys.ARROW_RIGHT)
        assert page.where() == "Tile 2 of 4"
        page.press(Keys.ARROW_LEFT)
        assert page.where() == "Tile 1 of 4"
        page.press(Keys.HOME)
        assert page.where() == "Nothing seen yet"
        page.js("const s = document.getElementById('speed'); s.value = 3; s.dispatchEvent(new Event('input'))")
        page.press(Keys.SPACE)
        page.wait("document.getElementById('where').textContent === 'Tile 4 of 4'", 30)
        page.press(Keys.HOME)
        # A bar: up and down change its score, left and right go to its neighbour.
        page.js("document.querySelector('[data-key=\"13\"]').focus()")
        page.press(Keys.ARROW_UP)
        page.press(Keys.PAGE_UP)
        score = float(row_of(page)[13])
        assert 4 < score < 6, score
        assert page.where() == "Nothing seen yet", "arrows on a bar do not step"
        page.press(Keys.ARROW_LEFT)
        assert page.text("#key-number") == "13"
        page.press(Keys.END)
        page.press(Keys.ARROW_DOWN)
        assert page.text("#key-number") == "16" and float(row_of(page)[15]) < -0.8
        page.press(Keys.HOME)
        assert page.text("#key-number") == "1"
        # With Tab from the top to the end: each stop has a name, is on the screen and shows its focus; none is a trap.
        page.driver.get(page.file)
        page.wait("document.documentElement.dataset.ready === ''")
        stops = []
        for _ in range(150):
            page.press(Keys.TAB)
            stop = page.js("""
                const e = document.activeElement;
                if (e === document.body) return null;
                const box = e.getBoundingClientRect(), style = getComputedStyle(e), peer = e.nextElementSibling;
                const ring = e.querySelector(".ring");
                const name = e.getAttribute("aria-label") || (e.labels && [...e.labels].map((l) => l.textContent).join(" ")) || e.textContent;
                const shows = (s) => s && s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2;
                return {tag: e.tagName + (e.id ? "#" + e.id : ""), name: name.trim(),
                  visible: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
                  focus: shows(style) || (e.closest(".theme") && shows(getComputedStyle(peer))) || (ring && getComputedStyle(ring).stroke !== "none")};""")
            if stop is None:
                break
            stops.append(stop)
        else:
            raise AssertionError(f"Tab never left the page: {stops[-3:]}")
        assert stops[0]["name"].startswith("Skip"), stops[0]
        assert 40 < len(stops) < 120, len(stops)
        for stop in stops:
            assert stop["name"] and stop["visible"] and stop["focus"], stop
        reached = {stop["tag"] for stop in stops}
        for wanted in ("SELECT#preset", "INPUT#key-value", "INPUT#tile", "BUTTON#step", "BUTTON#play", "INPUT#speed", "SELECT#column",
                       "INPUT#cost-n", "SELECT#cost-machine", "SELECT#record"):
            assert wanted in reached, f"{wanted} cannot be reached: {sorted(reached)}"
        page.assert_quiet()


def claim_drag(page_file):
    """A bar follows the pointer, and the row is computed anew."""
    with Page(page_file) as page:
        page.click("#step")
        box = page.js("const b = document.querySelector('[data-key=\"2\"] .hit').getBoundingClientRect(); return [b.x, b.y, b.width, b.height]")
        viewport = page.js("return [innerWidth, innerHeight]")
        assert box[1] + box[3] < viewport[1], "the bars are on the first screen"
        start = (int(box[0] + box[2] / 2), int(box[1] + box[3] * 0.75))
        seen = []
        actions = ActionChains(page.driver, duration=20)
        actions.w3c_actions.pointer_action.move_to_location(*start)
        actions.w3c_actions.pointer_action.pointer_down()
        for part in (0.6, 0.4, 0.2):
            actions.w3c_actions.pointer_action.move_to_location(start[0], int(box[1] + box[3] * part))
        actions.perform()
        seen.append(float(row_of(page)[2]))
        assert page.text("#key-number") == "3" and seen[0] > 2.5, seen
        actions = ActionChains(page.driver, duration=20)
        actions.w3c_actions.pointer_action.move_to_location(start[0], int(box[1] + box[3] * 0.9))
        actions.w3c_actions.pointer_action.pointer_up()
        actions.perform()
        seen.append(float(row_of(page)[2]))
        assert seen[1] < 0, seen
        # Up again: moving on changes nothing.
        ActionChains(page.driver).move_by_offset(0, -80).perform()
        assert float(row_of(page)[2]) == seen[1]
        check_shown_step(page, native_steps(row_of(page)), 1)
        label = page.js("return document.querySelector('[data-key=\"2\"]').getAttribute('aria-valuetext')")
        assert abs(value(label) - seen[1]) < 1e-3, (label, seen)
        page.assert_quiet()


def claim_merge(page_file):
    """However the row is cut, the tree's root is the row's state, and a chosen node tells how it came to be."""
    last = native_steps(DEFAULT_ROW)[-1]
    with Page(page_file) as page:
        for cuts, pieces in (("middle", 2), ("quarters", 4), ("uneven", 5), ("all", 16), ("none", 1)):
            page.click(f"[data-cuts={cuts}]")
            nodes = page.js("return [...document.querySelectorAll('.tree .level button')].map((b) => b.getAttribute('aria-label'))")
            assert len(nodes) == 2 * pieces - 1, (cuts, nodes)
            root = nodes[-1].replace("keys 1–16: m ", "").split(", d ")
            assert root[0] == shown(last["max"]) and abs(value(root[1]) / number(last["sum"]) - 1) < 1e-3, (cuts, nodes[-1])
        page.click(".tree .cuts button:nth-child(5)")
        assert page.one(".tree .cuts button:nth-child(5)").get_attribute("aria-pressed") == "true"
        nodes = page.js("return [...document.querySelectorAll('.tree .level button')].map((b) => b.getAttribute('aria-label'))")
        assert [n.split(":")[0] for n in nodes] == ["keys 1–5", "keys 6–16", "keys 1–16"], nodes
        assert "exp(2 − 4) = 0.1353" in page.text("#node"), page.text("#node")
        page.click(".tree .level button")
        assert "alone" in page.text("#node")
        # The row is the stepper's own.
        page.select("#preset", "3")
        assert page.js("return document.querySelectorAll('.tree .keys span')[15].textContent") == "4"
        page.screenshot("merge", "#merge")
        page.assert_quiet()


def bytes_text(count):
    units, unit, amount = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], 0, count
    while amount >= 1024 and unit < 6:
        amount, unit = amount / 1024, unit + 1
    exact = decimal.Decimal(amount)  # JavaScript rounds ties up
    digits = decimal.Decimal(1 if amount >= 100 or amount == int(amount) else "0.1")
    return f"{exact.quantize(digits, decimal.ROUND_HALF_UP)} {units[unit]}"


def claim_costs(page_file):
    """The costs are the C++ formulas' at every N and d, and in proportion to type and heads."""
    with Page(page_file) as page:
        for log_n, d in ((6, 16), (8, 64), (12, 64), (17, 64), (20, 256), (13, 128)):
            page.select("#cost-n", str(log_n))
            page.select("#cost-d", str(d))
            score, naive, floor, _, online, ratio, _, intensity, _ = json.loads(native("costs", 2**log_n, d))
            for type_index, element in ((0, 4), (1, 8), (2, 2), (4, 1)):
                for log_heads in (0, 5):
                    page.select("#cost-type", str(type_index))
                    page.select("#cost-heads", str(log_heads))
                    scale = element / 4 * 2**log_heads
                    got = [row[1] for row in page.rows("#cost-table")]
                    wanted = [bytes_text(x * scale) for x in (score, naive, online, floor)]
                    assert got == wanted, (log_n, d, element, got, wanted)
            page.select("#cost-type", "0")
            said = page.text("#cost-said")
            assert f"moves {shown(ratio, 3)} times the floor. At {shown(intensity, 3)} FLOP/B" in said, said
        # The lesson's own figures.
        page.select("#cost-heads", "0")
        page.select("#cost-n", "12")
        page.select("#cost-d", "64")
        assert [row[1] for row in page.rows("#cost-table")] == ["64 MiB", "324 MiB", "130 MiB", "4 MiB"]
        machines = page.js("return [...document.getElementById('cost-machine').options].map((o) => o.textContent)")
        assert [m.split()[0].rstrip(",") for m in machines[:3]] == ["T4", "A100", "H200"] and "measured" in machines[3], machines
        for machine in range(len(machines)):
            page.select("#cost-machine", str(machine))
            assert machines[machine] in page.text("#cost-roofline")
        page.screenshot("costs", "#costs")
        page.assert_quiet()


def claim_results(page_file):
    """Charts and tables show the record's figures; pointer and arrow keys read them out with their method."""
    record = json.loads((pathlib.Path(__file__).parents[2] / "results" / "h200-lab.json").read_text())
    with Page(page_file) as page:
        options = page.js("return [...document.getElementById('record').options].map((o) => o.textContent)")
        assert len(options) >= 2 and record["commit"] in options[0], options
        rows = page.rows(".record .scroll")
        warm = [r for r in record["results"] if r["cache"] == "warm"]
        for row, result in zip(rows, warm):
            assert row[1:3] == [result["path"], result["kernel"]], (row, result)
            assert row[4:6] == [shown(result["max_abs_error"]), shown(result["gate_fraction"], 3)], (row, result)
        assert len(page.js("return document.querySelectorAll('.record .plot .mark')")) == 3 * 3 + 3 * 3 + 2 * 3 + 3 * 3
        # The pointer on a mark.
        mark = page.js("const m = document.querySelector('.record .plot .mark'); m.scrollIntoView({block: 'center'});"
                       "const b = m.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]")
        actions = ActionChains(page.driver)
        actions.w3c_actions.pointer_action.move_to_location(int(mark[0]), int(mark[1]))
        actions.perform()
        first = page.text(".record .chart .read-out")
        naive = warm[0]
        assert first.startswith(f"naive: {shown(naive['time_ms'] * 1000, 3)} µs"), first
        assert "256" in first and record["method"]["warm"] in first, first
        # Arrow keys from there.
        page.js("document.querySelector('.record .chart .plot').focus()")
        page.press(Keys.ARROW_RIGHT)
        assert "1,024" in page.text(".record .chart .read-out")
        page.press(Keys.ARROW_DOWN)
        assert page.text(".record .chart .read-out").startswith("online"), page.text(".record .chart .read-out")
        for word in ("faster than naive at every N", "slower than naive at every N", "attention_online", "the gate", record["meaning"][:60]):
            assert word in page.text(".record"), word
        assert page.text(".record").count("✓ held") == sum(p["held"] is True for p in record["predictions"])
        for width in (1200, 360):
            page.look(width, 900)
            page.js("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            below = page.js("""
                const part = document.querySelector(".record .part"), at = () => Math.round(part.getBoundingClientRect().top + scrollY), seen = new Set([at()]);
                for (const plot of document.querySelectorAll(".record .plot"))
                  for (let i = 0; i < 12; ++i) plot.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"})), seen.add(at());
                return [...seen];""")
            assert len(below) == 1, f"{width} pixels: what is read out moves what is below: {below}"
        page.look(1200, 900)
        page.screenshot("results", "#results")
        page.select("#record", "1")
        assert options[1].split("commit ")[1] in page.text(".record header")
        page.assert_quiet()


def contrast(page, one, other):
    """WCAG's contrast of two of the page's colours."""
    def luminance(name):
        rgb = page.js("const e = document.createElement('i'); e.style.color = `var(--${arguments[0]})`; document.body.append(e);"
                      "const c = getComputedStyle(e).color; e.remove(); return c.match(/\\d+/g).slice(0, 3).map(Number)", name)
        linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def claim_looks(page_file):
    """Light and dark, by the system and by the switch, from 360 pixels up: readable, nothing cut off, nothing jumps."""
    with Page(page_file) as page:
        ground = "return getComputedStyle(document.body).backgroundColor"
        light = page.js(ground)
        for theme, dark in (("light", False), ("dark", True)):
            page.look(1200, 900, dark)
            for text in ("ink", "soft", "online", "rescale", "pertile", "good", "accent"):
                for back in ("ground", "card", "faint", "tile"):
                    if back == "tile" and text not in ("ink", "soft", "rescale"):
                        continue
                    found = contrast(page, text, back)
                    assert found >= 4.5, f"{theme}: {text} on {back} has a contrast of {found:.2f}"
            for mark in ("bar-seen", "tile-edge", "control", "naive", "runmax"):
                assert contrast(page, mark, "card") >= 3, f"{theme}: {mark} on card has {contrast(page, mark, 'card'):.2f}"
        night = page.js(ground)
        assert night != light
        page.look(1200, 900, False)
        page.js("document.querySelector('.theme input[value=dark]').click()")
        assert page.js(ground) == night, "the switch outdoes the system"
        page.look(1200, 900, True)
        page.js("document.querySelector('.theme input[value=light]').click()")
        assert page.js(ground) == light
        page.js("document.querySelector('.theme input[value=auto]').click()")
        assert page.js(ground) == night

        page.press(Keys.HOME)
        for width, dark in ((1200, False), (1200, True), (1000, False), (768, False), (360, False), (360, True)):
            page.look(width, 900, dark)
            page.js("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            wide = page.js("return document.documentElement.scrollWidth")
            assert wide <= width, f"{width} pixels: the page is {wide} wide"
            spilled = page.js("""return [...document.querySelectorAll("main *")].filter((e) => {
                const b = e.getBoundingClientRect();
                return b.width && (b.right > innerWidth + 1 || b.left < -1) && !e.closest(".scroll, .unseen, .skip, .chart svg, .bars svg");
              }).map((e) => e.outerHTML.slice(0, 90))""")
            assert not spilled, f"{width} pixels: {spilled[:3]}"
            # Stepping through any row moves nothing below or above it.
            if not dark:
                places = "return ['merge', 'state', 'drift', 'costs', 'results', 'where'].map((id) => Math.round(document.getElementById(id).getBoundingClientRect().top + scrollY))"
                for preset in range(7):
                    page.select("#preset", str(preset))
                    before = page.js(places)
                    for at in range(4):
                        page.js("document.getElementById('step').click()")
                        assert page.js(places) == before, f"{width} pixels, preset {preset}, step {at + 1}: {before} became {page.js(places)}"
                page.select("#preset", "0")
            for _ in range(4):
                page.js("document.getElementById('step').click()")
            if width in (1200, 360):
                page.screenshot(f"page-{width}-{'dark' if dark else 'light'}")
            page.press(Keys.HOME)

        moves = "return getComputedStyle(document.querySelector('.bars .bar .body')).transitionDuration"
        page.look(1200, 900, False, reduced_motion=True)
        page.click("#step")
        assert page.js(moves) == "0s", "reduced motion is respected"
        page.look(1200, 900, False, reduced_motion=False)
        page.click("#step")
        assert page.js(moves) != "0s"
        page.assert_quiet()


def axe_complaints(page, axe):
    page.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
    found = page.driver.execute_async_script(
        "const done = arguments[0]; axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa',"
        "'wcag22aa', 'best-practice']}).then((r) => done({passes: r.passes.length, violations: r.violations.map((v) => v.id + ': '"
        " + v.help + ' at ' + v.nodes.slice(0, 3).map((n) => n.target.join(' ')).join(', '))}))")
    assert found["passes"] > 20, "axe looked at next to nothing"
    return found["violations"]


def claim_axe(page_file):
    """axe-core finds nothing: WCAG 2.2 A and AA and its best practices, light, dark and narrow."""
    if not AXE.is_file():
        skip("no axe-core (./scripts/test fetches it from PyPI)")
    axe = AXE.read_text()
    with Page(page_file) as page:
        for width, dark in ((1200, False), (1200, True), (360, False)):
            page.look(width, 900, dark)
            for _ in range(4):
                page.js("document.getElementById('step').click()")
            complaints = axe_complaints(page, axe)
            assert not complaints, (width, dark, complaints)
        # It does find: a field without a name.
        page.js("document.querySelector('label[for=tile]').remove()")
        assert axe_complaints(page, axe)
        page.assert_quiet()

def claim_print(page_file):
    """It prints: light, without controls, every section, all of its text selectable; and it loads within a second."""
    with Page(page_file, dark=True) as page:
        loads = []
        for _ in range(5):
            page.driver.get(page.file)
            page.wait("document.documentElement.dataset.ready === ''")
            loads.append(page.js("return performance.getEntriesByType('navigation')[0].loadEventEnd"))
        assert min(loads) < 1000, f"milliseconds to load: {loads}"
        pdf = base64.b64decode(page.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        (ARTEFACTS / "page.pdf").write_bytes(pdf)
        pages = pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type/Page/")
        assert 3 <= pages <= 14, pages
        assert b"/Font" in pdf, "text is text"
        page.look(1200, 900, True, media="print")
        for hidden in ("nav", ".theme", "#step", "#play"):
            assert not page.one(hidden).is_displayed(), f"{hidden} is printed"
        assert page.js("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.js("return [...document.querySelectorAll('details')].every((d) => d.open)"), "what is folded is printed too"
        page.assert_quiet()


def claim_hostile(page_file):
    """Text of a record is text, whatever it holds."""
    record = json.loads((pathlib.Path(__file__).parents[2] / "results" / "h200-lab.json").read_text())
    evil = "</script><script>globalThis.owned = 1</script><img src=x onerror='globalThis.owned = 1'><!--<script>\u2028{{wasm}} $& \\"
    for key in ("meaning", "commit", "compiler", "date"):
        record[key] = evil
    record["device"]["name"] = evil
    record["results"][0].update(path=evil, kernel=evil, reason=evil)
    record["predictions"][0].update(name=evil, figures=evil)
    record["pitfalls"] = [{"name": evil, "shown": True, "figures": evil, "meaning": evil}]
    record["unknown"] = "not in the page"
    record_file = page_file.with_name("evil.json")
    record_file.write_text(json.dumps(record, ensure_ascii=False))
    subprocess.run([PROGRAM, "page", "-o", str(page_file), "--record", str(record_file)], check=True, capture_output=True)
    assert "not in the page" not in page_file.read_text()
    with Page(page_file) as page:
        assert page.js("return globalThis.owned === undefined")
        assert page.js("return document.querySelectorAll('img').length") == 0
        assert page.js("return document.scripts.length") == 3
        assert page.text(".record > .prose") == evil
        assert page.text(".record > header > :first-child") == evil
        page.assert_quiet()


def claim_lab(page_file):
    """`runmax lab --html` writes the report of the very run that --json prints."""
    report = page_file.with_name("lab.html")
    run = subprocess.run([PROGRAM, "lab", "--device", "cpu", "--n", "64,256", "--json", "--html", str(report)], capture_output=True, text=True, check=True)
    record = json.loads(run.stdout)
    assert report.stat().st_size < 400_000
    with Page(report) as page:
        assert record["device"]["name"] in page.text(".record > header > :first-child")
        assert page.text(".record > .prose") == record["meaning"]
        for row, result in zip(page.rows(".record .scroll"), [r for r in record["results"] if r["cache"] == "warm"]):
            assert row[0] == str(result["n"]) and row[5] == shown(result["gate_fraction"], 3), (row, result)
        assert page.js("return document.getElementById('stepper') === null && document.getElementById('wasm') === null")
        page.screenshot("lab-report")
        assert page.text("h1") == f"runmax lab: {record['device']['name']}"
        if AXE.is_file():
            complaints = axe_complaints(page, AXE.read_text())
            assert not complaints, complaints
        page.assert_quiet()


def claim_judge(page_file):
    """`runmax judge --html` shows the verdict, every case, where the output is wrong, and the times of what is right."""
    report = page_file.with_name("judge.html")
    faults = pathlib.Path(__file__).parents[2] / "apps" / "judge" / "faults"

    def judged(candidate, *options):
        run = subprocess.run([PROGRAM, "judge", str(candidate), "--json", "-", "--html", str(report), *options], capture_output=True, text=True, check=False)
        assert run.returncode in (0, 1), run.stderr
        return json.loads(run.stdout)

    def complaints(page):
        return axe_complaints(page, AXE.read_text()) if AXE.is_file() else None

    record = judged(faults / "cpu" / "output-not-rescaled.cpp", "--seed", "7")
    with Page(report) as page:
        assert page.text("h1") == "runmax judge: output-not-rescaled.cpp"
        assert page.text(".record .tiles dd") == "rejected" and "output is not rescaled" in page.text(".record > .prose")
        rows = page.rows(".record .scroll[aria-label=Cases]")
        assert [row[0] for row in rows] == [case["name"] for case in record["cases"]]
        assert [row[2] for row in rows] == [case["outcome"] for case in record["cases"]]
        cells = page.js("return [...document.querySelectorAll('.error-map rect')].map((r) => r.getAttribute('class'))")
        assert [c == "wrong" for c in cells] == [d != "0" for d in record["error_map"]["digits"]] and "wrong" in cells
        assert not complaints(page), complaints(page)
        page.screenshot("judge-rejected")
        page.assert_quiet()
    record = judged(faults / "honest" / "plain.cpp", "--max-n", "256")
    with Page(report) as page:
        assert page.text(".record .tiles dd") == "accepted"
        assert len(page.js("return [...document.querySelectorAll('.record .plot .mark')]")) >= 3 * len(record["timing"])
        assert not complaints(page), complaints(page)
        page.screenshot("judge-accepted")
        page.assert_quiet()


def claim_bench(page_file):
    """`runmax bench --html` writes the report of the very run that --json prints; `runmax page` takes its record too."""
    report = page_file.with_name("bench.html")
    run = subprocess.run([PROGRAM, "bench", "q64:d64", "q256:d64", "--repeat", "3", "--json", "--html", str(report)],
                         capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stderr  # on a busy machine a share may come out above 1, and the bench says so
    record = json.loads(run.stdout)
    with Page(report) as page:
        assert page.text("h1") == f"runmax bench: {record['machine']['name']}"
        rows = page.rows(".record .scroll")
        assert len(rows) == len(record["results"])
        assert page.text(".record .tiles dd") == "forward"
        for row, result in zip(rows, record["results"]):
            assert row[:4] == [result["problem"], result["kernel"], str(result["threads"]), result["cache"]], (row, result)
            assert row[9] == shown(result["gate_fraction"], 3), (row, result)
        assert len(page.js("return [...document.querySelectorAll('.record .plot .mark')]")) == 2 * sum(r["time_us"] is not None for r in record["results"])
        if AXE.is_file():
            complaints = axe_complaints(page, AXE.read_text())
            assert not complaints, complaints
        page.screenshot("bench-report")
        page.assert_quiet()
    record_file = page_file.with_name("bench.json")
    record_file.write_text(run.stdout)
    subprocess.run([PROGRAM, "page", "-o", str(page_file), "--record", str(record_file)], check=True, capture_output=True)
    with Page(page_file) as page:
        machines = page.js("return [...document.getElementById('cost-machine').options].map((o) => o.textContent)")
        assert record["machine"]["name"] in machines[-1], machines
        page.assert_quiet()


CLAIMS = {name.removeprefix("claim_"): function for name, function in list(globals().items()) if name.startswith("claim_")}


def main():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "runmax page.html"
        subprocess.run([PROGRAM, "page", "-o", str(file)], check=True, capture_output=True)
        CLAIMS[CLAIM](file)


if __name__ == "__main__":
    main()
