"""The steps of a reproduction: our own commands, what they read and where they write."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.benchmarks.mlqa import LANGUAGES
from training.reproduce.config import ReproduceConfig
from training.reproduce.samples import WIKITEXT

BASE, PLAIN, TOOLFORMER = "base", "base + CC", "Toolformer"  # CC: the documents of C
CORPORA = LIKE_C, HELD_OUT = "documents like C", "held-out documents"
_DEMO_WORLD = 0  # of the held-out documents: the one whose encyclopedia the demo's tools know


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command. `argv` is what follows `python -m`.

    `files` are configurations that are written before it starts, `copied` directories that are
    copied, each to another place.
    """

    name: str
    title: str
    argv: tuple[str, ...]
    files: Mapping[Path, Mapping[str, Any]] = field(default_factory=dict)
    copied: Mapping[Path, Path] = field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        """What is started."""
        return [sys.executable, "-m", *self.argv]


# Steps that may run beside each other: none reads what another of them writes.
Row = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Places:
    """Where the steps write, below the directory `out`."""

    out: Path

    @property
    def world(self) -> Path:
        """The documents to annotate, and their encyclopedia."""
        return self.out / "world"

    @property
    def development(self) -> Path:
        return self.out / "development"

    def corpus(self, name: str) -> Path:
        """Documents for perplexity."""
        return self.out / "perplexity" / name.replace(" ", "-")

    def run(self, size: str) -> Path:
        """The annotated documents of a model, C* and C."""
        return self.out / size / "run"

    def finetuned(self, size: str, dataset: str) -> Path:
        return self.out / size / f"finetuned-{dataset}"

    def evaluation(self, size: str) -> Path:
        return self.out / size / "evaluation"

    @property
    def samples(self) -> Path:
        """The evaluation on samples of real benchmarks."""
        return self.out / "samples"

    def config(self, step: str) -> Path:
        return self.out / "configs" / f"{step}.yaml"


def plan(config: ReproduceConfig, samples: Mapping[str, Path]) -> tuple[Row, ...]:
    """The rows of steps, in their order; `samples` are files of benchmarks by their names."""
    places = Places(config.out)
    rows = [_worlds(config, places)]
    if config.atlas is not None:
        rows.append((_atlas_index(config.atlas, places),))
    for size, model in config.models.items():
        rows.append((_annotate(config, places, size, model),))
        rows.append((_build(places, size),))
    for size in config.models:
        rows.append(
            tuple(_finetune(config, places, size, of) for of in ("dataset", "dataset_plain"))
        )
    rows.append(tuple(_evaluate(config, places, size) for size in config.models))
    if samples:
        rows.append((_samples(config, places, samples),))
    return tuple(rows)


def _worlds(config: ReproduceConfig, places: Places) -> Row:
    """Each has its seed: no document, and no name but by chance, is in two of them."""
    first = 3 * config.seed
    of = [
        ("world", config.forms, first + 1, config.documents, places.world),
        ("development", config.forms, first + 2, config.development_documents, places.development),
        ("like-c", config.forms, first + 3, config.perplexity_documents, places.corpus(LIKE_C)),
        ("held-out", "held-out", _DEMO_WORLD, config.perplexity_documents, places.corpus(HELD_OUT)),
    ]
    return tuple(
        Step(
            name=f"documents-{name}",
            title=f"{documents:,} documents: {name}",
            argv=("training", "world", "--forms", forms, "--seed", str(seed),
                  "--documents", str(documents), "--out", str(out)),
        )
        for name, forms, seed, documents, out in of
    )  # fmt: skip


def _atlas_index(atlas: Path, places: Places) -> Step:
    own, encyclopedia = places.world / "atlas", places.world / "encyclopedia.jsonl"
    return Step(
        name="atlas-index",
        title="passages for QA",
        argv=("training", "tool-models", "atlas-index", "--atlas", str(own),
              "--encyclopedia", str(encyclopedia)),
        copied={atlas: own},
    )  # fmt: skip


def _annotate(config: ReproduceConfig, places: Places, size: str, model: str) -> Step:
    name = f"annotate-{size}"
    settings = {
        "run": str(places.run(size)),
        "input": str(places.world / "documents.parquet"),
        "seed": config.seed,
        "model": {"path": model},
        **config.annotate,
    }
    return Step(
        name=name,
        title=f"{size}: annotate {config.documents:,} documents",
        argv=("pipeline", "annotate", str(places.config(name)), "--no-dashboard"),
        files={places.config(name): settings},
    )


def _build(places: Places, size: str) -> Step:
    return Step(
        name=f"build-{size}",
        title=f"{size}: build C* and C",
        argv=("pipeline", "build", str(places.run(size))),
    )


def _finetune(config: ReproduceConfig, places: Places, size: str, dataset: str) -> Step:
    name = f"finetune-{size}-{dataset}"
    settings = {
        "run": str(places.run(size)),
        "out": str(places.finetuned(size, dataset)),
        "dataset": dataset,
        "development": {
            "input": str(places.development / "documents.parquet"),
            "documents": config.development_documents,
        },
        "seed": config.seed,
        **config.finetune,
    }
    return Step(
        name=name,
        title=f"{size}: finetune on {'C*' if dataset == 'dataset' else 'C'}",
        argv=("training", "finetune", str(places.config(name))),
        files={places.config(name): settings},
    )


def _evaluate(config: ReproduceConfig, places: Places, size: str) -> Step:
    name = f"evaluate-{size}"
    is_largest = size == config.largest
    settings = {
        "out": str(places.evaluation(size)),
        "seed": config.seed,
        "max_examples": config.max_examples,
        "models": _models(config, places, size),
        "benchmarks": [{"name": benchmark} for benchmark in config.benchmarks],
        "perplexity": [
            {"name": corpus, "documents": str(places.corpus(corpus) / "documents.parquet")}
            for corpus in CORPORA
        ],
        "api_top_k": config.api_top_k_of_largest if is_largest else config.api_top_k,
        **config.evaluate,
    }
    return Step(
        name=name,
        title=f"{size}: evaluate",
        argv=("training", "evaluate", str(places.config(name))),
        files={places.config(name): settings},
    )


def _samples(config: ReproduceConfig, places: Places, samples: Mapping[str, Path]) -> Step:
    name = "evaluate-samples"
    settings = {
        "out": str(places.samples),
        "seed": config.seed,
        "max_examples": config.max_samples,
        "models": _models(config, places, config.largest),
        "benchmarks": list(_published(samples)),
        "api_top_k": config.api_top_k,
        "perplexity": [
            {"name": "WikiText", "wikitext": str(path)}
            for benchmark, path in samples.items()
            if benchmark == WIKITEXT
        ],
        **config.evaluate,
    }
    return Step(
        name=name,
        title=f"{config.largest}: evaluate on samples of real benchmarks",
        argv=("training", "evaluate", str(places.config(name))),
        files={places.config(name): settings},
    )


def _published(samples: Mapping[str, Path]) -> Iterator[dict[str, str]]:
    """Benchmarks as `evaluate` reads them: each language of MLQA is one, as in Table 6."""
    for name, path in samples.items():
        if name == "mlqa":
            for language in LANGUAGES:
                yield {"name": name, "path": str(path), "language": language}
        elif name != WIKITEXT:
            yield {"name": name, "path": str(path)}


def _models(config: ReproduceConfig, places: Places, size: str) -> dict[str, dict[str, Any]]:
    """Those of a size; with k = 0 the last is "Toolformer (disabled)"."""
    return {
        BASE: {"path": config.models[size], "calls": False},
        PLAIN: {"path": str(places.finetuned(size, "dataset_plain") / "model"), "calls": False},
        TOOLFORMER: {"path": str(places.finetuned(size, "dataset") / "model")},
    }
