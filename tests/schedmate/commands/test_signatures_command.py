"""`schedmate signatures`: a candidate does nothing until it is promoted, and only what holds is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from prompts.errors import UserError
from schedmate.signatures import SignatureFolder
from schedmate.signatures.folder import shipped_signatures

SHIPPED = shipped_signatures()
SCHEMA = json.loads(
    (Path(__file__).resolve().parents[3] / "schedmate" / "schemas" / "signatures.schema.json").read_text("utf-8")
)
ROW: dict[str, Any] = {
    "id": "turbo-agent", "pattern": r"turbo-agent: lane \d{1,4} gave up", "role": "root",
    "category": "infrastructure-network", "subcategory": "turbo", "action": "restart_same_nodes", "retryable": True,
    "says": "The turbo agent gave a lane up",
    "match": ["turbo-agent: lane 3 gave up", "n7 turbo-agent: lane 12 gave up"],
    "reject": ["turbo-agent: lane 3 up", "turbo-agent started"],
}  # fmt: skip
FAILED = "step 1 loss 2.0 lr 1\nturbo-agent: lane 3 gave up\nsrun: error: n-1: task 0: Exited with exit code 1\n"
HEALTHY = "step 1 loss 2.0 lr 1\nturbo-agent: lane 3 gave up\nstep 2 loss 1.9 lr 1\nTraining finished\n"


@pytest.fixture
def told(schedmate):  # type: ignore[no-untyped-def]
    def run(*words: object) -> dict[str, Any]:
        ran = schedmate("signatures", *words, "--json")
        assert ran.stdout, ran
        answer: dict[str, Any] = json.loads(ran.stdout)
        jsonschema.validate(answer, SCHEMA)
        return answer | {"rc": ran.returncode}

    return run


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump({"signatures": list(rows)}), encoding="utf-8")
    return file


def corpus_of(folder: Path, failed: int, healthy: int) -> tuple[Path, Path]:
    corpus = folder / "corpus"
    corpus.mkdir()
    rows = []
    for kind, count, text, category in (
        ("bad", failed, FAILED, "infrastructure-network"),
        ("well", healthy, HEALTHY.replace("step 2", "srun: error: retry\nstep 2"), "none"),
    ):
        for number in range(count):
            name = f"{kind}-{'abcdefgh'[number]}.log"
            (corpus / name).write_text(text, encoding="utf-8")
            rows.append({"id": name, "files": [name], "category": category})
    labels = folder / "labels.jsonl"
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return corpus, labels


def test_the_shipped_ones_hold(told) -> None:
    answer = told("test")
    assert (answer["rc"], answer["faults"], answer["corpus"]) == (0, {}, None) and answer["tested"] > 200
    listed = told("list", "--family", "storage")["signatures"]
    assert listed and {row["state"] for row in listed} == {"shipped"}


def test_the_whole_walk_of_a_candidate(told, schedmate, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(FAILED, encoding="utf-8")
    corpus, labels = corpus_of(tmp_path, 5, 0)
    assert told("add", written(tmp_path, ROW))["added"] == ["turbo-agent"]
    assert json.loads(schedmate("diagnose", log, "--json").stdout)["category"] == "unknown"

    seen = told("review", "turbo-agent", "--corpus", corpus, "--labels", labels)
    (row,) = seen["corpus"]["signatures"]
    assert (row["logs"], row["right"], row["precision"], seen["against"], seen["rc"]) == (5, 5, 1.0, [], 0)
    unlabelled = told("review", "turbo-agent", "--corpus", corpus)
    assert unlabelled["corpus"]["signatures"][0]["open"] == 5 and "0 logs" in unlabelled["against"][0]
    assert "turbo-agent: lane 3 gave up" in schedmate("signatures", "review", "turbo-agent").stdout

    assert told("promote", "turbo-agent", "--corpus", corpus, "--labels", labels)["promoted"]
    found = json.loads(schedmate("diagnose", log, "--json").stdout)
    assert (found["category"], found["subcategory"]) == ("infrastructure-network", "turbo")
    (mine,) = told("list", "--state", "promoted")["signatures"]
    assert (mine["precision"], mine["known_logs"]) == (1.0, 5)
    assert told("remove", "turbo-agent")["removed"]
    assert json.loads(schedmate("diagnose", log, "--json").stdout)["category"] == "unknown"


def test_what_takes_healthy_jobs_is_refused_and_says_why(told, schedmate, tmp_path: Path) -> None:
    loud = {**ROW, "pattern": "Training finished", "match": ["Training finished", "INFO Training finished"]}
    corpus, labels = corpus_of(tmp_path, 5, 3)
    told("add", written(tmp_path, loud))
    refused = told("promote", "turbo-agent", "--corpus", corpus, "--labels", labels)
    assert not refused["promoted"] and refused["rc"] == 1
    assert refused["against"] == ["it calls 3 healthy logs failed"]
    (row,) = told("list", "--state", "candidate")["signatures"]
    assert row["refused"] == "it calls 3 healthy logs failed"
    ran = schedmate("signatures", "test", "turbo-agent", "--corpus", corpus, "--labels", labels)
    assert ran.returncode == 1 and "3 of healthy jobs" in ran.stdout
    assert "it calls 3 healthy" in schedmate("signatures", "list", "--state", "candidate").stdout


def test_an_operators_word_does_not_make_samples_hold(told, tmp_path: Path) -> None:
    told("add", written(tmp_path, {**ROW, "match": ROW["match"][:1]}, {**ROW, "id": "other", "reject": ROW["match"]}))
    for name, why in (("turbo-agent", "1 match samples"), ("other", "which it must not")):
        answer = told("promote", name, "--word", "I know it")
        assert not answer["promoted"] and why in " ".join(answer["against"])
    assert told("test", "other")["rc"] == 1


@pytest.mark.parametrize(
    "row",
    [
        {**ROW, "pattern": "(a+)+b"},
        {**ROW, "pattern": "(?=x)y"},
        {**ROW, "id": "../../evil"},
        {**ROW, "id": "disk-full"},
        {**ROW, "category": "nonsense"},
        {**ROW, "pattern": "("},
        {"id": "x"},
    ],
)
def test_what_the_loader_refuses_is_no_candidate(tmp_path: Path, row: dict[str, Any]) -> None:
    folder = SignatureFolder(tmp_path)
    with pytest.raises(UserError):
        folder.add(row, {}, SHIPPED)
    assert folder.entries() == [] and not list(tmp_path.rglob("*.yaml"))


def test_a_refused_file_is_one_line(schedmate, tmp_path: Path) -> None:
    ran = schedmate("signatures", "add", written(tmp_path, {**ROW, "pattern": "(a+)+b"}))
    assert ran.returncode == 2 and ran.stderr.count("\n") == 1 and not ran.stdout


def test_broken_files_in_the_folder_do_not_stop_a_diagnosis(schedmate, told, tmp_path: Path) -> None:
    told("add", written(tmp_path, ROW))
    assert told("promote", "turbo-agent", "--word", "yes")["promoted"]
    folder = Path(told("list", "--state", "promoted")["folder"])
    (folder / "bad.yaml").write_text("signatures: [{id: a, pattern: '(a+)+'}]", encoding="utf-8")
    (folder / "worse.yaml").write_text("a: [", encoding="utf-8")
    log = tmp_path / "job.log"
    log.write_text(FAILED, encoding="utf-8")
    ran = schedmate("diagnose", log, "--json")
    assert json.loads(ran.stdout)["subcategory"] == "turbo" and ran.stderr.count("not used") == 2
    for words in (("review", "nobody"), ("test", "nobody"), ("list", "--state", "odd"), ("add", tmp_path / "none")):
        assert schedmate("signatures", *words).returncode == 2


def test_a_few_lines_that_stand_for_gigabytes_are_refused(schedmate, tmp_path: Path) -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))
    (tmp_path / "mine.yaml").write_text(f"l0: &l0 [x]\n{levels}signatures: [{{id: bomb, match: *l11}}]\n")
    ran = schedmate("signatures", "add", tmp_path / "mine.yaml")
    assert ran.returncode == 2 and ran.stderr.count("\n") == 1 and "aliases" in ran.stderr


SIGNATURE = """signatures:
- {id: acme-x, pattern: acme broke, role: root, category: storage, subcategory: acme, action: fix_code,
   retryable: false, says: Acme broke}
"""


@pytest.mark.parametrize("open_to_all", ["folder", "file"])
def test_what_others_could_have_written_is_not_believed(schedmate, tmp_path: Path, open_to_all: str) -> None:
    own, log = tmp_path / "own", tmp_path / "job.log"
    own.mkdir()
    (own / "acme-x.yaml").write_text(SIGNATURE)
    log.write_text("acme broke\n")
    words = ("--set", f"signatures.dir={own}", "diagnose", log, "--json")
    assert json.loads(schedmate(*words).stdout)["subcategory"] == "acme"
    (own if open_to_all == "folder" else own / "acme-x.yaml").chmod(0o777)
    ran = schedmate(*words)
    assert json.loads(ran.stdout)["subcategory"] != "acme"
    assert len(ran.stderr.splitlines()) == 1 and "everybody can write to it" in ran.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_not_believed(tmp_path: Path) -> None:
    from schedmate.signatures.folder import SignatureFolder

    (tmp_path / "acme-x.yaml").write_text(SIGNATURE)
    assert len(SignatureFolder(tmp_path).promoted()) == 1
    os.chown(tmp_path, 4711, -1)
    folder = SignatureFolder(tmp_path)
    assert folder.promoted() == [] and "belongs to another user (number 4711)" in folder.warnings[0]
