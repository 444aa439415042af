"""Files of the paper's benchmarks below one folder, where a reproduction looks for them."""

from collections.abc import Mapping
from pathlib import Path

from tools.base import ConfigError

WIKITEXT = "wikitext"
# By the name of the benchmark: which file has to be there, and how many levels above it the place
# is that the benchmark is read from.
_FILES: Mapping[str, tuple[str, int]] = {
    "lama_squad": ("lama/Squad/test.jsonl", 2),
    "lama_google_re": ("lama/Google_RE/date_of_birth_test.jsonl", 2),
    "lama_t_rex": ("lama/TREx/P19.jsonl", 2),
    "asdiv": ("asdiv/*.xml", 0),
    "svamp": ("svamp/*.json", 0),
    "mawps": ("mawps/mawpsaddsub.jsonl", 1),
    "web_questions": ("webquestions/*.json*", 0),
    "natural_questions": ("nq_open/*.jsonl", 0),
    "trivia_qa": ("triviaqa/*.json*", 0),
    "mlqa": ("mlqa*/**/test-context-en-question-es.json", 1),
    "templama": ("templama*/*.json*", 0),
    WIKITEXT: ("wikitext*/wiki.*", 0),
}


def samples_in(folder: Path) -> dict[str, Path]:
    """What each benchmark is read from, of those whose files are in `folder`.

    Where several would do it is the first by name.

    Raises:
        ConfigError: there is no such folder, or nothing of a benchmark in it.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of benchmarks")
    found = {}
    for name, (pattern, levels) in _FILES.items():
        for file in sorted(folder.glob(pattern))[:1]:
            found[name] = file.parents[levels - 1] if levels else file
    if not found:
        looked_for = ", ".join(pattern for pattern, _ in _FILES.values())
        raise ConfigError(f"{folder}: no files of a benchmark; looked for {looked_for}")
    return found
