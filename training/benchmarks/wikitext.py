"""WikiText: documents for perplexity (paper section 4.3)."""

import re
from pathlib import Path

from tools.base import InputError
from training.benchmarks.files import text_of

_PUBLISHED_AT = (
    "wikitext-103-raw-v1.zip of Merity et al., https://huggingface.co/datasets/Salesforce/wikitext"
)
# " = Robert Boulter = "; the heading of a section has more signs: " = = Career = = ".
_TITLE = re.compile(r" ?= (?!= ).+(?<! =) = ?")


def wikitext(path: Path) -> list[str]:
    """The articles of one of WikiText's files (wiki.test.raw), each a text with its title line.

    An article begins at a title that stands between blank lines. The text is as published but for
    the blanks around it: with headings between "=" and marks such as " @-@ ", which the paper does
    not say it took out. In the files that are not raw, rare words are <unk>: their perplexity is
    another one.

    Raises:
        InputError: no such file, one without an article, or with text before its first.
    """
    lines = text_of(path, from_where=_PUBLISHED_AT).split("\n")
    starts = [number for number in range(len(lines)) if _is_title(lines, number)]
    if not starts:
        raise InputError(f"{path}: no title of an article, as in ' = Robert Boulter = '")
    before = next((number for number in range(starts[0]) if lines[number].strip()), None)
    if before is not None:
        raise InputError(f"{path}:{before + 1}: text before the first title of an article")
    ends = [*starts[1:], len(lines)]
    return ["\n".join(lines[start:end]).strip() for start, end in zip(starts, ends, strict=True)]


def _is_title(lines: list[str], number: int) -> bool:
    around = lines[max(number - 1, 0) : number] + lines[number + 1 : number + 2]
    return bool(_TITLE.fullmatch(lines[number])) and not any(line.strip() for line in around)
