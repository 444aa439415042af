"""The finetuned model as others load it: safetensors, tokenizer, configuration and card."""

import json
import shutil
from pathlib import Path

from transformers import AutoConfig, AutoTokenizer

from pipeline.config import ModelConfig
from tools.atomic import sync, write_text_atomically
from training.finetune.checkpoints import Checkpoints
from training.finetune.model_card import model_card
from training.finetune.plot import losses_svg
from training.finetune.record import FinetuneRecord, write_record

MODEL = "model"
_BUILDING = ".model.building"
_WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "generation_config.json")


def publish(record: FinetuneRecord, base: ModelConfig, checkpoints: Checkpoints) -> None:
    """Writes out/model from the best checkpoint, then out/losses.svg, then out/finetune.json.

    Raises:
        OSError, OutputError: the disk is full, or refuses otherwise.
    """
    out = record.config.out
    building = out / _BUILDING
    shutil.rmtree(building, ignore_errors=True)  # of a process that was killed
    building.mkdir()
    best = checkpoints.path(record.best_step)
    for pattern in _WEIGHTS:
        for file in best.glob(pattern):
            shutil.copyfile(file, building / file.name)
    _write_config(base, best, building)
    tokenizer = AutoTokenizer.from_pretrained(base.path, revision=base.revision)
    tokenizer.save_pretrained(building)
    (building / "README.md").write_text(model_card(record), encoding="utf-8")
    for file in building.iterdir():
        sync(file)
    shutil.rmtree(out / MODEL, ignore_errors=True)
    building.rename(out / MODEL)
    sync(out)
    write_text_atomically(out / "losses.svg", losses_svg(record))
    write_record(out, record)


def _write_config(base: ModelConfig, best: Path, building: Path) -> None:
    """The configuration of the checkpoint; the Trainer has switched off the cache of keys."""
    values = json.loads((best / "config.json").read_bytes())
    before = AutoConfig.from_pretrained(base.path, revision=base.revision)
    values["use_cache"] = getattr(before, "use_cache", True)
    text = json.dumps(values, indent=2, sort_keys=True) + "\n"
    (building / "config.json").write_text(text, encoding="utf-8")
