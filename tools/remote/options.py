"""What is common to tools that answer elsewhere: where they may ask, and what they may send.

What a model wrote is only ever the value of one argument. Addresses, headers and commands come
from the configuration alone and are checked when the tool is built.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tools.base import ConfigError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")
_SENDABLE = "expected ASCII without control characters or spaces around it"
_SET_BY_THE_CLIENT = {
    "host", "content-length", "transfer-encoding", "connection", "upgrade", "accept-encoding",
}  # fmt: skip
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # api and Key in apiKey, X and Auth in X-Auth
# Of a whole word, so that neither author nor max_tokens is meant.
_SECRET_WORD = re.compile(
    r".*(?:authorization|authentication|auth|token|"
    r"(?:cookie|key|secret|password|passwd|credential)s?)",
    re.IGNORECASE,
)


def checked_url(tool: str, url: str) -> str:
    """`url`, if it is an address that can be asked.

    Raises:
        ConfigError: it is not http or https, names no host, or carries credentials or a fragment.
    """
    expected = "expected http://host/path or https://host/path"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"tool {tool}: option 'url' is {url!r}: {error}; {expected}") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"tool {tool}: option 'url' holds credentials, which would be written to run.json; "
            "put them into a header that names an environment variable"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"tool {tool}: option 'url' is {url!r}, {expected}")
    if parts.fragment or re.fullmatch(r"[\x21-\x7e]+", url) is None:
        raise ConfigError(
            f"tool {tool}: option 'url' is {url!r}, {expected} without a fragment, in ASCII "
            "without spaces"
        )
    for key, value in parse_qsl(parts.query):
        if value and _is_secret(key):
            raise ConfigError(
                f"tool {tool}: option 'url': {key} is given as it is, which would be written to "
                f"run.json; expected it in 'headers' or 'arguments', as ${{{_as_variable(key)}}}"
            )
    return url


def checked_headers(tool: str, headers: Mapping[str, str]) -> dict[str, str]:
    """`headers` as configured, variables not yet filled in.

    Raises:
        ConfigError: one cannot be sent, is the client's own, or holds a secret itself.
    """
    for name, value in headers.items():
        where = f"tool {tool}: option 'headers': {name!r}"
        if _HEADER_NAME.fullmatch(name) is None or _HEADER_VALUE.fullmatch(value) is None:
            raise ConfigError(f"{where} cannot be sent: {_SENDABLE}")
        if name.lower() in _SET_BY_THE_CLIENT:
            raise ConfigError(f"{where} is set by the client itself")
    _refuse_secrets(tool, "headers", headers)
    return dict(headers)


def checked_arguments(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The fixed arguments as configured, variables not yet filled in.

    Raises:
        ConfigError: one holds a secret itself.
    """
    _refuse_secrets(tool, "arguments", arguments)
    return dict(arguments)


def checked_environment(tool: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables given to a server, as configured, those of ours not yet filled in.

    Raises:
        ConfigError: one holds a secret itself.
    """
    _refuse_secrets(tool, "env", environment)
    return dict(environment)


def filled_in(tool: str, option: str, values: Mapping[str, str]) -> dict[str, str]:
    """`values` with every ${NAME} replaced by that environment variable of this process.

    Raises:
        ConfigError: a variable is not set, or what it holds cannot be sent in a header.
    """
    filled = {}
    for key, value in values.items():
        for name in _VARIABLE.findall(value):
            if name not in os.environ:
                raise ConfigError(
                    f"tool {tool}: option {option!r}: {key} names the environment variable "
                    f"{name}, which is not set where the tool runs"
                )
        filled[key] = _VARIABLE.sub(lambda match: os.environ[match[1]], value)
        if option == "headers" and _HEADER_VALUE.fullmatch(filled[key]) is None:
            raise ConfigError(
                f"tool {tool}: option {option!r}: {key}: with what its environment variables hold "
                f"it cannot be sent: {_SENDABLE}"
            )
    return filled


def filled_arguments(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`arguments` with every ${NAME} in a text replaced, however deep the text is.

    Raises:
        ConfigError: a variable is not set, or what it holds is not UTF-8.
    """

    def filled(key: str, value: Any) -> Any:
        if isinstance(value, str) and _VARIABLE.search(value):
            text = filled_in(tool, "arguments", {key: value})[key]
            if refusal_of(text, len(text) * 4):
                raise ConfigError(
                    f"tool {tool}: option 'arguments': {key}: what its environment variables hold "
                    "is not UTF-8"
                )
            return text
        if isinstance(value, Mapping):
            return {name: filled(str(name), inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [filled(key, inner) for inner in value]
        return value

    return {key: filled(key, value) for key, value in arguments.items()}


def checked_positive(tool: str, **values: float) -> None:
    """Raise ConfigError for an option that is not greater than zero."""
    for option, value in values.items():
        if not 0 < value < float("inf"):
            raise ConfigError(f"tool {tool}: option {option!r} is {value}, expected more than 0")


def version_of(version: str, options: Mapping[str, Any]) -> str:
    """A version that changes with any of the options; `version` is the user's own word."""
    text = json.dumps(options, sort_keys=True, default=str)
    digest = hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
    return f"2:{version}:{digest}" if version else f"2:{digest}"


def refusal_of(text: str, max_bytes: int) -> str | None:
    """Why an input is not sent, or None if it may be."""
    if len(text) > max_bytes:
        return f"more than {max_bytes} bytes"
    try:
        num_bytes = len(text.encode())
    except UnicodeEncodeError:
        return "not a text: it holds half of a surrogate pair"
    return f"more than {max_bytes} bytes" if num_bytes > max_bytes else None


def _refuse_secrets(tool: str, option: str, values: Mapping[str, Any]) -> None:
    for name, value in _texts(values):
        if _is_secret(name) and value and _VARIABLE.search(value) is None:
            raise ConfigError(
                f"tool {tool}: option {option!r}: {name} is given as it is, which would be written "
                f"to run.json; expected an environment variable, as in ${{{_as_variable(name)}}}"
            )


def _texts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every text in `values` with the name nearest to it."""
    for name, value in values.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str):
                yield str(name), item
            elif isinstance(item, Mapping):
                yield from _texts(item)


def _is_secret(name: str) -> bool:
    return any(_SECRET_WORD.fullmatch(word) for word in _WORD.findall(name))


def _as_variable(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
