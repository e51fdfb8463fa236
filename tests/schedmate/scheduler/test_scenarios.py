"""Every file in scenarios/ is a test, every variation of it one of its own. `docs/adding-a-scenario.md` tells how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schedmate.simulator.scenario import needs, play, read_scenario, variations

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.yaml"))


def cases() -> list[Any]:
    found = []
    for path in FILES:
        lacking = needs(path)
        marks = [pytest.mark.xfail(strict=True, reason=f"needs {', '.join(lacking)}")] if lacking else []
        for name, values in variations(path).items():
            found.append(pytest.param(path, values, id=f"{path.stem}[{name}]" if name else path.stem, marks=marks))
    return found


@pytest.mark.parametrize(("path", "values"), cases())
def test_scenario(path: Path, values: Mapping[str, Any]) -> None:
    complaints = play(read_scenario(path, values))
    assert not complaints, "\n".join(["", *complaints])
