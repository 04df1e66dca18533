"""Checks the limit on memory. A job that cannot fit is refused before its input is read. Counts that do not fit go to
disk, stay near the limit, and give the same file."""

import contextlib
import os
import re
import time
from pathlib import Path

import jobs
from scene import Scene

REFUSED = 8
MB = 1_000_000
# Bytes of a sparse file: more than a disk holds, and more than could be read within the time below.
HUGE = 1 << 40
# Seconds within which a job must be refused if it does not read its input.
AT_ONCE = 5
# Number of different words. Each occurs twice, far apart. With the stem they are too long to be stored inside a slot
# of the hash table.
WORDS, STEM = 2_500_000, "abcdefghijklmnop"
LIMIT = 256 * MB
# Greatest ratio of peak memory to the limit. The memory for reading is estimated, not measured.
NEAR = 1.15


def check(setting):
    yield refused(setting)
    yield limited(setting)


def refused(setting):
    """Training without a split holds the text in memory, so a huge text must be refused."""

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
    """Runs to the end and returns the peak memory in bytes. `wait4` is no use: its peak includes the memory that this
    process had before the child started the program."""
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
