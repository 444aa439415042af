"""Every loader's real sample through the demo's Toolformer: low scores, but each input handled."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.training.evaluate.evaluating import OF_TOOLFORMER, evaluate, lines, scores, written

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
LAMA = ("lama_squad", "lama_google_re", "lama_t_rex")
QUESTIONS = ("web_questions", "natural_questions", "trivia_qa")
EACH = 3


@pytest.fixture
def benchmarks(tmp_path: Path) -> list[dict[str, Any]]:
    """The samples under the names their benchmarks publish."""
    if not SHARED.is_dir():
        pytest.skip("needs shared/data beside the checkout")
    lama, mawps = tmp_path / "lama", tmp_path / "mawps"
    for sample in (SHARED / "lama").glob("*/*.sample.jsonl"):
        copy = lama / sample.parent.name / sample.name.replace(".sample", "")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.symlink_to(sample)
    there = {path.stem for path in (lama / "TREx").iterdir()}
    relations = (SHARED / "lama" / "relations.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in relations if json.loads(line)["relation"] in there]
    (lama / "relations.jsonl").write_text("".join(kept))
    mawps.mkdir()
    (mawps / "mawpsaddsub.jsonl").symlink_to(SHARED / "mawps" / "pal_mawpsaddsub.jsonl")
    for part in ("multiarith", "singleeq", "singleop"):
        (mawps / f"mawps{part}.jsonl").touch()
    paths: dict[str, Path] = {
        **dict.fromkeys(LAMA, lama),
        "asdiv": SHARED / "asdiv" / "ASDiv_sample30.xml",
        "svamp": SHARED / "svamp" / "svamp_dev200.json",
        "mawps": mawps,
        "web_questions": SHARED / "webquestions" / "webq_devtest.json",
        "natural_questions": SHARED / "nq_open" / "dpr_nq_dev.jsonl",
        "trivia_qa": SHARED / "triviaqa" / "dpr_trivia_dev.jsonl",
        **dict.fromkeys(("mlqa", "mlqa_in_english"), SHARED / "mlqa_sample" / "hf_dummy"),
        "templama": SHARED / "templama_like" / "yago15k_templama.jsonl",
    }
    return [{"name": name, "path": str(path)} for name, path in paths.items()]


@pytest.mark.shared_data
def test_real_samples_are_asked_with_live_tools(
    tmp_path: Path, benchmarks: list[dict[str, Any]]
) -> None:
    tools = {
        "Calculator": {},
        "Calendar": {},
        "WikiSearch": {"options": {"corpus": "pipeline/demo/encyclopedia.jsonl"}},
        "QA": {"options": {"path": "pipeline/demo/atlas", "n_context": 1, "max_new_tokens": 8}},
    }
    config = written(tmp_path, benchmarks=benchmarks, tools=tools, max_examples=EACH)
    done = evaluate(config)
    assert done.returncode == 0, done.stderr
    out, called = tmp_path / "out", set[str]()
    for each in benchmarks:
        name = each["name"]
        answers = lines(out, OF_TOOLFORMER, f"{name}-k10")
        score = scores(out)["Toolformer", name, 10]
        # The sample of MLQA in English has two questions.
        assert score["n"] == (2 if name == "mlqa_in_english" else EACH)
        assert 0 < len(answers) <= score["n"]
        of_name = {call["tool"] for line in answers for call in line.get("calls", [])}
        forbidden = "WikiSearch" if name in LAMA else "QA" if name in QUESTIONS else None
        assert forbidden not in of_name, name
        called |= of_name
        for line in answers:
            assert (line["text"] is None) == (line["error"] is not None)
            if line["error"] is not None:
                assert "the prompt is too long" in line["error"]
            if name == "templama":
                assert line["date"].endswith("-07-01")
    assert {"WikiSearch", "QA"} <= called
