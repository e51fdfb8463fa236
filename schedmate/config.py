"""Configuration from defaults, a TOML file, the environment and flags, in rising order, each value with its source.

A file in the current folder is never read: that folder may belong to a job, and a job must not be able to send
code and logs to a model endpoint of its own choosing.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prompts.errors import UserError

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. ``secret`` values are never shown."""

    name: str
    default: Value
    help: str
    choices: tuple[str, ...] = ()
    secret: bool = False
    minimum: float | None = None


def _data_home() -> str:
    base = os.environ.get("XDG_DATA_HOME") or str(Path("~/.local/share").expanduser())
    return str(Path(base) / "schedmate")


KEYS: tuple[Key, ...] = (
    Key("data.dir", "", "Folder for everything SchedMate keeps (default: $XDG_DATA_HOME/schedmate)."),
    Key("history.store", "", "File of the job history (default: history.jsonl in data.dir)."),
    Key("service.host", "127.0.0.1", "Address that `serve` listens on."),
    Key("service.port", 8765, "Port that `serve` listens on.", minimum=0),
    Key(
        "service.database",
        "",
        "SQLAlchemy URL of the service's database (default: service.sqlite in data.dir).",
    ),
    Key("service.max_upload_mib", 256, "Largest accepted upload in MiB.", minimum=1),
    Key("batch.workers", 0, "Worker processes of `batch` (0: one per processor).", minimum=0),
    Key("llm.provider", "none", "Where a language model is asked, if at all.", choices=("none", "openai")),
    Key("llm.base_url", "", "Base URL of an OpenAI-compatible endpoint, for example http://127.0.0.1:8000/v1."),
    Key("llm.model", "", "Name of the model at that endpoint."),
    Key(
        "llm.api_key",
        "",
        "Key for the endpoint; prefer the environment (SCHEDMATE_LLM_API_KEY).",
        secret=True,
    ),
    Key("llm.timeout_s", 20.0, "Seconds after which a model's answer is given up.", minimum=0.1),
)
_BY_NAME = {key.name: key for key in KEYS}
#: Variables of that prefix which are not settings: they steer the tests.
_NOT_SETTINGS = frozenset({"SCHEDMATE_REQUIRE_REAL", "SCHEDMATE_SHARED"})


@dataclass(frozen=True, slots=True)
class Setting:
    """A value with the place it came from (``default``, ``file PATH``, ``environment NAME``, ``flag --set``)."""

    key: Key
    value: Value
    source: str


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, and what was set but is none. Derived defaults (paths under data.dir) are filled in."""

    by_name: Mapping[str, Setting]
    warnings: tuple[str, ...] = ()

    def get(self, name: str) -> Value:
        """The value of ``name``, for example ``"service.port"``."""
        return self.by_name[name].value

    def text(self, name: str) -> str:
        """The value as text."""
        return str(self.get(name))

    def integer(self, name: str) -> int:
        """The value as a whole number."""
        return int(self.get(name))

    def number(self, name: str) -> float:
        """The value as a number."""
        return float(self.get(name))

    def path(self, name: str) -> Path:
        """The value as a path, ``~`` expanded."""
        return Path(self.text(name)).expanduser()


_file: Path | None = None
_flags: list[str] = []


def use_sources(file: Path | None, flags: list[str]) -> None:
    """Remember the file and the ``KEY=VALUE`` flags given on the command line."""
    global _file, _flags
    _file, _flags = file, flags


def default_files() -> list[Path]:
    """Where a configuration file is looked for, first found wins."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    return [Path(home) / "schedmate" / "config.toml", Path("/etc/schedmate/config.toml")]


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Merge defaults, file, environment and flags. Raises `UserError` naming the place of a bad value."""
    env = os.environ if environ is None else environ
    found: dict[str, Setting] = {key.name: Setting(key, key.default, "default") for key in KEYS}

    path = _file or (Path(env["SCHEDMATE_CONFIG"]) if env.get("SCHEDMATE_CONFIG") else None)
    if path is None:
        path = next((p for p in default_files() if p.is_file()), None)
    if path is not None:
        for name, value in _flatten(_read(path), str(path)).items():
            found[name] = Setting(_key(name, str(path)), _typed(name, value, str(path)), f"file {path}")

    for key in KEYS:
        variable = "SCHEDMATE_" + key.name.replace(".", "_").upper()
        if env.get(variable):
            found[key.name] = Setting(key, _typed(key.name, env[variable], variable), f"environment {variable}")

    known = {"SCHEDMATE_CONFIG", *("SCHEDMATE_" + key.name.replace(".", "_").upper() for key in KEYS)}
    unknown = sorted(name for name in env if name.startswith("SCHEDMATE_") and name not in known | _NOT_SETTINGS)

    for flag in _flags:
        name, equals, value = flag.partition("=")
        if not equals:
            raise UserError(f"--set {flag}: no '=' in it", "write --set KEY=VALUE, for example --set service.port=9000")
        found[name] = Setting(_key(name, "--set"), _typed(name, value, f"--set {name}"), "flag --set")

    data_dir = found["data.dir"]
    if not data_dir.value:
        found["data.dir"] = data_dir = Setting(data_dir.key, _data_home(), data_dir.source)
    base = Path(str(data_dir.value)).expanduser()
    for name, value in (
        ("history.store", str(base / "history.jsonl")),
        ("service.database", f"sqlite:///{base / 'service.sqlite'}"),
    ):
        if not found[name].value:
            found[name] = Setting(found[name].key, value, found[name].source)
    return Settings(found, tuple(f"{name} in the environment is no setting of SchedMate" for name in unknown))


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", "give a readable TOML file with --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid TOML ({error})", "correct the file") from None


def _flatten(tree: Mapping[str, Any], where: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for section, values in tree.items():
        if not isinstance(values, Mapping):
            raise UserError(f"{where}: {section!r} stands outside a section", "put it under a table such as [service]")
        flat.update({f"{section}.{name}": value for name, value in values.items()})
    return flat


def _key(name: str, where: str) -> Key:
    if name not in _BY_NAME:
        raise UserError(f"{where}: no setting named {name!r}", "see `schedmate config show` for all of them")
    return _BY_NAME[name]


def _typed(name: str, value: Any, where: str) -> Value:
    key = _key(name, where)
    kind = type(key.default)
    try:
        if kind in (int, float) and isinstance(value, bool):
            raise ValueError
        if not isinstance(value, str | int | float):
            raise ValueError
        typed: Value = kind(value)
        if isinstance(value, float) and kind is int and value != int(value):
            raise ValueError
    except ValueError:
        what = {int: "a whole number", float: "a number", str: "text"}[kind]
        raise UserError(f"{where}: {name} must be {what}, not {value!r}") from None
    if key.choices and typed not in key.choices:
        raise UserError(f"{where}: {name} must be one of {', '.join(key.choices)}, not {value!r}")
    if key.minimum is not None and not float(typed) >= key.minimum:
        raise UserError(f"{where}: {name} must be at least {key.minimum:g}, not {value!r}")
    return typed
