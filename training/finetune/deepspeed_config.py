"""What DeepSpeed is told; "auto" is filled in by transformers' Trainer."""

from typing import Any

from training.finetune.config import FinetuneConfig


def deepspeed_config(config: FinetuneConfig) -> dict[str, Any]:
    """The configuration of DeepSpeed for a finetuning."""
    zero, bf16 = config.zero, config.precision == "bfloat16"
    values: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "train_batch_size": "auto",
        "gradient_clipping": config.max_grad_norm,
        "bf16": {"enabled": bf16},
        "zero_optimization": {
            "stage": zero.stage,
            # Of the size of one layer's matrix, whatever the model.
            "reduce_bucket_size": "auto",
            "stage3_prefetch_bucket_size": "auto",
            "stage3_param_persistence_threshold": "auto",
            # Else a checkpoint has no weights that others can load. Of one layer after the other,
            # into the memory of the first process's host.
            "stage3_gather_16bit_weights_on_model_save": True,
        },
    }
    if bf16 and zero.stage > 0:
        # A step adds up the gradients of many micro-batches: too many for bfloat16.
        values["data_types"] = {"grad_accum_dtype": "fp32"}
    if zero.offload_parameters:
        values["zero_optimization"]["offload_param"] = _HOST
    if zero.offload_optimizer:
        values["zero_optimization"]["offload_optimizer"] = _HOST
        # DeepSpeed's own for CPUs: PyTorch's would take many times as long there.
        values["optimizer"] = {
            "type": "AdamW",
            "params": {
                "lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"
            },
        }  # fmt: skip
    return values


_HOST = {"device": "cpu", "pin_memory": True}
