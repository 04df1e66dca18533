"""Holds jobs to their memory: one that cannot fit is refused before its input is read, and counting that does not fit
goes to disk and stays near the limit, with the same bytes."""

import contextlib
import os
import re
import time
from pathlib import Path

import jobs
from scene import Scene

REFUSED = 8
MB = 1_000_000
# No disk has so many bytes and no one could read them meanwhile: the file is sparse.
HUGE = 1 << 40
# The most seconds until a job is refused that must not read.
AT_ONCE = 5
# Different words, of which each comes twice, far apart; all are too long to be kept in a table's slot.
WORDS, STEM = 2_500_000, "abcdefghijklmnop"
LIMIT = 256 * MB
# How far the peak may be above the limit: what reading takes is reckoned, not measured.
NEAR = 1.15


def check(setting):
    yield refused(setting)
    yield limited(setting)


def refused(setting):
    """Without a split the text that is learned from is held in memory."""

    def huge(folder):
        with open(folder / "huge.txt", "wb") as file:
            file.truncate(HUGE)
        return {}

    arguments = ["train", "huge.txt", "--split", "none", "--merges", "10", "--memory", "1GB", "-o", "out", "-q"]
    scene = Scene(setting, "memory", jobs.Job("refused", arguments, huge))
    ended = scene.run()
    scene.must(ended.code == REFUSED and "memory" in ended.said, "it is not refused", ended)
    scene.must(ended.seconds < AT_ONCE, "it is not refused at once", ended)
    scene.must(not list(scene.files()), "what was refused wrote files", ended)
    return f"{HUGE / 1e12:.1f} TB for 1 GB of memory: refused after {ended.seconds:.2f} s"


def limited(setting):
    def words(folder):
        numbers = (f"{STEM}{n * 2654435761 % (1 << 32):x}\n" for n in range(WORDS))
        text = "".join(numbers).translate(str.maketrans("0123456789", "ghijklmnop"))
        (folder / "words.txt").write_text(text + text)
        return {}

    def the_same(folder):
        os.link(free.folder / "words.txt", folder / "words.txt")
        return {}

    def count(name, memory, prepare):
        return Scene(setting, "memory", jobs.count(name, "words.txt", memory, prepare, more=["--threads", "2"]))

    free = count("free", None, words)
    scene = count("limited", f"{LIMIT // MB}MB", the_same)
    without = peak(free)
    scene.expected = free.found()
    with_limit = peak(scene)
    scene.compare("with a limit", whole=True)
    scene.must(without > 1.5 * LIMIT, f"without a limit it takes {without / MB:.0f} MB, too little to prove anything")
    scene.must(with_limit < NEAR * LIMIT, f"it takes {with_limit / MB:.0f} MB, with a limit of {LIMIT // MB}")
    return f"{with_limit / MB:.0f} MB with a limit of {LIMIT // MB}, {without / MB:.0f} without, the same bytes"


def peak(scene):
    """Runs to the end and gives the most bytes of memory that took. What `wait4` tells has that of this process in it,
    from before the program began."""
    process, status, most = scene.start(), "", 0
    while process.poll() is None:
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{process.pid}/status").read_text()
        most = max([most, *map(int, re.findall(r"VmHWM:\s+(\d+) kB", status))])
        time.sleep(0.01)
    ended = scene.end(process)
    scene.must(ended.code == 0, "it failed", ended)
    scene.job.check(scene, ended.out)
    return most * 1024
