"""Bytes that are no HTTP, or too much of it, or rare: rows N6 and N7 of the fault table. Behind each request that must be
refused stands another one, which must not be answered: where one request ends is never guessed.

Each case is sent at once and, where it is short, a byte at a time."""

import json
import socket
import unittest

from fault_testing import FaultServer, answers_in, completion, metronome_ids, plain_prompt
from serve_testing import RawConnection

BODY = json.dumps(completion([30, 31, 32], 2)).encode()
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
NEXT = b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SHORT = 400

# Answers of a server that takes the request, and the one behind it.
TAKEN = [200, 200]


def chunked(*chunks, end=b"0\r\n\r\n"):
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + end


def with_length(value, body=BODY):
    return HEAD + b"Content-Length: " + value + b"\r\n\r\n" + body


def with_encoding(value, body=chunked(BODY), name=b"Transfer-Encoding"):
    return HEAD + name + b": " + value + b"\r\n\r\n" + body


def with_line(line, rest=b""):
    return b"GET /live HTTP/1.1\r\nHost: localhost\r\n" + line + b"\r\n\r\n" + rest


def first_line(line):
    return line + b"\r\nHost: localhost\r\n\r\n"


def length_cases():
    exact = b"%d" % len(BODY)
    yield "length right", with_length(exact), TAKEN
    yield "length with spaces around", with_length(b"  " + exact + b" \t "), TAKEN
    yield "length with leading zeros", with_length(b"000" + exact), TAKEN
    for name, value in (("negative", b"-1"), ("minus zero", b"-0"), ("plus", b"+" + exact), ("hexadecimal", b"0x5e"),
                        ("letters behind", exact + b"a"), ("empty", b""), ("two numbers", exact + b" " + exact),
                        ("a list", exact + b"," + exact), ("a list that differs", exact + b",0"),
                        ("comma behind", exact + b","), ("comma before", b"," + exact), ("exponent", b"1e2"),
                        ("fraction", b"94.0"), ("quoted", b'"' + exact + b'"'), ("2^64", b"18446744073709551616"),
                        ("2^64 and its length", b"%d" % (2**64 + len(BODY))), ("30 digits", b"9" * 30),
                        ("other digits", "٩٤".encode()), ("vertical tab", b"\x0b" + exact),
                        ("form feed", exact + b"\x0c"), ("word", b"chunked")):
        yield f"length: {name}", with_length(value), (400,)
    for name, value in (("2^63", b"9223372036854775808"), ("2^64-1", b"18446744073709551615"),
                        ("17 MiB", b"%d" % (17 << 20))):
        yield f"length: {name}", with_length(value), (413,)
    for name, second in (("equal", exact), ("smaller", b"5"), ("zero", b"0"), ("larger", b"5000"), ("broken", b"x")):
        yield f"two lengths: {name}", HEAD + b"Content-Length: " + exact + b"\r\nContent-Length: " + second + \
            b"\r\n\r\n" + BODY, (400,)
    yield "two lengths in two cases", HEAD + b"content-length: 3\r\nCONTENT-LENGTH: " + exact + b"\r\n\r\n" + BODY, (400,)
    yield "length of a GET with a body", b"GET /live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", TAKEN


def both_cases():
    for body_name, body in (("plain body", BODY), ("chunked body", chunked(BODY))):
        for name, lines in (("length first", b"Content-Length: %d\r\nTransfer-Encoding: chunked"),
                            ("encoding first", b"Transfer-Encoding: chunked\r\nContent-Length: %d"),
                            ("other cases", b"content-LENGTH: %d\r\ntransfer-ENCODING: Chunked"),
                            ("identity", b"Content-Length: %d\r\nTransfer-Encoding: identity")):
            yield f"both, {name}, {body_name}", HEAD + lines % len(BODY) + b"\r\n\r\n" + body, (400, 501)
    yield "both, length 0", HEAD + b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(BODY), (400,)
    yield "both, HTTP/1.0", HEAD.replace(b"1.1", b"1.0") + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" \
        % len(BODY) + chunked(BODY), (400,)


def encoding_cases():
    yield "chunked", with_encoding(b"chunked"), TAKEN
    yield "chunked in capitals", with_encoding(b"CHUNKED"), TAKEN
    yield "chunked, in many chunks", with_encoding(b"chunked", chunked(*(BODY[i:i + 7] for i in range(0, len(BODY), 7)))), \
        TAKEN
    for value in (b"identity", b"gzip", b"gzip, chunked", b"chunked, gzip", b"chunked, chunked", b"chunked,", b",chunked",
                  b"xchunked", b"chunkedx", b"chunk", b"chunked;q=1", b'"chunked"', b"chunked\x0b", b"\x0bchunked", b"",
                  b"chunked identity", b"cow"):
        yield f"encoding {value!r}", with_encoding(value), (400, 501)
    yield "two encodings", HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunked(BODY), \
        (400, 501)
    yield "two encodings, last chunked", HEAD + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n" + \
        chunked(BODY), (400, 501)
    yield "chunked twice", HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(BODY), \
        (400, 501)
    yield "encoding with a space before its colon", with_encoding(b"chunked", name=b"Transfer-Encoding "), (400,)
    yield "encoding with a tab before its colon", with_encoding(b"chunked", name=b"Transfer-Encoding\t"), (400,)
    yield "chunked of HTTP/1.0", with_encoding(b"chunked").replace(b"HTTP/1.1", b"HTTP/1.0", 1), (400,)


def chunk_cases():
    size = b"%x" % len(BODY)
    whole = size + b"\r\n" + BODY + b"\r\n0\r\n\r\n"
    good = (("leading zeros", b"0000" + whole), ("capitals", whole.replace(size, size.upper(), 1)),
            ("extension", whole.replace(size, size + b";name=value", 1)),
            ("quoted extension", whole.replace(size, size + b';name="a b"', 1)),
            ("trailer", whole[:-2] + b"X-Sum: 5\r\n\r\n"), ("folded trailer", whole[:-2] + b"X: 1\r\n 2\r\n\r\n"))
    for name, body in good:
        yield f"chunk with {name}", with_encoding(b"chunked", body), TAKEN
    for name, wrong in (("negative", b"-1"), ("plus", b"+" + size), ("0x", b"0x" + size), ("no number", b"g"),
                        ("empty", b""), ("a space before", b" " + size), ("2^64", b"10000000000000000"),
                        ("16 f", b"f" * 16), ("17 f", b"f" * 17), ("64 f", b"f" * 64),
                        ("an underscore", b"1_0"), ("a dot", b"5.0"), ("a NUL", size + b"\0"),
                        ("a comma", size + b",0")):
        status = (413, 400) if name in ("16 f",) else (400, 413) if "f" in name else (400,)
        yield f"chunk size: {name}", with_encoding(b"chunked", wrong + whole[len(size):]), status
    for name, body in (("bare line feed behind the size", size + b"\n" + BODY + b"\r\n0\r\n\r\n"),
                       ("bare carriage return behind the size", size + b"\r" + BODY + b"\r\n0\r\n\r\n"),
                       ("content longer than its size", size + b"\r\n" + BODY + b"xx\r\n0\r\n\r\n"),
                       ("content shorter than its size", size + b"\r\n" + BODY[:-2] + b"\r\n0\r\n\r\n"),
                       ("no line break behind the content", size + b"\r\n" + BODY + b"0\r\n\r\n"),
                       ("bare line feed behind the content", size + b"\r\n" + BODY + b"\n0\r\n\r\n"),
                       ("line feed in an extension", size + b";a\nb\r\n" + BODY + b"\r\n0\r\n\r\n"),
                       ("trailer without colon", size + b"\r\n" + BODY + b"\r\n0\r\nnothing\r\n\r\n"),
                       ("trailer with a bare line feed", size + b"\r\n" + BODY + b"\r\n0\r\nX: 1\n\r\n")):
        yield f"chunks: {name}", with_encoding(b"chunked", body), (400,)
    yield "chunk extension of 1 MB", with_encoding(b"chunked", size + b";" + b"e" * 1_000_000 + whole[len(size):]), (400,)
    yield "trailers of 1 MB", with_encoding(b"chunked", whole[:-2] + b"X-A: b\r\n" * 120_000 + b"\r\n"), (400, 431)
    yield "one trailer of 1 MB", with_encoding(b"chunked", whole[:-2] + b"X: " + b"y" * 1_000_000 + b"\r\n\r\n"), (400, 431)
    yield "100,000 chunks of one byte", with_encoding(b"chunked", b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n"), (400,)
    yield "small chunks with long extensions", with_encoding(b"chunked", (b"1;" + b"e" * 500 + b"\r\nx\r\n") * 1000
                                                             + b"0\r\n\r\n"), (400,)
    yield "chunks above the limit", with_encoding(b"chunked", (b"100000\r\n" + b" " * (1 << 20) + b"\r\n") * 17), (413,)


def head_cases():
    yield "an empty line before", b"\r\n" + with_line(b"X: 1"), TAKEN
    yield "header without value", with_line(b"X:"), TAKEN
    yield "many spaces behind the colon", with_line(b"X:" + b" " * 100 + b"1"), TAKEN
    yield "bytes above 127 in a value", with_line("X: é".encode()), TAKEN
    for name, line in (("folded by a space", b"X: 1\r\n 2"), ("folded by a tab", b"X: 1\r\n\t2"),
                       ("first line folded", b" X: 1"), ("space before the colon", b"X : 1"), ("no colon", b"nothing"),
                       ("no name", b": 1"), ("a space in a name", b"X Y: 1"), ("a slash in a name", b"X/Y: 1"),
                       ("brackets in a name", b"X[0]: 1"), ("bytes above 127 in a name", "É: 1".encode()),
                       ("NUL in a value", b"X: a\0b"), ("NUL in a name", b"X\0: a"),
                       ("bare carriage return in a value", b"X: a\rb"), ("bare line feed", b"X: 1\nY: 2"),
                       ("bare line feed before a second length", b"X: 1\nContent-Length: 50"),
                       ("bell in a value", b"X: \x07"), ("DEL in a name", b"X\x7f: 1"),
                       ("second Host", b"Host: other"), ("second Host, the same", b"Host: localhost")):
        yield f"head: {name}", with_line(line), (400,)
    yield "head ends in bare line feeds", b"GET /live HTTP/1.1\nHost: localhost\n\n", (400,)
    yield "no Host", b"GET /live HTTP/1.1\r\nX: 1\r\n\r\n", (400,)
    yield "no headers at all", b"GET /live HTTP/1.1\r\n\r\n", (400,)
    yield "99 more headers", with_line(b"\r\n".join(b"X-%d: y" % i for i in range(99))), TAKEN
    yield "101 headers", with_line(b"\r\n".join(b"X-%d: y" % i for i in range(100))), (431,)
    yield "3,000 headers", with_line(b"\r\n".join(b"X: y" for _ in range(3000))), (431,)
    yield "a header of 17 KiB", with_line(b"X: " + b"y" * 17 * 1024), (431,)
    yield "a header's name of 17 KiB", with_line(b"X" * 17 * 1024 + b": y"), (431,)
    yield "a header of 1 MB without an end", b"GET /live HTTP/1.1\r\nX: " + b"y" * 1_000_000, (431,)


def line_cases():
    for name, line, statuses in (
            ("target of 9 KiB", b"GET /" + b"x" * 9 * 1024 + b" HTTP/1.1", (414,)),
            ("target of 9 KiB without an end", b"GET /" + b"x" * 9 * 1024, (414,)),
            ("query of 9 KiB", b"GET /live?" + b"x" * 9 * 1024 + b" HTTP/1.1", (414,)),
            ("target of 1 MB", b"GET /" + b"x" * 1_000_000 + b" HTTP/1.1", (414, 431)),
            ("method of 9 KiB", b"G" * 9 * 1024 + b" /live HTTP/1.1", [405, 200]),
            ("method of 17 KiB", b"G" * 17 * 1024 + b" /live HTTP/1.1", (400, 431)),
            ("HTTP/0.9", b"GET /live", (400,)), ("HTTP/1.2", b"GET /live HTTP/1.2", (505,)),
            ("HTTP/2.0", b"GET /live HTTP/2.0", (505,)), ("HTTP/9.9", b"GET /live HTTP/9.9", (505,)),
            ("HTTP/1", b"GET /live HTTP/1", (400, 505)), ("HTTP/1.10", b"GET /live HTTP/1.10", (400, 505)),
            ("HTTP/01.1", b"GET /live HTTP/01.1", (400, 505)), ("http in small letters", b"GET /live http/1.1", (400, 505)),
            ("no slash in the version", b"GET /live HTTP1.1", (400, 505)), ("other protocol", b"GET /live RTSP/1.0", (400, 505)),
            ("two spaces before the target", b"GET  /live HTTP/1.1", (400,)),
            ("two spaces behind the target", b"GET /live  HTTP/1.1", (400, 505)),
            ("a tab behind the method", b"GET\t/live HTTP/1.1", (400,)),
            ("a space before the method", b" GET /live HTTP/1.1", (400,)),
            ("a space behind the version", b"GET /live HTTP/1.1 ", (400, 505)),
            ("no method", b"/live HTTP/1.1", (400,)), ("no target", b"GET HTTP/1.1", (400,)),
            ("a space in the target", b"GET /li ve HTTP/1.1", (400, 505)),
            ("a NUL in the target", b"GET /li\0ve HTTP/1.1", (400,)),
            ("a bell in the target", b"GET /li\x07ve HTTP/1.1", (400,)),
            ("DEL in the target", b"GET /li\x7fve HTTP/1.1", (400,)),
            ("a bare carriage return in the line", b"GET /live\r HTTP/1.1", (400,)),
            ("a colon in the method", b"GE:T /live HTTP/1.1", (400,)),
            ("only a line break", b"\n", (400,)), ("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (400,)),
            ("HTTP/2's preface", b"PRI * HTTP/2.0", (505,))):
        yield f"line: {name}", first_line(line), statuses


CASES = [*length_cases(), *both_cases(), *encoding_cases(), *chunk_cases(), *head_cases(), *line_cases()]


class Malformed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = FaultServer("--header-timeout", 5, "--body-timeout", 5, interval_ms=0).learn()
        cls.addClassCleanup(cls.server.stop)

    def exchange(self, pieces):
        """Everything that comes back, to the connection's end."""
        with self.server.raw(timeout_s=20.0) as connection:
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for piece in pieces:
                    connection.send(piece)
            except OSError:
                pass  # refused before all was sent
            return connection.receive_rest()

    def expect(self, name, request, statuses):
        sends = {"at once": [request + NEXT]}
        if len(request) <= SHORT:
            sends["byte by byte"] = [bytes([byte]) for byte in request + NEXT]
        for how, pieces in sends.items():
            with self.subTest(name, how=how):
                found = [answer.status for answer in answers_in(self.exchange(pieces))]
                if isinstance(statuses, list):
                    self.assertEqual(found, statuses)
                else:
                    self.assertEqual(len(found), 1, found)
                    self.assertIn(found[0], statuses)

    def test_n6_one_answer_to_each_request_line(self):
        names = [name for name, _, _ in CASES]
        self.assertEqual(len(names), len(set(names)))
        print(f"\n    N6: {len(CASES)} cases")
        self.assertGreaterEqual(len(CASES), 150)

        def row():
            for name, request, statuses in CASES:
                self.expect(name, request, statuses)

        self.server.check_settles(row)

    def test_n6_an_answer_says_what_was_wrong(self):
        for request, says in ((with_length(b"17000000000"), "larger than 16777216 bytes"),
                              (with_line(b"X: 1\r\n 2"), "next line"), (with_line(b"X: " + b"y" * 17000), "16384 bytes"),
                              (first_line(b"GET /" + b"x" * 9000 + b" HTTP/1.1"), "8192 bytes"),
                              (with_line(b"\r\n".join([b"X: y"] * 100)), "101 headers"),
                              (with_encoding(b"gzip"), "chunked")):
            answer, = answers_in(self.exchange([request]))
            self.assertIn(says, answer.json()["error"]["message"])
            self.assertEqual(answer.headers["Connection"], "close")
        self.server.check()


class Rare(unittest.TestCase):
    """N7: what RFC 9110 and 9112 ask for and few clients use."""

    @classmethod
    def setUpClass(cls):
        cls.server = FaultServer("--header-timeout", 5, "--idle-timeout", 5, interval_ms=2).learn()
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        self.connection = self.server.raw(timeout_s=20.0)
        self.addCleanup(self.connection.close)

    def tearDown(self):
        self.connection.close()
        self.server.check()

    def post(self, body, *lines, version=b"1.1"):
        body = json.dumps(body).encode() if not isinstance(body, bytes) else body
        head = b"POST /v1/completions HTTP/%s\r\nHost: localhost\r\nContent-Type: application/json\r\n" % version
        return head + b"".join(line + b"\r\n" for line in lines) + b"Content-Length: %d\r\n\r\n" % len(body), body

    def ids(self, answer):
        self.assertEqual(answer.status, 200, answer)
        return answer.json()["choices"][0]["token_ids"]

    def test_n7_pipelined_requests_are_answered_in_their_order(self):
        prompts = [plain_prompt(number) for number in range(20)]
        counts = [1 + 7 * number % 11 for number in range(20)]
        self.connection.send(b"".join(b"".join(self.post(completion(prompt, count)))
                                      for prompt, count in zip(prompts, counts)))
        for prompt, count in zip(prompts, counts):
            self.assertEqual(self.ids(self.connection.answer()), metronome_ids(prompt, count))

    def test_n7_pipelined_streams_and_whole_answers(self):
        prompt = plain_prompt(3)
        stream, whole = completion(prompt, 5, stream=True), completion(prompt, 5)
        self.connection.send(b"".join(b"".join(self.post(body)) for body in (stream, whole, stream, whole)))
        for _ in range(2):
            chunks = self.connection.answer().chunks()
            self.assertEqual([token for chunk in chunks for token in chunk["choices"][0]["token_ids"]],
                             metronome_ids(prompt, 5))
            self.assertEqual(self.ids(self.connection.answer()), metronome_ids(prompt, 5))

    def test_n7_a_connection_is_kept_after_a_request_that_was_wrong(self):
        for request, status in ((b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
                                (b"DELETE /live HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
                                (b"".join(self.post(b"{")), 400), (b"".join(self.post({"prompt": 5})), 400),
                                (b"".join(self.post({"prompt": "a", "model": "b"})), 404),
                                (b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n", 200)):
            answer = self.connection.send(request).answer()
            self.assertEqual((answer.status, answer.headers["Connection"]), (status, None))

    def test_n7_a_body_that_is_not_waited_for_ends_the_connection(self):
        head, body = self.post(completion([30], 1))
        answer = self.connection.send(head.replace(b"/v1/completions", b"/nowhere")).answer()
        self.assertEqual((answer.status, answer.headers["Connection"]), (404, "close"))
        self.connection.send(body)
        self.assertTrue(self.connection.is_closed())

    def test_n7_expect_continue(self):
        head, body = self.post(completion([30, 31], 3), b"Expect: 100-continue")
        self.assertEqual(self.connection.send(head).answer().status, 100)
        self.assertEqual(self.ids(self.connection.send(body).answer()), [30, 31, 30])
        # The body is there already: there is nothing to ask for.
        self.assertEqual(self.ids(self.connection.send(head + body).answer()), [30, 31, 30])
        # Who is refused is not asked for the body.
        answer = self.connection.send(head.replace(b"application/json", b"text/plain")).answer()
        self.assertEqual((answer.status, answer.headers["Connection"]), (415, "close"))

    def test_n7_expect_continue_is_not_known_to_http_1_0(self):
        head, body = self.post(completion([30, 31], 3), b"Expect: 100-continue", version=b"1.0")
        self.connection.send(head)
        self.connection.socket.settimeout(0.3)
        with self.assertRaises(TimeoutError):
            self.connection.receive_some()
        self.connection.socket.settimeout(20.0)
        self.assertEqual(self.ids(self.connection.send(body).answer()), [30, 31, 30])

    def test_n7_an_announced_body_that_is_too_large_is_refused_at_once(self):
        head, _ = self.post(b"", b"Expect: 100-continue")
        answer = self.connection.send(head.replace(b"Content-Length: 0", b"Content-Length: 99999999999")).answer()
        self.assertEqual((answer.status, answer.headers["Connection"]), (413, "close"))

    def test_n7_http_1_0(self):
        answer = self.connection.send(b"GET /live HTTP/1.0\r\n\r\n").answer()
        self.assertEqual((answer.status, answer.headers["Connection"]), (200, "close"))
        self.assertTrue(self.connection.is_closed())

    def test_n7_http_1_0_can_be_kept(self):
        for _ in range(3):
            answer = self.connection.send(b"GET /live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").answer()
            self.assertEqual((answer.status, answer.headers["Connection"]), (200, "keep-alive"))

    def test_n7_a_stream_of_http_1_0_is_not_chunked_and_ends_with_its_connection(self):
        prompt = plain_prompt(5)
        self.connection.send(b"".join(self.post(completion(prompt, 6, stream=True), b"Connection: keep-alive",
                                                version=b"1.0")))
        answer = self.connection.answer()
        self.assertEqual((answer.status, answer.headers["Transfer-Encoding"], answer.headers["Connection"]),
                         (200, None, "close"))
        self.assertEqual([token for chunk in answer.chunks() for token in chunk["choices"][0]["token_ids"]],
                         metronome_ids(prompt, 6))

    def test_n7_head_is_get_without_the_body(self):
        for path in ("/live", "/ready", "/version", "/v1/models", "/openapi.json", "/nowhere"):
            request = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode()
            full = self.connection.send(request).answer()
            self.connection.send(request.replace(b"GET", b"HEAD"))
            bare = self.connection.answer("HEAD")
            self.assertEqual((bare.status, bare.headers["Content-Length"], bare.headers["Content-Type"]),
                             (full.status, full.headers["Content-Length"], full.headers["Content-Type"]))
        self.assertEqual(self.connection.buffer, b"")

    def test_n7_options(self):
        for path, allowed in (("*", None), ("/live", "GET, HEAD, OPTIONS"), ("/v1/completions", "POST, OPTIONS")):
            answer = self.connection.send(f"OPTIONS {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").answer()
            self.assertEqual((answer.status, answer.body, answer.headers["Content-Length"]), (204, b"", None))
            if allowed:
                self.assertEqual(answer.headers["Allow"], allowed)

    def test_n7_close_is_obeyed_and_absolute_targets_are_understood(self):
        answer = self.connection.send(b"GET http://localhost/live?x=1 HTTP/1.1\r\nHost: localhost\r\n"
                                      b"Connection: close\r\n\r\n").answer()
        self.assertEqual((answer.status, answer.headers["Connection"]), (200, "close"))
        self.assertTrue(self.connection.is_closed())

    def test_n7_an_idle_connection_ends_quietly(self):
        with FaultServer("--idle-timeout", 0.3, "--header-timeout", 0.6, interval_ms=2) as server:
            with RawConnection(server.port) as connection:
                self.assertEqual(connection.send(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n").answer().status, 200)
                self.assertEqual(connection.receive_rest(), b"")
            with RawConnection(server.port) as connection:
                self.assertEqual(connection.receive_rest(), b"")
            # What was begun is answered for.
            with RawConnection(server.port) as connection:
                answer, = answers_in(connection.send(b"GET /li").receive_rest())
                self.assertEqual((answer.status, answer.json()["error"]["code"]), (408, "request_timeout"))
            server.check()


if __name__ == "__main__":
    unittest.main()
