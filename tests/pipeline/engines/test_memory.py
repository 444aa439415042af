"""Running out of memory: by the book on functions, for real in a process with a limit."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.engines.memory import is_out_of_memory, run_in_halves

# What the real process runs: the same call with all the memory there is, then under a limit.
_LIMITED = """
import json, resource, sys
import numpy as np
from transformers import GPTJConfig
from transformers.models.auto import AutoModelForCausalLM
from pipeline.engines.protocol import PositionRequest
from pipeline.engines.torch_engine import TorchEngine

config = GPTJConfig(vocab_size=64, n_positions=40_000, n_embd=64, n_layer=1, n_head=1,
                    rotary_dim=8, bos_token_id=0, eos_token_id=0)
engine = TorchEngine(AutoModelForCausalLM.from_config(config).eval(), bos_id=0, eos_id=0,
                     token_bytes=lambda ids: [b"" for _ in ids], weights_id="random",
                     token_budget=1_000_000, kept_tokens=0)
rng = np.random.default_rng(0)
ids = lambda n: rng.integers(1, 64, n, dtype=np.int32)
requests = [PositionRequest(prompt_ids=ids(3), x_ids=ids(n)) for n in (9_000, 9_000, 8_000, 50)]
free = engine.position_logprobs(requests, [5])
used = int(next(l for l in open("/proc/self/status") if l.startswith("VmSize")).split()[1]) * 1024
requests.append(PositionRequest(prompt_ids=ids(3), x_ids=ids(39_000)))
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]), resource.RLIM_INFINITY))
tight = engine.position_logprobs(requests, [5])
print(json.dumps([
    [a is not None for a in tight],
    max(float(abs(a - b).max()) for a, b in zip(free, tight) if b is not None),
]))
"""


class Device:
    """Room for a number of units of work, less what others hold."""

    def __init__(self, room: int, *, held: int = 0, kept: int = 0) -> None:
        self.room, self.held, self.kept = room, held, kept
        self.relieved: list[bool] = []
        self.sizes: list[int] = []

    def run(self, items: Sequence[int]) -> list[str]:
        self.sizes.append(len(items))
        if sum(items) > self.room - self.held - self.kept:
            raise torch.OutOfMemoryError("no room")
        return [f"#{item}" for item in items]

    def relieve(self, alone: bool) -> None:
        self.relieved.append(alone)
        if alone:
            self.kept = 0


def test_halves_are_tried_until_they_fit() -> None:
    device = Device(5)
    items = [3, 2, 1, 4, 1, 2, 2, 1]
    assert run_in_halves(items, device.run, relieve=device.relieve) == [(n, f"#{n}") for n in items]
    assert device.sizes == [8, 4, 2, 2, 4, 2, 2]
    assert device.relieved == [False, False, False]


def test_what_does_not_fit_alone_is_answered_none() -> None:
    device = Device(5)
    answers = run_in_halves([1, 9, 2], device.run, relieve=device.relieve)
    assert answers == [(1, "#1"), (9, None), (2, "#2")]


def test_what_is_kept_is_given_up_before_a_request_is() -> None:
    device = Device(5, kept=3)
    answers = run_in_halves([4, 5], device.run, relieve=device.relieve)
    assert answers == [(4, "#4"), (5, "#5")]
    assert device.relieved == [False, True]  # once gone it is gone


def test_one_that_can_be_taken_apart_is() -> None:
    device = Device(5)
    answers = run_in_halves(
        [1, 8],
        device.run,
        relieve=device.relieve,
        halves=lambda n: (n // 2, n - n // 2) if n > 1 else (n,),
    )
    assert answers == [(1, "#1"), (4, "#4"), (4, "#4")]


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    def run(items: Sequence[int]) -> list[str]:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes"):
        run_in_halves([1, 2], run, relieve=lambda alone: None)


def test_a_failed_allocation_on_a_cpu_is_recognised() -> None:
    with pytest.raises(RuntimeError) as error:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(error.value)
    with pytest.raises(MemoryError) as of_numpy:
        np.empty(1 << 60, dtype=np.uint8)
    assert is_out_of_memory(of_numpy.value)


def test_a_process_short_of_memory_answers_what_fits() -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(60 << 20)],
        cwd=root, capture_output=True, text=True, timeout=300,
        env={"OMP_NUM_THREADS": "1", "PYTHONPATH": str(root), "MALLOC_ARENA_MAX": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    answered, difference = json.loads(done.stdout.splitlines()[-1])
    assert answered == [True, True, True, True, False]
    assert difference < 1e-4
