"""What vLLM adds to its worker, in the process of its engine."""

import ctypes
import os
import signal

WORKER_EXTENSION = f"{__name__}.WorkerExtension"

_PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>


class WorkerExtension:
    """Methods for AsyncLLM.collective_rpc."""

    def die_with(self, parent: int) -> None:
        """Let Linux kill this process when the thread that started it is gone.

        vLLM itself ends it where `parent` can still say so, which one that is killed cannot.
        """
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was gone before
            os.kill(os.getpid(), signal.SIGKILL)
