"""Keeps every core busy for a fixed share of each period of 10 ms, one process a core, as other tenants of a machine do."""

import os
import subprocess
import sys
import time

PERIOD_S = 0.01


def burn(core, share):
    """For ever: that much CPU time in each period, then sleep. Time missed in a period is not made up for."""
    os.sched_setaffinity(0, {core})
    begin = time.monotonic()
    while True:
        spent = time.process_time()
        while time.process_time() - spent < share * PERIOD_S and time.monotonic() < begin + PERIOD_S:
            pass
        begin = max(begin + PERIOD_S, time.monotonic())
        time.sleep(max(0.0, begin - time.monotonic()))


class ForeignLoad:
    """with ForeignLoad(0.4) as load: ...; load.share is then what part of the cores' time it really had."""

    def __init__(self, share):
        self.wanted, self.share = share, None

    def __enter__(self):
        self.begin = time.monotonic()
        cores = sorted(os.sched_getaffinity(0))
        self.processes = [subprocess.Popen([sys.executable, "-B", __file__, str(core), str(self.wanted)]) for core in cores]
        return self

    def __exit__(self, *_):
        spent_s = 0.0
        for process in self.processes:
            process.terminate()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            spent_s += usage.ru_utime + usage.ru_stime
        self.share = spent_s / (len(self.processes) * (time.monotonic() - self.begin))


if __name__ == "__main__":
    burn(int(sys.argv[1]), float(sys.argv[2]))
