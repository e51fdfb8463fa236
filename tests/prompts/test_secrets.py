"""Secrets of all kinds, left in all places: none reaches the endpoint, what is kept, or what is printed."""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from analyzers.types import Diagnosis, LogEvidence, Submission
from prompts.answers import RefinedDiagnosis
from prompts.key_blocks import KeyBlocks
from prompts.outgoing import outgoing, outgoing_line, outgoing_lines
from prompts.redaction import redact, shortened
from schedmate.config import Settings, load_settings
from schedmate.refine import refine_diagnosis
from schedmate.source import read_source, sharpened

_spec = importlib.util.spec_from_file_location("made_up_secrets", Path(__file__).with_name("made_up_secrets.py"))
assert _spec is not None and _spec.loader is not None
made_up: Any = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = made_up
_spec.loader.exec_module(made_up)
BARE, NAMED, NAMELESS, PLACES, placed = made_up.BARE, made_up.NAMED, made_up.NAMELESS, made_up.PLACES, made_up.placed
Secret = Any
KINDS = [*BARE, *NAMED]
#: A table or a tuple of words is no place where a password can be told from a word.
NOT_OF_WORDS = ("table",)


def of(kind: str) -> Secret:
    return BARE[kind] if kind in BARE else NAMED[kind][1]


def texts_with(kind: str) -> list[str]:
    """The secret in every place where it can be told."""
    if kind in BARE:
        secret = BARE[kind]
        return [secret.text] if secret.lines else [placed(p, "x", secret.text) for p in NAMELESS.values()]
    name, secret = NAMED[kind]
    return [
        placed(p, written, secret.text)
        for where, p in PLACES.items()
        for written in (name, name.lower())
        if where not in NOT_OF_WORDS or written.isupper()
    ]


def left(secret: Secret, text: str | bytes) -> list[str]:
    """What of a secret can be read in a text, as it is or in one of the forms that JSON, URLs and base64 give it."""
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    forms = {form for part in secret.hidden for form in (part, json.dumps(part)[1:-1], part.replace("/", "\\/"))}
    forms |= {base64.b64encode(part.encode()).decode()[:-4] for part in secret.hidden}
    return sorted(form for form in forms if form in shown)


def test_there_are_enough_kinds() -> None:
    assert len(KINDS) >= 100 and len(set(KINDS)) == len(KINDS)
    assert all(len(part) >= 8 for kind in KINDS for part in of(kind).hidden)
    assert all(left(of(kind), of(kind).text) for kind in KINDS), "the check sees what is not redacted"


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_redacted_in_every_place(kind: str) -> None:
    for text in texts_with(kind):
        for form in (text, json.dumps({"line": text}), f"2026-01-02 rank0: {text}", text.replace("\n", "\r\n")):
            shown = redact(form)
            assert not left(of(kind), shown), shown
            assert shown.count("\n") == form.count("\n")
            assert redact(shown) == shown


@pytest.mark.parametrize("kind", KINDS)
def test_no_cut_leaves_a_half(kind: str) -> None:
    """However a line is cut, by us at its end, no eight characters of the secret are left."""
    for text in texts_with(kind)[:2]:
        row = f"epochs = 3 batch; {text}"
        for most in range(10, min(len(row), 400), 7):
            assert not pieces(of(kind), outgoing_line(row, most))
            assert not pieces(of(kind), redact(shortened(row, most))), (most, redact(shortened(row, most)))


def pieces(secret: Secret, text: str) -> list[str]:
    return [part[:8] for part in secret.hidden if part[:8] in text and part[:8] != "passphra"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if of(kind).lines])
def test_a_key_over_several_lines_is_one(kind: str) -> None:
    rows = ["batch = 3", *of(kind).text.split("\n"), "epochs = 4"]
    shown = outgoing_lines(rows)
    assert not left(of(kind), "\n".join(shown)) and shown[0] == rows[0] and shown[-1] == rows[-1]
    blocks = KeyBlocks()
    for prefix in ("", "[rank0]: "):
        met = [redact(blocks.without(f"{prefix}{row}")) for row in rows]
        assert not left(of(kind), "\n".join(met)) and met[-1] == f"{prefix}epochs = 4"


JOINTS = ['"{}" + "{}"', "'{}' '{}'", '"{}" \\\n    "{}"', '(\n    "{}"\n    "{}"\n)', '"{}"\n    + f"{}"']


#: An address is hardly split where its secret is; and base64 has no shape of its own.
SPLIT = [k for k in KINDS if len(of(k).text) > 20 and not set(of(k).text) & set(":/ ;\n{") and "base64" not in k]


@pytest.mark.parametrize("kind", [kind for kind in SPLIT if kind != "neptune"])
@pytest.mark.parametrize("joint", JOINTS)
def test_put_together_from_two_literals(kind: str, joint: str) -> None:
    secret = of(kind)
    middle = len(secret.text) // 2
    name = NAMED[kind][0] if kind in NAMED else "x"
    text = f"{name} = {joint.format(secret.text[:middle], secret.text[middle:])}\nepochs = 3"
    shown = redact(text)
    assert secret.text[:middle][-10:] not in shown and secret.text[middle:][:10] not in shown, shown
    assert shown.endswith("\nepochs = 3") and shown.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "address",
    ["http://10.1.2.3:8080/team/x", "https://git.corp.internal/a/b?c=d", "http://mlflow:5000/api", "ssh://git@gitlab.lan/a/b",
     "https://wiki.acme.local/Secret+Project", "http://172.20.0.5/", "git+https://pypi.intranet/simple"],
)  # fmt: skip
def test_private_addresses_do_not_leave(address: str) -> None:
    shown = outgoing(f"see {address}, epochs = 3")
    assert shown.startswith("see ") and shown.endswith(", epochs = 3")
    assert (
        "/team" not in shown and "Secret" not in shown and not any(c in shown for c in ("10.1", "corp", "lan/", ".20."))
    )


@pytest.mark.parametrize(
    "text",
    ["https://github.com/acme/train", "http://localhost:8000/v1", "s3://bucket/data/train", "tcp://10.0.0.1:29500",
     "https://huggingface.co/datasets/x", "@app.command", "user@node-a07", "a @ b.T", "git@github.com:acme/x.git",
     "hdfs://namenode/data", "from x import y  # 10.0.0.1", "lambda x: x@w.T.mean()"],
)  # fmt: skip
def test_what_is_public_stays(text: str) -> None:
    assert outgoing(text) == text


def test_people_are_not_named() -> None:
    assert outgoing("#SBATCH --mail-user=jane.doe@cs.example.edu") == "#SBATCH --mail-user=<redacted>@cs.example.edu"


def settings(scripted: Any, kept: Path) -> Settings:
    return load_settings(
        {
            "SCHEDMATE_LLM_PROVIDER": "openai",
            "SCHEDMATE_LLM_MODEL": "scripted",
            "SCHEDMATE_LLM_BASE_URL": scripted.url,
            "SCHEDMATE_LLM_TIMEOUT_S": "5",
            "SCHEDMATE_DATA_DIR": str(kept),
            "SCHEDMATE_SOURCE_CACHE_DIR": str(kept / "readings"),
        }
    )


def obliging(steps: Any, looks: Iterable[dict[str, Any]]) -> Callable[[dict[str, Any]], Any]:
    """Looks where it is told to, finds nothing, and is content with every diagnosis."""
    waiting = list(looks)

    def answer(request: dict[str, Any]) -> Any:
        form = request["response_format"]["json_schema"]
        if form["name"] == "ExploreStep":
            return steps.says(waiting.pop(0) if waiting else {"action": "done", "path": "", "line": 0, "text": ""})
        if form["name"] == RefinedDiagnosis.__name__:
            return steps.says(_DIAGNOSIS)
        properties = form["schema"]["properties"]
        nothing = {"value": "unknown", "line": 0}
        return steps.says({name: "" if name == "summary" else nothing for name in properties})

    return answer


_DIAGNOSIS = {
    "category": "data", "subcategory": "bad-shard", "confidence": 0.9,
    "evidence": [{"line": 1, "quote": "shard checksum differs"}], "culprit_rank": None, "culprit_node": None,
    "retryable": False, "action": "fix_data_or_skip", "summary": "A shard is corrupt.",
}  # fmt: skip


def in_code(kind: str) -> str:
    """A program with the secret in every place, each line of it one that speaks of what is asked."""
    rows = ["import mystery", "epochs_of = mystery.plan()"]
    for number, text in enumerate(texts_with(kind)):
        rows += [f'batch_{number} = mystery.model("""epochs {text}""")' if "\n" in text else f"batch({number}); {text}"]
    return "\n".join(rows)


def everywhere(kind: str, folder: Path) -> Submission:
    """A job that has the secret in its program, configurations, launch script, README, notebook, names and command."""
    secret = of(kind)
    texts = texts_with(kind)
    one = texts[0].replace("\n", " ") if not secret.lines else texts[0]
    name = NAMED[kind][0] if kind in NAMED else "model_note"
    (folder / "conf").mkdir(parents=True)
    (folder / "train.py").write_text(in_code(kind))
    rows = "\n".join(f"  {row}" for row in secret.text.split("\n"))
    cell = {"cell_type": "code", "source": ["batch = 3\n", one], "outputs": [{"text": [one]}]}
    files = {
        "README.md": f"# Model\n\nUse {one} for the data set.\n\n```\nexport {name}={secret.text}\n```\n",
        "conf/model.yaml": f"epochs: 3\n{name}: |\n{rows}\n{name}: {1 if secret.lines else secret.text}\n",
        "conf/data.json": json.dumps({name: secret.text, "batch": [secret.text] if kind in BARE else 1}, indent=1),
        "conf/run.toml": f"[model]\n{name} = {json.dumps(secret.text)}\nepochs = 3\n",
        "run.sh": f"#!/bin/bash\nexport {name}='{secret.text}' # batch\npython train.py --epochs 3\n",
        "look.ipynb": json.dumps({"cells": [cell], "nbformat": 4, "metadata": {}}),
    }
    for path, text in files.items():
        (folder / path).write_text(text)
    if secret.lines:
        return Submission("./start --epochs 3", folder)
    if kind in BARE and "://" not in secret.text and len(secret.text) < 200:
        (folder / "conf" / f"batch {secret.text.replace('/', '_')}.yaml").write_text("epochs: 3\n")
    return Submission(
        f"{name}='{secret.text}' ./start --model {secret.text if kind in BARE else 'x'} --epochs 3", folder
    )


def kept_in(folder: Path) -> bytes:
    """Every byte of every file, and their names."""
    return b"\n".join(str(path).encode() + (path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*"))


#: One in four with every run, the others with the slow ones.
SOME = [kind if at % 4 == 0 else pytest.param(kind, marks=pytest.mark.slow) for at, kind in enumerate(KINDS)]


@pytest.mark.parametrize("kind", SOME)
def test_nothing_of_it_reaches_the_endpoint_or_what_is_kept(
    scripted: Any, steps: Any, tmp_path: Path, kind: str
) -> None:
    submission = everywhere(kind, tmp_path / "job")
    known = settings(scripted, tmp_path / "kept")
    looks = [
        {"action": "read", "path": path, "line": 0, "text": ""}
        for path in ("train.py", "conf/model.yaml", "conf/data.json", "conf/run.toml", "look.ipynb")
    ]
    scripted.script = [obliging(steps, [*looks, {"action": "search", "path": "", "line": 0, "text": "batch"}])]
    shown = []
    for command in (submission.command, "bash run.sh"):
        job = Submission(command, submission.workdir)
        facts = read_source(job, known)
        shown.append(sharpened(facts, job, known, summary=True))
    log = tmp_path / "job.log"
    log.write_text(
        "\n".join(["shard checksum differs", *texts_with(kind), "x" * 390 + " " + texts_with(kind)[0]]) + "\n"
    )
    unsure = Diagnosis("unknown", "", 0.2, summary="?", evidence=(LogEvidence("job.log", 2, "x"),))
    refine_diagnosis(unsure, log, known)
    names = {r["response_format"]["json_schema"]["name"] for r in scripted.requests}
    assert names == {"ExploreStep", "SourceAnswer", "RefinedDiagnosis"}
    sent = "\n".join(message["content"] for request in scripted.requests for message in request["messages"])
    secret = of(kind)
    assert not left(secret, sent), excerpt(secret, sent)
    assert not left(secret, scripted.received)
    assert not left(secret, kept_in(tmp_path / "kept"))
    assert not left(secret, repr(shown)), excerpt(secret, repr(shown))
    assert any((tmp_path / "kept" / "llm").rglob("*.json")) and (tmp_path / "kept" / "llm.sqlite").exists()


def excerpt(secret: Secret, text: str) -> str:
    at = min(text.find(part) for part in left(secret, text))
    return f"...{text[max(0, at - 200) : at]}>>>{text[at : at + 100]}"


def test_nothing_is_printed(schedmate: Any, scripted: Any, steps: Any, tmp_path: Path) -> None:
    folder, log = tmp_path / "job", tmp_path / "job.log"
    folder.mkdir()
    kinds = [kind for kind in KINDS if not of(kind).lines]
    rows = ["import torch", "from datasets import load_dataset"]
    rows += [f'load_dataset("{of(kind).text}", token="{of(kind).text}")' for kind in kinds if '"' not in of(kind).text]
    rows += [text for kind in kinds for text in texts_with(kind)[:2]]
    (folder / "train.py").write_text("\n".join(rows))
    lines = [f"RuntimeError: CUDA error: {text}" for kind in KINDS for text in texts_with(kind)]
    lines += ["ValueError: " + "x " * 2030 + text for kind in kinds for text in texts_with(kind)[:2]]
    log.write_text("\n".join([*lines, "Traceback (most recent call last):", *lines[:40]]))
    scripted.script = [obliging(steps, [])]
    env = {
        "SCHEDMATE_LLM_PROVIDER": "openai",
        "SCHEDMATE_LLM_MODEL": "scripted",
        "SCHEDMATE_LLM_BASE_URL": scripted.url,
    }
    command = " ".join(f"--job-name={of(kind).text}" for kind in kinds if " " not in of(kind).text and kind in BARE)
    launch = f"python train.py {command} --dataset {BARE['s3 address'].text}"
    seen = b""
    for words in (
        ("analyze", folder, "--command", launch),
        ("predict", folder, "--command", f"sbatch --job-name={BARE['hugging face'].text} --wrap 'python train.py'"),
        ("diagnose", log),
        ("diagnose", log, "--all"),
    ):
        for form in ((), ("--json",)):
            done = schedmate(*words, *form, env=env)
            assert done.returncode in (0, 1), done.stderr
            seen += f"{done.stdout}\n{done.stderr}\n".encode()
    assert len(seen) > 5_000
    for kind in KINDS:
        assert not left(of(kind), seen), (kind, excerpt(of(kind), seen.decode()))
        assert not left(of(kind), scripted.received), kind
