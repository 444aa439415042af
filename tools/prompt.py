"""P(x): the few-shot prompt that asks M to annotate a text with calls of one tool (section 2).

A prompt is a text file that ends with the document to annotate:

    Input: {x}
    Output:
"""

from pathlib import Path

from tools.base import ConfigError

PLACEHOLDER = "{x}"
_END = "Output:"
_PROMPTS = Path(__file__).parent / "prompts"


def load_prompt(source: Path | str) -> str:
    """The template in the file `source`, or, given a tool's name, the paper's (Appendix A.2).

    White space after the last "Output:" is dropped: editors add it, and the copy that M writes
    begins with a space of its own.

    Raises:
        ConfigError: there is no such prompt, or it has not exactly one "{x}" or another end.
    """
    path = source if isinstance(source, Path) else _PROMPTS / f"{source}.txt"
    try:
        template = path.read_text(encoding="utf-8-sig").rstrip()
    except FileNotFoundError:
        if isinstance(source, Path):
            raise ConfigError(f"prompt {source}: no such file") from None
        known = ", ".join(sorted(file.stem for file in _PROMPTS.glob("*.txt")))
        raise ConfigError(
            f"tool {source}: there is no prompt for it (only for {known}); "
            f"name a file of your own as tools.{source}.prompt"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"prompt {path}: not readable as UTF-8 text: {error}") from None
    if template.count(PLACEHOLDER) != 1:
        raise ConfigError(
            f"prompt {path}: has {template.count(PLACEHOLDER)} times {PLACEHOLDER}, expected "
            "once, where the text to annotate goes"
        )
    if not template.endswith(_END):
        raise ConfigError(f'prompt {path}: ends with {template[-20:]!r}, expected "{_END}"')
    return template


def header(template: str) -> str:
    """What stands before x in every P(x): the instruction and the examples."""
    return template[: template.index(PLACEHOLDER)]


def render(template: str, x: str) -> str:
    """P(x): the template with `x` in its place; braces in `x` mean nothing."""
    return template.replace(PLACEHOLDER, x)
