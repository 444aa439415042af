"""GPU-hours of a study before it is begun: arithmetic on its configurations and a GPU's speed.

The speed is what `python -m pipeline bench --device cuda --shape gpt-j-6b --json FILE` measured,
or, where there is no such file, what was estimated for an A100 before anything was measured.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from pipeline.bench.estimates import DOCUMENT_TOKENS, ESTIMATES, TOOL_SIZES
from pipeline.config import RunConfig
from tools.base import InputError
from training.evaluate.config import BenchmarkConfig, EvaluateConfig
from training.evaluate.plan import MAX_NEW_TOKENS
from training.evaluate.registry import drawn, load_benchmark
from training.finetune.config import FinetuneConfig

_GPT_J_PARAMETERS = 6_050_882_784
# An A100 of 80 GB: bfloat16 FLOPs a second at half of its peak, bytes a second at 80 % of its own.
_A100_FLOPS, _A100_BYTES = 0.5 * 312e12, 0.8 * 2.04e12
_WEIGHT_BYTES = 2  # of a parameter, in 16 bits
_TEXTS_AT_ONCE = 64  # that share a reading of the weights, as they are decoded
_CHARACTERS_PER_TOKEN = 3.5
_FORWARD_FLOPS = 2  # of a parameter and token; backward has twice as many


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What one GPU does a second with a model of `parameters`.

    `documents_per_s` is by the sizes of TOOL_SIZES, of documents of DOCUMENT_TOKENS tokens.
    """

    source: str  # what was measured, or that it is an estimate
    parameters: int
    documents_per_s: Mapping[str, float]
    flops_per_s: float  # of a prefill
    decode_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageHours:
    """GPU-hours of a part of the study, and what they are for."""

    stage: str
    work: str
    gpu_hours: float


ESTIMATED = Rates(
    source="estimated for an A100 of 80 GB and GPT-J-6B; nothing of it was measured",
    parameters=_GPT_J_PARAMETERS,
    documents_per_s={e.tool: e.documents_per_s for e in ESTIMATES if e.gpu == "A100"},
    flops_per_s=_A100_FLOPS,
    decode_bytes_per_s=_A100_BYTES,
)


def read_rates(path: Path) -> Rates:
    """What the engine benchmark measured on a GPU.

    Raises:
        InputError: the file cannot be read, is not of the benchmark, or of one on a CPU.
    """
    try:
        measured: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not measured["tools_measured"]:
            raise InputError(
                f"{path}: measured on {measured['device_name']}, expected a GPU; run `python -m "
                "pipeline bench --device cuda --dtype bfloat16 --shape gpt-j-6b --json FILE` on one"
            )
        by_tool = {each["tool"]: each["documents_per_s"] for each in measured["tools_measured"]}
        return Rates(
            source=f"measured on {measured['device_name']}, {measured['shape']}",
            parameters=measured["parameters"],
            documents_per_s={tool: by_tool[tool] for tool in TOOL_SIZES},
            flops_per_s=measured["prefill_flops_per_s"],
            decode_bytes_per_s=measured["decode_bandwidth_share"]
            * measured["copy_bandwidth_bytes_per_s"],
        )
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path}: not what `python -m pipeline bench --json` writes") from None


def annotation_hours(
    config: RunConfig, rates: Rates, *, documents: int, document_tokens: int
) -> list[StageHours]:
    """Of each tool, where so many documents are offered to it; tools' own GPUs are not counted.

    The time of a document goes with its tokens, and with k * m beyond the nearest measured size.
    """
    hours = []
    for name, tool in config.tools.items():
        samples = tool.k * tool.m
        larger = [each for each, sizes in TOOL_SIZES.items() if sizes.k * sizes.m >= samples]
        nearest = larger[0] if larger else list(TOOL_SIZES)[-1]
        sizes = TOOL_SIZES[nearest]
        seconds = max(1.0, samples / (sizes.k * sizes.m)) / rates.documents_per_s[nearest]
        scale = documents * document_tokens / DOCUMENT_TOKENS
        work = f"{documents:,} documents, k = {tool.k}, m = {tool.m}"
        hours.append(_stage(f"annotate: {name}", work, scale * seconds))
    return hours


def finetuning_hours(config: FinetuneConfig, rates: Rates) -> list[StageHours]:
    """Of C* and, the same again, of C: FLOPs at the rate of a prefill."""
    tokens = config.max_steps * config.batch_size * config.sequence_tokens
    passes = 4 if config.gradient_checkpointing else 3  # of a forward; checkpointing repeats one
    seconds = tokens * passes * _FORWARD_FLOPS * rates.parameters / rates.flops_per_s
    work = f"{config.max_steps:,} steps, {tokens / 1e6:,.0f} M tokens"
    return [_stage(f"finetune on {data}", work, seconds) for data in ("C*", "C")]


def evaluation_hours(config: EvaluateConfig, rates: Rates) -> list[StageHours]:
    """Of each local model, as if it had the parameters of `rates`; perplexity and calls' own tokens
    are not counted.

    Raises:
        InputError: a file of a benchmark is broken. One that is not there does not count.
    """
    loaded = [
        (each, load_benchmark(each.name, each.path, each.language))
        for each in config.benchmarks
        if _is_there(each)
    ]
    hours = []
    for name, model in config.models.items():
        if model.checkpoint is None:
            continue
        texts = prompt_tokens = new_tokens = 0
        for each, benchmark in loaded:
            examples = drawn(benchmark, config.max_examples, seed=config.seed).examples
            times = len(config.api_top_k) if model.has_calls else 1
            texts += times * len(examples)
            characters = sum(len(example.prompt) for example in examples)
            prompt_tokens += times * round(characters / _CHARACTERS_PER_TOKEN)
            longest = each.max_new_tokens or MAX_NEW_TOKENS[benchmark.criterion]
            new_tokens += times * longest * len(examples)
        prefill = prompt_tokens * _FORWARD_FLOPS * rates.parameters / rates.flops_per_s
        weights = _WEIGHT_BYTES * rates.parameters / rates.decode_bytes_per_s
        work = f"{texts:,} texts of {prompt_tokens + new_tokens:,} tokens"
        seconds = prefill + new_tokens * weights / _TEXTS_AT_ONCE
        hours.append(_stage(f"evaluate: {name}", work, seconds))
    return hours


def hours_table(
    hours: Sequence[StageHours], rates: Rates, *, uncounted: Sequence[str] = ()
) -> Table:
    """A row for each stage, and their sum; `uncounted` are benchmarks that have no part in it."""
    table = Table(title="GPU-hours", title_justify="left", caption_justify="left")
    table.caption = f"{rates.source}; GPUs of tools, tokens of calls and perplexities come on top"
    if uncounted:
        table.caption += (
            "; THE STUDY TAKES MORE: not counted, as their files are not here, are "
            f"{', '.join(uncounted)}"
        )
    table.add_column("stage")
    table.add_column("GPU-hours", justify="right")
    table.add_column("of")
    for each in hours:
        table.add_row(each.stage, _shown(each.gpu_hours), each.work)
    table.add_section()
    table.add_row("all", _shown(sum(each.gpu_hours for each in hours)), "")
    return table


def missing_benchmarks(config: EvaluateConfig) -> list[str]:
    """The names of those whose files are not there."""
    return [each.name for each in config.benchmarks if not _is_there(each)]


def _is_there(config: BenchmarkConfig) -> bool:
    return config.path is None or config.path.exists()


def _shown(hours: float) -> str:
    return f"{hours:,.1f}" if hours >= 0.1 else f"{hours:.3f}"


def _stage(stage: str, work: str, seconds: float) -> StageHours:
    return StageHours(stage=stage, work=work, gpu_hours=seconds / 3600)
