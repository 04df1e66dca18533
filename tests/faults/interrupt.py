"""Interrupts jobs at random moments with SIGINT and SIGTERM. They must end soon, say how to resume, and leave
files from which the same command can resume."""

import signal
import subprocess
import time

import jobs

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
# Seconds within which an interrupted run must end.
SOON = 5
# Seconds that the program may take to install its signal handlers on a busy machine. Before, a signal may just end it.
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
    # The signal may come after the work is done. Then the code is 0.
    codes = [CODES[number], 0] + [-number] * starting
    scene.must(ended.code in codes, what, ended)
    says = "give the same command again" in ended.said
    scene.must(says or ended.code != CODES[number], f"{what}: it does not say how to go on", ended)


def interrupted_after(scene, seconds, number):
    """Returns how the run ended, and the seconds from the signal to the end; `None` if it ended before the signal."""
    process = scene.start()
    try:
        process.wait(timeout=seconds)
        return scene.end(process), None
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    begun = time.monotonic()
    ended = scene.end(process)
    return ended, time.monotonic() - begun
