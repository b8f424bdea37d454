"""What deploy/ and docs/serving.md say of the programs is so: flags, defaults, ports, paths, times, packages. Containers and
units are not run here; deploy/README.md says what was run, and where."""

import json
import pathlib
import re
import shutil
import subprocess
import unittest

import plain_yaml
from programs import BIN, SOURCE, TIMEOUT_S, environment

DEPLOY = SOURCE / "deploy"
SERVING = (SOURCE / "docs" / "serving.md").read_text()
PROGRAMS = ("nvllm-serve", "nvllm-run", "nvllm-bench", "nvllm-inspect")


def output(program, *arguments):
    return subprocess.run([str(BIN / program), *arguments], check=True, capture_output=True, text=True,
                          timeout=TIMEOUT_S, env=environment()).stdout


def defaults_of_serve():
    """{option: value} as the program prints them."""
    values = {}
    for line in output("nvllm-serve", "--print-config").splitlines():
        if line and not line.startswith("#"):
            name, rest = line.split(": ", 1)
            values[name] = json.loads(rest.rsplit("  # ", 1)[0])
    return values


DEFAULTS = defaults_of_serve()
GENERAL = {"--config", "--check-config", "--print-config", "--help", "--version", "--completion", "--man", "--list-options"}


def known_flags():
    flags = set(GENERAL)
    for program in PROGRAMS:
        described = json.loads(output(program, "--list-options"))
        for command in described.get("commands", [described]):
            flags.update(flag for option in command["options"] for flag in option["flags"])
    return flags


FLAGS = known_flags()


def is_option(variable):
    return variable.removeprefix("NVLLM_").lower().replace("_", "-") in DEFAULTS


def seconds_of(text):
    """'45s', '10min' of units, '45s' of compose, '600s' of proxies."""
    count, unit = re.fullmatch(r"(\d+)(s|m|min|h)?", text).groups()
    return int(count) * {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}[unit]


class ServingPageTest(unittest.TestCase):
    def test_the_limits_are_those_of_the_program(self):
        table = SERVING.split("| limit | default | flag | beyond it |\n|---|---|---|---|\n")[1].split("\n\n")[0]
        named = []
        for row in table.splitlines():
            _, defaults, flags, _ = (cell.strip() for cell in row.strip("|").split("|", 3))
            if flags == "fixed":
                continue
            flags = [flag.removeprefix("--") for flag in re.findall(r"`(--[\w-]+)`", flags)
                     if flag != "--overload-status"]
            # "4,096" is one number; "10, 30" are two.
            texts = re.sub(r"(\d),(\d{3})", r"\1\2", defaults).split(", ")
            self.assertEqual(len(texts), len(flags), row)
            for flag, text in zip(flags, texts):
                with self.subTest(flag=flag):
                    value = DEFAULTS[flag]
                    shown = value if isinstance(value, str) else f"{value:g}"
                    self.assertEqual(re.sub(r" (s|caches)$", "", text).replace(" ", ""), shown)
                named.append(flag)
        self.assertGreater(len(named), 15)
        limits = [option["name"] for option in json.loads(output("nvllm-serve", "--list-options"))["options"]
                  if option["group"] == "Limits"]
        self.assertEqual(set(limits) - set(named), {"max-concurrent-requests", "keep-alive-interval", "overload-status"},
                         "limits that the table leaves out")

    def test_every_flag_that_is_named_exists(self):
        for file in (SOURCE / "docs" / "serving.md", DEPLOY / "README.md"):
            text = file.read_text()
            # What other programs are called with stands beside their names.
            text = re.sub(r"(?m)^.*\b(docker|cmake|prometheus|systemd-analyze|ctest|curl)\b.*$", "", text)
            for flag in re.findall(r"(?<![\w-])--[a-z][\w-]+", text):
                with self.subTest(file=file.name, flag=flag):
                    self.assertIn(flag.removesuffix("-"), FLAGS)

    def test_ranks_are_started_with_flags_that_exist(self):
        """Examples for launchers: YAML is plain, and what a launcher itself is called with is its own affair."""
        found = 0
        for file in sorted((DEPLOY / "ranks").iterdir()):
            text = file.read_text()
            if file.suffix == ".yaml":
                plain_yaml.load(text)
            own = re.sub(r'(?m)^#SBATCH.*$|(?<=--rank-launcher)[= ]["\']?(mpirun|srun)[^"\n]*', "", text)
            for flag in re.findall(r"(?<![\w-])--[a-z][\w-]+", own):
                with self.subTest(file=file.name, flag=flag):
                    self.assertIn(flag, FLAGS)
                    found += 1
        self.assertGreater(found, 20)

    def test_the_page_of_deployments_is_there_and_linked(self):
        self.assertIn("(../deploy/README.md)", SERVING)
        text = (DEPLOY / "README.md").read_text()
        for path in re.findall(r"`((?:deploy|scripts|tests|docs)/[\w./-]+)`", text):
            self.assertTrue((SOURCE / path).exists(), path)
        for path in re.findall(r"\]\((?!http)([^)#]+)\)", text):
            self.assertTrue((DEPLOY / path).exists(), path)
        for folder in DEPLOY.iterdir():
            if folder.is_dir():
                self.assertIn(f"{folder.name}/", text)


class UnitTest(unittest.TestCase):
    def setUp(self):
        self.lines = (DEPLOY / "systemd" / "nvllm-serve.service").read_text().splitlines()

    def values(self, key):
        return [line.split("=", 1)[1] for line in self.lines if line.startswith(key + "=")]

    def test_it_calls_the_program_as_it_can_be_called(self):
        (command,) = self.values("ExecStart")
        self.assertTrue(command.startswith("/usr/bin/nvllm-serve "))
        for flag in re.findall(r"--[\w-]+", command):
            self.assertIn(flag, FLAGS)
        for setting in " ".join(self.values("Environment")).split():
            name = setting.split("=")[0]
            self.assertTrue(is_option(name) or name == "HF_HUB_CACHE", name)

    def test_its_times_leave_the_program_its_own(self):
        self.assertGreaterEqual(seconds_of(self.values("TimeoutStopSec")[0]), DEFAULTS["shutdown-timeout"] + 10)
        self.assertGreater(seconds_of(self.values("WatchdogSec")[0]), DEFAULTS["watchdog-timeout"])

    def test_exit_codes_after_which_it_stays_down_are_those_of_settings(self):
        manual = output("nvllm-serve", "--man")
        for code in self.values("RestartPreventExitStatus")[0].split():
            self.assertRegex(manual, rf"\\fB{code}\\fR\n(Wrong flags|A wrong setting|No such model)")

    def test_the_socket_is_one_that_the_server_takes_for_its_api(self):
        text = (DEPLOY / "systemd" / "nvllm-serve.socket").read_text()
        self.assertIn(f"\nListenStream={DEFAULTS['host']}:{DEFAULTS['port']}\n", text)
        self.assertIn("\nFileDescriptorName=api\n", text)

    def test_it_is_hardened(self):
        for line in ("Type=notify", "DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes",
                     "MemoryDenyWriteExecute=yes", "CapabilityBoundingSet=", "SystemCallFilter=@system-service",
                     "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6", "Restart=on-failure"):
            self.assertIn(line, self.lines)


class ImageTest(unittest.TestCase):
    def setUp(self):
        text = (DEPLOY / "docker" / "Dockerfile").read_text().replace("\\\n", " ")
        self.steps = [line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]

    def step(self, name):
        return [rest.strip() for step, rest in self.steps if step == name]

    def test_it_builds_with_what_the_scripts_build_with(self):
        packages = (SOURCE / "scripts" / "packages.sh").read_text()
        runs = " ".join(self.step("RUN"))
        self.assertIn("install_packages $packages_build", runs)
        self.assertIn("\npackages_build=", packages)
        for function in ("install_packages", "build_jobs"):
            self.assertIn(f"{function}()", packages)
        presets = json.loads((SOURCE / "CMakePresets.json").read_text())
        for kind, name in re.findall(r"cmake (--build )?--preset (\w+)", runs):
            self.assertIn(name, [preset["name"] for preset in presets["buildPresets" if kind else "configurePresets"]])

    def test_what_is_copied_is_there(self):
        ignored = (SOURCE / ".dockerignore").read_text().split()
        for name in ("CMakeLists.txt", "CMakePresets.json", "cmake", "kernels", "lib", "tools", "models", "deploy", "scripts"):
            self.assertTrue((SOURCE / name).exists(), name)
            self.assertNotIn(name, ignored)
        self.assertTrue({"build", ".git", "out"} <= set(ignored))

    @unittest.skipUnless(shutil.which("dpkg-query"), "needs Debian's list of installed files")
    def test_it_installs_the_libraries_that_the_programs_want(self):
        libraries = set()
        for file in (*(BIN / program for program in PROGRAMS), BIN.parent / "libexec" / "nanovllm" / "nvllm-worker"):
            linked = subprocess.run(["objdump", "-p", str(file)], check=True, capture_output=True, text=True).stdout
            linked += subprocess.run(["objdump", "-p", str(BIN.parent / "lib" / "libnanovllm.so")], check=True,
                                     capture_output=True, text=True).stdout
            libraries.update(re.findall(r"NEEDED +(\S+)", linked))
        system = ("libc.", "libm.", "libgcc_s.", "ld-linux", "libnanovllm", "libasan", "libubsan", "libtsan")
        wanted = set()
        for library in libraries:
            if library.startswith(system):
                continue
            # By the end of the path alone: /lib may be a link to /usr/lib.
            found = subprocess.run(["dpkg-query", "-S", f"*-linux-gnu/{library}"], check=True, capture_output=True, text=True).stdout
            wanted.update(line.split(":")[0] for line in found.splitlines())
        installed = set(re.findall(r"\blib[\w.+-]+", self.step("RUN")[-1].split("&&")[1]))
        self.assertEqual(installed, wanted)

    def test_it_runs_without_rights_and_asks_its_own_health(self):
        user = self.step("USER")[-1]
        self.assertRegex(user, r"^[1-9]\d*:[1-9]\d*$")
        (health,) = self.step("HEALTHCHECK")
        self.assertEqual(json.loads(health.split("CMD ")[1]), ["nvllm-serve", "--health"])
        self.assertIn("--health", FLAGS)
        for setting in self.step("ENV")[0].split():
            name, value = setting.split("=")
            self.assertTrue(is_option(name) or name == "HF_HUB_CACHE", name)
        self.assertIn(f"NVLLM_PORT={self.step('EXPOSE')[0]} ", self.step("ENV")[0])


class ComposeTest(unittest.TestCase):
    def setUp(self):
        self.folder = DEPLOY / "compose"
        self.services = plain_yaml.load((self.folder / "compose.yaml").read_text())["services"]

    def test_every_file_that_is_mounted_is_there(self):
        for service in self.services.values():
            for volume in service.get("volumes", []):
                host = volume.split(":")[0]
                if host.startswith(".") and not host.startswith("${"):
                    self.assertTrue((self.folder / host).is_file(), host)
        build = self.services["nvllm"]["build"]
        context = (self.folder / build["context"]).resolve()
        self.assertEqual(context, SOURCE)
        self.assertTrue((context / build["dockerfile"]).is_file())

    def test_all_name_the_same_ports_and_settings(self):
        server = self.services["nvllm"]
        for name in server["environment"]:
            self.assertTrue(is_option(name), name)
        for flag in server["command"]:
            self.assertTrue(not flag.startswith("--") or flag in FLAGS, flag)
        scrape = plain_yaml.load((self.folder / "prometheus.yml").read_text())
        target = scrape["scrape_configs"][0]["static_configs"][0]["targets"][0]
        self.assertEqual(target, f"localhost:{server['environment']['NVLLM_METRICS_PORT']}")
        self.assertEqual(self.services["prometheus"]["network_mode"], "service:nvllm")
        original = plain_yaml.load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
        original["scrape_configs"][0]["static_configs"][0]["targets"][0] = target
        self.assertEqual(scrape, original)
        self.assertIn(f"127.0.0.1:{DEFAULTS['port']}:{DEFAULTS['port']}", server["ports"])

    def test_it_is_closed_and_ends_in_time(self):
        server = self.services["nvllm"]
        self.assertEqual((server["read_only"], server["cap_drop"]), (True, ["ALL"]))
        self.assertGreater(seconds_of(server["stop_grace_period"]), DEFAULTS["shutdown-timeout"])

    def test_grafana_finds_data_and_dashboard(self):
        source = plain_yaml.load((self.folder / "grafana" / "datasources.yaml").read_text())["datasources"][0]
        self.assertEqual((source["type"], source["url"]), ("prometheus", "http://nvllm:9090"))
        provider = plain_yaml.load((self.folder / "grafana" / "dashboards.yaml").read_text())["providers"][0]
        mounts = [volume.split(":")[1] for volume in self.services["grafana"]["volumes"]]
        self.assertIn(f"{provider['options']['path']}/nanovllm.json", mounts)


class ProxyTest(unittest.TestCase):
    def test_their_limits_are_those_of_the_server(self):
        nginx = (DEPLOY / "proxy" / "nginx.conf").read_text()
        haproxy = (DEPLOY / "proxy" / "haproxy.cfg").read_text()
        for found in (re.findall(r"proxy_read_timeout (\w+);", nginx), re.findall(r"timeout (?:client|server) (\w+)", haproxy)):
            self.assertTrue(found)
            for time in found:
                self.assertGreaterEqual(seconds_of(time), DEFAULTS["request-timeout"])
        (body,) = re.findall(r"client_max_body_size (\d+)m;", nginx)
        self.assertEqual(f"{body}MiB", DEFAULTS["max-body"])
        self.assertIn("uri /ready ", haproxy)
        self.assertIn("proxy_buffering off;", nginx)


if __name__ == "__main__":
    unittest.main()
