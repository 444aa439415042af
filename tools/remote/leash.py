"""Run as a script: becomes the command given to it, which ends when the process above it ends.

The signal is one of Linux; elsewhere a server is left to notice that its input has closed.
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: str, command: list[str]) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it ended before the signal was asked for
            sys.exit(1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
