from pathlib import Path

import pytest

from tests.training.reproduce.made import SHIPPED, shipped
from tools.base import ConfigError
from training.reproduce.check import check
from training.reproduce.config import load_reproduce_config
from training.reproduce.plan import Places, Step, plan
from training.reproduce.samples import samples_in

SIZES = ("tiny", "small", "medium", "large")


def steps(**changes: object) -> dict[str, Step]:
    return {step.name: step for row in plan(shipped(**changes), {}) for step in row}


def test_every_size_annotates_builds_learns_and_is_evaluated_in_this_order() -> None:
    names = list(steps())
    assert len(names) == len(set(names))
    assert set(SIZES) == set(shipped().models)
    for size in SIZES:
        own = [name for name in names if size in name.split("-")]
        assert own == [
            f"annotate-{size}",
            f"build-{size}",
            f"finetune-{size}-dataset",
            f"finetune-{size}-dataset_plain",
            f"evaluate-{size}",
        ]


def test_steps_beside_each_other_write_to_different_places() -> None:
    rows = plan(shipped(), {})
    assert max(map(len, rows)) == 4
    for row in rows:
        places = [path for step in row for path in step.files]
        assert len(set(places)) == len(places)
        assert len({step.argv for step in row}) == len(row)


def test_the_shipped_configurations_are_what_their_commands_take() -> None:
    check(plan(shipped(), {"asdiv": Path("a.xml"), "mlqa": Path("mlqa"), "wikitext": Path("w")}))
    check(plan(load_reproduce_config(SHIPPED.with_name("reproduce-short.yaml")), {}))


def test_a_wrong_key_is_refused_before_anything_starts() -> None:
    finetune = shipped().finetune | {"steps": 3}
    with pytest.raises(ConfigError, match="finetune: steps: Extra inputs are not permitted"):
        check(plan(shipped(finetune=finetune), {}))


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = SHIPPED.read_text().replace("pipeline/demo/sizes/tiny", "nowhere")
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"models\.tiny: no directory nowhere"):
        load_reproduce_config(path)


def test_each_size_is_evaluated_with_its_own_models_and_learns_from_its_own_run() -> None:
    found, places = steps(), Places(shipped().out)
    for size in SIZES:
        (evaluation,) = found[f"evaluate-{size}"].files.values()
        paths = [model["path"] for model in evaluation["models"].values()]
        assert paths == [
            shipped().models[size],
            f"runs/reproduce/{size}/finetuned-dataset_plain/model",
            f"runs/reproduce/{size}/finetuned-dataset/model",
        ]
        for dataset in ("dataset", "dataset_plain"):
            (finetuning,) = found[f"finetune-{size}-{dataset}"].files.values()
            assert (finetuning["run"], finetuning["dataset"]) == (str(places.run(size)), dataset)
    assert found["evaluate-large"].files[places.config("evaluate-large")]["api_top_k"] == [
        0, 1, 3, 10,
    ]  # fmt: skip
    assert found["evaluate-tiny"].files[places.config("evaluate-tiny")]["api_top_k"] == [0, 10]


def test_no_two_corpora_are_of_one_world_and_another_seed_gives_others() -> None:
    def seeds(seed: int) -> list[str]:
        found = steps(seed=seed)
        return [
            step.argv[step.argv.index("--seed") + 1]
            for step in found.values()
            if "pretraining" in step.argv
        ]

    assert seeds(0) == ["1", "2", "3"]
    assert seeds(1) == ["4", "5", "6"]


def test_k_has_to_begin_with_the_disabled() -> None:
    with pytest.raises(ConfigError, match=r"api_top_k: expected 0 and larger ones in order"):
        shipped(api_top_k=[1, 10])


def test_samples_are_found_where_the_loaders_read_them(tmp_path: Path) -> None:
    for file in (
        "lama/Squad/test.jsonl",
        "asdiv/ASDiv.xml",
        "mlqa_sample/parts/test-context-en-question-es.json",
        "wikitext2/wiki.valid.tokens",
    ):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    found = samples_in(tmp_path)
    assert found == {
        "lama_squad": tmp_path / "lama",
        "asdiv": tmp_path / "asdiv" / "ASDiv.xml",
        "mlqa": tmp_path / "mlqa_sample" / "parts",
        "wikitext": tmp_path / "wikitext2" / "wiki.valid.tokens",
    }
    last = plan(shipped(), found)[-1][0]
    (settings,) = last.files.values()
    assert [each["name"] for each in settings["benchmarks"]] == ["lama_squad", "asdiv"] + [
        "mlqa"
    ] * 6
    assert settings["perplexity"] == [{"name": "WikiText", "wikitext": str(found["wikitext"])}]


def test_a_folder_without_benchmarks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no files of a benchmark; looked for lama/Squad"):
        samples_in(tmp_path)
    with pytest.raises(ConfigError, match="no such folder"):
        samples_in(tmp_path / "missing")
