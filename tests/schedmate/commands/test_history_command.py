"""`schedmate history` as a user runs it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "schedmate/schemas/history.schema.json").read_text())
TRACE = (
    "id,submit,duration,gpus,user,name,state\n"
    "1,0,50,1,ann,[bold]x,COMPLETED\n2,10,-5,1,ann,b,FAILED\n3,20,500,8,bob,c,FAILED\n"
)


def answer(done, shape: str) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    jsonschema.validate(value, SCHEMA)
    jsonschema.validate(value, {**SCHEMA["$defs"][shape], "$defs": SCHEMA["$defs"]})
    return value


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(TRACE)
    return tmp_path / "t.csv"


def test_import_then_list_show_path(schedmate, trace: Path) -> None:
    done = schedmate("history", "import", trace, "--json")
    first = answer(done, "import")
    assert (first["rows"], first["added"], first["replaced"], first["total"]) == (2, 2, 0, 2)
    assert first["skipped"] == {"duration is negative": 1}
    assert "skipped 1 of 3 rows" in done.stderr and "line 3" in done.stderr
    again = answer(schedmate("history", "import", trace, "--json"), "import")
    assert (again["added"], again["replaced"], again["total"]) == (0, 2, 2)
    other = answer(schedmate("history", "import", trace, "--prefix", "b:", "--json"), "import")
    assert other["total"] == 4
    listed = answer(schedmate("history", "list", "--user", "bob", "--limit", "1", "--json"), "list")
    assert listed["total"] == 2 and len(listed["jobs"]) == 1
    shown = answer(schedmate("history", "show", "--json"), "show")
    assert shown["jobs"] == 4 and shown["outcomes"] == {"completed": 2, "failed": 2}
    where = answer(schedmate("history", "path", "--json"), "path")
    assert where["exists"] and Path(str(where["store"])).is_file()


def test_human_output_shows_names_as_they_are(schedmate, trace: Path) -> None:
    done = schedmate("history", "import", trace)
    assert done.returncode == 0 and "2 jobs added" in done.stdout
    listed = schedmate("history", "list")
    assert "[bold]x" in listed.stdout and "8 min" in listed.stdout
    assert "2 jobs of 2 users" in schedmate("history", "show").stdout


def test_an_empty_history_says_what_to_do(schedmate) -> None:
    for words in (["list"], ["show"]):
        done = schedmate("history", *words)
        assert done.returncode == 0 and "history import" in done.stdout
    assert answer(schedmate("history", "show", "--json"), "show")["duration_s"] is None


def test_columns_units_and_delimiter_by_flag(schedmate, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("when;long;cards\n1000;2000;4\n")
    flags = ["--column", "submit=when", "--column", "duration=long", "--column", "gpus=cards"]
    done = schedmate(
        "history", "import", tmp_path / "t.txt", "--format", "csv", *flags, "--time-unit", "ms", "--delimiter", ";"
    )
    assert done.returncode == 0, done.stderr
    job = answer(schedmate("history", "list", "--json"), "list")["jobs"][0]
    assert (job["submit_s"], job["duration_s"], job["gpus"]) == (1, 2, 4)


def test_mapping_is_offered_and_works_without_naming_the_format(schedmate, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("when,long,cards\n1,2,4\n")
    done = schedmate("history", "import", tmp_path / "t.csv")
    assert done.returncode == 2 and "--column" in done.stderr and "when, long, cards" in done.stderr
    flags = ["--column", "submit=when", "--column", "duration=long", "--column", "gpus=cards"]
    assert schedmate("history", "import", tmp_path / "t.csv", *flags).returncode == 0


def test_a_damaged_file_adds_nothing(schedmate, tmp_path: Path) -> None:
    import gzip

    rows = "".join(f"{i},{i},{i * 37 % 997},1\n" for i in range(50_000))
    whole = gzip.compress(("id,submit,duration,gpus\n" + rows).encode())
    (tmp_path / "t.csv.gz").write_bytes(whole[: len(whole) * 2 // 3])
    done = schedmate("history", "import", tmp_path / "t.csv.gz")
    assert done.returncode == 2 and "ends early" in done.stderr and done.stdout == ""
    assert answer(schedmate("history", "show", "--json"), "show")["jobs"] == 0


def test_help_has_examples(schedmate) -> None:
    for words in (["import"], ["list"], ["show"], ["remove"], ["path"]):
        assert "Example: schedmate history" in schedmate("history", *words, "--help").stdout


def test_made_up_jobs_can_be_taken_out(schedmate, trace: Path) -> None:
    assert schedmate("history", "import", trace, "--prefix", "test-").returncode == 0
    assert schedmate("history", "import", trace).returncode == 0
    gone = answer(schedmate("history", "remove", "--prefix", "test-", "--yes", "--json"), "remove")
    assert (gone["removed"], gone["total"]) == (2, 2)
    gone = answer(schedmate("history", "remove", "--user", "bob", "--before", "20", "--yes", "--json"), "remove")
    assert gone["removed"] == 0
    gone = answer(
        schedmate("history", "remove", "--user", "bob", "--before", "1970-01-01T00:00:21", "-y", "--json"), "remove"
    )
    assert (gone["removed"], gone["total"]) == (1, 1)
    done = schedmate("history", "remove", "--all", "--yes")
    assert done.returncode == 0 and "1 jobs removed; 0 left" in done.stdout
    again = answer(schedmate("history", "remove", "--all", "--yes", "--json"), "remove")
    assert (again["removed"], again["total"]) == (0, 0)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "which jobs"),
        (["--all", "--user", "bob", "--yes"], "--all"),
        (["--before", "soon", "--yes"], "--before"),
        (["--user", "bob"], "--yes"),
    ],
)
def test_nothing_is_removed_unasked(schedmate, trace: Path, flags: list[str], told: str) -> None:
    schedmate("history", "import", trace)
    done = schedmate("history", "remove", *flags)
    assert done.returncode == 2 and done.stdout == "" and told in done.stderr and "Traceback" not in done.stderr
    assert answer(schedmate("history", "show", "--json"), "show")["jobs"] == 2


def test_imports_at_the_same_time_count_their_own_jobs(schedmate, tmp_path: Path) -> None:
    rows = "".join(f"{i},{i},5,1\n" for i in range(3000))
    (tmp_path / "t.csv").write_text(f"id,submit,duration,gpus\n{rows}0,0,7,1\n")
    with ThreadPoolExecutor() as pool:
        done = pool.map(
            lambda i: schedmate("history", "import", tmp_path / "t.csv", "--prefix", f"{i}:", "--json"), range(4)
        )
        answers = [answer(one, "import") for one in done]
    assert [(one["added"], one["replaced"]) for one in answers] == [(3000, 0)] * 4
    assert all(list(one["skipped"].values()) == [1] for one in answers)  # the same job once more
    assert answer(schedmate("history", "show", "--json"), "show")["jobs"] == 12_000
