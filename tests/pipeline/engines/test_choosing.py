"""The next token of each text, by hand."""

import torch
from torch import Tensor

from pipeline.engines.choosing import choose
from pipeline.engines.drawing import uniform
from pipeline.engines.generation import Choosing, Step

GREEDY = Choosing(max_new_tokens=1)


def logits(*rows: list[float]) -> Tensor:
    return torch.tensor(rows)


def how(**settings: object) -> Choosing:
    return Choosing(max_new_tokens=1, **settings)  # type: ignore[arg-type]


def test_the_rank_of_a_trigger_counts_the_tokens_that_are_more_likely() -> None:
    row = [5.0, 3.0, 4.0, 3.0, 1.0]
    for trigger, k, triggered in (
        (0, 1, False),  # regular decoding chooses it, too
        (2, 1, None),
        (2, 2, True),
        (1, 2, None),
        (1, 3, True),
        (3, 3, True),  # as likely as the one before
        (4, 4, None),
        (4, 5, True),
        (0, 0, False),
        (4, 0, None),
    ):
        [step] = choose(logits(row), [how(trigger_id=trigger, trigger_k=k)], [0])
        expected = Step(0) if triggered is None else Step(trigger, triggered)
        assert step == expected, (trigger, k)


def test_all_tokens_are_among_as_many_as_one_likes() -> None:
    ways = [how(trigger_id=1, trigger_k=k) for k in (2**63, 2, 10**30)]
    steps = choose(logits(*[[5.0, 3.0, 4.0]] * 3), ways, [0] * 3)
    assert steps == [Step(1, triggered=True), Step(0), Step(1, triggered=True)]


def test_what_is_banned_neither_triggers_nor_changes_a_rank() -> None:
    row = [5.0, 4.0, 3.0]
    banned = frozenset({0})
    [step] = choose(logits(row), [how(banned_ids=banned, trigger_id=0, trigger_k=3)], [0])
    assert step == Step(1)
    steps = [
        choose(logits(row), [how(banned_ids=banned, trigger_id=2, trigger_k=k)], [0])[0]
        for k in (2, 3)
    ]
    assert steps == [Step(1), Step(2, triggered=True)]
    # Regular decoding chooses the trigger itself where what is more likely is banned.
    only = how(banned_ids=frozenset({0, 1}), trigger_id=2, trigger_k=3)
    assert choose(logits(row), [only], [0]) == [Step(2, triggered=False)]


def test_texts_are_chosen_for_as_if_each_were_alone() -> None:
    torch.manual_seed(3)
    rows = torch.randn(12, 30) * 2
    ways = [
        how(temperature=(0.0, 1.0, 1.3)[row % 3], top_p=(1.0, 0.6)[row % 2], seed=row)
        for row in range(12)
    ]
    ways[4] = how(temperature=1.0, seed=4, trigger_id=7, trigger_k=30)
    ways[5] = how(banned_ids=frozenset({int(rows[5].argmax())}))
    together = choose(rows.clone(), ways, list(range(12)))
    alone = [choose(rows[[row]], [ways[row]], [row])[0] for row in range(12)]
    assert together == alone
    assert together[4] == Step(7, triggered=True)
    assert together[0] == Step(int(rows[0].argmax())) and together[5].token_id != rows[5].argmax()


def test_a_token_is_drawn_with_the_number_of_its_place() -> None:
    row = logits([0.0] * 4)  # a quarter each
    for seed in range(3):
        for place in range(8):
            [step] = choose(row.clone(), [how(temperature=1.0, seed=seed)], [place])
            assert step == Step(int(4 * uniform(seed, place)))
