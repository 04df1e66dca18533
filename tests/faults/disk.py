"""Fills the disk: by a limit on file sizes, and by a small file system where one can be mounted.

The job must end with code 7 and say why, and must leave no partial file. The same command with enough room must give
the files of an undisturbed run.
"""

import contextlib
import resource
import subprocess
from functools import partial

import jobs
from scene import Scene

FULL = 7
# Limits on file size, as fractions of the largest file, and sizes of the file system, as fractions of all files.
PARTS = [0, 0.02, 0.2, 0.5, 0.8, 0.97]


def check(setting):
    for job in jobs.large(setting):
        scene = Scene(setting, "disk", job)
        scene.leave_alone()
        parts = PARTS[1::3] if setting.given.quick else PARTS
        full = limited(scene, parts)
        scene.must(full >= len(parts) / 2, "limits to the size of files are not reached")
        yield f"{job.name}: {full} limits to the size of files reached"
        try:
            with mounted(scene.folder / job.roots[-1]):
                full = within_small_file_systems(scene, parts)
        except PermissionError as refusal:
            yield f"{job.name}: SKIPPED full file systems, since none can be mounted: {str(refusal).strip()}"
            continue
        scene.must(full >= len(parts) / 2, "the small file systems are not full")
        yield f"{job.name}: {full} file systems full"


def limited(scene, parts):
    """Runs with limits on the size of a file. Returns the number of limits that were reached."""
    largest, full = max(scene.sizes.values()), 0
    for part in parts:
        limit = int(part * largest)
        ended = scene.run(preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit)))
        full += judge(scene, f"with files of {limit} bytes at most (RLIMIT_FSIZE)", ended)
    return full


def within_small_file_systems(scene, parts):
    """Runs with little room in the output folder, and then with enough. Returns how often the room was too small."""
    total, full = sum(scene.sizes.values()), 0
    for part in parts:
        room = max(4096, int(part * total))
        resize(scene.folder / scene.job.roots[-1], room)
        ended = scene.run()
        resize(scene.folder / scene.job.roots[-1], 100 * total)
        full += judge(scene, f"with a file system of {room} bytes", ended)
    return full


def judge(scene, what, ended):
    """Checks a run that may have reached the limit, and runs again without it. Returns whether it was reached."""
    scene.must(ended.code in (0, FULL), what, ended)
    # A job that certainly needs more than is free is refused before it writes.
    says = any(words in ended.said for words in ("too large", "No space left", "are free"))
    scene.must(ended.code == 0 or says, f"{what}: it does not say that the disk is full", ended)
    scene.compare(what, ended, whole=ended.code == 0)
    scene.clean(what, ended)
    scene.resume(what)
    scene.clear()
    scene.figures["full disks"] += ended.code == FULL
    return ended.code == FULL


@contextlib.contextmanager
def mounted(folder):
    """Mounts a file system on a folder. Raises `PermissionError` if this user may not mount one."""
    folder.mkdir(exist_ok=True)
    try:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True, capture_output=True, text=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as refusal:
        raise PermissionError(getattr(refusal, "stderr", refusal)) from refusal
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def resize(folder, size):
    subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)
