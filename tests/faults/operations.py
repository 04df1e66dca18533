"""Makes every file operation fail once: for each kind of system call, the n-th call for every n. Also kills the job
before each operation that writes.

A run under `strace` shows which operations a job does. In further runs, `strace` makes one of them fail. It counts
calls per thread, so the n-th call fails in every thread with that many calls. The jobs therefore work on one thread.
"""

import queue
import re
import shutil
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import jobs
from scene import Scene, Wrong

# The faults of each system call. Calls that are not listed fail with EIO.
ENOSPC, EIO, EMFILE, EACCES, KILL = "error=ENOSPC", "error=EIO", "error=EMFILE", "error=EACCES", "signal=KILL"
FAULTS = {
    "write": [ENOSPC, EIO, KILL],
    "pwrite64": [ENOSPC, EIO, KILL],
    "mkdir": [ENOSPC, KILL],
    "symlink": [ENOSPC, KILL],
    "openat": [EMFILE, EACCES],
    "connect": ["error=ECONNREFUSED"],
    "sendto": ["error=EPIPE"],
    "recvfrom": ["error=ECONNRESET"],
} | dict.fromkeys(["fsync", "fdatasync", "ftruncate", "rename", "renameat", "unlink"], [EIO, KILL])
# Calls that do not concern files, or that may fail without effect.
LEFT_OUT = {
    "access", "bind", "close", "dup", "epoll_create1", "epoll_ctl", "epoll_wait", "eventfd2", "execve", "fcntl",
    "getcwd", "getpeername", "getsockname", "getsockopt", "ioctl", "mmap", "mremap", "munmap", "poll", "recvmsg",
    "sendmmsg", "setsockopt", "socket",
}  # fmt: skip
# A failed write by which a thread wakes those that wait for the network. It concerns no file, and never fails by itself.
WAKES = re.compile(r'write\(\d+, "\\1(\\0){7}", 8\) .*INJECTED')
CODES = {0, 1, 2, 5, 7, 8}
# Number of runs at a time. A run waits most of the time: for the disk, or before it repeats a request to the hub.
AT_ONCE = 8


def check(setting):
    if not shutil.which("strace"):
        yield "SKIPPED, since there is no strace, which makes operations fail"
        return
    happened = 0
    for job in jobs.small(setting):
        scenes = queue.SimpleQueue()
        for number in range(AT_ONCE):
            scenes.put(scene := Scene(setting, f"operations-{number}", job))
            scene.leave_alone()
        step = setting.given.step
        failed = of_job(scenes, list(operations(scene))[step // 2 :: step])
        happened += failed.total()
        kinds = ", ".join(f"{call} {count}" for call, count in sorted(failed.items()))
        yield f"{job.name}: {failed.total()} failed or met a kill ({kinds})"
    if not happened:
        raise Wrong("strace made no operation fail, so that nothing was tried")


def operations(scene):
    """Yields all disturbances: a system call, its fault, and the number of the call within a thread."""
    log = scene.folder / "strace.log"
    watched = scene.run("strace", "-f", "-o", log, "-e", "trace=%file,%desc,%net")
    scene.must(watched.code == 0, "watched by strace, which may not be allowed to", watched)
    scene.clear()
    calls = Counter(re.findall(r"^(\d+) +(\w+)\(", log.read_text(errors="replace"), re.MULTILINE))
    most = Counter()
    for (_, call), count in calls.items():
        most[call] = max(most[call], count)
    for call in sorted(most.keys() - LEFT_OUT):
        for fault in FAULTS.get(call, [EIO]):
            yield from ((call, fault, number) for number in range(1, most[call] + 1))


def of_job(scenes, all_operations):
    """Tries all disturbances, several at a time, each in a free scene. Returns how many happened, by system call."""

    def one(operation):
        scene = scenes.get()
        try:
            return fail(scene, *operation)
        finally:
            scenes.put(scene)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        tried = [threads.submit(one, operation) for operation in all_operations]
        try:
            failed = [future.result() for future in tried]
        finally:
            threads.shutdown(cancel_futures=True)
    return Counter(call for (call, _, _), happened in zip(all_operations, failed) if happened)


def fail(scene, call, fault, number):
    """Disturbs one operation and checks the files that are left, then those of the next run. Returns false if the run
    did not reach the operation this time."""
    log = scene.folder / "strace.log"
    inject = f"inject={call}:{fault}:when={number}"
    # Faster, but it sometimes loses signals.
    quick = [] if fault == KILL else ["--seccomp-bpf"]
    ended = scene.run("strace", "-f", *quick, "-o", log, "-e", f"trace={call}", "-e", inject)
    what = f"with strace -f -e {inject}"
    killed = ended.code == -signal.SIGKILL and fault == KILL
    calls = log.read_text(errors="replace")
    happened = killed or "INJECTED" in calls
    if killed or WAKES.search(calls):
        scene.compare(what, ended)
    # A fault in the system's loader, before the program starts, gives a message of the loader.
    elif not (ended.code == 127 and "error while loading" in ended.said):
        judge(scene, what, ended, call, fault)
    scene.resume(what)
    scene.clear()
    scene.figures["kills before operations" if fault == KILL else "operations failed"] += happened
    return happened


def judge(scene, what, ended, call, fault):
    """Checks the end of a run in which an operation failed."""
    scene.must(ended.code in CODES and "panicked" not in ended.said, what, ended)
    scene.must(fault != ENOSPC or ended.code in (0, 7), f"{what}: a full disk is not told by the code", ended)
    # The message itself is written by a call that may have been the one to fail.
    silenced = call == "write" and not ended.said.strip()
    scene.must(ended.code == 0 or silenced or scene.names_something(ended.said), f"{what}: it names nothing", ended)
    scene.compare(what, ended, whole=ended.code == 0)
    # Unfinished files may stay if it was their removal that failed.
    if not call.startswith("unlink"):
        scene.clean(what, ended)
