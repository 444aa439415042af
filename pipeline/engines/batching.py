"""Which sequences share a forward pass."""

from collections.abc import Sequence


def form_batches(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Indices of `lengths` in batches of rows * longest <= token_budget, longest first.

    A sequence over the budget goes alone. The result depends on nothing but the arguments, so
    that a unit's numbers do not depend on what else its engine does.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches: list[list[int]] = []
    for index in order:
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= token_budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
