"""Every data file of a known format is held to its own samples."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from analyzers.logs.formats import LogFormat, Sample, known_formats, parse_format
from analyzers.logs.reading import read_line

FORMATS = known_formats()
SAMPLES = [pytest.param(f, s, id=f"{f.name}-{i}") for f in FORMATS for i, s in enumerate(f.samples)]
NEGATIVES = [pytest.param(f, text, id=f"{f.name}-{i}") for f in FORMATS for i, text in enumerate(f.not_progress)]


@pytest.mark.parametrize(("known", "sample"), SAMPLES)
def test_sample_is_read(known: LogFormat, sample: Sample) -> None:
    reading = read_line(sample.line, FORMATS)
    assert reading is not None
    assert not reading.is_eval
    for name, want in sample.reads.items():
        got = getattr(reading, name)
        if str(want) == "nan":
            assert math.isnan(got), name
        else:
            assert got == pytest.approx(want, rel=1e-3), name


@pytest.mark.parametrize(("known", "text"), NEGATIVES)
def test_what_is_no_progress_is_not_read_as_such(known: LogFormat, text: str) -> None:
    reading = read_line(text, FORMATS)
    assert reading is None or reading.step is None or reading.is_mined


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_a_format_has_samples_and_recognises_the_first(known: LogFormat) -> None:
    assert known.samples
    reading = read_line(known.samples[0].line, FORMATS)
    assert reading is not None
    assert reading.format is known


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "needs a name"),
        ({"name": "x", "lines": "y"}, "unknown field lines"),
        ({"name": "x", "line": "("}, "line:"),
        ({"name": "x", "line": "(?P<stepp>1)"}, "unknown role stepp"),
        ({"name": "x", "names": {"speed": ["v"]}}, "unknown role speed"),
    ],
)
def test_a_malformed_format_is_named(data: object, says: str) -> None:
    with pytest.raises(ValueError, match=r"bad\.yaml: .*") as error:
        parse_format(data, "bad.yaml")
    assert says in str(error.value)


def test_the_example_of_the_manual_works() -> None:
    import yaml

    manual = (Path(__file__).parents[3] / "docs" / "adding-a-log-format.md").read_text("utf-8")
    example = parse_format(yaml.safe_load(manual.split("```yaml\n")[1].split("```")[0]), "manual")
    reading = read_line(example.samples[0].line, (example,))
    assert reading is not None
    assert {name: getattr(reading, name) for name in example.samples[0].reads} == dict(example.samples[0].reads)
    assert all(read_line(text, (example,)) is None for text in example.not_progress)
