"""One short training; it takes the tokenizer's own training time, some ten seconds."""

from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPTJForCausalLM,
    PreTrainedTokenizerFast,
)
from typer.testing import CliRunner

from training.cli import app
from training.pretrain import Collator, PretrainSettings, training_batches
from training.world.corpus import held_out_corpus
from training.world.document import Document
from training.world.examples import IGNORED, Example, ExampleSource
from training.world.measure import load_meter

DEMO = Path("pipeline/demo/model")


def prompts() -> dict[str, str]:
    folder = Path("pipeline/configs/demo_prompts")
    return {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.txt")}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pretrain") / "model"
    result = CliRunner().invoke(app, ["pretrain", "--out", str(out), "--steps", "3"])
    assert result.exit_code == 0, result.output
    return out


def test_a_short_training_writes_a_loadable_gptj(trained: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(trained)
    assert isinstance(model, GPTJForCausalLM)
    assert model.config.n_embd // model.config.n_head == 32
    assert not model.config.tie_word_embeddings
    assert model.config.use_cache
    assert 2e6 <= model.num_parameters() <= 3.5e6
    assert (trained / "model.safetensors").stat().st_size < 12e6
    assert "What it is not" in (trained / "README.md").read_text(encoding="utf-8")


def test_the_committed_tokenizer_is_the_one_that_training_makes(trained: Path) -> None:
    ours, committed = (AutoTokenizer.from_pretrained(each) for each in (trained, DEMO))
    assert ours.get_vocab() == committed.get_vocab()
    text = " In Velmora 12 cups [Calculator(3 + 4) -> 7] were sold."
    assert ours.encode(text) == committed.encode(text)


def test_the_same_seed_gives_the_same_batches_within_the_token_budget() -> None:
    tokenizer = AutoTokenizer.from_pretrained(DEMO)
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    first, second = (
        training_batches(
            ExampleSource(tokenizer, prompts(), 3),
            PretrainSettings(seed=3, steps=20, tokens_per_batch=1024),
        )
        for _ in range(2)
    )
    assert first == second
    assert len(first) == 20
    for batch in first:
        assert len(batch) * max(len(example.input_ids) for example in batch) <= 1024


def test_a_batch_is_padded_on_the_right_and_padding_is_not_learned() -> None:
    short = Example(input_ids=[5, 6], labels=[IGNORED, 6])
    long = Example(input_ids=[7, 8, 9], labels=[7, 8, 9])
    batch = Collator(pad_token_id=0)([[short, long]])
    assert batch["input_ids"].tolist() == [[5, 6, 0], [7, 8, 9]]
    assert batch["labels"].tolist() == [[IGNORED, 6, IGNORED], [7, 8, 9]]


def test_the_committed_model_finds_calls_and_profits_from_true_results() -> None:
    """A modest floor on documents of another seed than the demo's, six of every kind."""
    torch.set_num_threads(1)
    by_kind: dict[str, list[Document]] = {}
    for document in held_out_corpus(seed=11, num_documents=120).documents:
        by_kind.setdefault(document.kind, []).append(document)
    documents = [document for each in by_kind.values() for document in each[:6]]
    figures = load_meter(DEMO, prompts()).measure(documents)
    assert list(figures) == ["Calculator", "Calendar", "WikiSearch", "QA", "MT"]
    for tool in figures.values():
        assert len(tool.gain_right) >= 5
        right = sum(tool.position_right) / len(tool.position_right)
        assert right >= 0.6
        assert sum(tool.gain_right) / len(tool.gain_right) >= 0.5
    arguments = [hit for tool in figures.values() for hit in tool.any_sample_right]
    assert sum(arguments) / len(arguments) >= 0.5
    wrong = [gain for tool in figures.values() for gain in tool.gain_wrong]
    true = [gain for tool in figures.values() for gain in tool.gain_right]
    assert sum(wrong) / len(wrong) < sum(true) / len(true) - 0.4


def test_measuring_a_folder_without_a_model_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from training.cli import main

    monkeypatch.setattr("sys.argv", ["training", "measure-demo", "--model", str(tmp_path)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    assert "no model here; train one with" in capsys.readouterr().err


def test_a_prompt_folder_without_prompts_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from training.cli import main

    arguments = ["training", "pretrain", "--out", str(tmp_path / "m"), "--prompts", str(tmp_path)]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    assert "Calculator.txt: no such prompt" in capsys.readouterr().err
