"""The hub of the tests on loopback, which the example `fake_hub` serves."""

import shlex
import subprocess

DATASET = "somebody/words"
# Slow enough to meet a download in its middle.
SLOW = 20_000_000


class Hubs:
    """Processes that serve a folder each, for as long as this one wants."""

    def __init__(self, program):
        self.program, self.processes, self.commands = program, [], {}

    def serve(self, folder, rate):
        """Serves the files of a folder as the dataset, at so many bytes a second; gives the address."""
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
