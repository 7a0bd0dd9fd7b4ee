"""A page in a browser that is installed already: Playwright drives it, and downloads none."""

import json
import os
import shutil
import time
from pathlib import Path

SECONDS = 60.0


def find():
    """The browser: PORTABLE_FFN_BROWSER, which must be there where it is set, else chromium where it is found."""
    asked = os.environ.get("PORTABLE_FFN_BROWSER")
    if asked is not None:
        found = shutil.which(asked)
        assert found, f"PORTABLE_FFN_BROWSER must name a browser, got {asked!r}"
        return found
    return shutil.which("chromium")


class Browser:
    """One browser with one page; `said` is all that went wrong since it was opened."""

    def __init__(self, playwright, program):
        self.browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        self.page = self.browser.new_page()
        self.page.set_default_timeout(1000 * SECONDS)
        self.said = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))
        self.protocol = self.page.context.new_cdp_session(self.page)
        self.protocol.on("Log.entryAdded", lambda told: self.said.append(json.dumps(told)))
        for domain in ("Log", "Accessibility"):
            self.protocol.send(f"{domain}.enable")

    def _asked(self, url):
        """Note what the network was asked for beside the page itself."""
        if not url.startswith(("file:", "data:", "about:")):
            self.said.append(url)

    def open(self, path, width=1200, height=900, dark=False):
        """Load a file and wait until it is there."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme="dark" if dark else "light")
        self.page.goto("about:blank")
        self.said.clear()
        self.page.goto(Path(path).as_uri())

    def complaints(self):
        """Errors and warnings of the console, exceptions, and what the network was asked for beside the page."""
        self.run("0")
        return self.said

    def run(self, expression):
        """The value of an expression in the page."""
        return self.page.evaluate(expression)

    def press(self, key):
        """A key pressed and released."""
        self.page.keyboard.press(key)

    def told(self, wanted):
        """What a screen reader is told, as (role, name): asked again until `wanted` is in it, since it comes late."""
        end = time.monotonic() + SECONDS
        while True:
            nodes = self.protocol.send("Accessibility.getFullAXTree")["nodes"]
            seen = [node for node in nodes if not node.get("ignored")]
            named = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in seen}
            if any(role == wanted for role, _ in named) or time.monotonic() > end:
                return named
            time.sleep(0.05)
