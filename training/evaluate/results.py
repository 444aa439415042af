"""results.json, and what a reader makes of it: tables, Markdown, plots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError
from rich.table import Table

from pipeline.settings import describe
from tools.atomic import write_text_atomically
from tools.base import InputError
from tools.places import why
from training.evaluate.answers import TextPerplexity
from training.evaluate.layout import (
    calibration_tables,
    calls_table,
    perplexity_table,
    score_table,
)
from training.evaluate.markdown import Section, results_markdown
from training.evaluate.plots import bars_plot, calibration_plot, scaling_plot
from training.evaluate.scores import Score
from training.evaluate.tables import terminal_table
from training.evaluate.topics import topics_of

RESULTS, TOLD, PLOTS = "results.json", "results.md", "plots"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """`where` is a model's path or its name on the Hub, or the URL of a completion endpoint."""

    where: str
    parameters: int | None  # None: not known
    calls: bool

    @property
    def is_local(self) -> bool:
        """Whether it runs here, not at an endpoint."""
        return "://" not in self.where


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything an evaluation measured; `models` are in the order of the tables.

    Raises:
        ValueError: a score or a perplexity is of none of the models.
    """

    seed: int
    models: Mapping[str, ModelFacts]
    scores: Sequence[Score]
    perplexities: Sequence[TextPerplexity]

    def __post_init__(self) -> None:
        measured = [each.model for each in self.scores]
        measured += [each.model for each in self.perplexities]
        for model in measured:
            if model not in self.models:
                raise ValueError(f"{model} is none of the models: {', '.join(self.models)}")


def write_results(out: Path, results: Results, scaling: Mapping[str, Sequence[str]]) -> None:
    """Writes results.md and plots/*.svg, then results.json.

    `scaling` has the models of each curve over numbers of parameters, by the curve's name.

    Raises:
        OutputError: a file cannot be written.
    """
    sections = _sections(results, scaling)
    for section in sections:
        for plot in section.plots:
            write_text_atomically(out / PLOTS / f"{plot.name}.svg", plot.svg)
    told = results_markdown(sections, results.models, seed=results.seed, json=RESULTS, plots=PLOTS)
    write_text_atomically(out / TOLD, told)
    write_text_atomically(out / RESULTS, _File.of(results).model_dump_json(indent=1) + "\n")


def read_results(path: Path) -> Results:
    """What `write_results` wrote to the file `path`.

    Raises:
        InputError: there is no such file, or it is not one of those.
    """
    try:
        return _File.model_validate_json(path.read_bytes()).results()
    except OSError as error:
        raise InputError(f"{path}: cannot read: {why(error)}") from None
    except ValidationError as error:
        raise InputError(f"{path}: not the results of an evaluation: {describe(error)}") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def results_tables(results: Results) -> list[Table]:
    """The paper's tables, for a terminal."""
    return [terminal_table(table) for section in _sections(results, {}) for table in section.tables]


def _sections(results: Results, scaling: Mapping[str, Sequence[str]]) -> list[Section]:
    is_local = {name: facts.is_local for name, facts in results.models.items()}
    parameters = {
        name: facts.parameters for name, facts in results.models.items() if facts.parameters
    }
    sections = []
    for topic in topics_of(results.scores):
        table = score_table(topic, results.scores, is_local)
        calls = calls_table(topic, results.scores, results.models)
        calibrations = calibration_tables(topic, results.scores)
        curves = scaling_plot(topic, results.scores, parameters, scaling)
        sections.append(
            Section(
                tables=(table, *filter(None, [calls]), *calibrations),
                plots=(
                    bars_plot(table),
                    *map(calibration_plot, calibrations),
                    *filter(None, [curves]),
                ),
            )
        )
    perplexity = perplexity_table(results.perplexities, is_local)
    if perplexity:
        sections.append(Section(tables=(perplexity,), plots=(bars_plot(perplexity),)))
    return sections


class _Values(BaseModel):
    # JSON has no infinite numbers: a perplexity may be "Infinity".
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class _Model(_Values):
    """`path` of a local model, or the `endpoint` it is at."""

    path: str | None = None
    endpoint: str | None = None
    parameters: int | None
    calls: bool


class _Perplexity(_Values):
    model: str
    corpus: str
    perplexity: float
    low: float
    high: float
    documents: int
    tokens: int


class _File(_Values):
    """results.json. Shares are of 1."""

    seed: int
    models: dict[str, _Model]
    scores: list[Score]
    perplexity: list[_Perplexity]

    @classmethod
    def of(cls, results: Results) -> "_File":
        return cls(
            seed=results.seed,
            models={
                name: _Model(
                    path=facts.where if facts.is_local else None,
                    endpoint=None if facts.is_local else facts.where,
                    parameters=facts.parameters,
                    calls=facts.calls,
                )
                for name, facts in results.models.items()
            },
            scores=list(results.scores),
            perplexity=[
                _Perplexity(
                    model=each.model,
                    corpus=each.corpus,
                    perplexity=each.perplexity,
                    low=each.low,
                    high=each.high,
                    documents=each.num_documents,
                    tokens=each.num_tokens,
                )
                for each in results.perplexities
            ],
        )

    def results(self) -> Results:
        return Results(
            seed=self.seed,
            models={
                name: ModelFacts(
                    where=model.path or model.endpoint or "",
                    parameters=model.parameters,
                    calls=model.calls,
                )
                for name, model in self.models.items()
            },
            scores=self.scores,
            perplexities=[
                TextPerplexity(
                    model=each.model,
                    corpus=each.corpus,
                    perplexity=each.perplexity,
                    low=each.low,
                    high=each.high,
                    num_documents=each.documents,
                    num_tokens=each.tokens,
                )
                for each in self.perplexity
            ],
        )
