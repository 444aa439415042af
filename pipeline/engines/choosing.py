"""Choosing the next token of many texts, each in its own way.

Shape suffixes: R rows, one for each text, V vocabulary.
"""

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.engines.drawing import draw, uniform
from pipeline.engines.generation import Choosing, Step


def choose(logits_RV: Tensor, choosings: Sequence[Choosing], places: Sequence[int]) -> list[Step]:
    """The token at place `places[r]` of each text, given the model's logits, which are changed."""
    called_for = _called_for(logits_RV, choosings)
    banned = [(row, token) for row, how in enumerate(choosings) for token in how.banned_ids]
    if banned:
        rows_tokens = torch.tensor(banned, device=logits_RV.device)
        logits_RV[rows_tokens[:, 0], rows_tokens[:, 1]] = float("-inf")
    regular = _regular(logits_RV, choosings, places)
    return [
        Step(how.trigger_id, how.trigger_id != token)
        if called and how.trigger_id is not None
        else Step(token)
        for called, how, token in zip(called_for, choosings, regular, strict=True)
    ]


def _called_for(logits_RV: Tensor, choosings: Sequence[Choosing]) -> list[bool]:
    """Whether the trigger of each text is among the most likely tokens of the model."""
    answers, V = [False] * len(choosings), logits_RV.shape[1]
    asked = [
        (row, how.trigger_id, min(how.trigger_k, V))  # any integer, a tensor's only up to 2^63
        for row, how in enumerate(choosings)
        if how.trigger_id is not None and how.trigger_id not in how.banned_ids
    ]
    if asked:
        rows, ids, ks = torch.tensor(asked, device=logits_RV.device).unbind(dim=1)
        ranks = (logits_RV[rows] > logits_RV[rows, ids][:, None]).sum(dim=-1)
        for (row, _, _), is_likely in zip(asked, (ranks < ks).tolist(), strict=True):
            answers[row] = is_likely
    return answers


def _regular(logits_RV: Tensor, choosings: Sequence[Choosing], places: Sequence[int]) -> list[int]:
    """What regular decoding chooses: texts that are drawn alike are drawn at once."""
    alike: dict[tuple[float, float], list[int]] = defaultdict(list)
    for row, how in enumerate(choosings):
        alike[how.temperature, how.top_p].append(row)
    tokens = [0] * len(choosings)
    for (temperature, top_p), rows in alike.items():
        numbers = [[uniform(choosings[row].seed, places[row])] for row in rows]
        drawn = draw(
            logits_RV if len(rows) == len(tokens) else logits_RV[rows],
            torch.tensor(numbers, dtype=torch.float64, device=logits_RV.device),
            temperature=temperature,
            top_p=top_p,
        )
        for row, token in zip(rows, drawn[:, 0].tolist(), strict=True):
            tokens[row] = token
    return tokens
