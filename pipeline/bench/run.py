"""The whole benchmark: what is measured in which order, and at which sizes."""

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel

from pipeline.bench import curves, demo_work, limits, throughput
from pipeline.bench.engine import BOS_ID, engine_over
from pipeline.bench.estimates import measure_tools
from pipeline.bench.metered import MeteredEngine
from pipeline.bench.naive import NaiveBaseline
from pipeline.bench.naive_demo import naive_work
from pipeline.bench.results import LimitResult, Results, Setting, SpeedResult, WorkResult
from pipeline.bench.shapes import DEMO_MODEL, PRESETS, Shape, make_model
from pipeline.bench.summary import speed_result, work_result
from pipeline.bench.work import ModelCost, model_cost
from pipeline.bench.workload import Sizes, make_documents
from pipeline.engines.torch_engine import TorchEngine
from pipeline.tokens import TokenCodec

Told = Callable[[str], None]

_SIZES = Sizes()
_QUICK_SIZES = Sizes(document_tokens=32, header_tokens=24, k=2, m=3, new_tokens=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a benchmark is asked for; `documents` of the fast path, fewer of the baseline."""

    shape: Shape
    device: str
    dtype: str
    documents: int
    threads: int
    seed: int
    quick: bool
    skip_naive: bool

    @property
    def sizes(self) -> Sizes:
        return _QUICK_SIZES if self.quick else _SIZES

    @property
    def naive_documents(self) -> int:
        return 0 if self.skip_naive else min(self.documents, 2)

    @property
    def token_budget(self) -> int:
        return 16_384 if self.device == "cuda" else 2048

    @property
    def matmul_size(self) -> int:
        if self.device == "cuda":
            return 8192
        return 256 if self.quick else 2048


def run_bench(settings: Settings, told: Told) -> Results:
    """Everything, in the order of the result. `told` hears what is going on.

    Raises:
        ConfigError: the model cannot be run.
        ContractError: the fast path and the baseline do not give the same numbers.
    """
    torch.set_num_threads(settings.threads)
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    told("counting work on the demo model")
    work = _work(settings)
    told(f"making {settings.shape.name}")
    model = make_model(
        settings.shape, dtype=settings.dtype, device=settings.device, seed=settings.seed
    )
    engine = engine_over(
        model,
        device=settings.device,
        threads=settings.threads,
        token_budget=settings.token_budget,
    )
    cost = model_cost(model)
    speed = _speed(settings, model, engine, told)
    told("limits of the hardware")
    limit = _limits(settings, engine, cost)
    told("curves")
    length_curve, samples_curve = _curves(settings, engine)
    tools = []
    if settings.device == "cuda" and engine.info.max_len >= 2048:
        told("documents a second")
        tools = measure_tools(engine, documents=settings.documents, seed=settings.seed)
    return Results(
        setting=_setting(settings, cost),
        work=work,
        speed=speed,
        limits=limit,
        length_curve=length_curve,
        samples_curve=samples_curve,
        tools_measured=tools,
    )


def _setting(settings: Settings, cost: ModelCost) -> Setting:
    cuda = settings.device == "cuda"
    return Setting(
        shape=settings.shape.name,
        parameters=cost.parameters,
        dtype=settings.dtype,
        device=settings.device,
        device_name=torch.cuda.get_device_name() if cuda else _processor(),
        threads=settings.threads,
        seed=settings.seed,
        quick=settings.quick,
        versions={
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "transformers": transformers.__version__,
            "numpy": np.__version__,
        },
    )


def _work(settings: Settings) -> WorkResult:
    """The demo model runs on the CPU in float32: its work is the same anywhere."""
    codec = TokenCodec.load(str(DEMO_MODEL))
    engine = MeteredEngine(
        TorchEngine.load(str(DEMO_MODEL), token_budget=1024, num_threads=settings.threads)
    )
    method = demo_work.demo_method(codec, _SIZES, context=engine.info.max_len)
    unit = demo_work.demo_unit(method, codec, 1 if settings.quick else 8)
    fast = demo_work.fast_work(engine, method, codec, unit)
    model = make_model(PRESETS["demo"], dtype="float32", device="cpu", seed=settings.seed)
    naive = None
    if not settings.skip_naive:
        torch.manual_seed(settings.seed)
        assert codec.bos_id is not None
        baseline = NaiveBaseline(model, bos_id=codec.bos_id)
        naive = naive_work(baseline, method, codec, unit, device="cpu")
    return work_result(fast, naive, model_cost(model), _SIZES)


def _speed(
    settings: Settings, model: PreTrainedModel, engine: MeteredEngine, told: Told
) -> SpeedResult:
    sizes, vocabulary = settings.sizes, engine.info.vocab_size
    documents = make_documents(
        sizes, vocabulary=vocabulary, count=settings.documents, seed=settings.seed
    )
    told("fast path")
    throughput.run_fast(engine, documents[:1], new_tokens=sizes.new_tokens)
    baseline, agreed = None, None
    if not settings.skip_naive:
        baseline = NaiveBaseline(model, bos_id=BOS_ID)
        told("comparing the numbers of both paths")
        agreed = throughput.agreement(engine, baseline, documents[0], new_tokens=sizes.new_tokens)
        torch.manual_seed(settings.seed)
    measured = throughput.measure(
        engine,
        baseline,
        documents,
        naive_documents=settings.naive_documents,
        new_tokens=sizes.new_tokens,
        told=told,
    )
    return speed_result(measured, agreed, settings.device)


def _limits(settings: Settings, engine: MeteredEngine, cost: ModelCost) -> LimitResult:
    sizes = settings.sizes
    count = min(settings.documents, 4) if settings.device == "cpu" else settings.documents
    documents = make_documents(
        sizes, vocabulary=engine.info.vocab_size, count=count, seed=settings.seed + 1
    )
    found = limits.utilisation(
        engine,
        cost,
        [replace(document, header_len=0) for document in documents],
        matmul_size=settings.matmul_size,
        threads=settings.threads,
        repeats=2 if settings.quick else 5,
    )
    result = LimitResult(**asdict(found))
    if settings.device == "cuda":
        decode = limits.decode_bandwidth(engine, cost, documents, new_tokens=sizes.new_tokens)
        result.decode_bandwidth_share = decode.share
        result.copy_bandwidth_bytes_per_s = decode.copy_bytes_per_s
    return result


def _curves(
    settings: Settings, engine: MeteredEngine
) -> tuple[list[curves.CurvePoint], list[curves.CurvePoint]]:
    lengths: Sequence[int] = curves.LENGTHS[:2] if settings.quick else curves.LENGTHS
    samples: Sequence[Any] = curves.SAMPLES[:2] if settings.quick else curves.SAMPLES
    count = 1 if settings.device == "cpu" else min(settings.documents, 8)
    along_length = [replace(settings.sizes, document_tokens=n) for n in lengths]
    along_samples = [replace(settings.sizes, k=k, m=m) for k, m in samples]
    drawn = [
        curves.curve(engine, sizes, documents=count, seed=settings.seed)
        for sizes in (along_length, along_samples)
    ]
    return drawn[0], drawn[1]


def _processor() -> str:
    """The processor's name as Linux tells it, else what Python knows."""
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or os.name
