"""Serves the chat page as nvllm-serve does, with a model that writes what a test gave it, slowly, and notices who leaves."""

import base64
import hashlib
import http.server
import json
import re
import select
import socket
import time

import fake_openai
from programs import SOURCE

PAGE = SOURCE / "lib" / "server" / "page" / "chat.html"


def page_bytes():
    """The page with its parts, as cmake/embed.cmake joins them."""
    return re.sub(rb"(?m)^@include (\S+)\n", lambda line: (PAGE.parent / line[1].decode()).read_bytes(), PAGE.read_bytes())


STATUS = {
    "model": "fake/model", "state": "ready", "version": "0.1.0", "uptime_s": 4210.5,
    "requests": {"running": 3, "waiting": 2, "paused": 1, "swapped": 0}, "max_num_seqs": 16,
    "tokens": {"prompt_total": 182044, "generated_total": 96310},
    "kv_cache": {"blocks_total": 1024, "blocks_used": 402, "blocks_cached": 233, "blocks_free": 389, "block_size": 16,
                 "hit_rate": 0.618, "fragmentation": 0.031, "preemptions": 4},
    "worker": {"restarts": 0}, "health": {"heartbeat_age_s": 0.012, "last_fault": None},
    "sampling_defaults": {"temperature": 0.7, "top_p": 0.95, "top_k": 0, "min_p": 0, "repetition_penalty": 1, "max_tokens": None},
    "limits": {"max-body": "32MiB", "request-timeout": "600", "max-queued-requests": "512", "max-messages": "4096",
               "max-concurrent-requests": None},
    "queue": [dict(zip(("id", "state", "age_s", "prompt_tokens", "generated_tokens", "why_waiting"), request)) for request in (
        ("chatcmpl-7f3a91", "running", 2.41, 312, 71, None),
        ("chatcmpl-7f3a92", "running", 1.7, 1204, 40, None),
        ("cmpl-7f3a95", "swapped", 9.2, 800, 212, "in host memory until blocks are free"),
        ("chatcmpl-7f3aa0", "waiting", 0.3, 3900, 0, "needs 89 more blocks than are free"))],
}


def content_policy(page):
    """The Content-Security-Policy that goes with a page: only its own script and style, and only its own server."""
    def digest(tag):
        content = re.search(rf"<{tag}>(.*?)</{tag}>".encode(), page, re.S)[1]
        return base64.b64encode(hashlib.sha256(content).digest()).decode()
    return (f"default-src 'none'; script-src 'sha256-{digest('script')}'; style-src 'sha256-{digest('style')}'; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            "require-trusted-types-for 'script'; trusted-types 'none'")


class PageHandler(fake_openai.Handler):
    def do_GET(self):
        with self.server.lock:
            self.server.seen.append(self.path)
        if self.path == "/":
            page = page_bytes()
            self.reply(200, page, "text/html; charset=utf-8", {"Content-Security-Policy": content_policy(page)})
        elif not self.has_key():
            self.refuse(401, "Missing or wrong API key.", "invalid_api_key")
        elif self.path == "/nvllm/status":
            self.server.status_polls += 1
            self.reply(200, json.dumps(self.server.status).encode())
        elif self.path == "/metrics" and self.server.metrics is not None:
            self.reply(200, self.server.metrics.encode(), "text/plain")
        elif self.path == "/v1/models" and self.server.models_status != 200:
            self.refuse(self.server.models_status, "The model is being loaded.", "loading")
        else:
            super().do_GET()

    def do_POST(self):
        if self.has_key():
            super().do_POST()
        else:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.refuse(401, "Missing or wrong API key.", "invalid_api_key")

    def has_key(self):
        return self.server.key is None or self.headers["Authorization"] == f"Bearer {self.server.key}"

    def reply(self, status, body, kind="application/json", headers={}):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, message, code):
        self.reply(status, json.dumps({"error": {"message": message, "type": "error", "param": None, "code": code}}).encode())

    def answer(self, behaviour, number, body):
        server = self.server
        if server.refusal:
            self.refuse(*server.refusal)
            return
        try:
            self.stream(server, body)
        except ConnectionError:  # left with something unread: the next write or read fails
            server.left_at.append(time.monotonic())

    def stream(self, server, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for done in range(0, server.prompt_tokens + 1, 256):
            progress = {"total": server.prompt_tokens, "cache": 64, "processed": done, "time_ms": done}
            self.event({"choices": [], "prompt_progress": progress})
            if self.client_left(server.gap_s):
                return
        for piece in server.pieces:
            self.event(piece if isinstance(piece, dict) else self.choice(piece))
            if self.client_left(server.gap_s):
                return
        if server.breaks_off:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.event(self.choice("", server.finish))
        if body.get("stream_options", {}).get("include_usage"):
            self.event({"choices": [], "usage": {"prompt_tokens": 42, "completion_tokens": len(server.pieces),
                                                 "prompt_tokens_details": {"cached_tokens": 32}}})
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    # Waits; true, with the time noted, as soon as the other side has closed the connection.
    def client_left(self, seconds):
        readable, _, _ = select.select([self.connection], [], [], seconds)
        if not readable or self.connection.recv(1, socket.MSG_PEEK) != b"":
            return False
        self.server.left_at.append(time.monotonic())
        return True


class FakePageServer(fake_openai.FakeServer):
    """What it says and how is in its attributes, to be changed at any time."""

    def __init__(self):
        super().__init__(PageHandler)
        self.seen, self.left_at, self.status_polls = [], [], 0
        self.key, self.models_status, self.refusal = None, 200, None
        self.pieces, self.gap_s, self.finish, self.breaks_off = ["Hello", " there", "."], 0.01, "stop", False
        self.prompt_tokens = 512
        self.status, self.metrics = STATUS, None
