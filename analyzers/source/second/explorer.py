"""Looking around in a work dir that the reader could not follow: a model chooses where, within few looks.

It sees names of files and lines of them, never anything that is ignored or outside; it runs nothing. What it gathers
are lines for the question that follows, whose answers are checked like any other.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from analyzers.source.opened import Opened, as_text
from analyzers.source.second.lines import Line, code_lines, prose_lines

if TYPE_CHECKING:
    from prompts.answers import ExploreStep
    from prompts.gateway import Answer, Gateway

MOST_FILES = 120
_LINES_A_READ = 40
_LINES_A_SEARCH = 16
_MOST_CHARS = 9_000
_SHORTEST_TEXT = 3
_MOST_LED_TO = 60
_NAME = re.compile(r"[\w.-]*\w")
#: Files of a job that hold no lines worth a look.
_BINARY = frozenset({
    "png", "jpg", "jpeg", "gif", "svg", "pdf", "npz", "npy", "pt", "pth", "bin", "onnx", "safetensors", "ckpt", "h5",
    "hdf5", "parquet", "arrow", "zip", "gz", "tar", "xz", "zst", "so", "o", "a", "pyc", "whl", "mp4", "wav", "mp3",
    "tif", "tiff", "ico", "woff", "woff2", "ttf", "pkl", "pickle", "tfrecord", "lock"
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a model may look around: looks, tokens of them all together, and when (monotonic s) it has to end."""

    looks: int
    tokens: int
    deadline: float


def explore(
    opened: Opened, command: str, questions: str, gateway: Gateway, bounds: Bounds
) -> tuple[list[Line], Answer[ExploreStep] | None]:
    """(The lines that a model looked at, at most about 9,000 characters; the answer that failed to come where the
    endpoint could not be had at all, which is then not to be asked again).

    Raises `SourceOffError` where a file that it opens says that source is not to be read.
    """
    from prompts.answers import ExploreStep
    from prompts.templates import load_template

    files = _files(opened)
    seen: list[Line] = []
    spent, longest_s = 0, 0.0
    led_to: set[str] = set()
    done: set[tuple[str, str, int, str]] = set()
    for left in range(bounds.looks, 0, -1):
        start = time.monotonic()
        left_s = bounds.deadline - start
        # one that takes as long as the longest so far would be cut off: what was seen is worth more
        if left_s <= longest_s or spent >= bounds.tokens or not files:
            break
        answer = gateway.ask(
            load_template("explore_source"),
            ExploreStep,
            {
                "questions": questions,
                "command": command,
                "files": "\n".join(f"{path} {size}" for path, size in files.items()),
                "seen": "\n".join(f"{line.file}:{line.number}| {line.text}" for line in seen) or "none",
                "left": str(left),
            },
            lambda step: (
                None if step.action != "read" or step.path in files else f"there is no file {step.path[:80]!r}"
            ),
            within_s=left_s,
        )
        spent += sum(answer.tokens)
        longest_s = max(longest_s, time.monotonic() - start)
        if answer.failure in ("endpoint", "not_asked") and not done:
            return [], answer
        step = answer.value
        if step is None or step.action == "done" or (what := _what(step)) in done:
            break
        done.add(what)
        led_to = led_to or _led_to(opened, command, files)
        found = (replace(line, idle=line.file not in led_to) for line in _look(step, opened, files))
        seen += [line for line in found if line not in seen]
        if sum(len(line.text) + len(line.file) + 16 for line in seen) > _MOST_CHARS:
            break
    return _bounded(seen), None


def _led_to(opened: Opened, command: str, files: dict[str, int]) -> set[str]:
    """The files that the launch command names, and those whose names stand in one that it leads to: what any other
    file says may have nothing to do with this job."""
    found: set[str] = set()
    texts = [command]
    while texts and len(found) < _MOST_LED_TO:
        words = set(_NAME.findall(texts.pop()))
        stems = {word.rpartition(".")[0] or word for word in words} | words
        for path in files:
            name = path.rpartition("/")[2]
            if path not in found and (name in words or (name.rpartition(".")[0] or name) in stems):
                found.add(path)
                texts.append(opened.tree.read(path) or "")
    return found


def _what(step: ExploreStep) -> tuple[str, str, int, str]:
    return step.action, step.path, step.line, step.text


def _files(opened: Opened) -> dict[str, int]:
    """The files that may be looked at, with their bytes."""
    found: dict[str, int] = {}
    for path in opened.tree.listing():
        if len(found) >= MOST_FILES:
            break
        # a name that can not be shown on one line could pass for another one
        if path.isprintable() and path.rpartition(".")[2].lower() not in _BINARY and not path.startswith("."):
            size = opened.tree.size_of(path)
            if size is not None and size > 0:
                found[path] = size
    return found


def _look(step: ExploreStep, opened: Opened, files: dict[str, int]) -> list[Line]:
    if step.action == "read":
        lines = [line for line in _lines(step.path, opened) if line.number >= step.line]
        return lines[:_LINES_A_READ]
    wanted = step.text.strip().lower()
    if len(wanted) < _SHORTEST_TEXT:
        return []
    hits: list[Line] = []
    for path in files:
        hits += [line for line in _lines(path, opened) if wanted in line.text.lower()]
        if len(hits) >= _LINES_A_SEARCH:
            break
    return hits[:_LINES_A_SEARCH]


def _lines(path: str, opened: Opened) -> list[Line]:
    text = opened.tree.read(path)
    if text is None:
        return []
    opened.tree.obey(text, path)
    whole = as_text(path, text)
    return [*prose_lines([whole]), *code_lines(whole)]


def _bounded(seen: list[Line]) -> list[Line]:
    kept: list[Line] = []
    chars = 0
    for line in seen:
        chars += len(line.text) + len(line.file) + 16
        if chars > _MOST_CHARS:
            break
        kept.append(line)
    return kept
