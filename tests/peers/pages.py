"""Opens the report and the comparison in a real browser. The pages must log no complaint and make no request, show the
figures of their JSON, and fit the width of the window: in light and dark mode, and on a phone."""

import json
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
WINDOWS = [(1200, False), (1200, True), (500, False)]
# Height in pixels of a window that shows a whole page.
HEIGHT = 9000


class Page(HTMLParser):
    """A page as rendered by the browser: figures by their key in the JSON, and elements that would fetch something."""

    def __init__(self, text):
        super().__init__()
        self.figures, self.fetched, self.key = {}, [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.key = attributes.get("data-key")
        if self.key:
            self.figures[self.key] = ""
        if tag in ("script", "link", "img", "iframe") or attributes.get("src"):
            self.fetched.append(tag)

    def handle_data(self, data):
        if self.key:
            self.figures[self.key] += data

    def handle_endtag(self, tag):
        self.key = None


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
        known, digits = look_up(report, key), shown.strip().replace("\u202f", "")
        if isinstance(known, (int, float)):
            places = len(digits.partition(".")[2])
            assert abs(float(digits) - known) <= 0.5 * 10**-places + 1e-9, (key, shown, known)
        elif known is None:
            assert digits in ("none", "unknown"), (key, shown)
        else:
            assert digits == known, (key, shown, known)
    return len(seen.figures)


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
    figures = check_figures(browser, folder / "report.html", json.loads((folder / "report.json").read_text()))
    check_windows(browser, folder / "report.html", setting.scratch)
    yield f"report: {figures} figures as in report.json, {len(WINDOWS)} windows"
    text = ["demo:verse?lines=500&seed=9", "--column", "line"]
    other = setting.train("other", *text, "--vocab-size", "400", "--split", "none")
    setting.run("compare", "pages/tokenizer", other, "--on", *text, "--html", "comparison.html")
    page = setting.scratch / "comparison.html"
    assert not Page(browse(browser, page, "--dump-dom")).fetched
    check_windows(browser, page, setting.scratch)
    yield f"comparison: {len(WINDOWS)} windows"
