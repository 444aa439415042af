"""A finetuning from beginning to end, as every one of its processes runs it.

out/checkpoints/checkpoint-N   see training.finetune.checkpoints
out/model/                     the model with the best perplexity, as others load it
out/losses.svg, out/tensorboard/
out/finetune.json              written last: the finetuning is finished
"""

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from torch.utils.tensorboard import SummaryWriter
from transformers import TrainerCallback
from transformers.integrations.integration_utils import TensorBoardCallback

from pipeline.config import ModelConfig
from pipeline.engines.checkpoint import load_config, load_model
from pipeline.rundir import RunDir
from pipeline.tokens import TokenCodec
from tools.base import ConfigError
from training.finetune.callbacks import SealCheckpoints, StopAtNonsense
from training.finetune.checkpoints import CheckpointMark, Checkpoints, refusals, sole_writer
from training.finetune.config import FinetuneConfig
from training.finetune.development import DevelopmentSet, load_development_set
from training.finetune.examples import TrainingSet, load_training_set
from training.finetune.fingerprint import check_unchanged, fingerprint_of
from training.finetune.progress import TrainingProgress
from training.finetune.publish import MODEL, publish
from training.finetune.quiet import quiet_libraries
from training.finetune.ranks import Ranks, joined
from training.finetune.record import Data, Evaluation, FinetuneRecord, read_record
from training.finetune.trainer import LOSS, PERPLEXITY, FinetuningTrainer, training_arguments

_PACKAGES = ("torch", "transformers", "deepspeed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a finetuning ended. Perplexities are of the development set."""

    model: Path
    was_finished: bool  # before this start, which did nothing
    before: Evaluation
    best: Evaluation  # whose weights are in `model`
    last: Evaluation


def finetune(config: FinetuneConfig, *, console: Console | None) -> Outcome:
    """The finetuned model, in `config.out`; what was interrupted there continues.

    Runs in every process of a training (see training.finetune.ranks) and returns the same in all.
    One of them is given a console to show the progress on.

    Raises:
        ConfigError, InputError: the settings, the run or the development set are of no use, or
            `config.out` was begun with others.
        OutputError: the disk is full, or refuses otherwise.
        ToolformerError: a loss is no number.
        AnotherFailed, ProcessLost: see training.finetune.ranks. Of several processes that fail,
            one raises the reason and the others AnotherFailed.
    """
    quiet_libraries()
    with joined() as ranks:
        config.accumulation_steps(ranks.num)  # before anything is read
        base = config.model or RunDir(config.run).config().model
        context = load_config(base.path, base.revision).context_length
        if config.sequence_tokens > context:
            raise ConfigError(
                f"sequence_tokens {config.sequence_tokens}: {base.path} has a context of {context}"
            )
        codec = TokenCodec.load(base.path, base.revision)
        training = load_training_set(config, codec)
        development = load_development_set(config, codec, training)
        fingerprint = fingerprint_of(config, base, development.examples)
        record = ranks.from_first(read_record(config.out) if ranks.is_first else None)
        was_finished = record is not None
        if record is not None:
            check_unchanged(record.fingerprint, fingerprint, config.out)
        else:
            with refusals(config.out), sole_writer(config.out, ranks):
                record = _finish(config, base, training, development, fingerprint, ranks, console)
        return Outcome(
            model=config.out / MODEL,
            was_finished=was_finished,
            before=record.before,
            best=record.best,
            last=record.last,
        )


def _finish(
    config: FinetuneConfig,
    base: ModelConfig,
    training: TrainingSet,
    development: DevelopmentSet,
    fingerprint: Mapping[str, Any],
    ranks: Ranks,
    console: Console | None,
) -> FinetuneRecord:
    """The record of the training, begun or continued, whose model is written now."""
    checkpoints = Checkpoints(config.out / "checkpoints")
    newest = _newest(checkpoints, ranks, fingerprint, max_steps=config.max_steps)
    if console is not None:
        _say(console, config, training, development, ranks, newest)
    if newest is None or newest.step < config.max_steps:
        _train(
            config, base, training, development, checkpoints, newest, fingerprint, ranks, console
        )
    record = None
    if ranks.is_first:
        record = _record(config, base, training, development, checkpoints, ranks)
        publish(record, base, checkpoints)
    return ranks.from_first(record)


def _newest(
    checkpoints: Checkpoints, ranks: Ranks, fingerprint: Mapping[str, Any], *, max_steps: int
) -> CheckpointMark | None:
    """The checkpoint to go on from; what else a killed training left is removed.

    Raises:
        ConfigError: it is of another training, or for another number of processes.
    """
    newest = None
    if ranks.is_first:
        checkpoints.directory.mkdir(parents=True, exist_ok=True)
        newest = checkpoints.newest()
    newest = ranks.from_first(newest)
    if newest is not None:
        check_unchanged(newest.fingerprint, fingerprint, checkpoints.directory.parent)
        if newest.step < max_steps and newest.num_processes != ranks.num:
            raise ConfigError(
                f"{checkpoints.path(newest.step)}: written by {newest.num_processes} processes, "
                f"and DeepSpeed divides it among as many; this start has {ranks.num}"
            )
    if ranks.is_first:
        checkpoints.remove_unfinished()
    ranks.wait()
    return newest


def _say(
    console: Console,
    config: FinetuneConfig,
    training: TrainingSet,
    development: DevelopmentSet,
    ranks: Ranks,
    newest: CheckpointMark | None,
) -> None:
    calls = sum(training.calls.values())
    console.print(
        f"{len(training.examples):,} sequences of {training.documents:,} documents with {calls:,} "
        f"calls{'' if config.dataset == 'dataset' else ', left out,'} in {config.run}; "
        f"{development.documents:,} held-out documents; {ranks.num} process"
        f"{'' if ranks.num == 1 else 'es'}, ZeRO-{config.zero.stage}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    if development.documents < config.development.documents:
        console.print(
            f"the development set is smaller than the {config.development.documents:,} documents "
            "asked for: the others of its input are trained on or have no usable text",
            highlight=False,
            soft_wrap=True,
        )
    if newest is not None:
        console.print(f"continuing after step {newest.step:,}", highlight=False)


def _train(
    config: FinetuneConfig,
    base: ModelConfig,
    training: TrainingSet,
    development: DevelopmentSet,
    checkpoints: Checkpoints,
    newest: CheckpointMark | None,
    fingerprint: Mapping[str, Any],
    ranks: Ranks,
    console: Console | None,
) -> None:
    """All steps that are left, the last of which leaves a checkpoint."""
    arguments = training_arguments(
        config, ranks, checkpoints=checkpoints.directory, is_new=newest is None
    )
    # After the arguments: from then on ZeRO-3 divides what is loaded.
    model = load_model(base.path, base.revision, config.precision)
    callbacks: list[TrainerCallback] = [
        StopAtNonsense(),
        SealCheckpoints(checkpoints, ranks, fingerprint),
    ]
    if ranks.is_first:
        # What a killed training wrote of later steps is not shown.
        purged = None if newest is None else newest.step + 1
        writer = SummaryWriter(str(config.out / "tensorboard"), purge_step=purged)
        callbacks.append(TensorBoardCallback(writer))  # type: ignore[no-untyped-call]
    trainer = FinetuningTrainer(
        model,
        arguments,
        config,
        ranks,
        examples=training.examples,
        development=development.examples,
        callbacks=callbacks,
    )
    resumed = None if newest is None else str(checkpoints.path(newest.step))
    if console is None:
        trainer.train(resume_from_checkpoint=resumed)
        return
    with TrainingProgress(console) as progress:
        trainer.add_callback(progress)
        trainer.train(resume_from_checkpoint=resumed)


def _record(
    config: FinetuneConfig,
    base: ModelConfig,
    training: TrainingSet,
    development: DevelopmentSet,
    checkpoints: Checkpoints,
    ranks: Ranks,
) -> FinetuneRecord:
    """What the last checkpoint tells of the training."""
    newest = checkpoints.newest()
    assert newest is not None
    history = checkpoints.history(newest.step)
    log = history["log_history"]
    return FinetuneRecord(
        config=config,
        base_model=base.path,
        fingerprint=newest.fingerprint,
        num_processes=ranks.num,
        data=Data(
            documents=training.documents,
            examples=len(training.examples),
            trained_tokens=training.examples.num_trained,
            calls=training.calls,
            dropped=training.dropped,
            development_documents=development.documents,
            development_excluded=development.excluded_by_id + development.excluded_by_text,
            development_unusable=development.unusable,
        ),
        evaluations=[
            Evaluation(step=entry["step"], loss=entry[LOSS], perplexity=entry[PERPLEXITY])
            for entry in log
            if PERPLEXITY in entry
        ],
        losses=[(entry["step"], entry["loss"]) for entry in log if "loss" in entry],
        best_step=history["best_global_step"],
        versions={name: importlib.metadata.version(name) for name in _PACKAGES},
    )
