"""The benchmarks by name, and what each is read from."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pipeline.build.cap import rank
from tools.base import ConfigError, InputError
from training.benchmarks.arithmetic import asdiv, mawps, svamp
from training.benchmarks.dateset import dateset
from training.benchmarks.example import Benchmark
from training.benchmarks.lama import lama_google_re, lama_squad, lama_t_rex
from training.benchmarks.mlqa import LANGUAGES, mlqa, mlqa_in_english
from training.benchmarks.questions import natural_questions, trivia_qa, web_questions
from training.benchmarks.templama import templama
from training.benchmarks.world import WORLD_BENCHMARKS, world


@dataclass(frozen=True, slots=True)
class Published:
    """A benchmark in its own published files; `files` says what a path has to name."""

    load: Callable[[Path], Benchmark]
    files: str


_LAMA = "the directory `data` of LAMA (https://dl.fbaipublicfiles.com/LAMA/data.zip)"
_MLQA = "the folder of a split of MLQA_V1.zip (https://github.com/facebookresearch/MLQA)"

PUBLISHED: Mapping[str, Published] = {
    "lama_squad": Published(lama_squad, _LAMA),
    "lama_google_re": Published(lama_google_re, _LAMA),
    "lama_t_rex": Published(lama_t_rex, _LAMA),
    "asdiv": Published(asdiv, "ASDiv.xml (https://github.com/chaochun/nlu-asdiv-dataset)"),
    "svamp": Published(svamp, "SVAMP.json (https://github.com/arkilpatel/SVAMP)"),
    "mawps": Published(
        mawps,
        "the folder of mawpsaddsub.jsonl, mawpsmultiarith.jsonl, mawpssingleeq.jsonl and "
        "mawpssingleop.jsonl (https://github.com/reasoning-machines/pal)",
    ),
    "web_questions": Published(
        web_questions, "webquestions.examples.test.json (https://nlp.stanford.edu/software/sempre)"
    ),
    "natural_questions": Published(
        natural_questions,
        "NQ-open.dev.jsonl (https://github.com/google-research-datasets/natural-questions)",
    ),
    "trivia_qa": Published(
        trivia_qa,
        "a file of questions of triviaqa-unfiltered.tar.gz (https://nlp.cs.washington.edu/triviaqa)",
    ),
    "mlqa": Published(mlqa, _MLQA),
    "mlqa_in_english": Published(mlqa_in_english, _MLQA),
    "templama": Published(
        templama, "a file of TempLAMA (https://storage.googleapis.com/gresearch/templama)"
    ),
}
# Made here, the same on every machine.
GENERATED: Mapping[str, Callable[[], Benchmark]] = {
    "dateset": dateset,
    **{name: partial(world, name) for name in WORLD_BENCHMARKS},
}
NAMES = (*PUBLISHED, *GENERATED)
IN_LANGUAGES = ("mlqa", "mlqa_in_english")


def load_benchmark(name: str, path: Path | None, language: str | None = None) -> Benchmark:
    """One of NAMES, from what its published files hold; of MLQA one of its languages, or all six.

    Raises:
        ConfigError: no benchmark has that name, or it takes no such path or language.
        InputError: a file is missing or broken, or has no example.
    """
    check_benchmark(name, path, language)
    if path is None:
        return GENERATED[name]()
    benchmark = PUBLISHED[name].load(path)
    if language is not None:
        examples = tuple(each for each in benchmark.examples if each.group == language)
        benchmark = replace(benchmark, name=f"{name}_{language}", examples=examples)
    if not benchmark.examples:
        reasons = (f"{number} {reason}" for reason, number in benchmark.skipped.items())
        raise InputError(f"{path}: {'; '.join(['no example', *reasons])}")
    return benchmark


def check_benchmark(name: str, path: Path | None, language: str | None) -> None:
    """Nothing, if there is such a benchmark and it is read like that; no file is looked for.

    Raises:
        ConfigError: there is none, or it is not.
    """
    if name not in NAMES:
        raise ConfigError(f"no benchmark is called {name!r}; there are {', '.join(NAMES)}")
    if name in GENERATED and path is not None:
        raise ConfigError(f"{name} is made here and takes no path")
    if name in PUBLISHED and path is None:
        raise ConfigError(f"{name} needs a path: {PUBLISHED[name].files}")
    if language is None:
        return
    if name not in IN_LANGUAGES:
        raise ConfigError(f"{name} takes no language; {' and '.join(IN_LANGUAGES)} do")
    if language not in LANGUAGES:
        raise ConfigError(f"{name} is not in {language!r}; there are {', '.join(LANGUAGES)}")


def drawn(benchmark: Benchmark, max_examples: int | None, *, seed: int) -> Benchmark:
    """At most so many of its examples, drawn from all of it, in its order.

    The draw depends on the seed, the name and the ids alone; fewer are a part of more. Of MLQA as
    many are drawn of each language, and the same questions of all that is asked about them.
    """
    if max_examples is None or max_examples >= len(benchmark.examples):
        return benchmark
    of_mlqa = benchmark.name.startswith(IN_LANGUAGES)
    by_rank = sorted(
        range(len(benchmark.examples)),
        key=lambda number: _rank(benchmark, number, seed, of_mlqa=of_mlqa),
    )
    if of_mlqa:  # the first of each language, then the second of each
        turns, turn_of = Counter[str](), dict[int, int]()
        for number in by_rank:
            language = benchmark.examples[number].group
            turn_of[number] = turns[language]
            turns[language] += 1
        by_rank.sort(key=turn_of.__getitem__)
    examples = tuple(benchmark.examples[number] for number in sorted(by_rank[:max_examples]))
    return replace(benchmark, examples=examples)


def _rank(benchmark: Benchmark, number: int, seed: int, *, of_mlqa: bool) -> int:
    own_id = benchmark.examples[number].id
    if of_mlqa:  # a question has one id in all languages, behind the language
        return rank(seed, "mlqa", own_id.partition("/")[2])
    return rank(seed, benchmark.name, own_id)
