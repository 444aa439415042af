"""A tool that is one HTTP endpoint speaking JSON, named in the configuration."""

import atexit
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

import anyio
import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal

from tools.base import ConfigError, ToolRequest, ToolResult, one_line
from tools.remote.options import (
    checked_arguments,
    checked_headers,
    checked_positive,
    checked_url,
    filled_arguments,
    filled_in,
    refusal_of,
    version_of,
)

_INVALID = (400, 413, 414, 422)  # these speak of the input
_RETRYABLE_4XX = {408, 425, 429}  # the endpoint is slow or busy
_CREDENTIALS_4XX = {401, 407}  # these speak of our credentials, not of the input


class HttpTool:
    """Sends the input of a call to one address and reads the answer out of the JSON it returns.

    Args:
        name: in a call and in the configuration.
        url: the whole address; no input changes any part of it but the value of `argument`.
        argument: what carries the input: a field of the JSON object that is posted, or with
            `method: GET` a parameter of the query.
        result: where the answer is, as in `data.0.text`; "" if all of the JSON is the answer.
        method: POST or GET.
        arguments: further fields or parameters, always the same; ${NAME} in a text stands for an
            environment variable where the tool runs.
        headers: the same holds for their values.
        invalid_statuses: of 400 to 499, those by which the endpoint refuses an input; all others
            are failures.
        version: raise it when the endpoint begins to answer differently.
        timeout_s: for a whole exchange, from connecting to the last byte.
        max_input_bytes: longer inputs are invalid and are not sent.
        max_response_bytes: of a longer response no more is read, and the call has failed.

    Raises:
        ConfigError: an option cannot be used.
    """

    def __init__(
        self,
        *,
        name: str,
        url: str,
        argument: str,
        result: str,
        method: Literal["POST", "GET"] = "POST",
        arguments: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        invalid_statuses: Sequence[int] = _INVALID,
        version: str = "",
        timeout_s: float = 10.0,
        max_input_bytes: int = 10_000,
        max_response_bytes: int = 1_000_000,
    ) -> None:
        options = {key: value for key, value in locals().items() if key != "self"}
        self.name = name
        self.version = version_of(version, options)
        checked_positive(
            name,
            timeout_s=timeout_s,
            max_input_bytes=max_input_bytes,
            max_response_bytes=max_response_bytes,
        )
        self._url = checked_url(name, url)
        self._method, self._argument = method, argument
        self._arguments = _checked_arguments(name, url, method, argument, arguments or {})
        self._path = result.split(".") if result else []
        self._headers = checked_headers(name, headers or {})
        self._invalid_statuses = _checked_statuses(name, invalid_statuses)
        self._timeout_s = timeout_s
        self._max_input_bytes, self._max_response_bytes = max_input_bytes, max_response_bytes
        self._open: ExitStack | None = None
        self._fixed: dict[str, Any]  # the arguments as they are sent
        self._portal: BlockingPortal
        self._client: httpx.AsyncClient

    def load(self) -> None:
        """Make the client, unless that is done; the endpoint is not asked yet.

        Raises:
            ConfigError: the address is none, or an environment variable that a header or an
                argument names is not set.
        """
        if self._open is not None:
            return
        try:
            httpx.URL(self._url)
        except httpx.InvalidURL as error:
            problem = f"{self._url!r}: {one_line(error)}"
            raise ConfigError(f"tool {self.name}: option 'url' is {problem}") from None
        headers = filled_in(self.name, "headers", self._headers)
        self._fixed = filled_arguments(self.name, self._arguments)
        # It logs whole addresses, which hold the arguments of a GET.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._client = httpx.AsyncClient(
            # Compressed answers are not asked for: their size is known only when it is too late.
            headers={"Accept": "application/json", **headers, "Accept-Encoding": "identity"},
            # An answer depends on no earlier one.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            timeout=self._timeout_s,
            follow_redirects=False,
            # Of the environment only which certificate authorities are trusted; no proxies.
            verify=httpx.create_ssl_context(),
            trust_env=False,
        )
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal(name="http-tool"))
            stack.enter_context(self._portal.wrap_async_context_manager(self._client))
            self._open = stack.pop_all()
        atexit.register(self.close)

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        if self._open is not None:
            self._open.close()
            self._open = None
            atexit.unregister(self.close)

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        self.load()
        return [self._answer(request.input) for request in requests]

    def _answer(self, text: str) -> ToolResult:
        if refusal := refusal_of(text, self._max_input_bytes):
            return ToolResult.invalid(refusal)
        try:
            return self._portal.call(self._exchange, text)
        except (TimeoutError, httpx.TimeoutException):
            return ToolResult.failed(f"no answer in {self._timeout_s:g} s", retryable=True)
        except httpx.InvalidURL:  # with an input larger than the default limit
            return ToolResult.invalid("too long for a query")
        except httpx.TransportError as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            return ToolResult.failed(f"no answer: {why}", retryable=True)

    async def _exchange(self, text: str) -> ToolResult:
        with anyio.fail_after(self._timeout_s):
            async with self._client.stream(**self._request(text)) as response:
                if (refused := _refused_by(response, self._invalid_statuses)) is not None:
                    return refused
                body = bytearray()
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > self._max_response_bytes:
                        limit = f"more than {self._max_response_bytes} bytes"
                        return ToolResult.failed(f"the answer has {limit}")
        return self._result(bytes(body), response.headers.get("Content-Type", "no content type"))

    def _request(self, text: str) -> dict[str, Any]:
        """Method, address and body; `text` is a value in the body or in the query."""
        arguments = {**self._fixed, self._argument: text}
        if self._method == "POST":
            return {"method": "POST", "url": self._url, "json": arguments}
        separator = "&" if urlsplit(self._url).query else "?"
        return {"method": "GET", "url": f"{self._url}{separator}{urlencode(arguments)}"}

    def _result(self, body: bytes, content_type: str) -> ToolResult:
        if not body.strip():
            return ToolResult.empty("an empty answer")
        try:
            # Numbers stay as the endpoint wrote them.
            value = json.loads(body, parse_int=str, parse_float=str, parse_constant=str)
        except (ValueError, RecursionError):
            return ToolResult.failed(f"the answer is not JSON ({content_type[:100]!r})")
        value = _at(value, self._path)
        where = ".".join(self._path) or "the answer"
        if isinstance(value, dict | list):
            kind = "an object" if isinstance(value, dict) else "a list"
            return ToolResult.failed(f"{where} is {kind}, expected text or a number")
        if value is None or not str(value).strip():
            return ToolResult.empty(f"nothing at {where}")
        return ToolResult.ok(str(value).lower() if isinstance(value, bool) else value)


def _checked_arguments(
    tool: str, url: str, method: str, argument: str, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    arguments = checked_arguments(tool, arguments)
    fixed = {*arguments}
    if method == "GET":
        fixed |= {key for key, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)}
    if argument in fixed:
        raise ConfigError(f"tool {tool}: {argument!r} carries the input and cannot be fixed too")
    if method == "POST":
        with suppress(TypeError, ValueError):
            json.dumps(arguments, allow_nan=False)
            return dict(arguments)
        raise ConfigError(f"tool {tool}: option 'arguments' cannot be written as JSON")
    for key, value in arguments.items():
        if isinstance(value, dict | list):
            raise ConfigError(
                f"tool {tool}: option 'arguments': {key!r} is {value!r}, expected text or a number"
            )
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in arguments.items()
    }


def _checked_statuses(tool: str, statuses: Sequence[int]) -> frozenset[int]:
    for status in statuses:
        if not 400 <= status < 500 or status in _CREDENTIALS_4XX | _RETRYABLE_4XX:
            raise ConfigError(
                f"tool {tool}: option 'invalid_statuses': {status} does not say that an input is "
                "invalid; expected 400 to 499, but for 401, 407, 408, 425 and 429"
            )
    return frozenset(statuses)


def _refused_by(response: httpx.Response, invalid: Collection[int]) -> ToolResult | None:
    """What a response says by its head alone: anything but an answer that is to be read."""
    status = f"status {response.status_code}"
    if response.status_code in _CREDENTIALS_4XX:
        return ToolResult.failed(f"{status}: the credentials are missing or wrong")
    if response.status_code >= 500 or response.status_code in _RETRYABLE_4XX:
        return ToolResult.failed(status, retryable=True)
    if response.status_code in invalid:
        return ToolResult.invalid(status)
    if response.status_code >= 400:
        return ToolResult.failed(status)
    if response.status_code >= 300:
        return ToolResult.failed(f"{status}: redirects are not followed")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return ToolResult.failed("the answer is compressed, which was not asked for")
    return None


def _at(value: Any, path: Sequence[str]) -> Any:
    """What `path` leads to in a parsed JSON value, None if it leads nowhere."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
