"""The names of tools as tokens: which of them lead to a tool that must not be called.

Differs from the paper: it prevents Toolformer from using WikiSearch on LAMA and QA on questions
(sections 4.2.1 and 4.2.3) and does not say how. There it calls another tool for nearly all inputs
(98.1 % and 99.3 %), so that a call the model begins is not lost, but names another tool.
"""

from collections.abc import Collection, Sequence


class ToolNames:
    """The tools a model has, and the tokens their names are made of."""

    def __init__(self, tools: Collection[str], tokens: Sequence[bytes]) -> None:
        """`tokens` are the bytes of every token, by its id."""
        self.tools = frozenset(tools)
        self._tokens = tokens
        self._found: dict[tuple[tuple[str, ...], bytes], frozenset[int]] = {}

    def leading_to(self, without: tuple[str, ...], spelt: bytes) -> frozenset[int]:
        """The tokens after which a name that is `spelt` so far can only be one of `without`.

        A model that chooses none of them never finishes such a name, and can still write every
        other.
        """
        if (without, spelt) not in self._found:  # for every call the same
            self._found[without, spelt] = self._search(without, spelt)
        return self._found[without, spelt]

    def _search(self, without: tuple[str, ...], spelt: bytes) -> frozenset[int]:
        unwanted = _rests(without, spelt)
        wanted = _rests(self.tools.difference(without), spelt)
        return frozenset(
            token_id
            for token_id, token in enumerate(self._tokens)
            if token and _agrees(token, unwanted) and not _agrees(token, wanted)
        )


def may_become(tools: Collection[str], spelt: bytes) -> bool:
    """Whether a name that is `spelt` so far can become one of `tools`."""
    return bool(_rests(tools, spelt))


def _rests(tools: Collection[str], spelt: bytes) -> list[bytes]:
    """What is left of the names that begin like that, with the "(" that ends each of them."""
    names = (f"{tool}(".encode() for tool in tools)
    return [name.removeprefix(spelt) for name in names if name.startswith(spelt) and name != spelt]


def _agrees(token: bytes, rests: Collection[bytes]) -> bool:
    return any(rest.startswith(token) or token.startswith(rest) for rest in rests)
