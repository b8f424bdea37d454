"""nvllm-serve under a service manager: what it tells (a socket of the test's own in place of systemd's), sockets that it
is passed, a restart that loses no connection; and --health, which asks a server that runs."""

import contextlib
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import threading
import unittest

from programs import DEMO, TIMEOUT_S, FolderTest, environment
from serve_testing import CANARY, SERVE, RawConnection, Server, passing, wait_until

USAGE, UNAVAILABLE = 64, 69
METRONOME = ("--load-format", "metronome")


class Manager:
    """The socket that a service manager listens at, and what it heard."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0", 1))
        self.messages = []
        self.arrived = threading.Condition()
        threading.Thread(target=self.listen, daemon=True).start()
        self.address = address

    def listen(self):
        with contextlib.suppress(OSError):
            while message := self.socket.recv(4096):
                with self.arrived:
                    self.messages.append(dict(line.split("=", 1) for line in message.decode().split("\n")))
                    self.arrived.notify_all()

    def count(self, name):
        return sum(name in message for message in list(self.messages))

    def wait_for(self, is_it, timeout_s=TIMEOUT_S):
        """The first message, from the beginning on, that is it."""
        found = lambda: next(filter(is_it, self.messages), None)
        with self.arrived:
            if not self.arrived.wait_for(found, timeout_s):
                raise AssertionError(f"not among {self.messages}")
            return found()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class ServiceTest(FolderTest):
    def manager(self, address=None):
        manager = Manager(address or str(self.folder / "notify"))
        self.addCleanup(manager.close)
        return manager

    def server(self, *arguments, **more):
        server = Server(*arguments, **more)
        self.addCleanup(server.stop)
        return server

    def listening(self, address=("127.0.0.1", 0), family=socket.AF_INET):
        listener = socket.socket(family)
        self.addCleanup(listener.close)
        listener.bind(address)
        listener.listen(64)
        return listener


class TellingTest(ServiceTest):
    def test_a_life_from_ready_to_stopping(self):
        manager = self.manager()
        keys = self.folder / "keys"
        keys.write_text("one\n")
        server = self.server("--api-key-file", keys, "--shutdown-timeout", 7,
                             env=environment(NOTIFY_SOCKET=manager.address, WATCHDOG_USEC="200000"))
        first = manager.wait_for(lambda message: True)
        self.assertEqual(first, {"READY": "1", "STATUS": f"loading; listening at http://127.0.0.1:{server.port}"})
        manager.wait_for(lambda message: message.get("STATUS", "").startswith("ready at http://"))
        alive = manager.count("WATCHDOG")
        wait_until(lambda: manager.count("WATCHDOG") >= alive + 3, what="three signs of life")

        keys.write_text("one\ntwo\n")
        server.signal(signal.SIGHUP)
        manager.wait_for(lambda message: message == {"READY": "1", "STATUS": "2 keys are known"})
        reload = manager.wait_for(lambda message: "RELOADING" in message)
        self.assertGreater(int(reload["MONOTONIC_USEC"]), 0)
        keys.write_text("one rpm=many\n")
        server.signal(signal.SIGHUP)
        manager.wait_for(lambda message: message.get("STATUS", "").startswith("the old keys stay: "))

        self.assertEqual(server.stop(), 0)
        ending = manager.wait_for(lambda message: "STOPPING" in message)
        self.assertEqual(ending["EXTEND_TIMEOUT_USEC"], "17000000")  # the drain, and ten seconds for the rest
        self.assertRegex(ending["STATUS"], r"^shutting down: waiting up to 7(\.0)? s for 0 requests$")

    def test_an_abstract_address_and_no_watchdog(self):
        manager = self.manager(f"@nvllm-test-{os.getpid()}")
        server = self.server(env=environment(NOTIFY_SOCKET=manager.address))
        self.assertEqual(server.stop(), 0)
        manager.wait_for(lambda message: "STOPPING" in message)
        self.assertEqual(manager.count("WATCHDOG"), 0)

    def test_no_sign_of_life_while_an_engine_is_stuck(self):
        manager = self.manager()
        server = self.server("--isolation", "thread", "--watchdog-timeout", "0.3",
                             env=environment(NOTIFY_SOCKET=manager.address, WATCHDOG_USEC="100000",
                                             NVLLM_FAULTS="engine.step:5=sleep=2500"))
        wait_until(lambda: manager.count("WATCHDOG") >= 2, what="signs of life")
        with server.raw() as client:
            client.send(server.raw_post("/v1/completions", CANARY))
            wait_until(lambda: server.get("/ready").status == 503, what="a stall")
            heard = manager.count("WATCHDOG")
            # The I/O thread is awake and answers, many times over, and still says nothing.
            while (answer := server.get("/ready")).status == 503:
                silent_for_s = answer.json()["seconds"]
            self.assertGreater(silent_for_s, 1.0)
            self.assertLessEqual(manager.count("WATCHDOG"), heard + 1)
            self.assertEqual(client.answer().status, 200)
        wait_until(lambda: manager.count("WATCHDOG") > heard + 2, what="signs of life afterwards")

    def test_what_it_was_told_is_not_passed_on_to_the_worker(self):
        manager = self.manager()
        server = self.server("--isolation", "process", env=environment(NOTIFY_SOCKET=manager.address))
        worker = server.status()["worker"]["pid"]
        self.assertNotIn(b"NOTIFY_SOCKET", pathlib.Path(f"/proc/{worker}/environ").read_bytes())

    def test_variables_that_make_no_sense(self):
        for variable, value in (("NOTIFY_SOCKET", "somewhere"), ("WATCHDOG_USEC", "soon")):
            done = subprocess.run([SERVE, "--check-config"], env=environment(**{variable: value}), capture_output=True,
                                  text=True, timeout=TIMEOUT_S)
            self.assertEqual(done.returncode, 78, done.stderr)
            self.assertIn(variable, done.stderr)


class PassedSocketTest(ServiceTest):
    def test_who_connects_before_the_start_is_answered(self):
        listener = self.listening()
        port = listener.getsockname()[1]
        with RawConnection(port) as early:
            early.send(f"GET /version HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")
            server = self.server("--host", "192.0.2.1", "--allow-unauthenticated", sockets=[("api", listener)])
            self.assertEqual(server.port, port)
            self.assertEqual(early.answer().status, 200)
        self.assertEqual(server.complete(max_tokens=2)["object"], "text_completion")
        # The guard against names that lead here from elsewhere knows the address, though no option names it.
        self.assertEqual(server.get("/version", headers={"Host": "example.org"}).status, 403)

    def test_several_sockets_by_name(self):
        path = str(self.folder / "api.sock")
        api, metrics = self.listening(), self.listening()
        local = self.listening(path, socket.AF_UNIX)
        server = self.server(sockets=[("metrics", metrics), ("api", api), ("", local)], key="k",
                             env=environment(NVLLM_API_KEY="k"))
        self.assertEqual(server.port, api.getsockname()[1])
        self.assertEqual(server.get("/metrics", headers={"Authorization": "Bearer none"}).status, 401)
        with RawConnection(metrics.getsockname()[1]) as client:
            client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(client.answer().status, 200)
            client.send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(client.answer().status, 404)
        with RawConnection(None, unix_socket=path) as client:
            client.send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\n\r\n")
            self.assertEqual(client.answer().status, 200)
        self.assertEqual(server.stop(), 0)
        self.assertTrue(os.path.exists(path), "a socket that belongs to somebody else was removed")

    def test_a_restart_loses_no_connection(self):
        listener = self.listening()
        port = listener.getsockname()[1]
        old = self.server(*METRONOME, env=environment(NVLLM_METRONOME_MS="20"), sockets=[("api", listener)])
        with old.raw() as under_way, RawConnection(port) as between:
            under_way.send(old.raw_post("/v1/completions", {**CANARY, "max_tokens": 60, "stream": True}))
            self.assertEqual(under_way.head().status, 200)
            old.signal(signal.SIGTERM)
            wait_until(lambda: "shutting down: " in old.log)
            # Not refused and not answered: it waits for whoever comes next.
            late = RawConnection(port)
            late.send(f"GET /version HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")
            while under_way.chunk():
                pass
            self.assertEqual(old.wait(), 0)
            self.assertEqual(select.select([late.socket], [], [], 0)[0], [], "the old server answered, or hung up")
            self.server(*METRONOME, sockets=[("api", listener)])
            self.assertEqual(late.answer().status, 200)
            late.close()
            self.assertTrue(between.is_closed())

    def test_what_is_refused(self):
        everywhere = self.listening(("0.0.0.0", 0))
        pair = socket.socketpair()
        for one in pair:
            self.addCleanup(one.close)
        for sockets, code, says in (([("api", everywhere)], USAGE, "--allow-unauthenticated"),
                                    ([("admin", self.listening())], USAGE, "--admin-socket"),
                                    ([("api", pair[0])], 78, "no socket that listens")):
            done = subprocess.run(passing(sockets, [SERVE, "-m", DEMO]), env=environment(), capture_output=True, text=True,
                                  pass_fds=[one.fileno() for _, one in sockets], timeout=TIMEOUT_S)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(says, done.stderr)


class HealthTest(ServiceTest):
    def ask(self, *arguments, **variables):
        return subprocess.run([SERVE, *map(str, arguments)], env=environment(**variables), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=TIMEOUT_S)

    def test_a_server_by_url_by_options_and_by_environment(self):
        path, free = self.folder / "s.sock", self.listening()
        metrics_port = free.getsockname()[1]
        free.close()
        server = self.server("--metrics-port", metrics_port)
        local = subprocess.Popen([SERVE, "-m", DEMO, "--uds", path], env=environment(), stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (local.terminate(), local.communicate()))
        for line in local.stderr:
            if "ready at" in line:
                break
        url = f"http://127.0.0.1:{server.port}"
        for arguments, variables in ((("--health", url), {}), (("--health", url + "/"), {}), ((f"--health={url}",), {}),
                                     (("--health", "--port", server.port), {}),
                                     (("--health", "--port", server.port, "--host", "0.0.0.0"), {}),
                                     (("--health",), {"NVLLM_PORT": str(server.port)}),
                                     (("--health",), {"NVLLM_METRICS_PORT": str(metrics_port), "NVLLM_PORT": "1"}),
                                     (("--health", f"unix:{path}"), {}), (("--health", "--uds", path), {}),
                                     (("--health", "-m", "no/such/model", "--port", server.port), {})):
            with self.subTest(arguments=arguments):
                done = self.ask(*arguments, **variables)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_server_that_is_not_ready_or_not_there(self):
        mute = self.listening()
        loading = self.server(waits=False, env=environment(NVLLM_FAULTS="worker.start:1=sleep=20000"))
        self.addCleanup(loading.kill)  # before it has loaded
        closed = self.listening()
        closed_port = closed.getsockname()[1]
        closed.close()
        for url, says in ((f"http://127.0.0.1:{loading.port}", '"status": *"loading"'),
                          (f"http://127.0.0.1:{closed_port}", "Connection refused"),
                          (f"unix:{self.folder}/none", "no such socket"),
                          (f"http://127.0.0.1:{mute.getsockname()[1]}", "no answer in time")):
            done = self.ask("--health", url)
            self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
            self.assertTrue(re.search(says, done.stderr), done.stderr)

    def test_questions_that_make_no_sense(self):
        for arguments in (("--health", "https://127.0.0.1"), ("--health", "8000"), ("--health", "--port", 0),
                          ("--health", "--ssl-certfile", self.folder / "c.pem")):
            done = self.ask(*arguments)
            self.assertEqual(done.returncode, USAGE, done.stderr)
            self.assertIn("--health", done.stderr)


if __name__ == "__main__":
    unittest.main()
