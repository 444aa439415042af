"""Who may ask: those that show the key."""

import hmac
import os
from pathlib import Path

from starlette.requests import Request

from tools.base import ConfigError
from training.serve.errors import ApiError

API_KEY_VARIABLE = "TOOLFORMER_API_KEY"


class ApiKey:
    """The key that requests have to show. Neither its text nor its length is ever said."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def check(self, request: Request) -> None:
        """Nothing, where the request shows the key.

        Raises:
            ApiError: 401.
        """
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        # Headers are latin-1 to ASGI: this gives back their bytes.
        is_right = hmac.compare_digest(shown.strip().encode("latin-1"), self._key)
        if scheme.lower() != "bearer" or not is_right:
            raise ApiError(
                401,
                "a valid key is needed: Authorization: Bearer KEY",
                type="authentication_error",
                code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )


def find_key(file: Path | None) -> ApiKey | None:
    """The key in `file`, else that of the environment; None where there is neither.

    Raises:
        ConfigError: the file cannot be read, or there is no key in it.
    """
    if file is None:
        key = os.environ.get(API_KEY_VARIABLE, "").strip()
        return ApiKey(key) if key else None
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise ConfigError(f"--api-key-file {file}: {reason}") from None
    if not key or len(key.split()) != 1:
        raise ConfigError(f"--api-key-file {file}: expected a key alone, in one line")
    return ApiKey(key)
