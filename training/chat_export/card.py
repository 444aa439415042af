"""The README.md of exported conversations: what they are, and how they are trained on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pipeline.markdown import markdown_template

_TEMPLATE = Path(__file__).with_name("chat_card.md.j2")


def chat_card(
    *,
    documents: int,
    messages: int,
    calls: Mapping[str, int],
    tools: Sequence[Mapping[str, Any]],
    instruction: str,
    license_name: str | None,
    fingerprint: str,
) -> str:
    """The card of `documents` conversations with `calls` of each of the `tools`.

    It names no path of this machine, and no time: the same export has the same card.
    """
    return markdown_template(_TEMPLATE).render(
        metadata=yaml.safe_dump(_metadata(license_name), sort_keys=False),
        documents=documents,
        messages=messages,
        calls=calls,
        tools=[tool["function"] for tool in tools],
        instruction=instruction,
        has_license=license_name is not None,
        fingerprint=fingerprint,
    )


def _metadata(license_name: str | None) -> dict[str, Any]:
    """The front matter that the Hub reads.

    It has no `configs`: data/train-* is found without, and with them `load_dataset` takes any two
    directories of one name for the same, and gives what it read first (datasets 5.2).
    """
    license_of_it = {} if license_name is None else {"license": license_name}
    return license_of_it | {
        "tags": ["toolformer", "tool-use", "conversational"],
        "task_categories": ["text-generation"],
    }
