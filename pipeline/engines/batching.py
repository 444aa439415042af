"""Which sequences share a forward pass."""

from collections.abc import Sequence


def form_packs(
    lengths: Sequence[int], token_budget: int, *, padded: bool = False
) -> list[list[int]]:
    """Indices of `lengths` in packs of at most `token_budget` tokens, longest first.

    With `padded` every sequence counts as long as the longest of its pack. A sequence over the
    budget goes alone. The result depends on nothing but the arguments, so that a unit's numbers
    do not depend on what else its engine does.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    packs: list[list[int]] = []
    room = 0
    for index in order:
        tokens = lengths[packs[-1][0]] if padded and packs else lengths[index]
        if not packs or tokens > room:
            packs.append([])
            tokens, room = lengths[index], token_budget
        packs[-1].append(index)
        room -= tokens
    return packs
