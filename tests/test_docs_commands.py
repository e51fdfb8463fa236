"""Every command in README.md and docs/ is run here, in order, as a reader would run it.

Blocks fenced as ``sh`` are commands; any other fence is output or file content. Each document runs in an empty
folder of its own that holds ``examples`` and ``benchmarks``. A command may exit with 1 (the thing asked about is
bad), never with anything else. ``make`` is asked what it would do: the targets themselves run in CI.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """The commands of a document: the lines of its ``sh`` blocks, continuation lines joined, comments left out."""
    joined = "\n".join(BLOCK.findall(text)).replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#")]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str], list[subprocess.Popen[bytes]]]]:
    """An empty folder with the examples beside it, the reader's environment, and what was started in background."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SCHEDMATE_DATA_DIR": str(tmp_path / ".data"),
        "XDG_CONFIG_HOME": str(tmp_path / ".config"),
        "XDG_CACHE_HOME": str(tmp_path / ".cache"),
    }
    started: list[subprocess.Popen[bytes]] = []
    yield tmp_path, environment, started
    for process in started:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)


def wait_for_port(command: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the server just started answers."""
    port = int(found.group(1)) if (found := re.search(r"--port[ =](\d+)", command)) else 8765
    for _ in range(300):
        assert process.poll() is None, f"{command} ended with {process.returncode}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"{command}: nothing listens on {port}")


def with_commands() -> list[Path]:
    """The documents that show any command."""
    return [path for path in DOCUMENTS if path.exists() and commands(path.read_text(encoding="utf-8"))]


@pytest.mark.slow
@pytest.mark.parametrize("document", with_commands(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_the_document_runs(document: Path, reader) -> None:
    folder, environment, started = reader
    for command in commands(document.read_text(encoding="utf-8")):
        if command.startswith("make "):
            subprocess.run(
                ["make", "-n", "-C", str(ROOT), *command.partition(" #")[0].split()[1:]],
                check=True,
                capture_output=True,
            )
            continue
        if command.endswith("&"):
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command.rstrip('& ')}"], cwd=folder, env=environment, start_new_session=True
            )
            started.append(process)
            wait_for_port(command, process)
            continue
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode in (0, 1), f"$ {command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert "Traceback (most recent call last)" not in done.stderr, f"$ {command}\n{done.stderr[-2000:]}"


def test_links_of_the_documents_lead_somewhere() -> None:
    broken = []
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8")):
            if not target.startswith(("http:", "https:")) and not (document.parent / target).exists():
                broken.append(f"{document.relative_to(ROOT)}: {target}")
    assert not broken, broken


def test_make_targets_named_in_the_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        named = set(re.findall(r"`make ([a-z-]+)`", document.read_text(encoding="utf-8")))
        assert named <= targets, (document.name, named - targets)
