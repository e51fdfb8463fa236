"""Every file in scenarios/ is a test, every variation of it one of its own. `docs/adding-a-scenario.md` tells how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedmate.simulator.audit import audit
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


def plain_cases() -> list[Any]:
    """Scenarios that hold on a cluster described by counts, one policy of the plain queue."""
    return [
        case
        for case in cases()
        if not case.marks and all(pool.is_plain for pool in read_scenario(*case.values).cluster.pools)
    ]


@pytest.mark.parametrize(("path", "values"), plain_cases())
def test_the_same_on_a_cluster_described_in_detail(path: Path, values: Mapping[str, Any]) -> None:
    scenario = read_scenario(path, values)
    complaints = play(replace(scenario, cluster=scenario.cluster.in_detail()))
    assert not complaints, "\n".join(["", *complaints])


def layered_cases() -> list[Any]:
    """Those of them that a policy with the full queue layer can play."""
    return [case for case in plain_cases() if read_scenario(*case.values).policy.knows_tenants]


@pytest.mark.parametrize(("path", "values"), layered_cases())
def test_the_same_with_the_full_queue_layer(path: Path, values: Mapping[str, Any]) -> None:
    scenario = read_scenario(path, values)
    complaints = play(replace(scenario, policy=scenario.policy.with_queue_layer()))
    assert not complaints, "\n".join(["", *complaints])


@pytest.mark.parametrize(("path", "values"), cases())
def test_scenario(path: Path, values: Mapping[str, Any]) -> None:
    wrong: list[str] = []
    complaints = play(read_scenario(path, values), lambda scheduler, now: wrong.extend(audit(scheduler)))
    assert not wrong, "\n".join(["", *wrong])
    assert not complaints, "\n".join(["", *complaints])


@pytest.mark.parametrize("number", [0, 1])
def test_the_example_in_the_documentation(number: int, tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "adding-a-scenario.md").read_text(encoding="utf-8")
    path = tmp_path / "example.yaml"
    path.write_text(text.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    values = list(variations(path).values())[number]
    assert play(read_scenario(path, values)) == []
    path.write_text(path.read_text(encoding="utf-8").replace("wide: 100}", "wide: 99}"), encoding="utf-8")
    complaints = play(read_scenario(path, values))
    assert len(complaints) == 2, "and it can fail"
    assert "the expected start of wide should be 99 s, is 100 s" in complaints[0]
