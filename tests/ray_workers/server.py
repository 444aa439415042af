"""Forks Ray's workers from one process that has imported what takes them longest.

A process of a run imports for one CPU second, one with a model for four: most of what a test costs.
Imported beforehand is only what is neither Ray's nor ours: Ray reads a worker's environment while
it is imported, and ours is what is tested.
"""

import fcntl
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
from typing import Any

_IMPORTED = (
    "aiohttp", "fsspec.compression", "google.protobuf.descriptor_pool", "grpc", "jinja2",
    "jsonschema", "msgpack", "numpy", "opentelemetry.sdk.metrics", "pandas", "pandas.io.json",
    "psutil", "pyarrow.compute", "pyarrow.dataset", "pyarrow.fs", "pyarrow.json",
    "pyarrow.parquet", "pydantic", "pydantic.v1", "requests", "safetensors.torch", "tokenizers",
    "torch", "transformers.models.gptj.modeling_gptj", "upath", "yaml",
)  # fmt: skip
_MOST_BYTES = 1 << 20


def asked(listening: socket.socket) -> tuple[dict[str, Any], socket.socket]:
    """What a worker is to be and the process that Ray started for it, in each fork of this one."""
    while True:
        starter, _ = listening.accept()
        message, files, _, _ = socket.recv_fds(starter, _MOST_BYTES, 3)
        while message and not message.endswith(b"\n"):
            message += starter.recv(_MOST_BYTES)
        if message and os.fork() == 0:
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            return json.loads(message), starter
        for file in files:
            os.close(file)
        starter.close()


def bind(starter: socket.socket) -> None:
    """Have this process killed when its starter ends, which Ray takes for the worker."""
    starter.sendall(b"%d\n" % os.getpid())
    fcntl.fcntl(starter, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(starter, fcntl.F_SETSIG, signal.SIGKILL)  # at anything that comes: at its end
    fcntl.fcntl(starter, fcntl.F_SETFL, os.O_ASYNC)


def main() -> None:
    listening = socket.socket(fileno=int(sys.argv[1]))
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # collections would touch, and so copy, all that forks share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how one ended
    worker, starter = asked(listening)
    listening.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    bind(starter)
    os.environ.clear()
    os.environ.update(worker["environment"])
    os.chdir(worker["directory"])
    sys.path[:], sys.argv[:] = worker["path"], worker["argv"]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
