"""Runs programs, and says what the machine gave meanwhile: probes before and after, and how much of it others took."""

import collections
import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
WORK = SOURCE / "build"  # where programs run: some leave logs
BIN = WORK / "release" / "bin"
SAMPLE_S = 0.02
LOCK_PAUSE_S = 0.2  # whoever waits for a lock gets it before who just gave it back

# max_rss_mib is what the kernel counted, mapped files included; anonymous_mib the largest of samples, None when not asked for.
Finished = collections.namedtuple("Finished", "text error seconds max_rss_mib anonymous_mib")


class Failed(Exception):
    """A program did not do what was asked; the message says which and what it said."""


class Watch:
    """How much of the machine went to processes that are not children of this one, since it was made."""

    def __init__(self):
        self.ticks, self.own_s = machine_ticks(), children_s()

    def others(self):
        busy, whole = (now - then for now, then in zip(machine_ticks(), self.ticks))
        hertz = os.sysconf("SC_CLK_TCK")
        return max(0.0, (busy / hertz - (children_s() - self.own_s)) / (whole / hertz))


def machine_ticks():
    """Ticks of all cores: those in use (by the host's other machines too), and all."""
    fields = list(map(int, open("/proc/stat").readline().split()[1:9]))
    return sum(fields) - fields[3] - fields[4], sum(fields)


def children_s():
    """CPU time of children that have ended and were waited for."""
    spent = os.times()
    return spent.children_user + spent.children_system


def anonymous_mib(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("RssAnon:")), 0.0)


def wait(pid, sample):
    """Status, resources, and the most anonymous memory seen, or None."""
    most = 0.0
    while sample:
        most = max(most, anonymous_mib(pid))
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            return status, usage, most
        time.sleep(SAMPLE_S)
    _, status, usage = os.wait4(pid, 0)
    return status, usage, None


def run(command, sample_memory=False):
    """A program from start to end. Throws Failed when it exits with anything but 0."""
    command = [str(word) for word in command]
    with tempfile.TemporaryFile("w+", errors="replace") as text, tempfile.TemporaryFile("w+", errors="replace") as error:
        begin = time.monotonic()
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=text, stderr=error, cwd=WORK)
        except OSError as fault:
            raise Failed(str(fault)) from None
        status, usage, anonymous = wait(process.pid, sample_memory)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        text.seek(0)
        error.seek(0)
        done = Finished(text.read(), error.read(), seconds, usage.ru_maxrss / 1024, anonymous)
    if process.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit {process.returncode}: {(done.error or done.text)[-600:].strip()}")
    return done


def hold(paths):
    """Reads files anew and keeps them in memory until this process has ended. Pages that lay there since they were written were
    read a sixth slower than fresh ones, and systems that give back what was idle for some seconds would make each side read them
    anew when its turn comes. Returns what the system said where that much may not be locked. Another process does it: programs
    start with the peak memory of the one that starts them."""
    said, saying = os.pipe()
    waiting, ours = os.pipe()
    if os.fork() == 0:
        os.close(ours)
        os.write(saying, "".join(f"{path}: {fault}\n" for path in paths if (fault := lock_in_memory(path))).encode())
        os.close(saying)
        os.read(waiting, 1)
        os._exit(0)
    os.close(saying)
    os.close(waiting)
    with open(said) as text:
        return text.read().splitlines()


def lock_in_memory(path):
    """None, or why not."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        begin = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    if begin == ctypes.c_void_p(-1).value or libc.mlock(begin, size) != 0:
        return os.strerror(ctypes.get_errno())
    return None


def probe():
    return json.loads(run([BIN / "nvllm-probe"]).text)


@contextlib.contextmanager
def locked(path):
    """Holds the lock of a file that others who would disturb take too (flock FILE COMMAND); without a path, nothing."""
    with open(path, "a") if path else contextlib.nullcontext() as file:
        if file:
            time.sleep(LOCK_PAUSE_S)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def quiet_turn(action, most_others, tries):
    """The figures that `action` returns, with the probes beside them. It is done again while others took more than
    `most_others` of the CPU time, and the quietest turn counts."""
    best = None
    for _ in range(tries):
        before, watch = probe(), Watch()
        figures = action()
        others, after = watch.others(), probe()
        figures["others"] = others
        figures["read_gb_s"] = statistics.mean(one["read_gb_s"] for one in (before, after))
        figures["gflop_s"] = statistics.mean(max(one["float32_gflop_s"], one["bfloat16_gflop_s"]) for one in (before, after))
        figures["int8_gop_s"] = statistics.mean(one["int8_gop_s"] for one in (before, after))
        figures["handover_ns"] = [one["handover_ns"] for one in (before, after)]
        if best is None or others < best["others"]:
            best = figures
        if others <= most_others:
            break
    return best
