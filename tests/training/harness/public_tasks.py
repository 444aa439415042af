"""Tasks of lm-evaluation-harness as it has them, but with documents of ours."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lm_eval
import yaml
from datasets import Dataset, DatasetDict
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask
from lm_eval.models.utils import postprocess_generated_text

_TASKS = Path(lm_eval.__file__).parent / "tasks"


class PublicTask:
    """What a task of the harness says of completions: stop texts, filters and metric are its own.

    `answer` is how its documents have the answers.
    """

    def __init__(self, settings: dict[str, Any], answer: Callable[[Sequence[str]], Any]) -> None:
        self._answer, self._stops = answer, settings["generation_kwargs"]["until"]
        some = Dataset.from_list([{"question": "", "answer": answer(["a", "b"])}])
        splits = DatasetDict({"train": some, "validation": some, "test": some})
        changes = {"custom_dataset": lambda **_: splits, "num_fewshot": 0}
        self._task: Any = ConfigurableTask(config=settings | changes)

    def is_right(self, completion: str, *answers: str) -> bool:
        """Whether it counts the completion as right, by the last of its filters."""
        doc = {"question": "", "answer": self._answer(answers)}
        text = postprocess_generated_text(completion, stop=self._stops, think_end_token=None)
        asked = Instance(request_type="generate_until", doc=doc, arguments=("", {}), idx=0)
        asked.resps = [text]
        ensemble = self._task._filters[-1]
        ensemble.apply([asked])
        metrics = self._task.process_results(doc, [asked.filtered_resps[ensemble.name]])
        return bool(metrics["exact_match"])


def trivia_qa_task() -> PublicTask:
    settings = _settings("triviaqa/default.yaml")
    return PublicTask(settings, lambda answers: {"aliases": list(answers)})


def nq_open_task() -> PublicTask:
    return PublicTask(_settings("nq_open/nq_open.yaml"), list)


def gsm8k_task(*, first: bool = False) -> PublicTask:
    """With its filter `flexible-extract`, of which the last number counts, or here the first."""
    settings = _settings("gsm8k/gsm8k.yaml")
    extract, _ = settings["filter_list"][-1]["filter"]
    assert (settings["filter_list"][-1]["name"], extract["group_select"]) == (
        "flexible-extract",
        -1,
    )
    if first:
        extract["group_select"] = 0
    return PublicTask(settings, lambda answers: answers[0])


def _settings(name: str) -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load((_TASKS / name).read_text(encoding="utf-8"))
    return settings
