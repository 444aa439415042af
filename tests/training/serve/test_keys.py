from pathlib import Path

import pytest
from starlette.requests import Request

from tools.base import ConfigError
from training.serve.errors import ApiError
from training.serve.keys import API_KEY_VARIABLE, ApiKey, find_key
from training.serve.listening import bind, url_of


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_KEY_VARIABLE, raising=False)


def is_key(found: ApiKey | None, key: str, scheme: str = "Bearer") -> bool:
    """Whether who shows `key` is let in."""
    assert found is not None
    header = (b"authorization", f"{scheme} {key}".encode())
    try:
        found.check(Request({"type": "http", "headers": [header]}))
    except ApiError:
        return False
    return True


def test_the_key_is_in_a_file_or_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("of-the-file\n")
    assert find_key(None) is None
    assert is_key(find_key(tmp_path / "key"), "of-the-file")
    assert not is_key(find_key(tmp_path / "key"), "of-the-fil")
    monkeypatch.setenv(API_KEY_VARIABLE, " of-the-environment ")
    assert is_key(find_key(None), "of-the-environment")
    assert is_key(find_key(tmp_path / "key"), "of-the-file")
    monkeypatch.setenv(API_KEY_VARIABLE, "")
    assert find_key(None) is None


def test_the_key_is_shown_as_that_of_a_bearer() -> None:
    assert is_key(ApiKey("k"), "k", "bearer")
    assert not is_key(ApiKey("k"), "k", "Basic")
    assert not is_key(ApiKey("k"), "", "k")


@pytest.mark.parametrize("text", ["", " \n", "two keys", "one\nother", b"\xff"])
def test_a_file_without_a_key_alone_is_refused(tmp_path: Path, text: str | bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError, match=r"^--api-key-file .*/key: ") as caught:
        find_key(file)
    assert "keys" not in str(caught.value) and "other" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        find_key(tmp_path / "key")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_an_address_that_others_reach_needs_a_key(host: str) -> None:
    with pytest.raises(ConfigError, match=f"^--host {host} can be reached.*{API_KEY_VARIABLE}"):
        bind(host, 0, None)


def test_with_a_key_others_may_reach_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k")
    with bind("0.0.0.0", 0, find_key(tmp_path / "key")) as bound:
        assert bound.getsockname()[0] == "0.0.0.0"


def test_a_port_that_is_taken_is_told_in_one_line() -> None:
    with bind("127.0.0.1", 0, None) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert url_of(taken) == f"http://127.0.0.1:{port}/v1"
        with pytest.raises(ConfigError, match=rf"^127\.0\.0\.1:{port}: Address already in use; "):
            bind("127.0.0.1", port, None)


def test_a_host_that_is_none_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k")
    with pytest.raises(ConfigError, match=r"^--host not\.a\.host\.invalid: \w"):
        bind("not.a.host.invalid", 0, find_key(tmp_path / "key"))
