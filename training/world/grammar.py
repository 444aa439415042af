"""Surface forms as data: lists of templates with choices and slots, and their expansion.

A template is one line of a file under forms/: `(a|b)` is a choice, `{slot}` is filled by the
caller, `@` marks the position of a call. Lines that start with "!" are held out: training never
sees them, so that measurements on them are about generalisation.
"""

import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

from tools.base import ConfigError

# Those that training never sees; those of documents to finetune on; of these those of pretraining.
Forms = Literal["held-out", "known", "pretraining"]

MARK = "@"
_FORMS = Path(__file__).parent / "forms"
_CHOICE = re.compile(r"\(([^()]*)\)")
_SLOT = re.compile(r"\{(\w+)\}")
_HELD_OUT = "! "


@cache
def _load(folder: Path) -> dict[str, tuple[str, ...]]:
    sections: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.txt")):
        section: list[str] | None = None
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("[") and line.endswith("]"):
                section = sections.setdefault(line[1:-1], [])
            elif line and not line.startswith("#"):
                if section is None:
                    raise ConfigError(f"{path}: a form stands before the first [section]")
                section.append(line)
    return {name: tuple(lines) for name, lines in sections.items()}


def sections() -> tuple[str, ...]:
    """The names of all lists of forms."""
    return tuple(_load(_FORMS))


@cache
def forms(section: str, *, held_out: bool) -> tuple[str, ...]:
    """The templates of a section that training sees, or those it never sees."""
    lines = _load(_FORMS)[section]
    if held_out:
        return tuple(line[len(_HELD_OUT) :] for line in lines if line.startswith(_HELD_OUT))
    return tuple(line for line in lines if not line.startswith(_HELD_OUT))


@cache
def finetuning_forms(section: str) -> tuple[str, ...]:
    """More templates of a section, for documents to finetune on; pretraining sees none of them."""
    return _load(_FORMS / "finetuning").get(section, ())


def expand(template: str, fill: Callable[[str], str], rng: random.Random) -> str:
    """One surface form of `template`; `fill` names the text of a slot.

    Choices are made from the innermost outwards, spaces are collapsed, and the call mark stands
    directly before the space that begins the marked word.
    """
    text, count = template, 1
    while count:
        text, count = _CHOICE.subn(lambda match: rng.choice(match[1].split("|")), text)
    text = _SLOT.sub(lambda match: fill(match[1]), text)
    text = " ".join(text.split())
    return text.replace(f" {MARK} ", f"{MARK} ").replace(f" {MARK}", MARK).replace(" ,", ",")


def words(text: str) -> tuple[str, ...]:
    """The words of `text`: a word list as one string."""
    return tuple(text.split())


def capitalise(sentence: str) -> str:
    """`sentence` with its first letter as a capital, nothing else changed."""
    return sentence[:1].upper() + sentence[1:]
