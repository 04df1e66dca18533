"""Kills jobs at random moments with SIGKILL, resumes them from what they left, and compares all files each time."""

import signal
import subprocess

import jobs

# Probability that the command runs to its end after a kill, rather than being killed again.
RESUMED = 0.25


def check(setting):
    for scene, draws, kills in jobs.dealt_out(setting, "kills", setting.given.kills):
        yield of_job(scene, draws, kills)


def of_job(scene, draws, kills):
    done = unkilled = 0
    before = scene.figures["resumes"]
    while done < kills:
        # Up to a little more than the time of a whole run, so that kills in its last moments occur as well.
        seconds = draws.uniform(0, 1.05 * scene.seconds)
        ended = killed_after(scene, seconds)
        what = f"with SIGKILL after {seconds:.3f} s, kill {done + 1}"
        if ended.code == -signal.SIGKILL:
            done += 1
            scene.figures["kills at random moments"] += 1
        else:
            unkilled += 1
            scene.must(ended.code == 0, what, ended)
        whole = scene.compare(what, ended, whole=ended.code == 0)
        if whole or done == kills or draws.random() < RESUMED:
            scene.resume(what)
            scene.clear()
    resumes = scene.figures["resumes"] - before
    return f"{scene.job.name}: {done} kills within {scene.seconds:.2f} s, {unkilled} came too late, {resumes} resumed"


def killed_after(scene, seconds):
    process = scene.start()
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    return scene.end(process)
