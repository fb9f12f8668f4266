"""A headless Chromium driven over its pipe, without a library: opens a page and tells what it did."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--remote-debugging-pipe",
    "--hide-scrollbars",
)
WAIT = 60
"""Seconds for any answer."""


def chromium() -> str | None:
    """The browser of this machine; none where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass
class Browser:
    """One open page; `events` holds all that the browser reported of it."""

    to: int
    back: int
    events: list[dict] = field(default_factory=list)
    session: str | None = None
    _number: int = 0
    _rest: bytes = b""

    def ask(self, method: str, **params: object) -> dict:
        """Sends a command of the DevTools protocol and waits for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def open(self, address: str, width: int = 1200) -> None:
        """Loads a page, once it is complete."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        self.ask("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, expression: str) -> object:
        """What a JavaScript expression is in the page; none where it is undefined."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def picture(self) -> bytes:
        """The whole page as a PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def of(self, method: str) -> list[dict]:
        """The parameters of all events of one kind."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def _next(self) -> dict:
        deadline = time.monotonic() + WAIT
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self.back], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the browser gave no answer"
            part = os.read(self.back, 1 << 20)
            assert part, "the browser ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)


@contextmanager
def running(program: str):
    """A browser with a profile of its own, ended at the end."""
    inward, to = os.pipe()
    back, outward = os.pipe()
    # The browser reads commands from 3 and answers on 4, so neither may be one of these in the shell.
    high = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (inward, outward)]
    shell = f'exec "$@" 3<&{high[0]} 4>&{high[1]}'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            ["bash", "-c", shell, "browser", program, *FLAGS, f"--user-data-dir={profile}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=high,
        )
        for end in (inward, outward, *high):
            os.close(end)
        try:
            yield Browser(to=to, back=back)
        finally:
            process.kill()
            process.wait()
            os.close(to)
            os.close(back)


def main(page: str, picture: str, width: str = "1200") -> None:
    """`python -m tests.eval.browser PAGE PICTURE [WIDTH]`: photographs a page."""
    program = chromium()
    assert program, "no Chromium here"
    with running(program) as browser:
        browser.open(Path(page).resolve().as_uri(), int(width))
        height = browser.value("document.documentElement.scrollHeight")
        browser.ask(
            "Emulation.setDeviceMetricsOverride",
            width=int(width),
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        Path(picture).write_bytes(browser.picture())


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
