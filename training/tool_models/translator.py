"""The translator: a small M2M-100 in the files of NLLB-200, from four languages to English."""

import logging
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    NllbTokenizer,
    set_seed,
)
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

from training.tool_models.card import write_translator_card
from training.tool_models.loop import IGNORED, Batch, padded, train
from training.tool_models.tokenizers import nllb_tokenizer
from training.world.lexicon import Phrase, draw_phrase

log = logging.getLogger(__name__)

_ENGLISH = "eng_Latn"
_PHRASES_PER_BATCH = 64
_TOKENIZER_PHRASES = 8000
# Language identification errs on short phrases; a wrong code must not spoil the translation.
_RANDOM_LANGUAGE_SHARE = 0.3
_NOUN_PHRASE_SHARE = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatorSettings:
    """The defaults are those of the committed translator."""

    seed: int = 0
    steps: int = 800
    learning_rate: float = 2e-3
    threads: int = 1


def train_translator(out: Path, settings: TranslatorSettings) -> None:
    """Trains tokenizer and model and writes both to `out`, as a directory of NLLB-200 is.

    The weights are written in float16.
    """
    torch.set_num_threads(settings.threads)
    set_seed(settings.seed)
    rng = random.Random(f"translator tokenizer {settings.seed}")
    phrases = [draw_phrase(rng, held_out=False) for _ in range(_TOKENIZER_PHRASES)]
    tokenizer = nllb_tokenizer(text for each in phrases for text in (each.foreign, each.english))
    batches = list(translator_batches(tokenizer, steps=settings.steps, seed=settings.seed))
    model = new_translator(tokenizer)
    log.info("translator: %d steps, %d parameters", len(batches), model.num_parameters())
    with tempfile.TemporaryDirectory() as scratch:
        train(
            model,
            batches,
            learning_rate=settings.learning_rate,
            seed=settings.seed,
            scratch=Path(scratch),
        )
    model.config.use_cache = True  # off in training alone
    model.half().save_pretrained(out)  # type: ignore[no-untyped-call]
    tokenizer.save_pretrained(out)
    write_translator_card(out, parameters=model.num_parameters(), settings=settings)


def new_translator(tokenizer: NllbTokenizer) -> M2M100ForConditionalGeneration:
    """A translator to train: 0.9 M parameters, 2 + 2 layers of width 128."""
    width = 128
    config = M2M100Config(
        vocab_size=len(tokenizer),
        d_model=width,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=2 * width,
        decoder_ffn_dim=2 * width,
        dropout=0.0,
        attention_dropout=0.0,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        init_std=width**-0.5,
    )
    return M2M100ForConditionalGeneration(config)


def translator_batches(tokenizer: NllbTokenizer, *, steps: int, seed: int) -> Iterator[Batch]:
    """Phrases of the training world, some only the noun phrase that they begin with."""
    rng = random.Random(f"translator {seed}")
    nouns = _nouns(rng)
    for _ in range(steps):
        phrases = [draw_phrase(rng, held_out=False) for _ in range(_PHRASES_PER_BATCH)]
        phrases = [
            noun_phrase(each, nouns) if rng.random() < _NOUN_PHRASE_SHARE else each
            for each in phrases
        ]
        codes = [
            rng.choice(FAIRSEQ_LANGUAGE_CODES)
            if rng.random() < _RANDOM_LANGUAGE_SHARE
            else each.language
            for each in phrases
        ]
        foreign = _sequences(tokenizer, codes, [each.foreign for each in phrases])
        english = _sequences(
            tokenizer, [_ENGLISH] * len(phrases), [each.english for each in phrases]
        )
        ids_BT = padded(foreign, tokenizer.pad_token_id)
        yield {
            "input_ids": ids_BT,
            "attention_mask": (ids_BT != tokenizer.pad_token_id).long(),
            "labels": padded(english, IGNORED),
        }


def _sequences(tokenizer: NllbTokenizer, codes: list[str], texts: list[str]) -> list[list[int]]:
    """The token ids of each text between its language code and </s>."""
    vocabulary = tokenizer.get_vocab()
    rows = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return [
        [vocabulary[code], *row, tokenizer.eos_token_id]
        for code, row in zip(codes, rows, strict=True)
    ]


def _nouns(rng: random.Random) -> frozenset[str]:
    """The English nouns: every phrase ends in one."""
    phrases = (draw_phrase(rng, held_out=False) for _ in range(2000))
    return frozenset(each.english.split()[-1] for each in phrases)


def noun_phrase(phrase: Phrase, nouns: frozenset[str]) -> Phrase:
    """The noun phrase at the beginning: as many words in both languages, two or three."""
    english = phrase.english.split()
    length = 1 + next(place for place, word in enumerate(english) if word in nouns)
    return Phrase(
        language=phrase.language,
        foreign=" ".join(phrase.foreign.split()[:length]),
        english=" ".join(english[:length]),
    )
