"""Drives a headless Chromium over its debugging pipe: no driver and no package is needed."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --remote-debugging-pipe "
    "--disable-dev-shm-usage --window-size=1280,900"
).split()
KEYS = {
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    "ArrowDown": (40, ""),
    "ArrowRight": (39, ""),
    "Tab": (9, ""),
}


def find_browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One process; pages are opened one after the other."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # The browser reads descriptor 3 and writes 4, whatever these are here.
        ends = [fcntl.fcntl(one, fcntl.F_DUPFD, 20) for one in (to_browser, from_browser)]
        for one in (to_browser, from_browser):
            os.close(one)
        line = f'exec "$@" 3<&{ends[0]} 4>&{ends[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", line, "bash", program, f"--user-data-dir={profile}", *FLAGS],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for one in ends:
            os.close(one)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []  # what the console would show in red or yellow
        self.requests: list[str] = []  # addresses that were asked for

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._in, 1 << 20)
            if not read:
                raise RuntimeError("the browser has ended")
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"])[:500])
        elif event["method"] == "Runtime.consoleAPICalled":
            self.problems.append(json.dumps(params)[:500])
        elif event["method"] == "Log.entryAdded":
            self.problems.append(params["entry"]["text"])
        elif event["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def enter_frame(self) -> None:
        """Goes on inside the page's frame of another origin, when its script has drawn it."""
        self._session = None
        frames: list[str] = []
        end = time.monotonic() + 20
        while not frames and time.monotonic() < end:
            targets = self.call("Target.getTargets")["targetInfos"]
            inside = (one for one in targets if one.get("parentId") == self._target)
            frames = [one["targetId"] for one in inside]
        self._attach(frames[0])
        self.requests.clear()
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def _attach(self, target: str) -> None:
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network", "DOM"):
            self.call(f"{domain}.enable")

    def open(self, page: Path, fragment: str = "", scripts: bool = True) -> None:
        """Opens a file in a new tab, and waits until its script has drawn it."""
        self._session = None
        self._target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._attach(self._target)
        self.problems.clear()
        self.requests.clear()
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.call("Page.navigate", url=page.as_uri() + (f"#{fragment}" if fragment else ""))
        if scripts:
            self.wait("document.documentElement?.dataset.ready === 'yes'")
        else:
            time.sleep(0.5)

    def evaluate(self, expression: str) -> Any:
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise AssertionError(f"not so after {seconds} s: {condition}; {self.problems}")
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self.click_at(x, y)

    def click_at(self, x: float, y: float) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        code, text = KEYS[key] if key in KEYS else (ord(key.upper()), key)
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                **typed,
            )

    def write(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def text(self, selector: str) -> str:
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent"))

    def visible(self, selector: str) -> bool:
        """Whether it takes room on the page; also without scripts."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        if node == 0:
            return False
        try:
            return bool(self.call("DOM.getBoxModel", nodeId=node)["model"]["height"] > 0)
        except RuntimeError:
            return False
