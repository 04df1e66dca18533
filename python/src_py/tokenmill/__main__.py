"""The command line: ``tokenmill``, or ``python -m tokenmill``."""

from __future__ import annotations

import signal
import sys

from tokenmill import _core


def main() -> int:
    """Runs the command line with the arguments of this process, and returns the exit code."""
    # The program handles interruptions itself. Python's handler would only note them until the program has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.main(["tokenmill", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
