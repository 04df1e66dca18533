"""The local imitation of the Hugging Face hub, served by the example `fake_hub`."""

import shlex
import subprocess

DATASET = "somebody/words"
# Bytes per second: slow enough that a download can be disturbed in the middle.
SLOW = 20_000_000


class Hubs:
    """Server processes, one per folder. They run until `end` is called."""

    def __init__(self, program):
        self.program, self.processes, self.commands = program, [], {}

    def serve(self, folder, rate):
        """Serves the files of a folder as the dataset, with `rate` bytes per second. Returns the address."""
        command = [str(self.program), str(folder), "--name", DATASET, "--rate", str(rate)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        endpoint = process.stdout.readline().strip()
        if not endpoint:
            raise RuntimeError(f"no hub came up: {shlex.join(command)}")
        self.commands[endpoint] = shlex.join(command)
        return endpoint

    def end(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait(timeout=10)
            process.stdout.close()
