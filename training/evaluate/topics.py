"""Which benchmarks are told together, and what the paper calls them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from training.benchmarks.mlqa import LANGUAGES
from training.evaluate.scores import Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Benchmarks that are told together, by name, each with what it is called in a heading."""

    slug: str
    name: str
    paper: str = ""  # its table there
    benchmarks: Mapping[str, str]

    @property
    def title(self) -> str:
        return f"{self.name}, as {self.paper}" if self.paper else self.name


_PAPER = (
    Topic(
        slug="lama",
        name="LAMA",
        paper="Table 3",
        benchmarks={"lama_squad": "SQuAD", "lama_google_re": "Google-RE", "lama_t_rex": "T-REx"},
    ),
    Topic(
        slug="math",
        name="Math",
        paper="Table 4",
        benchmarks={"asdiv": "ASDiv", "svamp": "SVAMP", "mawps": "MAWPS"},
    ),
    Topic(
        slug="questions",
        name="Question answering",
        paper="Table 5",
        benchmarks={"web_questions": "WebQS", "natural_questions": "NQ", "trivia_qa": "TriviaQA"},
    ),
    Topic(
        slug="mlqa",
        name="MLQA",
        paper="Table 6",
        benchmarks={
            "mlqa": "MLQA",
            **{f"mlqa_{each}": f"MLQA {each.capitalize()}" for each in LANGUAGES},
            "mlqa_in_english": "MLQA, all English",
            **{
                f"mlqa_in_english_{each}": f"MLQA {each.capitalize()}, all English"
                for each in LANGUAGES
            },
        },
    ),
    Topic(
        slug="temporal",
        name="Temporal",
        paper="Table 7",
        benchmarks={"templama": "TempLAMA", "dateset": "Dateset"},
    ),
)
_WORLD = "world_"


def topics_of(scores: Sequence[Score]) -> list[Topic]:
    """The topics of `scores`, in the order of the paper, with the benchmarks that have any."""
    names = dict.fromkeys(score.benchmark for score in scores)
    paper = {name for topic in _PAPER for name in topic.benchmarks}
    world = {name: name.removeprefix(_WORLD) for name in names if name.startswith(_WORLD)}
    others = {name: name for name in names if name not in paper and name not in world}
    every = [
        *_PAPER,
        Topic(slug="world", name="The invented world", benchmarks=world),
        Topic(slug="others", name="Other benchmarks", benchmarks=others),
    ]
    measured = [
        replace(topic, benchmarks={n: h for n, h in topic.benchmarks.items() if n in names})
        for topic in every
    ]
    return [topic for topic in measured if topic.benchmarks]


def largest_k(scores: Sequence[Score]) -> dict[tuple[str, str], Score]:
    """For each model and benchmark its score with the largest k it was decoded with."""
    by_k = sorted(scores, key=lambda score: score.api_top_k)
    return {(score.model, score.benchmark): score for score in by_k}
