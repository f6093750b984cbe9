# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over its debugging pipe: pages as people see them, without anything else installed."""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def program():
    return os.environ.get("GPUTOPO_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)


class Chromium:
    """One browser with one page. Messages are JSON texts with a NUL behind each, on its descriptors 3 and 4."""

    def __init__(self, folder):
        self.numbers, self.events, self.rest = 0, [], b""
        from_browser, to_us = os.pipe()
        from_us, to_browser = os.pipe()
        os.set_inheritable(to_us, True)
        os.set_inheritable(from_us, True)

        def descriptors():
            # neither may be in the way of the other's place
            os.dup2(from_us, 103)
            os.dup2(to_us, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
             "--hide-scrollbars", f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=descriptors,
            close_fds=False, start_new_session=True)
        os.close(to_us)
        os.close(from_us)
        self.input, self.output = to_browser, from_browser
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def read(self, deadline):
        while b"\0" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.output], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.output, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.rest += piece
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, timeout=120, **params):
        self.numbers += 1
        message = {"id": self.numbers, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.input, data):]
        deadline = time.monotonic() + timeout
        while True:
            answer = self.read(deadline)
            if answer.get("id") == self.numbers:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def evaluate(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, script, timeout=60):
        deadline = time.monotonic() + timeout
        while not (value := self.evaluate(script)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {script}")
            time.sleep(0.1)
        return value

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, url):
        self.call("Page.navigate", url="about:blank")  # the page before may still be asking somebody who is gone
        self.wait_for("location.href === 'about:blank'")
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete'")

    def picture(self, path, whole=False):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole,
                                                  timeout=120)["data"]))

    def complaints(self):
        """Errors of scripts, of the console, and of the content security policy."""
        self.evaluate("0")
        found = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str(params["args"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
        return found

    def asked(self):
        """Every address that the page asked for."""
        self.evaluate("0")
        return [event["params"]["request"]["url"] for event in self.events
                if event["method"] == "Network.requestWillBeSent"]

    def key(self, key, code=None):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, **(
                {"text": key} if len(key) == 1 and kind == "keyDown" else {}))

    def click(self, script, kind="mouse"):
        """Clicks the middle of the element that the script gives."""
        x, y = self.evaluate(f"(() => {{ const e = {script}; e.scrollIntoView({{block: 'center'}}); "
                             "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        if kind == "touch":
            self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
            self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
            return
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for what in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=what, x=x, y=y, button="left", clickCount=1)

    def close(self):
        self.session = None
        with contextlib.suppress(OSError, RuntimeError, TimeoutError):
            self.call("Browser.close", timeout=30)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # its own session: the browser and its helpers
            self.process.wait()
        os.close(self.input)
        os.close(self.output)


@contextlib.contextmanager
def browser():
    with tempfile.TemporaryDirectory(prefix="gputopo-chromium-", ignore_cleanup_errors=True) as folder:
        chromium = Chromium(folder)
        try:
            yield chromium
        finally:
            chromium.close()
