#!/usr/bin/env python3
"""Writes tests/fixtures/public_names/: the flags of every program, and the routes, fields and metrics of nvllm-serve.

Usage: make_public_names.py [--bin build/release/bin] [--check]; the folder has the test programs too.
These names are promises to users. --check writes nothing, and ends with 1 if a name of the lists is missing in the
programs. A new name may join the lists; a name leaves them only by hand.
"""

import argparse
import http.client
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from make_references import PROGRAMS, SOURCE, commands_of, demo_server, environment, fields_of, get, help_of

FOLDER = SOURCE / "tests" / "fixtures" / "public_names"
# With a key, so that the metrics of keys are there.
KEY = "public-names"
AUTHORIZATION = {"Authorization": f"Bearer {KEY}"}
# The document of the interface leaves these out. The server knows a path if it refuses the method and not the path.
ADMIN_ROUTES = ["POST /admin/drain", "POST /admin/keys/reload", "POST /admin/cache/resize", "GET /admin/state",
                "GET /admin/timeline", "POST /admin/models/load", "POST /admin/models/unload"]


def flags_of(text):
    """The flags of a help text, each as it is typed."""
    for line in re.findall(r"^ {2,6}(-\S.*?)(?: {2}|$)", text, re.MULTILINE):
        for flag in re.findall(r"(?<!\S)(-[A-Za-z]|--[\w\[\]-]+)(?=[,\s=]|$)", line):
            yield flag.replace("[no-]", "")
            if "[no-]" in flag:
                yield flag.replace("[no-]", "no-")


def flags(bin_folder):
    """A line for each flag, with its program and command."""
    for program in PROGRAMS:
        whole = help_of(bin_folder, program)
        yield from (f"{program} {flag}" for flag in flags_of(whole))
        for command in commands_of(whole):
            text = help_of(bin_folder, program, command)
            yield from (f"{program} {command} {flag}" for flag in flags_of(text))


class SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def admin_routes(socket_path):
    for route in ADMIN_ROUTES:
        method, path = route.split()
        connection = SocketConnection(socket_path)
        connection.request("DELETE", path, headers=AUTHORIZATION)
        response = connection.getresponse()
        response.read()
        if response.status == 405 and method in response.headers.get("Allow", ""):
            yield route
        connection.close()


def routes(openapi):
    for path, operations in openapi["paths"].items():
        yield from (f"{method.upper()} {path}" for method in operations)


def fields(openapi):
    for name, schema in openapi["components"]["schemas"].items():
        yield from (f"{name} {path}" for path, _, _ in fields_of(schema))


def metrics(bin_folder, folder, url):
    """Families with a value: of a server that has a key, and of a test that counts one of everything."""
    file = pathlib.Path(folder) / "metrics.txt"
    subprocess.run([bin_folder / "test_lib_server", "--test-case=one of everything"], check=True, capture_output=True,
                   env={**environment(), "NVLLM_METRICS_TEXT": str(file)})
    return re.findall(r"^# TYPE (\S+)", file.read_text() + get(f"{url}/metrics", AUTHORIZATION), re.MULTILINE)


def names(bin_folder):
    """Lists of names by their file."""
    with tempfile.TemporaryDirectory() as folder:
        socket_path = f"{folder}/admin.sock"
        with demo_server(bin_folder, "--admin-socket", socket_path, "--api-key", KEY) as url:
            openapi = json.loads(get(f"{url}/openapi.json", AUTHORIZATION))
            return {"flags.txt": sorted(set(flags(bin_folder))),
                    "routes.txt": sorted({*routes(openapi), *admin_routes(socket_path)}),
                    "fields.txt": sorted(set(fields(openapi))),
                    "metrics.txt": sorted(set(metrics(bin_folder, folder, url)))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build" / "release" / "bin")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found = names(options.bin.absolute())
    promised = {file: (FOLDER / file).read_text().splitlines() if (FOLDER / file).exists() else [] for file in found}
    missing = [f"{file}: {name}" for file in found for name in promised[file] if name not in set(found[file])]
    if options.check:
        sys.exit("these names are gone:\n" + "\n".join(missing) if missing else 0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, lines in found.items():
        (FOLDER / file).write_text("\n".join(sorted({*promised[file], *lines})) + "\n")
    print("\n".join(["written", *(f"missing in the programs, kept in {line}" for line in missing)]))


if __name__ == "__main__":
    main()
