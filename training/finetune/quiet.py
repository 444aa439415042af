"""Libraries that speak to developers, kept from speaking to users."""

import logging
import warnings

_MODULES = r"(torch|transformers|accelerate|deepspeed)\b"


def quiet_libraries() -> None:
    """From here on torch, transformers, accelerate and DeepSpeed say only errors."""
    import transformers

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    for name in ("torch", "accelerate", "DeepSpeed"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=_MODULES)
