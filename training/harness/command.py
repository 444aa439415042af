"""python -m training lm-eval: lm-evaluation-harness's own command line, with our model class."""

import sys

import typer

from tools.base import ConfigError

# All options are the harness's own, --help among them.
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def lm_eval_command(context: typer.Context) -> None:
    """Run tasks of lm-evaluation-harness with live tools: --model toolformer."""
    try:
        from lm_eval.__main__ import cli_evaluate
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "lm_eval":
            raise
        raise ConfigError("lm-eval needs the extra `evaluate`: pip install '.[evaluate]'") from None
    import training.harness.model  # noqa: F401 - registers it

    sys.argv = ["lm-eval", *context.args]
    cli_evaluate()
