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
from schedmate.files import read_small

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
    maximum: float | None = None


def _data_home() -> str:
    """The usual folder; empty where there is no home to put it in (a user without an account entry)."""
    base = os.environ.get("XDG_DATA_HOME") or _expanded("~/.local/share")
    return str(Path(base) / "schedmate") if base else ""


def _expanded(path: str) -> str:
    """The path with ``~`` expanded; empty where nobody knows what that is."""
    try:
        return str(Path(path).expanduser())
    except RuntimeError:
        return ""


KEYS: tuple[Key, ...] = (
    Key("data.dir", "", "Folder for everything SchedMate keeps (default: $XDG_DATA_HOME/schedmate)."),
    Key("history.store", "", "File of the job history (default: history.jsonl in data.dir)."),
    Key("models.dir", "", "Folder of models that `train` made and predictions use (default: models in data.dir)."),
    Key(
        "failures.store",
        "",
        "File of how jobs ended, for `diagnose --remember` and `failures` (default: failures.sqlite in data.dir).",
    ),
    Key(
        "signatures.dir",
        "",
        "Folder of an operator's own failure signatures (default: signatures beside the configuration file).",
    ),
    Key("service.host", "127.0.0.1", "Address that `serve` listens on."),
    Key("service.port", 8765, "Port that `serve` listens on.", minimum=0, maximum=65_535),
    Key(
        "service.database",
        "",
        "SQLAlchemy URL of the service's database (default: service.sqlite in data.dir).",
    ),
    Key("service.max_upload_mib", 256, "Largest accepted upload in MiB.", minimum=1, maximum=1 << 20),
    Key("source.off_tenants", "", "Tenants whose source code is never read, separated by commas; * for all."),
    Key("source.off_users", "", "Users whose source code is never read, separated by commas; * for all."),
    Key(
        "source.cache_mib",
        64,
        "MiB that readings of source may take on disk; 0: keep none.",
        minimum=0,
        maximum=1 << 20,
    ),
    Key("source.cache_dir", "", "Folder of kept readings of source (default: $XDG_CACHE_HOME/schedmate/source)."),
    Key("batch.workers", 0, "Worker processes of `batch` (0: one per processor).", minimum=0),
    Key(
        "llm.provider",
        "none",
        "Where a language model is asked, if at all: an OpenAI-compatible endpoint, or a model in a folder of this "
        "machine (extra `local`).",
        choices=("none", "openai", "transformers"),
    ),
    Key("llm.base_url", "", "Base URL of an OpenAI-compatible endpoint, for example http://127.0.0.1:8000/v1."),
    Key("llm.model", "", "Name of the model at that endpoint, or the folder or .gguf file of a local one."),
    Key(
        "llm.api_key",
        "",
        "Key for the endpoint; prefer the environment (SCHEDMATE_LLM_API_KEY).",
        secret=True,
    ),
    Key("llm.timeout_s", 20.0, "Seconds after which a model's answer is given up.", minimum=0.1),
    Key("llm.wait_s", 5.0, "Seconds that a prediction waits for a model before it goes on without.", minimum=0.0),
    Key(
        "llm.looks",
        6,
        "How often a model may look into a work dir that could not be followed (0: never).",
        minimum=0,
        maximum=50,
    ),
    Key("llm.looks_tokens", 30_000, "Most tokens of those looks together.", minimum=0),
    Key("llm.concurrency", 4, "Requests to the endpoint at once.", minimum=1, maximum=256),
    Key("llm.threads", 1, "Processor threads of a local model.", minimum=1, maximum=1024),
    Key("llm.tokens_per_call", 40_000, "Most tokens of one question with all its retries (0: no limit).", minimum=0),
    Key(
        "llm.tokens_per_day",
        2_000_000,
        "Most tokens of a day (UTC), of all processes together (0: no limit).",
        minimum=0,
    ),
    Key("llm.price_sent", 0.0, "What a million tokens sent cost, for `llm usage` and llm.cost_per_day.", minimum=0),
    Key("llm.price_received", 0.0, "What a million tokens received cost.", minimum=0),
    Key("llm.cost_per_day", 0.0, "Most that a day may cost, in the currency of the prices (0: no limit).", minimum=0),
    Key("llm.cache_mib", 64, "Room for accepted answers, which are not asked for twice (0: none).", minimum=0),
    Key("llm.cache", "", "Folder for them (default: llm in data.dir)."),
    Key("llm.ledger", "", "File in which what models cost is written down (default: llm.sqlite in data.dir)."),
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
        """The value as a path, ``~`` expanded. Raises `UserError` where there is none."""
        path = _expanded(self.text(name)) if self.text(name) else ""
        if not path:
            raise UserError(f"{name}: there is no home folder to put it in", f"set {name} or data.dir to a full path")
        return Path(path)


_file: Path | None = None
_flags: list[str] = []


def use_sources(file: Path | None, flags: list[str]) -> None:
    """Remember the file and the ``KEY=VALUE`` flags given on the command line."""
    global _file, _flags
    _file, _flags = file, flags


def secrets_among(flags: list[str]) -> list[str]:
    """The names of secret settings that ``KEY=VALUE`` flags give a value: everybody on the machine can see those."""
    found = (flag.partition("=") for flag in flags)
    return [name for name, _, value in found if value and name in _BY_NAME and _BY_NAME[name].secret]


def default_files() -> list[Path]:
    """Where a configuration file is looked for, first found wins."""
    home = os.environ.get("XDG_CONFIG_HOME") or _expanded("~/.config")
    folders = [Path(home) / "schedmate"] if home else []
    return [folder / "config.toml" for folder in (*folders, Path("/etc/schedmate"))]


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # in a folder that is closed to us: somebody else's home
        return False


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Merge defaults, file, environment and flags. Raises `UserError` naming the place of a bad value."""
    env = os.environ if environ is None else environ
    found: dict[str, Setting] = {key.name: Setting(key, key.default, "default") for key in KEYS}

    path = _file or (Path(env["SCHEDMATE_CONFIG"]) if env.get("SCHEDMATE_CONFIG") else None)
    if path is None:
        path = next((p for p in default_files() if _is_there(p)), None)
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

    if not found["signatures.dir"].value:
        beside = path.parent if path is not None else next((file.parent for file in default_files()), None)
        if beside is not None:
            found["signatures.dir"] = Setting(found["signatures.dir"].key, str(beside / "signatures"), "default")
    data_dir = found["data.dir"]
    if not data_dir.value:
        found["data.dir"] = data_dir = Setting(data_dir.key, _data_home(), data_dir.source)
    base = _expanded(str(data_dir.value)) if data_dir.value else ""
    for name, value in (
        ("history.store", f"{base}/history.jsonl"),
        ("models.dir", f"{base}/models"),
        ("failures.store", f"{base}/failures.sqlite"),
        ("service.database", f"sqlite:///{base}/service.sqlite"),
        ("llm.cache", f"{base}/llm"),
        ("llm.ledger", f"{base}/llm.sqlite"),
    ):
        if base and not found[name].value:
            found[name] = Setting(found[name].key, value, found[name].source)
    return Settings(found, tuple(f"{name} in the environment is no setting of SchedMate" for name in unknown))


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_small(path, "give a readable TOML file with --config"))
    except (ValueError, RecursionError) as error:  # ValueError: also a date or a number out of range
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
        if isinstance(typed, str) and "\0" in typed:
            raise ValueError
    except (ValueError, OverflowError):
        what = {int: "a whole number", float: "a number", str: "text"}[kind]
        raise UserError(f"{where}: {name} must be {what}, not {_shown(value)}") from None
    if key.choices and typed not in key.choices:
        raise UserError(f"{where}: {name} must be one of {', '.join(key.choices)}, not {_shown(value)}")
    number = 0.0 if isinstance(typed, str) else typed  # compared as it is: a huge whole number fits no float
    if key.minimum is not None and not number >= key.minimum:
        raise UserError(f"{where}: {name} must be at least {key.minimum:g}, not {_shown(value)}")
    if key.maximum is not None and number > key.maximum:
        raise UserError(f"{where}: {name} must be at most {key.maximum:.0f}, not {_shown(value)}")
    return typed


def _shown(value: Any) -> str:
    try:
        return repr(value)[:200]
    except ValueError:  # Python prints no number of thousands of digits
        return "a huge number"
