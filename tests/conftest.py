"""Fixtures every test may use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("SCHEDMATE_SHARED", ROOT.parent / "shared"))


# The same examples every time, so that no change fails for what another one did; `make fuzz` looks for new ones.
settings.register_profile("same", derandomize=True, suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
settings.register_profile("new", print_blob=True)
settings.load_profile("new" if "SCHEDMATE_FUZZ_EXAMPLES" in os.environ else "same")


# A shell that starts the tests in the background has them ignore Ctrl-C, and every program that they start as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def need(condition: object, reason: str) -> None:
    """Skip with the reason when a real part is missing; fail instead where SCHEDMATE_REQUIRE_REAL=1."""
    if condition:
        return
    if os.environ.get("SCHEDMATE_REQUIRE_REAL") == "1":
        pytest.fail(f"required here but missing: {reason}")
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the person who runs the tests is read, and nothing is written into their folders."""
    home = tmp_path_factory.mktemp("home")
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(home / name.lower()))


@pytest.fixture
def shared_data() -> Path:
    """The development data beside the checkout; skips, visibly, where it is absent."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip(f"development data not found at {folder}")
    return folder


@pytest.fixture
def schedmate(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the installed `schedmate` command as a user would, with its own empty data folder."""
    launcher = Path(sys.executable).parent / "schedmate"

    def run(*words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None, timeout: float = 120):
        environment = {
            **os.environ,
            "SCHEDMATE_DATA_DIR": str(tmp_path / "schedmate-data"),
            "SCHEDMATE_SOURCE_CACHE_DIR": str(tmp_path / "schedmate-readings"),
            "COLUMNS": "120",
            **(env or {}),
        }
        return subprocess.run(
            [str(launcher), *map(str, words)],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
