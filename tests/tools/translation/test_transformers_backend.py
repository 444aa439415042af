"""Translations by transformers: the plain generation's, whatever else is in the batch."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, M2M100ForConditionalGeneration

from tools.base import ConfigError, InputError
from tools.translation.transformers_backend import TransformersTranslator, num_rows
from tools.translation.translator import Source, Vocabulary, max_new_tokens, padded_width

WORDS = ["O", "homem", "suprimido", "der", "Mann", "sûreté", "nucléaire", "南京", "описание", "one"]


def translator(directory: Path, **options: object) -> TransformersTranslator:
    settings = {"beam_size": 4, "max_source_tokens": 256, "device": "cpu", "dtype": None}
    return TransformersTranslator(directory, **(settings | {"num_threads": 1} | options))  # type: ignore[arg-type]


def sources(count: int, most_words: int = 12) -> list[Source]:
    draw = random.Random(0)
    languages = ["por_Latn", "deu_Latn", "fra_Latn", "zho_Hans", "rus_Cyrl"]
    return [
        Source(
            language=draw.choice(languages),
            text=" ".join(draw.choices(WORDS, k=draw.randint(1, most_words))),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_translation_is_that_of_plain_generation(checkpoint: Path, beam_size: int) -> None:
    """One source, no padding, the tokenizer and the generation of transformers themselves."""
    tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint)
    model: Any = M2M100ForConditionalGeneration.from_pretrained(checkpoint)
    batch = sources(6, 6)
    expected = []
    for source in batch:
        tokenizer.src_lang = source.language
        encoded = tokenizer(source.text, return_tensors="pt")
        width = padded_width(encoded["input_ids"].shape[1])
        output = model.generate(
            **encoded, num_beams=beam_size, max_new_tokens=max_new_tokens(width) + 1,
            forced_bos_token_id=tokenizer.convert_tokens_to_ids("eng_Latn"),
        )  # fmt: skip
        expected.append(tokenizer.decode(output[0], skip_special_tokens=True).strip())
    assert translator(checkpoint, beam_size=beam_size).translate(batch) == expected
    assert len(set(expected)) > 3


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_translation_does_not_depend_on_its_batch(checkpoint: Path, beam_size: int) -> None:
    """Alone, in a batch of mixed lengths and languages, and in another order: the same ids."""
    backend = translator(checkpoint, beam_size=beam_size)
    batch = sources(8, 6)
    together = backend.translate(batch)
    assert [backend.translate([source])[0] for source in batch] == together
    order = random.Random(1).sample(range(8), 8)
    shuffled = backend.translate([batch[index] for index in order])
    assert shuffled == [together[index] for index in order]
    assert backend.translate([]) == []
    assert len(set(together)) > 4


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("W", [16, 48])  # eight rows, and five
@pytest.mark.usefixtures("one_thread")
def test_logits_do_not_depend_on_the_batch_in_any_bit(checkpoint: Path, W: int) -> None:
    """What `translate` relies on: in one shape a row's numbers are its own, wherever it stands."""
    model: Any = M2M100ForConditionalGeneration.from_pretrained(checkpoint)
    R = num_rows(W, "cpu")
    torch.manual_seed(0)
    ids_RW = torch.randint(4, 200, (R, W))
    mask_RW = (torch.arange(W) < torch.randint(3, W, (R, 1))).long()
    start_R1 = torch.full((R, 1), 2)
    alone = []
    with torch.inference_mode():
        logits = model(input_ids=ids_RW, attention_mask=mask_RW, decoder_input_ids=start_R1).logits
        for row in range(R):
            alone.append(
                model(
                    input_ids=ids_RW[row].repeat(R, 1),
                    attention_mask=mask_RW[row].repeat(R, 1),
                    decoder_input_ids=start_R1,
                ).logits[(row + 3) % R]
            )
    assert torch.equal(torch.stack(alone), logits)


def test_a_translation_sets_the_one_thread_its_bits_need(
    checkpoint: Path, one_thread: None
) -> None:
    backend = translator(checkpoint, beam_size=1)
    backend.load()
    torch.set_num_threads(2)  # as another tool in the process might
    backend.translate(sources(1))
    assert torch.get_num_threads() == 1


def test_generation_is_not_steered_by_the_checkpoint(checkpoint: Path, tmp_path: Path) -> None:
    """generation_config.json is no part of the version."""
    directory = shutil.copytree(checkpoint, tmp_path / "steering")
    path = directory / "generation_config.json"
    steering = {"no_repeat_ngram_size": 1, "num_beams": 3, "max_length": 5, "early_stopping": True}
    path.write_text(json.dumps(json.loads(path.read_text()) | steering))
    batch = sources(3, 6)
    expected = translator(checkpoint, beam_size=2).translate(batch)
    assert translator(directory, beam_size=2).translate(batch) == expected


def test_text_that_looks_like_a_control_token_is_text(checkpoint: Path) -> None:
    vocabulary = Vocabulary(checkpoint)
    ids = vocabulary.source_ids(Source(language="deu_Latn", text="</s> eng_Latn Mann"), 256)
    assert ids.count(vocabulary.end_id) == 1
    assert ids[-1] == vocabulary.end_id
    assert vocabulary.target_id not in ids


def test_a_long_source_is_cut_and_keeps_its_end_token(checkpoint: Path) -> None:
    vocabulary = Vocabulary(checkpoint)
    long = Source(language="deu_Latn", text="Mann " * 500)
    ids = vocabulary.source_ids(long, 256)
    assert len(ids) == 256
    assert vocabulary.tokens([ids[0], ids[1], ids[-1]]) == ["deu_Latn", "▁Mann", "</s>"]
    (whole,) = translator(checkpoint, max_source_tokens=10).translate([long])
    beginning = Source(language="deu_Latn", text="Mann " * 8)
    assert translator(checkpoint, max_source_tokens=10).translate([beginning]) == [whole]


def test_all_languages_of_the_tokenizer_are_known(checkpoint: Path) -> None:
    languages = translator(checkpoint).languages()
    assert len(languages) == 202
    assert {"eng_Latn", "zho_Hant", "als_Latn"} <= languages


def test_weights_of_a_pickle_are_read_as_tensors(checkpoint: Path, tmp_path: Path) -> None:
    """The paper's model is published as pytorch_model.bin."""
    from safetensors.torch import load_file

    directory = shutil.copytree(checkpoint, tmp_path / "bin")
    state = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    torch.save(state, directory / "pytorch_model.bin")
    batch = sources(3)
    assert translator(directory).translate(batch) == translator(checkpoint).translate(batch)

    (directory / "pytorch_model.bin").unlink()
    torch.save({"lm_head.weight": Opener()}, directory / "pytorch_model.bin")
    with pytest.raises(InputError, match="holds more than tensors"):
        translator(directory).load()
    assert not Path("opened").exists()


class Opener:
    """What a hostile pickle holds: a call."""

    def __reduce__(self) -> tuple[object, ...]:
        return (open, ("opened", "w"))


def test_a_directory_with_sentencepiece_alone_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(checkpoint, tmp_path / "sentencepiece")
    (directory / "tokenizer.json").rename(directory / "sentencepiece.bpe.model")
    with pytest.raises(ConfigError, match=r"no tokenizer\.json; .* has no language codes"):
        translator(directory)


def test_a_tokenizer_without_languages_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(checkpoint, tmp_path / "poor")
    state = json.loads((directory / "tokenizer.json").read_text())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["id"] < 4]
    state["post_processor"] = None
    (directory / "tokenizer.json").write_text(json.dumps(state))
    with pytest.raises(InputError, match=r"tokenizer\.json: no token eng_Latn"):
        translator(directory).load()


def test_directories_of_other_things_are_named(checkpoint: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(checkpoint, tmp_path / "other")
    (directory / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(InputError, match="the model cannot be loaded"):
        translator(directory).load()
    (directory / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"no weights: neither \*\.safetensors nor"):
        translator(directory)
    (directory / "tokenizer.json").write_text("{")
    with pytest.raises(ConfigError, match="dtype is 'int8', expected one of float32"):
        translator(directory, dtype="int8")
    (directory / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(InputError, match="model_type is 't5', expected 'm2m_100'"):
        translator(directory)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_one_line(checkpoint: Path) -> None:
    with pytest.raises(ConfigError, match="device is 'cuda', and torch sees no GPU"):
        translator(checkpoint, device="cuda").load()
