"""A page in a real browser that stays open: headless Chromium, spoken to through pipes."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.patience import PATIENCE
from tests.report.browser import find_browser

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe"),
)


class LivePage:
    """One page of one browser, until the block ends.

    Args:
        profile: An empty folder for the browser's own files.
        width: Of the window, in pixels.
        height: Of the window.
        scheme: ``light`` or ``dark``.
    """

    def __init__(self, profile: Path, *, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        self._profile, self._size, self._scheme = profile, (width, height), scheme
        self._number, self._rest = 0, b""

    def __enter__(self) -> LivePage:
        """Start the browser and attach to an empty page."""
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = [find_browser(), *FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        shell = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "browser", *command]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(shell, pass_fds=(theirs_in, theirs_out), **quiet)
        os.close(theirs_in)
        os.close(theirs_out)
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.look(self._size[0], self._scheme)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the browser."""
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def look(self, width: int, scheme: str = "light", *, media: str = "") -> None:
        """Be a window of another width, under another colour scheme, or ``print``."""
        size = {"width": width, "height": self._size[1], "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                found: dict[str, Any] = answer["result"]
                return found

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def open(self, url: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=url)

    def ask(self, expression: str) -> Any:
        """Evaluate JavaScript in the page, and return its plain value."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is true, and return its value."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self.ask(f"(() => {{ try {{ return {expression}; }} catch (error) {{ return null; }} }})()")
            if found:
                return found
            assert time.monotonic() < deadline, f"the page never came to {expression}"
            time.sleep(0.05)

    def picture(self, path: Path) -> Path:
        """Take a picture of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))
        return path
