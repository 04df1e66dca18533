"""Drives a headless Chromium by its debugging protocol, over pipes."""

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ["chromium", "chromium-browser", "google-chrome"]
PATIENCE_S = 120
KEYS = {"Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9}


def find():
    """The path of a browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser with one page. What the page logs, throws or requests is in `complaints`."""

    def __init__(self, path, profile):
        # The browser reads commands from descriptor 3 and writes answers to descriptor 4.
        to_read, self.commands = os.pipe()
        self.answers, to_write = os.pipe()
        pipes = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, to_write)]
        os.close(to_read)
        os.close(to_write)

        def place():
            for number, pipe in zip((3, 4), pipes):
                os.dup2(pipe, number)

        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"]
        self.process = subprocess.Popen(
            [path, *flags, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=place, close_fds=True, pass_fds=(3, 4, *pipes),
        )  # fmt: skip
        for pipe in pipes:
            os.close(pipe)
        self.numbers, self.buffer, self.complaints = itertools.count(1), b"", []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Page", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE_S)
        os.close(self.commands)
        os.close(self.answers)

    def call(self, method, **parameters):
        number = next(self.numbers)
        command = {"id": number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self.commands, data) :]
        while True:
            message = self.read()
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self.note(message)

    def read(self):
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self.buffer:
            readable, _, _ = select.select([self.answers], [], [], max(0, deadline - time.monotonic()))
            assert readable, "the browser does not answer"
            data = os.read(self.answers, 1 << 20)
            assert data, "the browser has ended"
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def note(self, message):
        method, parameters = message.get("method"), message.get("params", {})
        if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(parameters)
        if method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if url != self.url and not url.startswith("data:"):
                self.complaints.append(url)

    def open(self, page):
        """Opens a page and waits until its body says when it was ready."""
        self.url = page.as_uri()
        self.call("Page.navigate", url=self.url)
        deadline = time.monotonic() + PATIENCE_S
        while not self.run("document.body?.dataset.ready"):
            assert not self.complaints, self.complaints
            assert time.monotonic() < deadline, "the page does not get ready"
            time.sleep(0.02)

    def run(self, expression):
        """The value of an expression in the page. A promise is awaited."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def window(self, width, height, dark=False):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def press(self, key):
        code = KEYS[key]
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
