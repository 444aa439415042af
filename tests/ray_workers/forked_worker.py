"""What Ray starts as a worker: has one forked by the server, and lives and dies with it.

Started as `default_worker.py` of Ray would be, with its arguments.
"""

import json
import os
import signal
import socket
import sys
from types import FrameType

SERVER = "TOOLFORMER_TEST_WORKER_SERVER"  # the variable with the path of its socket


def forked(worker: str, server: socket.socket) -> int:
    """The process of a worker that the server forked.

    Raises:
        OSError: the server is not there, or ended meanwhile.
    """
    asked = {
        "argv": [worker, *sys.argv[1:]],
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "path": [os.path.dirname(worker), *sys.path[1:]],
    }
    server.connect(os.environ[SERVER])
    socket.send_fds(server, [json.dumps(asked).encode() + b"\n"], [0, 1, 2])
    answer = server.makefile("rb").readline()
    if not answer:
        raise ConnectionError("no answer")
    return int(answer)


def main() -> None:
    [site] = [path for path in sys.path if path.endswith("site-packages")]
    worker = os.path.join(site, "ray", "_private", "workers", "default_worker.py")
    server = socket.socket(socket.AF_UNIX)
    try:
        pid = forked(worker, server)
    except OSError as error:
        print(f"not forked: {error}", file=sys.stderr)
        os.execv(sys.executable, [sys.executable, worker, *sys.argv[1:]])

    def hand_on(number: int, _: FrameType | None) -> None:
        os.kill(pid, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hand_on)
    with open("/proc/self/comm", "w") as name:  # for who looks for workers below a raylet
        name.write(str(pid))
    server.recv(1)  # nothing, when the worker has ended


if __name__ == "__main__":
    main()
