"""Readings kept by content: what makes one void, what a hostile or broken folder can do, and how large it grows."""

from __future__ import annotations

import ast
import contextlib
import json
import multiprocessing
import os
import pickle
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

from analyzers.source import analyze, cache
from analyzers.source.cache import ReadingCache
from analyzers.source.files import Tree, digest
from analyzers.source.program.parsing import forget_parsed
from analyzers.types import Fact, SourceEvidence, SourceFacts, SourceReading, Submission

COMMAND = "bash run.sh"
FILES = {
    "run.sh": "source env.sh\npython train.py --config conf.yaml $EXTRA\n",
    "env.sh": "export EXTRA='--seed 1'\n",
    "train.py": "import argparse, yaml, torch\nfrom torch.utils.data import DataLoader\nimport size\n"
    "p = argparse.ArgumentParser()\np.add_argument('--config')\np.add_argument('--seed', type=int)\n"
    "p.add_argument('--epochs', type=int, default=3)\n"
    "args = p.parse_args()\nconf = yaml.safe_load(open(args.config))\n"
    "model = torch.nn.Linear(4, 2)\nopt = torch.optim.SGD(model.parameters(), lr=conf['lr'])\n"
    "loader = DataLoader([], batch_size=size.BATCH)\n"
    "for epoch in range(args.epochs):\n    for x in loader:\n        loss = model(x).sum()\n        loss.backward()\n"
    "        opt.step()\n",
    "size.py": "BATCH = 16\n",
    "conf.yaml": "lr: 0.5\n",
}


@pytest.fixture
def job(tmp_path: Path, kit: SimpleNamespace) -> SimpleNamespace:
    """A work dir, a cache, and ``read()`` -> (facts, whether they came from the cache)."""
    root = kit.grow(tmp_path / "job", FILES)
    kept = ReadingCache(tmp_path / "kept")

    def read(command: str = COMMAND, folder: Path = root, **fields: object) -> tuple[SourceFacts, bool]:
        submission = Submission(command, folder, **fields)  # type: ignore[arg-type]
        known = kept.find(submission) is not None
        facts = analyze(submission, kept)
        assert facts == analyze(submission), "a reading from the cache is the reading itself"
        return facts, known

    return SimpleNamespace(root=root, cache=kept, folder=tmp_path / "kept", read=read, tmp=tmp_path)


def test_a_resubmission_is_known(job: SimpleNamespace) -> None:
    first, known = job.read()
    assert not known
    assert (first.value("batch_size_per_gpu"), first.value("learning_rate")) == (16, 0.5)
    assert job.read() == (first, True)


def test_the_same_content_elsewhere_is_known(job: SimpleNamespace, kit: SimpleNamespace) -> None:
    first, _ = job.read()
    copy = kit.grow(job.tmp / "somewhere" / "else", FILES)
    assert job.read(folder=copy) == (first, True)


CHANGES = {
    "an imported module": ("size.py", "BATCH = 64\n", ("batch_size_per_gpu", 64)),
    "a configuration": ("conf.yaml", "lr: 0.25\n", ("learning_rate", 0.25)),
    "a sourced script": ("env.sh", "export EXTRA='--epochs 9'\n", ("epochs", 9)),
    "the launch script": ("run.sh", "python train.py --config conf.yaml --epochs 8\n", ("epochs", 8)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_makes_it_void(job: SimpleNamespace, what: str) -> None:
    job.read()
    name, text, (fact, value) = CHANGES[what]
    (job.root / name).write_text(text)
    facts, known = job.read()
    assert (facts.value(fact), known) == (value, False)
    assert job.read()[1]


def test_a_small_change_parses_only_what_changed(job: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_parsed()
    parsed: list[str] = []
    real = ast.parse
    monkeypatch.setattr(
        ast, "parse", lambda source, *more, **options: parsed.append(source) or real(source, *more, **options)
    )
    analyze(Submission(COMMAND, job.root), job.cache)
    assert sorted(parsed) == sorted([FILES["train.py"], FILES["size.py"]])
    (job.root / "size.py").write_text("BATCH = 5\n")
    parsed.clear()
    assert analyze(Submission(COMMAND, job.root), job.cache).value("batch_size_per_gpu") == 5
    assert parsed == ["BATCH = 5\n"]
    forget_parsed()
    parsed.clear()
    analyze(Submission(COMMAND, job.root), job.cache)
    assert parsed == [], "known content is not parsed at all"


def test_same_size_and_time_do_not_deceive(job: SimpleNamespace) -> None:
    job.read()
    path = job.root / "size.py"
    before = path.stat()
    path.write_text("BATCH = 32\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    facts, known = job.read()
    assert (facts.value("batch_size_per_gpu"), known) == (32, False)


def test_a_new_file_that_comes_first_makes_it_void(job: SimpleNamespace) -> None:
    (job.root / "src").mkdir()
    (job.root / "size.py").rename(job.root / "src" / "size.py")
    assert job.read()[0].value("batch_size_per_gpu") == 16
    (job.root / "size.py").write_text("BATCH = 4\n")
    facts, known = job.read()
    assert (facts.value("batch_size_per_gpu"), known) == (4, False)
    (job.root / "size.py").unlink()
    (job.root / "src" / "size.py").unlink()
    facts, known = job.read()
    assert (facts.value("batch_size_per_gpu"), known) == (None, False)


def test_command_environment_and_request_are_part_of_it(job: SimpleNamespace) -> None:
    job.read()
    assert not job.read("bash run.sh # again")[1]
    assert not job.read(env={"EXTRA": "--seed 2"})[1]
    assert not job.read(env={"EXTRA": "--seed 3"})[1]
    assert not job.read(gpus=4)[1]
    assert not job.read(nodes=2)[1]
    assert job.read(gpus=4)[1]


def test_an_ignore_file_makes_it_void(job: SimpleNamespace) -> None:
    job.read()
    (job.root / ".schedmateignore").write_text("size.py\n")
    facts, known = job.read()
    assert (facts.value("batch_size_per_gpu"), facts.source.state, known) == (None, "partial", False)
    (job.root / ".schedmateignore").write_text("*\n")
    assert job.read()[0].source.state == "off"


def test_another_version_of_the_reader_reads_anew(job: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    job.read()
    monkeypatch.setattr(cache, "reader_version", lambda: "another")
    assert not job.read()[1]


def test_the_version_covers_code_and_data() -> None:
    package = Path(cache.__file__).parent
    assert cache.reader_version() == cache.reader_version.__wrapped__()
    names = {p.suffix for p in package.rglob("*") if p.is_file()}
    assert {".py"} < names, "data files are beside the code and count as well"


def entry_of(job: SimpleNamespace) -> Path:
    (entry,) = job.folder.glob("*.reading.json")
    return entry


def test_damaged_entries_count_for_nothing(job: SimpleNamespace) -> None:
    job.read()
    entry = entry_of(job)
    whole = entry.read_bytes()
    for damaged in (
        b"", b"\n", whole[:-1], whole[: len(whole) // 2], whole.replace(b"0.5", b"0.7"), b"\xff" * 100,
        b"0" * (1 << 20),
        packed([{"seen": [], "answer": {}}]), packed({"a": 1}), packed("x"), packed([[]]), b"x\n" + b"[" * 100_000,
        packed(b"[" * 100_000),
    ):  # fmt: skip
        entry.write_bytes(damaged)
        assert not job.read()[1], damaged[:50]
        entry.write_bytes(whole)
    assert job.read()[1]


def packed(value: object) -> bytes:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return digest(body).encode() + b"\n" + body


WRONG_ANSWERS = [
    {"facts": {"epochs": ["3", 7.0, [], "literal"]}},
    {"facts": {"epochs": [3, 0.9, [], "magic"]}},
    {"facts": {"epochs": [3, 0.9, [["a", "b"]], "literal"]}},
    {"facts": {"no such fact": [3, 0.9, [], "literal"]}},
    {"warnings": [1]},
    {"fingerprint": None},
    {"source": ["everything", ""]},
    {"facts": 3},
]


@pytest.mark.parametrize("wrong", WRONG_ANSWERS)
def test_an_answer_of_another_shape_is_not_believed(job: SimpleNamespace, wrong: dict[str, object]) -> None:
    job.read()
    entry = entry_of(job)
    readings = json.loads(entry.read_bytes().partition(b"\n")[2])
    readings[0]["answer"].update(wrong)
    entry.write_bytes(packed(readings))
    assert not job.read()[1]


class Boom:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("ran",)


def test_a_hostile_folder_runs_nothing(job: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(job.tmp)
    job.read()
    entry = entry_of(job)
    entry.write_bytes(pickle.dumps(Boom()))
    assert not job.read()[1]
    entry.unlink()
    os.mkfifo(entry)
    assert not job.read()[1]
    entry.unlink(missing_ok=True)
    entry.symlink_to("/dev/zero")
    assert not job.read()[1]
    assert not (job.tmp / "ran").exists()


def test_a_folder_that_others_may_write_to_is_not_used(job: SimpleNamespace) -> None:
    job.read()
    job.folder.chmod(0o777)
    assert not job.read()[1]
    job.folder.chmod(0o700)
    assert job.read()[1]


def test_every_field_of_the_answer_is_kept(job: SimpleNamespace) -> None:
    fact = Fact([1, "a", {"b": None}], 0.5, (SourceEvidence("x", 3),), "computed")
    facts = SourceFacts({"model": fact}, ("w",), "f", {"gpus": fact}, SourceReading("partial", "why"), "what")
    assert all(getattr(facts, field.name) != getattr(SourceFacts(), field.name) for field in fields(SourceFacts))
    submission = Submission(COMMAND, job.root)
    job.cache.keep(submission, Tree(job.root), facts)
    assert job.cache.find(submission) == facts
    for odd in (("a", "tuple"), {1: "a key that is no text"}, float("nan"), object()):
        job.cache.clear()
        job.cache.keep(submission, Tree(job.root), SourceFacts({"model": Fact(odd, 0.5)}))  # type: ignore[arg-type]
        assert job.cache.find(submission) is None


def test_no_place_to_keep_it_is_no_error(tmp_path: Path, kit: SimpleNamespace) -> None:
    root = kit.grow(tmp_path / "job", FILES)
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "below", Path("/proc/nothing"), tmp_path / "nul\0"):
        assert analyze(Submission(COMMAND, root), ReadingCache(folder)).value("epochs") == 3


def test_it_stays_below_its_limit(tmp_path: Path, kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "analyzers.source.cache.reader_version", lambda: "any"
    )  # names decide when the size is looked at
    limit = 60_000
    kept = ReadingCache(tmp_path / "kept", limit)
    root = kit.grow(tmp_path / "job", FILES)
    leftover = tmp_path / "kept" / ".x.tmp"
    leftover.parent.mkdir(mode=0o700)
    leftover.write_text("half")
    os.utime(leftover, (1, 1))
    one = 0
    for seed in range(100):
        analyze(Submission(f"{COMMAND} {seed}", root), kept)
        one = one or sum(p.stat().st_size for p in (tmp_path / "kept").glob("*.json"))
    size = sum(path.stat().st_size for path in (tmp_path / "kept").iterdir())
    assert one < size <= limit + 40 * one
    assert not leftover.exists()
    assert kept.find(Submission(f"{COMMAND} 99", root)) is not None
    assert kept.find(Submission(f"{COMMAND} 0", root)) is None
    kept.clear()
    assert not list((tmp_path / "kept").glob("*.json"))


def test_processes_of_one_reading_keep_its_limit_and_seldom_look_at_the_whole_folder(
    tmp_path: Path, kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analyzers.source.cache.reader_version", lambda: "any")
    root, folder = kit.grow(tmp_path / "job", FILES), tmp_path / "kept"
    swept: list[int] = []
    sweep = ReadingCache._sweep
    monkeypatch.setattr(ReadingCache, "_sweep", lambda self: (swept.append(1), sweep(self)))
    sizes: list[int] = []
    for seed in range(160):
        analyze(Submission(f"{COMMAND} {seed}", root), ReadingCache(folder, 60_000))
        sizes.append(sum(path.stat().st_size for path in folder.glob("*.json")))
    assert 2 <= len(swept) <= 30
    assert max(sizes) <= 60_000 + 60 * sizes[0]
    assert sizes[-1] < 160 * sizes[0] / 2


def _read_often(root: Path, folder: Path, seed: int) -> int:
    kept = ReadingCache(folder, 40_000)
    return sum(
        analyze(Submission(f"{COMMAND} {n % 7}", root), kept).value("epochs") == 3 for n in range(seed, seed + 30)
    )


def test_several_processes_share_it(tmp_path: Path, kit: SimpleNamespace) -> None:
    root = kit.grow(tmp_path / "job", FILES)
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        right = pool.starmap(_read_often, [(root, tmp_path / "kept", seed) for seed in range(3)])
    assert right == [30, 30, 30]
    assert not list((tmp_path / "kept").glob("*.tmp"))


def test_different_jobs_of_one_command_do_not_drive_each_other_out(job: SimpleNamespace, kit: SimpleNamespace) -> None:
    other = kit.grow(job.tmp / "other", {**FILES, "size.py": "BATCH = 8\n"})
    assert job.read()[0].value("batch_size_per_gpu") == 16
    assert job.read(folder=other)[0].value("batch_size_per_gpu") == 8
    assert job.read()[1]
    assert job.read(folder=other)[1]


def test_what_was_cut_short_by_the_clock_is_not_kept(job: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analyzers.source.limits.Deadline.__init__.__defaults__", (0.0,))
    facts = analyze(Submission(COMMAND, job.root), job.cache)
    assert facts.value("epochs") is None
    assert any("too much to follow" in warning for warning in facts.warnings)
    monkeypatch.undo()
    assert not job.read()[1]


def test_a_file_that_another_process_removes_meanwhile_hides_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone:
        name, path = "gone.reading.json", str(tmp_path / "gone.reading.json")

        def stat(self, *, follow_symlinks: bool) -> os.stat_result:
            return os.stat(self.path, follow_symlinks=follow_symlinks)  # noqa: PTH116

    (tmp_path / "left.reading.json").write_text("[]")
    scan = os.scandir
    monkeypatch.setattr(cache.os, "scandir", lambda folder: contextlib.nullcontext([Gone(), *scan(folder)]))
    assert [Path(path).name for path, _, _ in ReadingCache(tmp_path)._entries()] == ["left.reading.json"]
