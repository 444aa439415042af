"""reproduce.md, reproduce.json and the picture of a reproduction."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.markdown import markdown_template
from pipeline.report.calls import ShownCall
from tools.atomic import write_text_atomically
from training.evaluate.results import Results
from training.evaluate.scores import Score
from training.reproduce.about import About
from training.reproduce.claims import Claim, Evidence
from training.reproduce.figure import TITLE, figure_4
from training.reproduce.measured import DISABLED, SizeMeasured
from training.reproduce.paper import paper
from training.reproduce.plan import BASE, PLAIN, TOOLFORMER
from training.reproduce.tables import (
    NOT_MEASURED,
    ROWS,
    calls_table,
    counterparts_table,
    decoding_table,
    examples_table,
    perplexity_table,
    samples_table,
    tasks_table,
)

NAME = "reproduce"
_TEMPLATE = Path(__file__).with_name("reproduce.md.j2")
_NO_FILES = (
    f"Without files of a benchmark its row says {NOT_MEASURED!r}: `make reproduce SAMPLES=DIR`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduced:
    """All that is told: `samples` are the results on real benchmarks, None where none are given."""

    command: str
    seed: int
    seconds: float
    documents: int
    about: About
    sizes: Sequence[SizeMeasured]
    table_9: Sequence[str]  # the benchmarks it is told of
    benchmarks: Sequence[str]  # that have a tool each
    claims: Sequence[Claim]
    calls: Sequence[ShownCall]
    samples: Results | None


def tell(found: Reproduced, results: Path) -> Path:
    """Writes everything to the directory `results`; the path of reproduce.md.

    Raises:
        OutputError: a file cannot be written.
    """
    picture = f"{NAME}-figure-4.svg"
    write_text_atomically(
        results / picture, figure_4(found.sizes, found.benchmarks, seed=found.seed)
    )
    write_text_atomically(
        results / f"{NAME}.json", json.dumps(as_json(found), indent=1, ensure_ascii=False) + "\n"
    )
    told = results / f"{NAME}.md"
    write_text_atomically(told, _markdown(found, picture))
    return told


def as_json(found: Reproduced) -> dict[str, Any]:
    """What is written to reproduce.json. Shares are of 1, differences in points."""
    return {
        "command": found.command,
        "seed": found.seed,
        "seconds": round(found.seconds, 1),
        "documents": found.documents,
        "about": asdict(found.about),
        "claims": [
            asdict(claim) | {"shows": claim.shows, "verdict": claim.verdict}
            for claim in found.claims
        ],
        "sizes": [_size(size, found.seed) for size in found.sizes],
        "calls": [asdict(shown) for shown in found.calls],
        "samples": None
        if found.samples is None
        else [asdict(each) for each in found.samples.scores],
        "paper": paper().model_dump(mode="json"),
    }


def _size(size: SizeMeasured, seed: int) -> dict[str, Any]:
    scores = [
        asdict(size.score(model, benchmark, seed=seed, k=k)) for model, k, benchmark in size.answers
    ]
    perplexities = [size.perplexity(model, corpus, seed=seed) for model, corpus in size.losses]
    return {
        "name": size.name,
        "parameters": size.parameters,
        "built": asdict(size.built),
        "scores": scores,
        "perplexity": [
            {
                "model": each.model,
                "corpus": each.corpus,
                "perplexity": each.perplexity,
                "low": each.low,
                "high": each.high,
                "documents": each.num_documents,
                "tokens": each.num_tokens,
            }
            for each in perplexities
        ],
    }


def _markdown(found: Reproduced, picture: str) -> str:
    sizes, seed = found.sizes, found.seed
    return markdown_template(_TEMPLATE).render(
        command=found.command,
        minutes=found.seconds / 60,
        seed=seed,
        about=found.about,
        sizes=sizes,
        documents=found.documents,
        tools=list(sizes[0].built.kept),
        claims=[_shown(claim) for claim in found.claims],
        examples=examples_table(sizes),
        tasks=[tasks_table(size, seed=seed) for size in sizes],
        counterparts=counterparts_table(sizes[0].benchmarks),
        samples=samples_table(_by_row(found.samples) | _made_here(sizes[-1], seed)),
        samples_note="" if found.samples is not None else _NO_FILES,
        perplexity=perplexity_table(sizes, _wikitext(found.samples), seed=seed),
        decoding=decoding_table(sizes[-1], found.table_9, seed=seed),
        calls=calls_table(found.calls),
        figure_4=paper().figure_4,
        figure=picture,
        figure_title=TITLE,
    )


def _shown(claim: Claim) -> dict[str, Any]:
    return {
        "finding": claim.finding,
        "source": claim.source,
        "verdict": claim.verdict,
        "rule": claim.rule,
        "evidence": [_evidence(each) for each in claim.evidence],
        "reasons": claim.reasons,
    }


def _evidence(each: Evidence) -> dict[str, Any]:
    digits = "+.1f" if each.unit == "points" else ".3f"
    return asdict(each) | {
        "text": format(each.mean, digits),
        "interval": f"{each.low:{digits}} to {each.high:{digits}}",
    }


def _by_row(samples: Results | None) -> dict[str, dict[str, Score]]:
    """The scores on real benchmarks, by benchmark and by the rows of the paper's tables."""
    by_benchmark: dict[str, dict[str, Score]] = {}
    largest = max((score.api_top_k for score in samples.scores), default=0) if samples else 0
    for score in samples.scores if samples else ():
        row = score.model
        if row == TOOLFORMER and score.api_top_k == 0:
            row = DISABLED
        elif row == TOOLFORMER and score.api_top_k != largest:
            continue
        by_benchmark.setdefault(score.benchmark, {})[row] = score
    assert all(set(rows) == set(ROWS) for rows in by_benchmark.values())
    return by_benchmark


def _made_here(size: SizeMeasured, seed: int) -> dict[str, dict[str, Score]]:
    """The scores on what the paper has too and needs no file: Dateset."""
    return {
        benchmark: {row: size.score(row, benchmark, seed=seed) for row in ROWS}
        for benchmark in size.benchmarks
        if benchmark in paper().tasks
    }


def _wikitext(samples: Results | None) -> Mapping[str, float] | None:
    found = {each.model: each.perplexity for each in samples.perplexities} if samples else {}
    return found if {BASE, PLAIN, TOOLFORMER} <= found.keys() else None
