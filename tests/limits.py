"""What a test may take: 10 s of processor time and 1 GB, of a worker's 2 GB, so that the suite runs on a small machine.

Memory that is asked for beyond `WORKER` fails at once, as a MemoryError, instead of waking the system's killer of processes.
The peak of each test is what the system saw (its high-water mark is set back before each), children included as far as
they set a new record. After the run the ten slowest and the ten largest are printed, and with `--limits`, which CI gives,
tests above the limits fail the run.
"""

import os
import pathlib
import resource

import adjoint as ad

GB = 1 << 30
WORKER, TEST, SECONDS = 2 * GB, GB, 10
STATUS, RESET = pathlib.Path("/proc/self/status"), pathlib.Path("/proc/self/clear_refs")


def limit_memory():
    """Limit this process and its children to `WORKER` bytes of data; a sanitizer's shadow of memory counts and fits in no limit."""
    if "asan" not in os.environ.get("LD_PRELOAD", "") and "tsan" not in os.environ.get("LD_PRELOAD", ""):
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (WORKER if hard < 0 else min(WORKER, hard), hard))


def resident(field):
    """The bytes that this process has in memory (VmRSS), or had at most since `RESET` (VmHWM); 0 if the system does not say."""
    try:
        fields = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        return int(fields[field].split()[0]) * 1024
    except (OSError, KeyError):
        return 0


def processor_time():
    """Seconds that this process and its children have computed: the same on a machine that others use, too."""
    user, system, of_children, in_children, _ = os.times()
    return user + system + of_children + in_children


class Limits:
    """The hooks: measure in the workers, gather and judge in the process that reports."""

    def __init__(self, config):
        self.judges = config.getoption("limits")
        self.taken = {}  # test -> [seconds, bytes]
        self.children = 0
        self.alone = resident("VmRSS")  # what a process has that runs one test

    def pytest_runtest_setup(self, item):
        if resident("VmRSS") > TEST // 4:
            ad.empty_cache()  # what earlier tests left there is none of this test's
        try:
            RESET.write_text("5")
        except OSError:
            pass
        # Thousands of collected tests and their modules are none of this test's either.
        self.others = max(0, resident("VmRSS") - self.alone)
        self.children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.began = processor_time()

    def pytest_runtest_teardown(self, item):
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        largest = max(resident("VmHWM") - self.others, children * 1024 if children > self.children else 0)
        item.user_properties += [("peak", largest), ("seconds", processor_time() - self.began)]

    def pytest_runtest_logreport(self, report):
        taken = self.taken.setdefault(report.nodeid, [0.0, 0])
        for name, value in report.user_properties:
            if name in ("seconds", "peak"):
                taken[name == "peak"] = max(taken[name == "peak"], value)

    def above(self):
        return [name for name, (seconds, size) in self.taken.items() if seconds > SECONDS or size > TEST]

    def pytest_sessionfinish(self, session, exitstatus):
        if self.judges and self.above() and exitstatus == 0 and not hasattr(session.config, "workerinput"):
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter):
        if not self.judges:
            return
        for title, column, text in (("slowest", 0, "{:8.1f} s "), ("largest", 1, "{:8.2f} GB")):
            terminalreporter.section(f"the ten {title} tests")
            unit = GB if column else 1
            for name in sorted(self.taken, key=lambda name: -self.taken[name][column])[:10]:
                terminalreporter.line(f"{text.format(self.taken[name][column] / unit)}  {name}")
        for name in self.above():
            terminalreporter.line(f"above the limits of {SECONDS} s and {TEST // GB} GB: {name}", red=True)
