"""Every sample of every framework's description is read as it says (docs/adding-a-framework.md)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from analyzers.source import analyze
from analyzers.source.knowledge import frameworks
from analyzers.types import FACT_NAMES, Submission

FOLDER = Path(frameworks.__file__).parent
ROOT = Path(__file__).resolve().parents[3]
DESCRIPTIONS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))}
SAMPLES = [
    pytest.param(sample, id=f"{name}-{number}")
    for name, description in DESCRIPTIONS.items()
    for number, sample in enumerate(description.get("samples", ()), 1)
]


def read(sample: dict[str, Any], folder: Path) -> dict[str, Any]:
    for name, text in sample["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    facts = analyze(Submission(sample["command"], folder)).facts
    return {name: fact.value for name, fact in facts.items() if fact.confidence >= 0.5}


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_is_read_as_it_says(sample: dict[str, Any], tmp_path: Path) -> None:
    found = read(sample, tmp_path)
    assert {name: found.get(name) for name in sample["facts"]} == sample["facts"]
    assert {name: found[name] for name in sample.get("absent", ()) if name in found} == {}
    assert {*sample["facts"], *sample.get("absent", ())} <= set(FACT_NAMES)


def test_the_example_of_the_page_is_a_description_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs/adding-a-framework.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    description = yaml.safe_load(block)
    known = frameworks.frameworks()
    monkeypatch.setattr(
        "analyzers.source.idioms.known.frameworks", lambda: (*known, frameworks._framework(description))
    )
    (sample,) = description["samples"]
    test_a_sample_is_read_as_it_says(sample, tmp_path)
