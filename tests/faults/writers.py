"""Runs two processes with the same job and output folder at once. The second starts at a random moment of the first.

Each must succeed or be refused with a message, and the files must be right. This also holds where folders do not
support locks, as in some network file systems.
"""

import shutil
import time

import jobs
from scene import Scene


def check(setting):
    for job in jobs.large(setting):
        scene = Scene(setting, "writers", job)
        scene.leave_alone()
        draws = setting.draws("writers", job.name)
        kinds = [("", [])]
        if shutil.which("strace"):
            kinds.append((" without locks", NO_LOCKS))
        else:
            yield f"{job.name}: SKIPPED folders without locks, since there is no strace"
        for words, prefix in kinds:
            pairs = [pair(scene, draws.uniform(0, scene.seconds), words, prefix) for _ in range(setting.given.writers)]
            yield f"{job.name}: {len(pairs)} pairs{words}, {sum(pairs)} of the second writers refused"


# The answer of Lustre and NFS if locks are not enabled.
NO_LOCKS = "strace -f -qq -o /dev/null -e trace=flock -e inject=flock:error=ENOLCK".split()


def pair(scene, seconds, words, prefix):
    """Starts the second process `seconds` after the first. Returns how many of the two were refused."""
    first = scene.start(*prefix)
    time.sleep(seconds)
    second = scene.start(*prefix)
    what = f"with a second writer{words} after {seconds:.3f} s"
    both = [scene.end(first), scene.end(second)]
    refused = [ended for ended in both if ended.code != 0]
    for ended in refused:
        says = ended.code == 1 and "another process" in ended.said
        scene.must(says and scene.job.owns_folder, what, ended)
    scene.must(len(refused) < 2, f"{what}: both were refused", both[0])
    scene.compare(what, both[0], whole=True)
    scene.clean(what, both[0])
    scene.clear()
    scene.figures["pairs of writers"] += 1
    return len(refused)
