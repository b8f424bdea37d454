"""An OpenAI server that streams known tokens at known times, or misbehaves in the way its model's name says."""

import http.server
import json
import threading
import time

TOKENS = [" one", " two", " three", " four", " five"]
FIRST_S, GAP_S = 0.05, 0.01


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = json.dumps({"object": "list", "data": [{"id": "fake/model"}]}).encode()
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            server.requests.append((self.path, body, dict(self.headers)))
            server.open += 1
            server.most_open = max(server.most_open, server.open)
            number = len(server.requests)
        self.counted = True
        try:
            self.answer(body["model"], number, body)
        finally:
            self.no_longer_open()

    def no_longer_open(self):
        with self.server.lock:
            self.server.open -= self.counted
            self.counted = False

    def event(self, data):
        text = f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
        self.wfile.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
        self.wfile.flush()

    def choice(self, text, finish=None):
        if "chat" in self.path:
            return {"choices": [{"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}]}
        return {"choices": [{"index": 0, "text": text, "finish_reason": finish}]}

    def answer(self, behaviour, number, body):
        if behaviour == "sometimes-500" and number % 2 == 0 or behaviour == "always-500":
            text = b'{"error": {"message": "out of order"}}'
            self.send_response(500)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            return
        if behaviour == "closes-at-once":
            self.connection.close()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        time.sleep(FIRST_S)
        if "chat" in self.path:
            self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        tokens = TOKENS[:body.get("max_tokens", body.get("max_completion_tokens"))]
        for i, token in enumerate(tokens):
            if i > 0:
                time.sleep(30 if behaviour == "hangs" else GAP_S)
            if behaviour == "closes-midway" and i == 2:
                self.connection.close()
                return
            if behaviour == "error-event" and i == 2:
                self.event({"error": {"message": "lost its weights"}})
                break
            self.event("{broken" if behaviour == "broken-event" else self.choice(token))
        if behaviour != "unfinished":
            self.event(self.choice("", "length"))
            if behaviour != "no-usage":
                self.event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": len(tokens)}})
            self.no_longer_open()  # before the client can know that it is over and send another
            self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")


class FakeServer(http.server.ThreadingHTTPServer):
    """Runs while it is a context; its address is `url`."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler=Handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.requests, self.open, self.most_open, self.lock = [], 0, 0, threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_):
        pass

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
