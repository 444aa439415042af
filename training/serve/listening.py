"""Where a server listens: loopback, or with a key."""

import ipaddress
import os
import socket
from urllib.parse import urlsplit

from starlette.requests import Request

from tools.base import ConfigError
from training.serve.errors import ApiError
from training.serve.keys import API_KEY_VARIABLE, ApiKey


def bind(host: str, port: int, key: ApiKey | None) -> socket.socket:
    """A socket at the address, which no one can connect to before it listens.

    Raises:
        ConfigError: the address is not one, or is taken, or would be open to all without a key.
    """
    if key is None and not _is_loopback(host):
        raise ConfigError(
            f"--host {host} can be reached from elsewhere, and without a key anyone could use it: "
            f"--api-key-file, or {API_KEY_VARIABLE} in the environment"
        )
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"--host {host}: {reason(error)}") from None
    bound = socket.socket(family, kind)
    # A server that is started again at once finds its own last connections there.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ConfigError(f"{host}:{port}: {reason(error)}; choose another --port") from None
    return bound


def check_host(request: Request) -> None:
    """Nothing, where the request names this machine by a name of loopback.

    A web page of elsewhere can make its own name one of this machine's (DNS rebinding), and would
    then be answered as if it were of here.

    Raises:
        ApiError: 403.
    """
    try:
        name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        name = ""
    if not _is_loopback(name):
        raise ApiError(
            403,
            "without a key only what asks localhost, 127.0.0.1 or [::1] is answered",
            code="host_not_allowed",
        )


def url_of(bound: socket.socket) -> str:
    """Where a client finds the endpoint."""
    host, port, *_ = bound.getsockname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


def reason(error: OSError) -> str:
    """What the system says, without a number."""
    return error.strerror or os.strerror(error.errno or 0)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
