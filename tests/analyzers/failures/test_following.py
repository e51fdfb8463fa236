"""The verdict on growing files, at any moment: the one that reading them anew gives."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analyzers.failures import FileSignatureStore, diagnose, load_signatures
from analyzers.failures.following import LiveDiagnosis
from analyzers.failures.scan import Scanner
from analyzers.types import Diagnosis
from prompts.errors import UserError

SIGNATURES = load_signatures(FileSignatureStore())
SCANNER = Scanner(SIGNATURES)
RAISED = "Traceback (most recent call last):\n  File \"/h/u/t.py\", line 3, in <module>\n    f()\nKeyError: 'x'\n"
STEPS = "".join(
    f"2025-09-12 09:{n // 60:02d}:{n % 60:02d} INFO step {n}/900 loss {3 - n / 900:.4f}\n" for n in range(900)
)


def ignore(_: str) -> None:
    pass


def live(path: Path) -> LiveDiagnosis:
    return LiveDiagnosis(path, SCANNER, ignore)


def now(following: LiveDiagnosis) -> Diagnosis | None:
    following.look()
    following.poll()
    return following.verdict()


def anew(path: Path) -> Diagnosis | None:
    try:
        return diagnose(path)
    except UserError:
        return None


def put(path: Path, data: bytes, mode: str = "ab") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode) as stream:  # type: ignore[call-overload]
        stream.write(data)


def check(following: LiveDiagnosis, path: Path) -> None:
    found, wanted = now(following), anew(path)
    assert found == wanted
    assert (found is None) == (following.nothing is not None)


def written(folder: Path, files: dict[str, bytes], random: random.Random, cuts: int) -> None:
    """Grow all files in random pieces, the verdict compared after each."""
    following = live(folder)
    left = dict(files)
    total = sum(map(len, left.values()))
    while left:
        name = random.choice(sorted(left))
        size = random.randrange(1, 2 * total // cuts + 2)
        put(folder / name, left[name][:size])
        left[name] = left[name][size:]
        if not left[name]:
            del left[name]
        check(following, folder)


@pytest.fixture
def cases(shared_data: Path) -> list[dict[str, bytes]]:
    labels = (shared_data / "rca" / "confusing.jsonl").read_text(encoding="utf-8").splitlines()
    found = [{"job.log": json.loads(line)["log"].encode()} for line in labels]
    for folder in sorted((shared_data / "rca_multi").iterdir()):
        if folder.is_dir():
            here = [path for path in folder.rglob("*") if path.is_file()]
            found.append({path.relative_to(folder).as_posix(): path.read_bytes() for path in here})
    return found


@pytest.mark.slow
def test_labelled_jobs_at_any_cut(cases: list[dict[str, bytes]], tmp_path: Path) -> None:
    assert len(cases) > 30
    for number, files in enumerate(cases):
        written(tmp_path / str(number), files, random.Random(number), cuts=12)


def test_some_labelled_jobs_at_any_cut(cases: list[dict[str, bytes]], tmp_path: Path) -> None:
    for number, files in enumerate([*cases[::9], *cases[-2:]]):
        written(tmp_path / str(number), files, random.Random(number), cuts=4)


LINES = [line for s in SIGNATURES for line in s.match[:1]]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.one_of(st.sampled_from(LINES), st.just(RAISED), st.just(STEPS[:400])), min_size=2, max_size=20),
    seed=st.integers(0, 1000),
)
def test_any_lines_at_any_cut(lines: list[str], seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    chosen = random.Random(seed)
    names = ("rank_0.log", "rank_1.log", "slurm-7.out", "dmesg_n1.txt")
    files: dict[str, bytes] = {}
    for line in lines:
        name = chosen.choice(names)
        files[name] = files.get(name, b"") + line.encode() + b"\n"
    written(tmp_path_factory.mktemp("job"), files, chosen, cuts=3)


def test_a_long_file_is_read_once_and_as_if_read_anew(tmp_path: Path) -> None:
    log, chosen = tmp_path / "job.log", random.Random(1)
    text = (STEPS + RAISED) * 60 + "x" * 200_000 + "\n" + STEPS * 20 + RAISED + "\rbar 1\rbar 2"
    data, following = text.encode(), live(log)
    assert len(data) > 3 << 20
    while data:
        size = chosen.randrange(1, 900_000)
        put(log, data[:size])
        data = data[size:]
        check(following, log)
    assert following.kept_bytes < 2 << 20


def test_many_files_keep_little_each(tmp_path: Path) -> None:
    steps = STEPS.encode() * 4
    for rank in range(60):
        put(tmp_path / f"rank_{rank}.log", steps)
    following = live(tmp_path)
    for turn in range(12):
        for rank in range(60):
            put(tmp_path / f"rank_{rank}.log", steps + (RAISED.encode() if (turn, rank) == (11, 7) else b""))
        following.poll() if turn else following.look()
    found = now(following)
    assert found is not None and found.category == "user-code" and found.culprit_ranks == (7,)
    assert found.evidence[0].text == "KeyError: 'x'"
    assert following.kept_bytes < 25 << 20 < 60 * 12 * len(steps)


@pytest.mark.parametrize("again", [STEPS, STEPS[:300], RAISED + STEPS * 3])
def test_a_file_that_is_truncated_and_written_anew(tmp_path: Path, again: str) -> None:
    log = tmp_path / "job.log"
    put(log, (STEPS + RAISED).encode())
    following = live(log)
    check(following, log)
    put(log, again.encode(), "wb")
    check(following, log)
    put(log, RAISED.encode())
    check(following, log)


def test_files_that_are_rotated_deleted_and_replaced(tmp_path: Path) -> None:
    log, late = tmp_path / "job.log", tmp_path / "sub" / "rank_3.log"
    put(log, (STEPS + RAISED).encode())
    following = live(tmp_path)
    check(following, tmp_path)
    log.rename(tmp_path / "job.log.1")
    check(following, tmp_path)
    put(log, b"step 901/2000 loss 1\n")
    check(following, tmp_path)
    put(late, RAISED.replace("KeyError", "ValueError").encode())
    check(following, tmp_path)
    late.unlink()
    check(following, tmp_path)
    other = tmp_path / ".new"
    put(other, STEPS.encode())
    other.replace(log)
    check(following, tmp_path)
    for path in tmp_path.glob("job*"):
        path.unlink()
    check(following, tmp_path)
    put(log, RAISED.encode())
    check(following, tmp_path)


def test_a_file_that_proves_to_be_another_kind(tmp_path: Path) -> None:
    log = tmp_path / "out.txt"
    following = live(tmp_path)
    check(following, tmp_path)
    for line in (
        "starting\n", "[ 1.000001] NVRM: loading\n", "[ 2.000001] NVRM: Xid (PCI:0000:1b:00): 79, pid=9, lost\n",
        "[ 3.0001] x\n" * 5,
    ):  # fmt: skip
        put(log, line.encode())
        check(following, tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 5000 + b"step 1\n" + RAISED.encode() + b"\0" * 3_000_000,
        (STEPS[:2000] + RAISED).encode("utf-16"),
        (STEPS[:2000] + RAISED).encode("utf-16-le"),
        b"\xff\xfe\xfd" * 300 + STEPS[:2000].encode() + RAISED.encode(),
        b"y" * 3_000_000 + b"\n" + RAISED.encode(),
        RAISED.replace("\n", "\r\n").encode(),
        gzip.compress((STEPS + RAISED).encode()),
        b"\x7fELF" + b"\1\2\3" * 100,
        b"",
        b" \n \n",
    ],
)
def test_strange_content_at_any_cut(tmp_path: Path, data: bytes) -> None:
    log, following = tmp_path / "job.log", live(tmp_path)
    put(tmp_path / "rank_0.log", STEPS[:900].encode())
    for begin in range(0, len(data), len(data) // 3 + 1):
        put(log, data[begin : begin + len(data) // 3 + 1])
        found, wanted = now(following), anew(tmp_path)
        assert found is not None and wanted is not None
        assert {**vars_of(found), "warnings": ()} == {**vars_of(wanted), "warnings": ()}


def vars_of(found: Diagnosis) -> dict[str, object]:
    return {name: getattr(found, name) for name in Diagnosis.__dataclass_fields__}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    put(tmp_path / "rank_0.log", STEPS.encode())
    following = live(tmp_path)
    put(tmp_path / "rank_1.log", RAISED.encode())
    (tmp_path / "rank_1.log").chmod(0)
    check(following, tmp_path)
    (tmp_path / "rank_1.log").chmod(0o600)
    check(following, tmp_path)


def test_a_glance_costs_no_look_at_files_without_trouble(tmp_path: Path) -> None:
    for rank in range(5):
        put(tmp_path / f"rank_{rank}.log", STEPS[:900].encode())
    following = live(tmp_path)
    assert now(following) is not None and not following.is_in_doubt
    for rank in range(5):
        put(tmp_path / f"rank_{rank}.log", b"step 20/900 loss 2\n")
    assert following.poll() and not following.is_in_doubt
    put(tmp_path / "rank_3.log", RAISED.encode())
    following.poll()
    assert following.is_in_doubt
    found = following.glance()
    assert found is not None and found.culprit_ranks == (3,) and not following.is_in_doubt
    put(tmp_path / "rank_3.log", STEPS[900:3000].encode())  # it was caught, and goes on
    following.poll()
    found = following.glance()
    assert found is not None and found.category == "none" and found == following.verdict() == anew(tmp_path)
    put(tmp_path / "rank_3.log", STEPS[3000:4000].encode())
    assert following.poll() and not following.is_in_doubt
