"""What a configuration names as "package.module:attribute": classes of anyone's own."""

import importlib
from typing import Any

from tools.base import ConfigError, one_line


def imported(path: str, *, who: str) -> Any:
    """What `path` names. `who` wants it, as messages begin.

    Raises:
        ConfigError: `path` is no such path, its module cannot be imported, or has no such
            callable.
    """
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise ConfigError(f"{who}: {path!r}, expected package.module:callable")
    try:
        found = getattr(importlib.import_module(module_name), attribute, None)
    except Exception as error:  # the module may be anyone's code
        raise ConfigError(
            f"{who}: cannot import {module_name}: {type(error).__name__}: {one_line(error)}"
        ) from error
    if not callable(found):
        raise ConfigError(f"{who}: {module_name} has no callable {attribute!r}")
    return found
