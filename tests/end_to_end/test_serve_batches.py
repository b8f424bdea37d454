"""Files and batches: uploads, results beside those of single requests, a restart in the middle, keys, and refusals."""

import json
import tempfile
import unittest
from pathlib import Path

from serve_testing import CANARY, Server, wait_until

COMPLETIONS = "/v1/completions"


def lines(number, **fields):
    return [{"custom_id": f"line-{i}", "method": "POST", "url": COMPLETIONS,
             "body": {**CANARY, "prompt": f"Once {i} times", **fields}} for i in range(number)]


def form(purpose, content, more=""):
    head = 'Content-Disposition: form-data; name='
    return (f'--b\r\n{head}"purpose"\r\n\r\n{purpose}\r\n{more}--b\r\n{head}"file"; filename="in.jsonl"\r\n'
            f'Content-Type: application/octet-stream\r\n\r\n{content}\r\n--b--\r\n')


class Batches(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def server(self, *arguments, **more):
        server = Server("--batch-dir", Path(self.folder.name) / "kept", *arguments, **more)
        self.addCleanup(server.kill)
        return server

    def upload(self, server, rows, purpose="batch", **more):
        content = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
        return server.request("POST", "/v1/files", form(purpose, content),
                              {"Content-Type": "multipart/form-data; boundary=b", **more.pop("headers", {})}, **more)

    def create(self, server, file, **more):
        fields = {"input_file_id": file, "endpoint": COMPLETIONS, "completion_window": "24h", **more}
        return server.post("/v1/batches", fields)

    @staticmethod
    def ended(server, batch, status="completed"):
        def found():
            now = server.must(server.get(f"/v1/batches/{batch}"))
            return now if now["status"] == status else None
        return wait_until(found, what=f"a batch that is {status}")

    @staticmethod
    def results(server, file):
        return [json.loads(line) for line in server.get(f"/v1/files/{file}/content").text.splitlines()]

    def test_results_are_those_of_single_requests(self):
        server = self.server()
        rows = lines(6)
        rows[4]["body"]["max_tokens"] = -1
        file = server.must(self.upload(server, rows))
        self.assertEqual((file["object"], file["purpose"], file["filename"]), ("file", "batch", "in.jsonl"))
        created = server.must(self.create(server, file["id"], metadata={"who": "me"}))
        self.assertEqual((created["object"], created["status"]), ("batch", "validating"))
        batch = self.ended(server, created["id"])
        self.assertEqual(batch["request_counts"], {"total": 6, "completed": 5, "failed": 1})
        self.assertEqual(batch["metadata"], {"who": "me"})
        for result in self.results(server, batch["output_file_id"]):
            row = next(row for row in rows if row["custom_id"] == result["custom_id"])
            self.assertEqual(result["response"]["status_code"], 200)
            self.assertEqual(result["response"]["body"]["choices"], server.must(server.post(COMPLETIONS, row["body"]))["choices"])
        failed, = self.results(server, batch["error_file_id"])
        self.assertEqual((failed["custom_id"], failed["response"]["status_code"]), ("line-4", 400))
        self.assertEqual(failed["response"]["body"]["error"]["param"], "max_tokens")
        self.assertEqual([one["id"] for one in server.must(server.get("/v1/batches"))["data"]], [batch["id"]])
        files = server.must(server.get("/v1/files?purpose=batch_output&limit=1"))
        self.assertEqual((len(files["data"]), files["has_more"]), (1, True))
        oldest = server.must(server.get("/v1/files?order=asc"))["data"][0]
        self.assertEqual(oldest["id"], file["id"])
        self.assertEqual(server.get("/v1/files?order=up").error["param"], "order")
        removed = server.must(server.request("DELETE", f"/v1/files/{file['id']}"))
        self.assertEqual(removed, {"id": file["id"], "object": "file", "deleted": True})
        self.assertEqual(server.get(f"/v1/files/{file['id']}").status, 404)

    def test_a_batch_survives_the_server(self):
        server = self.server("--batch-concurrency", 2)
        file = server.must(self.upload(server, lines(60, max_tokens=60, ignore_eos=True)))
        batch = server.must(self.create(server, file["id"]))["id"]
        done = lambda: server.must(server.get(f"/v1/batches/{batch}"))["request_counts"]["completed"] >= 4
        wait_until(done, what="the first results")
        server.kill()
        server = self.server()
        ended = self.ended(server, batch)
        self.assertEqual(ended["request_counts"], {"total": 60, "completed": 60, "failed": 0})
        results = self.results(server, ended["output_file_id"])
        self.assertEqual(len({result["custom_id"] for result in results}), 60)
        self.assertEqual(len(results), 60)

    def test_cancelling(self):
        server = self.server("--batch-concurrency", 1)
        file = server.must(self.upload(server, lines(200, max_tokens=100, ignore_eos=True)))
        batch = server.must(self.create(server, file["id"]))["id"]
        self.assertIn(server.must(server.post(f"/v1/batches/{batch}/cancel", ""))["status"], ("cancelling", "cancelled"))
        ended = self.ended(server, batch, "cancelled")
        self.assertEqual(ended["request_counts"]["completed"] + ended["request_counts"]["failed"], 200)
        self.assertEqual(server.post(f"/v1/batches/{batch}/cancel", "").status, 409)
        self.assertEqual(server.complete()["object"], "text_completion")

    def test_keys_see_their_own(self):
        keys = Path(self.folder.name) / "keys"
        keys.write_text("alice:sk-alice\nbob:sk-bob\n")
        server = self.server("--api-key-file", keys, key="sk-alice")
        file = server.must(self.upload(server, lines(1)))["id"]
        batch = server.must(self.create(server, file))["id"]
        self.ended(server, batch)
        bob = {"Authorization": "Bearer sk-bob"}
        self.assertEqual(server.get(f"/v1/files/{file}", headers=bob).status, 404)
        self.assertEqual(server.get(f"/v1/batches/{batch}", headers=bob).status, 404)
        self.assertEqual(server.must(server.get("/v1/files", headers=bob))["data"], [])
        self.assertEqual(server.get("/v1/files", headers={"Authorization": None}).status, 401)

    def test_refusals(self):
        server = self.server()
        self.assertEqual(server.post("/v1/files", "{}").status, 400)
        answer = server.request("POST", "/v1/files", form("batch", "{}", '--b\r\nContent-Disposition: form-data; name="expires_after"\r\n\r\n1\r\n'),
                                {"Content-Type": "multipart/form-data; boundary=b"})
        self.assertEqual((answer.status, answer.error["param"]), (400, "expires_after"))
        self.assertEqual(self.create(server, "file-none").error["param"], "input_file_id")
        file = server.must(self.upload(server, "{broken\n"))["id"]
        self.assertEqual(self.create(server, file, endpoint="/v1/models").error["param"], "endpoint")
        self.assertEqual(self.create(server, file, completion_window="soon").error["param"], "completion_window")
        self.assertEqual(self.create(server, file, priority=1).error["param"], "priority")
        self.assertEqual(server.get("/v1/batches?limit=0").error["param"], "limit")
        failed = self.ended(server, server.must(self.create(server, file))["id"], "failed")
        self.assertEqual(failed["errors"]["data"][0]["line"], 1)
        for path in ("/v1/files/../keys", "/v1/files/%2e%2e%2fkeys/content", "/v1/batches/none"):
            self.assertEqual(server.get(path).status, 404)

    def test_off_without_a_folder(self):
        with Server() as server:
            answer = server.get("/v1/files")
            self.assertEqual((answer.status, answer.error["code"]), (404, "batches_are_off"))
            self.assertIn("--batch-dir", answer.error["message"])


if __name__ == "__main__":
    unittest.main()
