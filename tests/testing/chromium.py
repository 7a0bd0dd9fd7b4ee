"""A headless Chromium driven over its DevTools pipe: no driver, no port, no package."""

import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
SECONDS = 60.0
# Chromium's two ends of the pipe take the numbers that it knows them by.
LAUNCH = """
import os, sys
_, commands, answers, *program = sys.argv
os.dup2(int(commands), 3)
os.dup2(int(answers), 4)
os.execv(program[0], program)
"""


def find():
    """The browser: PORTABLE_FFN_BROWSER, which must be there where it is set, else chromium where it is found."""
    asked = os.environ.get("PORTABLE_FFN_BROWSER")
    if asked is not None:
        found = shutil.which(asked)
        assert found, f"PORTABLE_FFN_BROWSER must name a browser, got {asked!r}"
        return found
    return shutil.which("chromium")


class Browser:
    """One process with one page, which is what happens to it: `events` are all that it said since `open`."""

    def __init__(self, program, profile):
        to_read, self.out = os.pipe()
        self.into, to_write = os.pipe()
        # Out of the way of 3 and 4, on which Chromium reads commands and writes answers.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, to_write)]
        arguments = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *map(str, ends), *arguments],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (to_read, to_write, *ends):
            os.close(end)
        self.numbers, self.buffer, self.events, self.session = itertools.count(1), b"", [], None
        pages = [target for target in self.call("Target.getTargets")["targetInfos"] if target["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """One command and its answer; what comes in between is kept."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == number:
                assert "error" not in told, f"{method}: {told['error']}"
                return told["result"]
            self.events.append(told)

    def _next(self):
        """The next message."""
        end = time.monotonic() + SECONDS
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"the browser said nothing for {SECONDS:g} seconds"
            more = os.read(self.into, 1 << 16)
            assert more, f"the browser ended: exit status {self.process.wait(10)}"
            self.buffer += more
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path, width=1200, height=900, dark=False, fragment=""):
        """Load a file, wait until it is there, and return all that went wrong."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._go("about:blank")
        self.events.clear()
        self._go(Path(path).as_uri() + fragment)

    def _go(self, url):
        """Another page, until it is there and not only the one before it."""
        loader = self.call("Page.navigate", url=url)["loaderId"]
        end = time.monotonic() + SECONDS
        while not self._loaded(loader):
            assert time.monotonic() < end, f"{url} was never loaded"
            self.events.append(self._next())

    def _loaded(self, loader):
        """Whether the page of a loader was told of, and then that it is there."""
        methods = [
            event["method"]
            for event in self.events
            if event["method"] != "Page.frameNavigated" or event["params"]["frame"]["loaderId"] == loader
        ]
        there = methods.index("Page.frameNavigated") if "Page.frameNavigated" in methods else None
        return there is not None and "Page.loadEventFired" in methods[there:]

    def complaints(self):
        """Errors and warnings of the console, exceptions, and what the network was asked for beside the page."""
        self.run("0")
        bad = []
        for event in self.events:
            method, told = event["method"], event.get("params", {})
            if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                bad.append(json.dumps(told))
            if method == "Network.requestWillBeSent":
                url = told["request"]["url"]
                if not url.startswith(("file:", "data:")):
                    bad.append(url)
        return bad

    def run(self, expression):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key):
        """A key pressed and released."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "Space": 32}
        text = {"Enter": "\r", "Space": " "}.get(key)
        name = " " if key == "Space" else key
        down = {"key": name, "code": key, "windowsVirtualKeyCode": codes[key]}
        self.call("Input.dispatchKeyEvent", type="keyDown", **down, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **down)

    def told(self, wanted):
        """What a screen reader is told, as (role, name): asked again until `wanted` is in it, since it comes late."""
        end = time.monotonic() + SECONDS
        while True:
            nodes = [node for node in self.call("Accessibility.getFullAXTree")["nodes"] if not node.get("ignored")]
            named = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes}
            if any(role == wanted for role, _ in named) or time.monotonic() > end:
                return named
            time.sleep(0.05)

    def screenshot(self, path):
        """What is to be seen, as PNG."""
        import base64

        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self):
        """End the process."""
        try:
            self.session = None
            self.call("Browser.close")
        except AssertionError:
            pass
        os.close(self.out)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        os.close(self.into)
