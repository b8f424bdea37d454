"""Drives a headless Chromium by the DevTools protocol over a WebSocket, with nothing but the standard library."""

import atexit
import base64
import json
import pathlib
import secrets
import shutil
import socket
import struct
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 60
MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}
KEY_CODES = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40, "Space": 32}


def find_chromium():
    """The program's path, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class WebSocket:
    """Text messages over one connection to a server on this machine."""

    def __init__(self, port, path):
        self.socket_ = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.file_ = self.socket_.makefile("rb")
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        self.socket_.sendall((f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                              f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        if b" 101 " not in self.file_.readline():
            raise ConnectionError("the browser takes no WebSocket")
        while self.file_.readline().strip():
            pass

    def frame_(self, opcode, data):
        size = len(data)
        length = (bytes([0x80 | size]) if size < 126 else struct.pack(">BH", 0xFE, size) if size < 1 << 16
                  else struct.pack(">BQ", 0xFF, size))
        # The mask is all zeros: it protects proxies, and there is none.
        self.socket_.sendall(bytes([0x80 | opcode]) + length + bytes(4) + data)

    def send(self, text):
        self.frame_(1, text.encode())

    def receive(self, timeout_s=PATIENCE_S):
        """The next message; raises TimeoutError when none begins to arrive in time."""
        self.socket_.settimeout(timeout_s)
        parts = []
        while True:
            first, second = self.exactly_(2)
            size = second & 0x7F
            if size > 125:
                size = int.from_bytes(self.exactly_(2 if size == 126 else 8), "big")
            data = self.exactly_(size)
            opcode = first & 0x0F
            if opcode == 9:
                self.frame_(10, data)
            elif opcode == 8:
                raise ConnectionError("the browser closed the connection")
            else:
                parts.append(data)
                if first & 0x80:
                    return b"".join(parts).decode()

    def exactly_(self, size):
        data = self.file_.read(size)
        if len(data) != size:
            raise ConnectionError("the browser is gone")
        return data

    def close(self):
        self.file_.close()
        self.socket_.close()


class Browser:
    """A headless Chromium of its own, with an empty profile; ends with the context."""

    def __init__(self, program, *flags):
        self.profile_ = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        # Without the sandbox, since tests run as root in containers; it only ever opens the page under test.
        self.process_ = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-breakpad", "--disable-component-update", "--disable-sync",
             "--no-default-browser-check", "--hide-scrollbars", "--remote-debugging-port=0",
             # A mouse, which a machine without a screen seems not to have; Page.touch() takes it away.
             "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4",
             f"--user-data-dir={self.profile_.name}", *flags, "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        atexit.register(self.process_.kill)  # also when a test run is interrupted
        port, path = self.address_()
        self.socket_ = WebSocket(int(port), path)
        self.last_id_, self.events_ = 0, []

    def address_(self):
        file = pathlib.Path(self.profile_.name) / "DevToolsActivePort"
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if self.process_.poll() is not None:
                raise RuntimeError(f"the browser ended with {self.process_.returncode}")
            if file.exists() and len(lines := file.read_text().split()) == 2:
                return lines
            time.sleep(0.05)
        raise RuntimeError("the browser does not say where it listens")

    def call(self, method, session=None, **parameters):
        """The result of a command; events that arrive before it are kept."""
        self.last_id_ += 1
        message = {"id": self.last_id_, "method": method, "params": parameters}
        self.socket_.send(json.dumps(message | ({"sessionId": session} if session else {})))
        while True:
            answer = json.loads(self.socket_.receive())
            if answer.get("id") != self.last_id_:
                self.events_.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def events(self, session, method):
        """The parameters of such events so far, oldest first."""
        return [event["params"] for event in self.events_
                if event.get("sessionId") == session and event["method"] == method]

    def new_page(self, width=1100, height=760, **media):
        return Page(self, width, height, media)

    def close(self):
        try:
            self.call("Browser.close")
            self.process_.wait(10)
        except (OSError, RuntimeError, ConnectionError, subprocess.TimeoutExpired):
            self.process_.kill()
            self.process_.wait()
        self.socket_.close()
        self.profile_.cleanup()


class Page:
    """One tab with storage and cookies of its own."""

    def __init__(self, browser, width, height, media):
        self.browser_ = browser
        self.context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.session_ = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        self.prefer(**media)

    def call(self, method, **parameters):
        return self.browser_.call(method, self.session_, **parameters)

    def events(self, method):
        return self.browser_.events(self.session_, method)

    def resize(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def prefer(self, **media):
        """prefer(color_scheme="dark") and the like."""
        features = [{"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in media.items()]
        self.call("Emulation.setEmulatedMedia", features=features)

    def touch(self, is_on=True):
        """A touch screen in place of the mouse."""
        self.call("Emulation.setTouchEmulationEnabled", enabled=is_on, maxTouchPoints=1)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait_until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def reload(self):
        self.evaluate("window.is_old = true")
        self.call("Page.reload")
        self.wait_until("!window.is_old && document.readyState === 'complete'")

    def evaluate(self, expression):
        """The value of an expression, which may be a promise; raises what it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait_until(self, condition, patience_s=PATIENCE_S):
        """The first true value of an expression (true for an element); raises AssertionError when it stays false."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            try:
                if value := self.evaluate(f"((value) => value instanceof Node || value)({condition})"):
                    return value
            except RuntimeError as error:
                if "context" not in str(error).lower() and "navigated" not in str(error).lower():
                    raise
            time.sleep(0.02)
        raise AssertionError(f"not true within {patience_s} s: {condition}")

    def all(self, selector, expression):
        """The value of an expression in `one`, for each element that matches."""
        return self.evaluate(f"Array.from(document.querySelectorAll({json.dumps(selector)}), (one) => {expression})")

    def text(self, selector):
        return "\n".join(self.all(selector, "one.innerText"))

    def count(self, selector):
        return len(self.all(selector, "1"))

    def value(self, selector):
        """What is in a field."""
        return self.all(selector, "one.value")[0]

    def press(self, key, *held):
        """press("Enter"), press("n", "Alt"): a key goes down and up."""
        is_letter = len(key) == 1
        code = f"Key{key.upper()}" if is_letter and key.isalpha() else {"/": "Slash", "?": "Slash", " ": "Space"}.get(key, key)
        event = {"key": key, "code": code, "modifiers": sum(MODIFIERS[one] for one in held),
                 "windowsVirtualKeyCode": KEY_CODES.get(key, ord(key.upper()) if is_letter else 0)}
        types = (is_letter and not set(held) & {"Alt", "Control", "Meta"}) or (key == "Enter")
        text = {"text": "\r" if key == "Enter" else key} if types else {}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **event, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, selector):
        """A real click in the middle of the first element that matches."""
        box = self.evaluate(f"""(() => {{ const node = document.querySelector({json.dumps(selector)});
            node.scrollIntoViewIfNeeded();
            const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def choose_file(self, selector, path):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def focused(self):
        """What has the focus: its id, or its text."""
        return self.evaluate("((one) => one.id || one.ariaLabel || one.innerText)(document.activeElement)")

    def names_missing(self):
        """The controls in the accessibility tree that a screen reader could not name."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        controls = ("button", "textbox", "combobox", "checkbox", "link", "spinbutton", "menuitem", "dialog")
        shown = [node for node in nodes if not node.get("ignored") and node.get("role", {}).get("value") in controls]
        return [node["role"]["value"] for node in shown if not node.get("name", {}).get("value")]

    def faults(self):
        """What the console complained about, and exceptions nobody caught."""
        entries = [event["entry"] for event in self.events("Log.entryAdded")]
        thrown = [event["exceptionDetails"] for event in self.events("Runtime.exceptionThrown")]
        return ([entry["text"] for entry in entries if entry["level"] == "error"]
                + [details.get("exception", {}).get("description", "?") for details in thrown])

    def requested(self):
        """The addresses of all requests so far."""
        return [event["request"]["url"] for event in self.events("Network.requestWillBeSent")]

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.browser_.call("Target.disposeBrowserContext", browserContextId=self.context)
