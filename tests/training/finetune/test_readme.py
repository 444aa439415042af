"""Every command of the finetuning part of training/README.md is one that a test runs."""

import re
from pathlib import Path

from tests.pipeline.demo_runs import ROOT
from training.finetune.config import FinetuneConfig, load_finetune_config

_HERE = Path(__file__).parent
_README = (ROOT / "training" / "README.md").read_text(encoding="utf-8")

# By a test, with other files.
BY_TEST = {
    "python -m training finetune training/configs/finetune-demo.yaml": "../../test_readme.py",
    "torchrun --nproc-per-node": "test_launchers.py",
    "deepspeed --hostfile hosts --module training finetune": "test_launchers.py",
    "python -m training finetune my-finetune.yaml --address": "test_ray_train.py",
    "python -m cluster slurm my.yaml": "../../cluster/test_job.py",  # its last step
    "python -m training finetune my-finetune.yaml --dataset dataset_plain": "test_launchers.py",
    "python -m training memory gpt-j-6b": "test_memory.py",
}


def commands() -> list[str]:
    section = _README.split("\n## Finetuning\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]


def test_every_command_is_accounted_for() -> None:
    assert [line for line in commands() if not line.startswith(tuple(BY_TEST))] == []
    assert [each for each in BY_TEST if not any(c.startswith(each) for c in commands())] == []
    assert all((_HERE / test).is_file() for test in BY_TEST.values())


def test_the_defaults_it_tells_are_those_of_the_configuration() -> None:
    paper = load_finetune_config(ROOT / "training" / "configs" / "finetune-paper.yaml")
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| ([^|]*) \|", _README, re.MULTILINE))
    for name in ("max_examples", "sequence_tokens", "batch_size", "max_steps", "eval_steps"):
        default = FinetuneConfig.model_fields[name].default
        assert rows[name] == f"{default:,}"
        assert getattr(paper, name) == default
    assert float(rows["learning_rate"]) == paper.learning_rate
    assert rows["development.documents"] == f"{paper.development.documents:,}"
    assert (rows["precision"], rows["zero.stage"]) == (paper.precision, str(paper.zero.stage))
    assert paper.accumulation_steps(8) * 8 * paper.micro_batch_size == 128
