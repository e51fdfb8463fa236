"""Configuration: rising order of sources, where each value came from, and clear refusals."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from prompts.errors import UserError
from schedmate import config


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(config, "_file", None)
    monkeypatch.setattr(config, "_flags", [])
    monkeypatch.setattr(config, "default_files", list)


def test_sources_rise_from_default_to_file_to_environment_to_flag(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[service]\nport = 1\nhost = '127.0.0.2'\n[llm]\nmodel = 'm'\n")
    config.use_sources(file, ["service.port=3"])
    settings = config.load_settings({"SCHEDMATE_SERVICE_PORT": "2", "SCHEDMATE_LLM_MODEL": "n"})
    assert (settings.get("service.port"), settings.by_name["service.port"].source) == (3, "flag --set")
    assert (settings.get("llm.model"), settings.by_name["llm.model"].source) == (
        "n",
        "environment SCHEDMATE_LLM_MODEL",
    )
    assert (settings.get("service.host"), settings.by_name["service.host"].source) == ("127.0.0.2", f"file {file}")
    assert settings.by_name["llm.provider"].source == "default"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("[service]\nport = 'x'\n", "service.port must be a whole number"),
        ("[service]\nport = true\n", "service.port must be a whole number"),
        ("[service]\nport = 1.5\n", "service.port must be a whole number"),
        ("[service]\nport = -1\n", "service.port must be at least 0"),
        ("[service]\nprot = 1\n", "no setting named 'service.prot'"),
        ("port = 1\n", "outside a section"),
        ("[service\n", "not valid TOML"),
        ("[llm]\nprovider = 'gpt'\n", "must be one of none, openai"),
        ("[llm]\nmodel = [1]\n", "llm.model must be text"),
        ("[llm]\ntimeout_s = nan\n", "llm.timeout_s must be at least"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(content)
    config.use_sources(file, [])
    with pytest.raises(UserError, match=expected) as caught:
        config.load_settings({})
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("flag", ["service.port", "nothing.here=1", "service.port=abc"])
def test_a_bad_flag_is_refused(flag: str) -> None:
    config.use_sources(None, [flag])
    with pytest.raises(UserError, match="--set"):
        config.load_settings({})


def test_show_hides_secrets_and_names_sources(schedmate, tmp_path: Path) -> None:
    key = "sk-" + "a1B2c3D4" * 5
    done = schedmate("config", "show", "--json", env={"SCHEDMATE_LLM_API_KEY": key})
    assert done.returncode == 0, done.stderr
    assert key not in done.stdout
    shown = {row["name"]: row for row in json.loads(done.stdout)["settings"]}
    assert shown["llm.api_key"]["source"] == "environment SCHEDMATE_LLM_API_KEY"
    assert shown["data.dir"]["source"] == "environment SCHEDMATE_DATA_DIR"


def test_a_file_in_the_current_folder_is_not_read(schedmate, tmp_path: Path) -> None:
    for name in ("schedmate.toml", "config.toml", ".schedmate.toml"):
        (tmp_path / name).write_text("[llm]\nprovider = 'openai'\nbase_url = 'http://198.51.100.1/v1'\n")
    done = schedmate("config", "show", "--json", cwd=tmp_path)
    assert "198.51.100.1" not in done.stdout


def test_a_misspelt_variable_is_told(schedmate) -> None:
    done = schedmate("config", "show", "--json", env={"SCHEDMATE_SERVCE_PORT": "1", "SCHEDMATE_SERVICE_PORT": "9"})
    assert done.returncode == 0 and "SCHEDMATE_SERVCE_PORT" in done.stderr
    assert "SCHEDMATE_SERVICE_PORT" not in done.stderr


@pytest.mark.parametrize(
    "content",
    [
        "[service]\nport = inf\n",
        "[service]\nport = 65536\n",
        "[service]\nport = " + "9" * 5000 + "\n",
        "[service]\nport = 0x" + "f" * 5000 + "\n",
        "[service]\nmax_upload_mib = 99999999999999\n",
        '[data]\ndir = "a\\u0000b"\n',
        "a = " + "[" * 5000,
    ],
)
def test_values_out_of_range_are_refused_on_one_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(content)
    config.use_sources(file, [])
    with pytest.raises(UserError) as caught:
        config.load_settings({})
    assert str(caught.value).startswith(str(file)) and len(str(caught.value)) < 500


def test_a_pipe_is_no_configuration_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.toml")
    config.use_sources(tmp_path / "c.toml", [])
    with pytest.raises(UserError, match="pipe"):
        config.load_settings({})


def test_nobody_without_a_home_can_still_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", unknown)
    settings = config.load_settings({})
    with pytest.raises(UserError, match=r"history\.store.*data\.dir"):
        settings.path("history.store")


def test_a_home_that_is_closed_to_us_holds_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(self: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(config, "default_files", lambda: [Path("/root/.config/schedmate/config.toml")])
    monkeypatch.setattr(Path, "is_file", closed)
    assert config.load_settings({}).get("service.port") == 8765
