"""Lets each operation on files fail once, of each kind the n-th for every n, and kills the job before each that writes.

Which operations there are is seen in a run that is watched; `strace` watches, and makes system calls fail. It counts
them in each thread, so an operation fails once in each thread that gets so far; the jobs do their work on one.
"""

import queue
import re
import shutil
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import jobs
from scene import Scene, Wrong

# What happens to operations; those that are not named fail with EIO.
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
# Not on files, or such that their failure means nothing.
LEFT_OUT = {
    "access", "bind", "close", "dup", "execve", "fcntl", "getcwd", "getpeername", "getsockname", "getsockopt", "ioctl",
    "mmap", "mremap", "munmap", "poll", "recvmsg", "sendmmsg", "setsockopt", "socket",
}  # fmt: skip
CODES = {0, 1, 2, 5, 7, 8}
# Most of the time a run waits: for the disk, or before it asks the hub again.
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
    """What to try: a system call, what happens to it, and to the how manieth of a thread."""
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
    """Lets all of them fail, several at once, each in a scene that is free; gives how many did by kind."""

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
    """Disturbs one operation, and looks at what is left and what the next run makes of it; false if the run did not come
    to that operation this time."""
    log = scene.folder / "strace.log"
    inject = f"inject={call}:{fault}:when={number}"
    # Faster, but then signals do not always come.
    quick = [] if fault == KILL else ["--seccomp-bpf"]
    ended = scene.run("strace", "-f", *quick, "-o", log, "-e", f"trace={call}", "-e", inject)
    what = f"with strace -f -e {inject}"
    killed = ended.code == -signal.SIGKILL and fault == KILL
    happened = killed or "INJECTED" in log.read_text(errors="replace")
    if killed:
        scene.compare(what, ended)
    # The system's loader fails in its own way before the program begins.
    elif not (ended.code == 127 and "error while loading" in ended.said):
        judge(scene, what, ended, call, fault)
    scene.resume(what)
    scene.clear()
    scene.figures["kills before operations" if fault == KILL else "operations failed"] += happened
    return happened


def judge(scene, what, ended, call, fault):
    """Whether a run ended as it should in which an operation failed."""
    scene.must(ended.code in CODES and "panicked" not in ended.said, what, ended)
    scene.must(fault != ENOSPC or ended.code in (0, 7), f"{what}: a full disk is not told by the code", ended)
    # The message itself goes out by a write, which may be the one that failed.
    silenced = call == "write" and not ended.said.strip()
    scene.must(ended.code == 0 or silenced or scene.names_something(ended.said), f"{what}: it names nothing", ended)
    scene.compare(what, ended, whole=ended.code == 0)
    # Taking something away is an operation too.
    if not call.startswith("unlink"):
        scene.clean(what, ended)
