"""Where tokens come from, and what goes on to processes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.auth import known_token, token_for_a_new_cluster
from tests.cluster.commands import environment
from tests.cluster.readme import lines_of
from tools.base import ConfigError


def test_every_new_cluster_has_a_token_of_its_own() -> None:
    first, second = token_for_a_new_cluster({}), token_for_a_new_cluster({"HOME": "/root"})
    assert first["RAY_AUTH_MODE"] == second["RAY_AUTH_MODE"] == "token"
    assert len(first["RAY_AUTH_TOKEN"]) == 64
    assert first["RAY_AUTH_TOKEN"] != second["RAY_AUTH_TOKEN"]


def test_a_token_that_the_user_names_is_kept() -> None:
    for named in ({"RAY_AUTH_TOKEN": "mine"}, {"RAY_AUTH_TOKEN_PATH": "/home/me/token"}):
        assert named | token_for_a_new_cluster(named) == named | {"RAY_AUTH_MODE": "token"}


def test_a_known_token_comes_from_where_ray_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert known_token({}) is None
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("by default\n")
    assert known_token({}) == "by default"
    named = tmp_path / "named"
    named.write_text("of a file\n")
    assert known_token({"RAY_AUTH_TOKEN_PATH": str(named)}) == "of a file"
    both = {"RAY_AUTH_TOKEN": "of a variable", "RAY_AUTH_TOKEN_PATH": str(named)}
    assert known_token(both) == "of a variable"
    assert known_token(both | {"RAY_AUTH_MODE": "disabled"}) is None


def test_the_readme_makes_a_token_for_us_alone_that_is_kept(tmp_path: Path) -> None:
    script = "\n".join([*lines_of("Tokens"), 'echo "$RAY_AUTH_TOKEN_PATH"'])
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    said = subprocess.run(
        ["bash", "-c", script],
        env=environment() | {"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    file = Path(said)
    assert file.is_relative_to(tmp_path) and file.stat().st_mode & 0o777 == 0o600
    named = {"RAY_AUTH_TOKEN_PATH": said}
    assert re.fullmatch("[0-9a-f]{64}", known_token(named) or "")
    assert "RAY_AUTH_TOKEN" not in token_for_a_new_cluster(named)


def test_a_token_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"RAY_AUTH_TOKEN_PATH=.*no token"):
        known_token({"RAY_AUTH_TOKEN_PATH": str(tmp_path / "none")})
