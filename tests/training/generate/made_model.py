"""A model of 120,000 weights that was trained on a few texts until it knows them by heart."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.training.finetune.small_model import small_model
from tests.training.generate.reciting import tokens

_STEPS = 80
_END, _IGNORED = 0, -100


def model_that_knows(texts: Sequence[Sequence[str]], directory: Path) -> Path:
    """The model; after what a text begins with, its likeliest tokens are the rest and the end.

    Each text is its pieces, as tools/calls.py has them.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from transformers import AutoModelForCausalLM

    path = small_model(directory)
    model: Any = AutoModelForCausalLM.from_pretrained(path)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    rows = [torch.tensor([_END, *tokens(pieces), _END]) for pieces in texts]
    ids_BT = pad_sequence(rows, batch_first=True, padding_value=_END)
    labels_BT = pad_sequence(rows, batch_first=True, padding_value=_IGNORED)
    for _ in range(_STEPS):
        loss = model(input_ids=ids_BT, labels=labels_BT).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert float(loss.detach()) < 0.2  # what is left is the first token, which may be any of them
    model.save_pretrained(path)
    return path
