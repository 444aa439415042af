"""The model class `toolformer` for lm-evaluation-harness: its tasks, with live tools."""
