"""Lets two processes do the same job into the same folder at once, the second begun at a random moment of the first.

Each must come to its end or be refused with a message, and the files must be right.
"""

import time

import jobs
from scene import Scene


def check(setting):
    for job in jobs.large(setting):
        scene = Scene(setting, "writers", job)
        scene.leave_alone()
        draws = setting.draws("writers", job.name)
        refused = sum(pair(scene, draws.uniform(0, scene.seconds)) for _ in range(setting.given.writers))
        yield f"{job.name}: {setting.given.writers} pairs, {refused} of the second writers refused"


def pair(scene, seconds):
    """Begins the second so many seconds after the first; gives how many of the two were refused."""
    first = scene.start()
    time.sleep(seconds)
    second = scene.start()
    what = f"with a second writer after {seconds:.3f} s"
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
