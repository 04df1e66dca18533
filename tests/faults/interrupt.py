"""Interrupts jobs at random moments with SIGINT and SIGTERM: they must end soon, say so, and leave what can be gone on
with."""

import signal
import subprocess
import time

import jobs

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
# The most seconds that an interrupted run may take to end.
SOON = 5
# For so many seconds, as long as a busy machine takes to start it, the program may not listen yet.
STARTED = 0.3


def check(setting):
    for scene, draws, interrupts in jobs.dealt_out(setting, "interrupt", setting.given.interrupts):
        yield of_job(scene, draws, interrupts)


def of_job(scene, draws, interrupts):
    done, longest = 0, 0.0
    while done < interrupts:
        number = list(CODES)[done % 2]
        seconds = draws.uniform(0, scene.seconds)
        ended, took = interrupted_after(scene, seconds, number)
        what = f"with {number.name} after {seconds:.3f} s"
        if took is not None:
            done, longest = done + 1, max(longest, took)
            scene.figures["interrupts"] += 1
            scene.must(took <= SOON, f"{what}: it ended only {took:.2f} s later", ended)
            judge(scene, what, ended, number, seconds < STARTED)
        scene.compare(what, ended, whole=ended.code == 0)
        scene.clean(what, ended)
        if ended.code == 0 or done == interrupts or draws.random() < 0.5:
            scene.resume(what)
            scene.clear()
    return f"{scene.job.name}: {done} interrupts, ended after {longest:.2f} s at most"


def judge(scene, what, ended, number, starting):
    # All that follows may be done already.
    codes = [CODES[number], 0] + [-number] * starting
    scene.must(ended.code in codes, what, ended)
    says = "give the same command again" in ended.said
    scene.must(says or ended.code != CODES[number], f"{what}: it does not say how to go on", ended)


def interrupted_after(scene, seconds, number):
    """How the run ended, and how long after the signal; that is none if it had ended before."""
    process = scene.start()
    try:
        process.wait(timeout=seconds)
        return scene.end(process), None
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    begun = time.monotonic()
    ended = scene.end(process)
    return ended, time.monotonic() - begun
