"""Tokens: whoever has the token of a Ray cluster may run any code on it.

One that we start gets a token of its own, handed on by the environment alone: it stands in no
file, no command line and no log. Slurm keeps the environment that a job is submitted with in files:
there the job itself makes the token, or reads it from the file of RAY_AUTH_TOKEN_PATH.
"""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from tools.base import ConfigError

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"


def token_for_a_new_cluster(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables by which the processes of a new cluster know each other.

    A token that the user's `environment` names is kept, so that they can look at the dashboard;
    otherwise one is made.
    """
    named = environment.get(TOKEN) or environment.get(TOKEN_PATH)
    return {MODE: "token"} | ({} if named else {TOKEN: secrets.token_hex(32)})


def known_token(environment: Mapping[str, str] = os.environ) -> str | None:
    """The token for a cluster that is there, from where Ray takes it; None if there is none.

    Raises:
        ConfigError: the file that RAY_AUTH_TOKEN_PATH names cannot be read.
    """
    if environment.get(MODE) == "disabled":
        return None
    if environment.get(TOKEN):
        return environment[TOKEN].strip()
    named = environment.get(TOKEN_PATH)
    path = Path(named) if named else Path.home() / ".ray" / "auth_token"
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        if named:
            raise ConfigError(f"{TOKEN_PATH}={named}: no token can be read there") from error
        return None
