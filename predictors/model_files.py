"""Trained models on disk: one folder a version, with what it was trained on and how good it was.

`model.pickle` is Python's own format, which runs code when it is read. A model is therefore only read from a folder
that nobody else can write to, and only if it is the file that its `model.json` was written with.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from analyzers.history.codec import encode
from analyzers.types import JobRecord
from prompts.errors import UserError

_MODEL, _CARD, _PROMOTED = "model.pickle", "model.json", "promoted"
_LONGEST_VERSION = 100
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
FORMAT = 4


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What there is to know of a trained model. ``first_s`` and ``last_s``: the window, by submission (seconds)."""

    version: str
    jobs: int
    first_s: float
    last_s: float
    data_sha256: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    model_sha256: str = ""
    format: int = FORMAT


def data_hash(records: Iterable[JobRecord]) -> str:
    """SHA-256 of the jobs in the form they are stored in, in the order given."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(encode(record).encode() + b"\n")
    return digest.hexdigest()


def save_model(folder: Path, model: object, card: ModelCard) -> Path:
    """Write ``folder/VERSION`` in one step; `UserError` where that version exists or nothing can be written."""
    target = folder / card.version
    body = pickle.dumps(model, protocol=5)
    written = {**asdict(card), "model_sha256": hashlib.sha256(body).hexdigest()}
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if target.exists():
            raise UserError(f"{target}: this version exists", "give the new model another version")
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))  # readable and writable by its owner only
        (made / _MODEL).write_bytes(body)
        (made / _CARD).write_text(json.dumps(written, indent=1, sort_keys=True) + "\n")
        made.rename(target)
    except OSError as error:
        raise UserError(
            f"{target}: the model can not be written: {error.strerror or error}", "check the folder"
        ) from None
    return target


def model_cards(folder: Path) -> list[ModelCard]:
    """The models there are, the one trained on the latest jobs last; folders that hold none are passed over."""
    cards = []
    for path in sorted(folder.glob(f"*/{_CARD}")):
        try:
            cards.append(_card(path))
        except UserError:
            continue
    return sorted(cards, key=lambda card: (card.last_s, card.version))


def promote(folder: Path, version: str) -> None:
    """Make ``version`` the one that predictions are made with, in one step."""
    try:
        handle, name = tempfile.mkstemp(prefix=".promoted-", dir=folder)
        with os.fdopen(handle, "w") as stream:
            stream.write(version + "\n")
        Path(name).replace(folder / _PROMOTED)
    except OSError as error:
        raise UserError(f"{folder}: no model can be promoted: {error.strerror or error}", "check the folder") from None


def promoted(folder: Path) -> Path | None:
    """The folder of the promoted version; None where none is. `UserError` where what says so is damaged."""
    pointer = folder / _PROMOTED
    try:
        _check_owned(folder)
        _check_owned(pointer)
        with pointer.open(encoding="utf-8") as stream:
            version = stream.read(_LONGEST_VERSION + 1).strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise UserError(f"{pointer}: can not be read", "run `schedmate train` anew") from None
    if not _VERSION.fullmatch(version):
        raise UserError(f"{pointer}: names no version of a model", "run `schedmate train` anew")
    return folder / version


def load_model(path: Path) -> tuple[Any, ModelCard]:
    """The model and its card from ``folder/VERSION``.

    Raises `UserError` where it is damaged, of another format, or writable by others than its owner, who must be the one
    who asks (or root).
    """
    card = _card(path / _CARD)
    try:
        for each in (path, path / _MODEL):
            _check_owned(each)
        body = (path / _MODEL).read_bytes()
    except OSError as error:
        raise UserError(f"{path}: the model can not be read: {error.strerror or error}", "train it anew") from None
    if hashlib.sha256(body).hexdigest() != card.model_sha256:
        raise UserError(f"{path}: the model is not the one that its {_CARD} describes", "train it anew")
    try:
        return pickle.loads(body), card  # owned, unwritable by others, and its hash is known
    except (pickle.UnpicklingError, AttributeError, ImportError, EOFError, TypeError, ValueError) as error:
        raise UserError(f"{path}: the model is of another release ({error})", "train it anew") from None


def _card(path: Path) -> ModelCard:
    try:
        found = json.loads(path.read_text())
        card = ModelCard(**found)
    except (OSError, ValueError, TypeError):
        raise UserError(f"{path.parent}: no model in it", "name the folder of a model version") from None
    if card.format != FORMAT:
        raise UserError(f"{path.parent}: format {card.format} of a model, not {FORMAT}", "train it anew")
    return card


def _check_owned(path: Path) -> None:
    found = path.lstat()
    mine = found.st_uid in (os.geteuid(), 0)
    if not mine or stat.S_ISLNK(found.st_mode) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UserError(f"{path}: others could have written it", "keep models in a folder of your own (chmod go-w)")
