"""A running nvllm-serve and the ways to talk to it: http.client, raw sockets, event streams, WebSocket; and the oracle
that every test ends with. Shared by the end-to-end tests of the server."""

import base64
import collections
import concurrent.futures
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import unittest

from programs import BIN, DEMO, TIMEOUT_S, environment, wait_until

SERVE = str(BIN / "nvllm-serve")
CANARY = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
JSON_HEADERS = {"Content-Type": "application/json"}


def texts_at_once(server, prompts, max_tokens=80):
    """The streamed texts of all prompts at once; whatever goes wrong is raised."""
    def one(prompt):
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
        return joined_text(server.stream("/v1/completions", body))

    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(one, prompts))


class Answer:
    """One HTTP answer that was read in full."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = http.client.HTTPMessage()
        for name, value in headers:
            self.headers[name] = value
        self.body = body

    @property
    def text(self):
        return self.body.decode("utf-8")

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json()["error"]

    def events(self):
        """The data of a stream's events, as texts; keep-alive comments left out."""
        return events_of(self.body)

    def chunks(self):
        """A whole stream's JSON chunks; fails when its end mark is missing."""
        *chunks, last = self.events()
        if last != "[DONE]":
            raise AssertionError(f"the stream ends with {last[:200]}")
        return [json.loads(chunk) for chunk in chunks]

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


def events_of(body):
    """Each event must be one line 'data: ...' and an empty line; comments are left out."""
    text = body.decode("utf-8")
    if text and not text.endswith("\n\n"):
        raise AssertionError(f"an event is cut off: {text[-200:]!r}")
    events = []
    for event in text.split("\n\n")[:-1]:
        if event.startswith(":"):
            continue
        if not event.startswith("data: ") or "\n" in event:
            raise AssertionError(f"no event of one line: {event!r}")
        events.append(event.removeprefix("data: "))
    return events


def joined_text(chunks, index=0):
    """What a stream's chunks say of one choice, of a completion or of a chat."""
    text = ""
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            text += choice["text"] if "text" in choice else (choice["delta"].get("content") or "")
    return text


class RawConnection:
    """A socket on which any bytes can be sent, and answers read one by one."""

    def __init__(self, port, timeout_s=TIMEOUT_S, receive_buffer=None, unix_socket=None):
        if unix_socket is not None:
            self.socket = socket.socket(socket.AF_UNIX)
            address = str(unix_socket)
        else:
            self.socket = socket.socket()
            address = ("127.0.0.1", port)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout_s)
        self.socket.connect(address)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.socket.sendall(data.encode() if isinstance(data, str) else data)
        return self

    def receive_some(self):
        """More bytes into the buffer; False at the end of the connection, a reset included."""
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        return bool(data)

    def receive_until(self, mark):
        while mark not in self.buffer:
            if not self.receive_some():
                raise AssertionError(f"the connection ended after {self.buffer[:300]!r}")
        found, self.buffer = self.buffer.split(mark, 1)
        return found

    def receive_exactly(self, count):
        while len(self.buffer) < count:
            if not self.receive_some():
                raise AssertionError(f"the connection ended {count - len(self.buffer)} bytes early")
        found, self.buffer = self.buffer[:count], self.buffer[count:]
        return found

    def receive_rest(self):
        """Everything up to the end of the connection."""
        while self.receive_some():
            pass
        rest, self.buffer = self.buffer, b""
        return rest

    def head(self):
        """Status and headers of the next answer; its body stays unread."""
        first, *lines = self.receive_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, _ = first.split(" ", 2)
        if version != "HTTP/1.1":
            raise AssertionError(f"no answer's first line: {first!r}")
        return Answer(int(status), [line.split(": ", 1) for line in lines], b"")

    def answer(self, method="GET"):
        """The next answer, whole; 100 Continue is an answer without a body."""
        answer = self.head()
        if method == "HEAD" or answer.status in (100, 101, 204):
            return answer
        if answer.headers["Transfer-Encoding"] == "chunked":
            answer.body = b"".join(iter(self.chunk, b""))
        elif answer.headers["Content-Length"] is not None:
            answer.body = self.receive_exactly(int(answer.headers["Content-Length"]))
        else:
            answer.body = self.receive_rest()
        return answer

    def chunk(self):
        """The next chunk of a chunked body; empty at its end."""
        size = int(self.receive_until(b"\r\n"), 16)
        data = self.receive_exactly(size)
        if self.receive_exactly(2) != b"\r\n":
            raise AssertionError("a chunk does not end with CRLF")
        return data

    def is_closed(self, timeout_s=5.0):
        """Whether the server ends the connection in this time; throws away what it still sends."""
        self.socket.settimeout(timeout_s)
        try:
            self.receive_rest()
            return True
        except TimeoutError:
            return False

    def reset(self):
        """Closes with a reset instead of a goodbye."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self):
        self.socket.close()


class WebSocket:
    """A client of RFC 6455 that masks, answers pings, and checks what it gets."""

    def __init__(self, port, path, headers=None, timeout_s=TIMEOUT_S, receive_buffer=None):
        self.connection = RawConnection(port, timeout_s, receive_buffer)
        key = base64.b64encode(os.urandom(16)).decode()
        fields = {"Host": f"127.0.0.1:{port}", "Upgrade": "websocket", "Connection": "Upgrade",
                  "Sec-WebSocket-Key": key, "Sec-WebSocket-Version": "13", **(headers or {})}
        self.connection.send(request_bytes("GET", path, fields))
        self.upgrade = self.connection.answer()
        if self.upgrade.status == 101:
            wanted = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
            if self.upgrade.headers["Sec-WebSocket-Accept"] != wanted.decode():
                raise AssertionError("the upgrade was accepted with a wrong key")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def send_frame(self, opcode, payload, is_last=True):
        mask = os.urandom(4)
        size = len(payload)
        head = bytes([(0x80 if is_last else 0) | opcode])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 65536:
            head += bytes([0x80 | 126]) + struct.pack(">H", size)
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", size)
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
        self.connection.send(head + mask + masked)

    def send(self, value):
        """A text message; anything but a text is sent as JSON."""
        self.send_frame(1, (value if isinstance(value, str) else json.dumps(value)).encode())

    def receive(self):
        """The next message as text; None when the server says goodbye."""
        message = b""
        while True:
            first, second = self.connection.receive_exactly(2)
            size = second & 0x7F
            if second & 0x80:
                raise AssertionError("a server must not mask")
            if size == 126:
                size, = struct.unpack(">H", self.connection.receive_exactly(2))
            elif size == 127:
                size, = struct.unpack(">Q", self.connection.receive_exactly(8))
            payload = self.connection.receive_exactly(size)
            opcode = first & 0x0F
            if opcode == 8:
                return None
            if opcode == 9:
                self.send_frame(10, payload)
            elif opcode in (0, 1, 2):
                message += payload
                if first & 0x80:
                    return message.decode("utf-8")

    def answers(self, request):
        """Sends a streamed request; its JSON chunks up to the end mark."""
        self.send(request)
        chunks = []
        while (message := self.receive()) != "[DONE]":
            if message is None:
                raise AssertionError("the socket was closed in the middle of an answer")
            chunks.append(json.loads(message))
        return chunks


def request_bytes(method, path, headers=None, body=b"", version="1.1"):
    """A request as bytes, with nothing added but Content-Length for a body."""
    body = body.encode() if isinstance(body, str) else body
    fields = dict(headers or {})
    if body and not any(name.lower() in ("content-length", "transfer-encoding") for name in fields):
        fields["Content-Length"] = len(body)
    lines = [f"{method} {path} HTTP/{version}"] + [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def passing(sockets, command):
    """The command with these sockets as its descriptors from 3 on, and told so: LISTEN_PID is the process itself."""
    if not sockets:
        return command
    # From numbers above all those that are given away, so that none is overwritten before it is moved.
    first = 3 + len(sockets)
    moves = "".join(f" {first + 100 + index}<&{one.fileno()}" for index, (_, one) in enumerate(sockets))
    places = "".join(f" {3 + index}<&{first + 100 + index}" for index in range(len(sockets)))
    names = ":".join(name for name, _ in sockets)
    script = (f"exec{moves}; exec{places}; export LISTEN_PID=$$ LISTEN_FDS={len(sockets)} LISTEN_FDNAMES={names}; "
              'exec "$@"')
    return ["bash", "-c", script, "bash", *command]


class Server:
    """nvllm-serve as a process of its own at a free port, ready when the constructor returns.

    `key`: sent with every request that does not bring its own Authorization header. `sockets`: (name, listening
    socket) pairs that are passed as a service manager does. `launcher`: a command that starts it.
    """

    def __init__(self, *arguments, model=DEMO, key=None, env=None, waits=True, sockets=(), launcher=()):
        self.key = key
        self.lines = collections.deque(maxlen=20000)
        self.known_canary = None
        model_arguments = [] if model is None else ["--model", str(model)]
        command = [*launcher, SERVE, *model_arguments, "--port", "0", *map(str, arguments)]
        self.process = subprocess.Popen(passing(sockets, command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        pass_fds=[one.fileno() for _, one in sockets], stderr=subprocess.PIPE, text=True,
                                        errors="replace", env=env or environment())
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        self.port = None
        try:
            self.port = wait_until(self.find_port, what="the line that names the port")
            if waits:
                wait_until(self.is_ready, what="/ready")
        except BaseException:
            self.kill()
            raise

    def read_log(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    @property
    def log(self):
        return "\n".join(list(self.lines))

    def find_port(self):
        for line in list(self.lines):
            if found := re.search(r"listening at http\S*:(\d+)", line):
                return int(found[1])
        if self.process.poll() is not None:
            self.reader.join()
            raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log}")
        return None

    def is_ready(self):
        if self.process.poll() is not None:
            self.reader.join(TIMEOUT_S)
            raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log}")
        try:
            return self.request("GET", "/ready").status == 200
        except ConnectionError:  # it ends, and says why in the log
            return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    # --- Talking to it ---

    def headers(self, headers=None):
        fields = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        given = dict(headers or {})
        if any(name.lower() == "authorization" for name in given):
            fields = {}
        return {**fields, **{name: value for name, value in given.items() if value is not None}}

    def connection(self, timeout_s=TIMEOUT_S):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)

    def request(self, method, path, body=None, headers=None, connection=None):
        """`body`: bytes or text as they are, anything else as JSON. Over `connection`, which stays open, or a new one."""
        fields = self.headers(headers)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            if not any(name.lower() == "content-type" for name in fields):
                fields.update(JSON_HEADERS)
        if isinstance(body, str):
            body = body.encode("utf-8", "surrogatepass")
        own = connection is None
        connection = connection or self.connection()
        try:
            connection.request(method, path, body, fields)
            response = connection.getresponse()
            return Answer(response.status, response.getheaders(), response.read())
        finally:
            if own:
                connection.close()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def complete(self, prompt="Once upon a time", **fields):
        """The JSON of a greedy completion that must succeed."""
        return self.must(self.post("/v1/completions", {"prompt": prompt, "temperature": 0, **fields}))

    def chat(self, messages="Hello", **fields):
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return self.must(self.post("/v1/chat/completions", {"messages": messages, "temperature": 0, **fields}))

    def stream(self, path, body, **more):
        """The chunks of a streamed answer that must succeed."""
        answer = self.post(path, {**body, "stream": True}, **more)
        if answer.status != 200 or not answer.headers["Content-Type"].startswith("text/event-stream"):
            raise AssertionError(f"no stream: {answer}")
        return answer.chunks()

    @staticmethod
    def must(answer):
        if answer.status != 200:
            raise AssertionError(f"not answered: {answer}")
        return answer.json()

    def raw(self, **more):
        return RawConnection(self.port, **more)

    def raw_post(self, path, body, headers=None):
        """The bytes of a POST as most clients send it."""
        body = body if isinstance(body, (bytes, str)) else json.dumps(body)
        return request_bytes("POST", path, {"Host": f"127.0.0.1:{self.port}", **JSON_HEADERS, **self.headers(headers)},
                             body)

    def websocket(self, path, headers=None, **more):
        return WebSocket(self.port, path, self.headers(headers), **more)

    def status(self):
        return self.must(self.get("/nvllm/status"))

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as sizes:
            return int(sizes.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    # --- The oracle ---

    def is_idle(self):
        status = self.status()
        requests = status["requests"]
        is_quiet = status["calls"]["open"] == 0 and all(count == 0 for count in requests.values())
        return status if is_quiet else None

    def canary(self):
        """A greedy answer without what differs from call to call."""
        answer = self.complete(**CANARY)
        usage = {name: answer["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
        return json.dumps([answer["choices"], usage])

    def learn_canary(self):
        self.known_canary = self.canary()

    def check(self, timeout_s=30.0):
        """The same process, ready, idle, every call accounted for, no block lost, and the canary says what it said."""
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log[-4000:]}")
        ready = self.get("/ready")
        if ready.status != 200:
            raise AssertionError(f"not ready: {ready}")
        status = wait_until(self.is_idle, timeout_s, "a server without work")
        calls = status["calls"]
        if calls["accepted"] != calls["finished"] + calls["aborted"] + calls["failed"] + calls["open"]:
            raise AssertionError(f"calls went missing: {calls}")
        blocks = status["kv_cache"]
        if blocks["blocks_used"] != 0:
            raise AssertionError(f"blocks are held by nobody: {blocks}")
        canary = self.canary()
        if self.known_canary is None:
            self.known_canary = canary
        if canary != self.known_canary:
            raise AssertionError(f"the canary sang {canary} instead of {self.known_canary}")

    # --- Ending it ---

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self, timeout_s=TIMEOUT_S):
        """Asks it to end; returns the exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def wait(self, timeout_s=TIMEOUT_S):
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.end_log()
        return code

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.end_log()

    def end_log(self):
        self.reader.join()
        self.process.stderr.close()


class ServedTestCase(unittest.TestCase):
    """One server for all tests of a class, started with `arguments`; after each test it must be well."""

    arguments = ()
    model = DEMO
    key = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.arguments, model=cls.model, key=cls.key)
        cls.addClassCleanup(cls.server.stop)
        cls.server.learn_canary()

    def tearDown(self):
        self.server.check()

    def assert_refused(self, answer, status, code=None, param=None, says=()):
        """An error as the API has it: four fields, the right ones, and a message that says what it must."""
        self.assertEqual(answer.status, status, answer)
        self.assertEqual(answer.headers["Content-Type"], "application/json")
        self.assertEqual(list(answer.json()), ["error"], answer)
        error = answer.error
        self.assertEqual(set(error), {"message", "type", "param", "code"}, answer)
        self.assertTrue(error["message"] and isinstance(error["message"], str), answer)
        self.assertIsInstance(error["type"], str, answer)
        self.assertEqual(error["code"], code, answer)
        self.assertEqual(error["param"], param, answer)
        for part in (says,) if isinstance(says, str) else says:
            self.assertIn(part, error["message"])
        return error
