"""Opens the report and the comparison in a real browser. The pages must log no complaint and make no request, show the
figures of their JSON, and fit the width of the window: in light and dark mode, and on a phone. No card is alone in the
last row of a grid, and paper is white."""

import itertools
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
from PIL import Image

BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
RECIPE = """
[source]
uri = "demo:verse?lines=5000&seed=4"
column = "line"

[train]
vocab_size = 900
special_tokens = ["<|end|>"]

[encode]
eos = "<|end|>"

[output]
dir = "pages"
"""
# Width in pixels, and whether the mode is dark.
WINDOWS = [(1200, False), (1200, True), (400, False), (400, True)]
# Height in pixels of a window that shows a whole page.
HEIGHT = 9000


class Page(HTMLParser):
    """A page as rendered by the browser: figures by their key in the JSON, and elements that would fetch something."""

    def __init__(self, text):
        super().__init__()
        self.figures, self.fetched, self.key = {}, [], None
        self.titles, self.in_title = [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.key = attributes.get("data-key")
        if self.key:
            self.figures[self.key] = ""
        if tag in ("script", "link", "img", "iframe") or attributes.get("src"):
            self.fetched.append(tag)
        self.in_title = tag == "title"
        if self.in_title:
            self.titles.append("")

    def handle_data(self, data):
        if self.key:
            self.figures[self.key] += data
        if self.in_title:
            self.titles[-1] += data

    def handle_endtag(self, tag):
        self.key, self.in_title = None, False


def look_up(report, key):
    for part in key.split("."):
        report = report[int(part)] if isinstance(report, list) else (report or {}).get(part)
    return report


def browse(browser, page, *options):
    """Opens a page and returns the standard output of the browser. A console message of the page is an error."""
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"]
    done = subprocess.run([*command, *options, page.as_uri()], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    complaints = [line for line in done.stderr.decode(errors="replace").splitlines() if "CONSOLE" in line]
    assert not complaints, complaints
    return done.stdout.decode()


def check_figures(browser, page, report):
    text = browse(browser, page, "--dump-dom")
    seen = Page(text)
    assert not seen.fetched, seen.fetched
    for key, shown in seen.figures.items():
        known, digits = look_up(report, key), shown.strip().replace("\u202f", "").replace("\u2212", "-")
        scale = 100 if digits.endswith(" %") else 1
        digits = digits.removesuffix(" %")
        if isinstance(known, (int, float)):
            places = len(digits.partition(".")[2])
            assert abs(float(digits) - scale * known) <= 0.5 * 10**-places + 1e-9, (key, shown, known)
        elif known is None:
            assert digits in ("none", "unknown"), (key, shown)
        else:
            assert digits == known, (key, shown, known)
    return seen


def grouped(number):
    return f"{number:,}".replace(",", "\u202f")


def counted(number, thing):
    return f"{grouped(number)} {thing}{'' if number == 1 else 's'}"


def check_report_titles(titles, report):
    """The exact values under the pointer: all points of the history, and every length of a token or document."""
    history = report["training"]["history"]
    expected = [f"{counted(point['merges'], 'merge')}: {counted(point['tokens'], 'token')}" for point in history]
    before = history[0]["tokens"]
    expected += [
        f"{counted(point['merges'], 'merge')}: {before / point['tokens']:.3f} bytes per token" for point in history
    ]
    for bins, thing in (
        (report["vocabulary"]["token_lengths"], "token"),
        (report["corpus"]["document_lengths"], "document"),
    ):
        assert all(bin["from"] == bin["to"] for bin in bins), bins
        expected += [f"{counted(bin['from'], 'byte')}: {counted(bin['count'], thing)}" for bin in bins]
    missing = set(expected) - set(titles)
    assert not missing, missing
    return len(expected)


def check_comparison_titles(titles, comparison):
    """The dots and bars: each tokenizer has its bytes per token in each part of the text."""
    expected = [
        f"{tokenizer['path']}: {part['bytes_per_token'][number]:.3f} bytes per token"
        for part in comparison["sources"] + comparison["scripts"]
        for number, tokenizer in enumerate(comparison["tokenizers"])
    ]
    assert len(titles) == 1 + len(expected) and set(titles[1:]) == set(expected), (titles, expected)


# Linear RGB as people without red, green or blue cones see it (Machado and others, 2009), and as others do.
VISIONS = [
    np.eye(3),
    [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
]
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(linear):
    x, y, z = np.cbrt(TO_XYZ @ np.clip(linear, 0, 1) / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def check_colours(page):
    """Any two colours of tokenizers look different with any colour vision, and stand out from the paper."""
    style = page.read_text(encoding="utf-8").partition("</style>")[0]
    for scheme in style.split(":root {")[1:3]:
        named = re.findall(r"--(k\d|paper): #([0-9a-f]+)", scheme.partition("}")[0])
        colours = {name: hexes if len(hexes) == 6 else "".join(2 * digit for digit in hexes) for name, hexes in named}
        linear = {name: (np.array(list(bytes.fromhex(hexes))) / 255) ** 2.2 for name, hexes in colours.items()}
        assert len(linear) == 7, linear
        for vision in VISIONS:
            seen = [lab(np.array(vision) @ colour) for colour in linear.values()]
            apart = min(np.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2))
            assert apart > 25, (colours, vision, apart)


# A page that frames the other one, and writes the sizes of its last rows of cards into itself.
ROWS = """<!doctype html><iframe id=page src="{address}" width={width} height=9000></iframe><pre id=found></pre><script>
addEventListener("load", () => {{
  const inside = document.getElementById("page").contentDocument;
  const alone = [];
  for (const cards of inside.querySelectorAll(".headline, .charts")) {{
    const boxes = [...cards.children].map(card => card.getBoundingClientRect());
    const last = boxes.filter(box => Math.abs(box.top - boxes[boxes.length - 1].top) < 2);
    const row = box => boxes.filter(other => Math.abs(other.top - box.top) < 2).length;
    if (last.length === 1 && boxes.some(box => row(box) > 1)) alone.push(cards.className);
  }}
  document.getElementById("found").textContent = "alone: " + alone.join();
}});
</script>"""


def check_rows(browser, page, scratch):
    """No card is alone in the last row of a grid whose other rows have several."""
    for width in (1200, 1000, 800, 650, 400):
        frame = scratch / f"rows-{width}.html"
        frame.write_text(ROWS.format(address=page.as_uri(), width=width))
        text = browse(browser, frame, "--dump-dom", "--allow-file-access-from-files", "--virtual-time-budget=5000")
        assert '<pre id="found">alone: </pre>' in text, (width, text[-300:])


def check_print(browser, page, scratch):
    """Printed from a dark window, the paper is white, and has no more than a few pages."""
    pdf = scratch / f"{page.stem}.pdf"
    dark = "--blink-settings=preferredColorScheme=0"
    browse(browser, page, "--no-pdf-header-footer", f"--print-to-pdf={pdf}", dark)
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF") and 2 <= content.count(b"/Type /Page\n") <= 12, content.count(b"/Type /Page\n")


def check_windows(browser, page, scratch):
    for width, dark in WINDOWS:
        shot = scratch / f"{page.stem}-{width}-{'dark' if dark else 'light'}.png"
        scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
        browse(browser, page, f"--window-size={width},{HEIGHT}", f"--screenshot={shot}", *scheme)
        pixels = np.asarray(Image.open(shot).convert("RGB"))
        paper = pixels[0, 0]
        assert pixels.shape == (HEIGHT, width, 3) and (paper.mean() < 64) == dark, (shot, pixels.shape, paper)
        assert (pixels != paper).any(), shot
        assert (pixels[-1] == paper).all(), f"{shot} does not show all of the page"
        # Nothing is cut off at the right: the right margin has the background colour down to the end.
        assert (pixels[:, -4:] == paper).all(), shot


def check(setting):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        yield "SKIPPED for want of a browser: " + ", ".join(BROWSERS)
        return
    (setting.scratch / "pages.toml").write_text(RECIPE)
    setting.run("run", "pages.toml")
    folder = setting.scratch / "pages"
    page, report = folder / "report.html", json.loads((folder / "report.json").read_text())
    seen = check_figures(browser, page, report)
    titles = check_report_titles(seen.titles, report)
    check_windows(browser, page, setting.scratch)
    check_rows(browser, page, setting.scratch)
    check_print(browser, page, setting.scratch)
    yield f"report: {len(seen.figures)} figures and {titles} titles as in report.json, {len(WINDOWS)} windows, paper"
    text = ["demo:verse?lines=500&seed=9", "--column", "line"]
    other = setting.train("other", *text, "--vocab-size", "400", "--split", "none")
    (setting.scratch / "greek.txt").write_text("οι ίδιες λέξεις ξανά και ξανά\n" * 50, encoding="utf-8")
    verse = setting.scratch / "verse.txt"
    verse.write_text("mi he wunbun be fe sédai serhu!\nse cunhe lo hozu kinhou luzou\n" * 50, encoding="utf-8")
    command = ["compare", "pages/tokenizer", other, "--on", verse, "greek.txt", "--documents", "line", "--baseline", other]
    comparison = json.loads(setting.run(*command, "--json", "--html", "comparison.html"))
    page = setting.scratch / "comparison.html"
    seen = check_figures(browser, page, comparison)
    check_comparison_titles(seen.titles, comparison)
    check_colours(page)
    check_windows(browser, page, setting.scratch)
    check_print(browser, page, setting.scratch)
    yield f"comparison: {len(seen.figures)} figures as in its JSON, {len(WINDOWS)} windows, paper"
