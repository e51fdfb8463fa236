"""Reads what one line says about a checkpoint: that it is begun, written, failed, removed or gone on from."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from analyzers.logs.formats import CheckpointLine, Says, checkpoint_lines

#: A line is looked at further only where one of these stands in it (in lower case).
_WORDS = (
    "sav",
    "ckpt",
    "checkpoint",
    "resum",
    "restor",
    "left on device",
    "quota exceeded",
    "async_",
    "snapshot",
    "writing",
    "wrote",
    "restart file",
)
_SEARCHED = 400
_PATH = r"[\w./~:@%+=,{}-]{2,300}"
_FILE = r"\.(?:pt|pth|ckpt|bin|safetensors|keras|h5|hdf5|pkl|pickle|npz|msgpack|tar|pdparams|pdopt|distcp|mdl|model)\b"
_STATE = (
    r"\b(?:check ?-?points?|ckpts?|snapshots?|(?:training|train|model|optimizer|trainer)[ _]states?|"
    r"state[_ ]?dict|restart files?|models?|weights)\b"
)
_BEGUN = re.compile(
    r"(?i)\b(?:saving|writing|dumping|storing|save(?= (?:\w+ )?(?:model|checkpoint|ckpt)(?: to|:| at))|"
    r"(?:starting|started|begin(?:ning)?) (?:to save|save of|saving))\b"
    rf".{{0,80}}?(?:{_STATE}|{_FILE})"
)
_WRITTEN = r"saved|stored|dumped|committed|finali[sz]ed"
_DONE = re.compile(
    rf"(?i){_STATE}.{{0,120}}?\b(?:{_WRITTEN}|written|completed?)\b"
    rf"|\b(?:{_WRITTEN}|wrote|(?:finished|done|completed) (?:async )?(?:saving|writing|save))\b"
    rf".{{0,120}}?(?:{_STATE}|{_FILE})"
    r"|\b(?:checkpoint|save)\b.{0,40}\bfinali[sz]ed successfully"
)
#: Said of what may come, may be asked for, or is not done.
_NO_FACT = re.compile(
    r"(?i)\b(?:will|would|not|no|never|every|each|if|when|once|until|skip\w*|without|disabled?|enabled?|should|interval|"
    r"freq\w*|strategy|can|cannot|to be|are saved|nothing|limit|last saved)\b|n't\b"
    r"|\b(?:save|checkpoint)[\w.-]*(?:steps|interval|freq|every|dir|path|total_limit|strategy)\w*['\"]?\s*[:=]"
)
#: Written beside a checkpoint, or for people: nothing to go on from.
_BESIDE = (
    r"(?:config\w*|tokenizer\w*|vocab\w*|special tokens|plots?|figures?|images?|pictures?|logs?|metrics|results?|"
    r"predictions?|arg(?:ument)?s|hyper-?param\w*|tensorboard|dataset|cache|summary|samples?|report|videos?|card)"
)
_NO_STATE = re.compile(
    rf"(?i)\b{_BESIDE}\b.{{0,40}}\b(?:saved|saving|written|in|to)\b"
    rf"|\b(?:saving|saved|wrote|writing)\b.{{0,24}}\b{_BESIDE}\b"
    r"|\.(?:json|ya?ml|txt|csv|png|jpe?g|svg|jsonl|log|html|parquet|mp4|gif)\b"
)
_FAILS = r"fail(?:ed|ure|s)?|abort(?:ed|ing)?|corrupt\w*|timed out"
_FAILED = re.compile(
    rf"(?i)\b(?:{_FAILS}|unable|could not|cannot|can't|couldn't|error|exception)\b"
    rf".{{0,60}}(?:\bsav(?:e|ing|ed)|\bwrit(?:e|ing)|{_STATE})"
    rf"|\b(?:sav(?:e|ing)|writ(?:e|ing)|checkpoint\w*|ckpt)\b.{{0,80}}\b(?:{_FAILS}|incomplete)\b"
    r"|no space left on device|disk quota exceeded|StreamWriter failed writing"
)
_REMOVED = re.compile(
    r"(?i)\b(?:delet(?:ing|ed)|remov(?:ing|ed)|prun(?:ing|ed)|purg(?:ing|ed)|cleaned up)\b.{0,40}"
    rf"\b(?:checkpoints?|ckpts?)\b[^/\w.~]{{0,6}}(?:at|from|in)?[ :\[('\"]*(?P<path>{_PATH})"
)
_NAME = r"(?:check-?point|ckpt|step|epoch|iter|snapshot)[-_=]?\w{0,20}\d[\w.=-]{0,60}"
_PLACE = rf"[\w.~-]*/{_PATH}|[\w-]+{_FILE}|\b{_NAME}"
_LOADED = re.compile(
    rf"(?i)\b(?:resum(?:e|ing|ed)|restor(?:e|ing|ed)|continu(?:e|ing))\b.{{0,60}}\bfrom\b.{{0,40}}?(?P<path>{_PLACE})"
    rf"|\bload(?:ed|ing) checkpoint\b.{{0,20}}?(?P<other>{_PLACE}).{{0,60}}\b(?:iteration|step|epoch)\b.{{0,4}}[1-9]"
)
_ASYNC = re.compile(r"(?i)\basync(?:hronous)?(?:ly)?\b|async_")
_ASYNC_MODE = re.compile(r"(?i)async[_-]?(?:mode|save|checkpoint\w*)['\"]?\s*[:=]\s*['\"]?(?:async|true|1\b)")
_TO_PATH = re.compile(
    rf"(?i)\b(?:to|in|at|as|into|under|from|path|directory|dir|file|location)\b[ :='\"`\[(]*(?P<path>(?:[a-z0-9]+://|~?/|\.{{1,2}}/)?{_PATH})"
)
_FILE_NAME = re.compile(rf"(?:[a-z0-9]+://|~?/|\.{{1,2}}/)?{_PATH}{_FILE}")
_NAMED = re.compile(rf"(?i)\b{_NAME}")
_AMOUNT = re.compile(r"[\d.,]+\w{0,2}")
_SLASHED = re.compile(r"(?:[a-z0-9]+://|~?/|\.{1,2}/|[\w.-]+/)[\w./~:@%+=,-]{1,300}")
#: Paths may hold blanks: where they are quoted, or begin at a root and lead on to a slash or a file that holds a
#: checkpoint. What joins words, and amounts per second or of a total, do not belong to one.
_QUOTED = re.compile(rf"(['\"`])(?P<path>(?=[^'\"`]*/|[^'\"`]*{_FILE}['\"`])[^'\"`]{{2,300}})\1")
_JOINS = (
    r"(?!(?:and|to|in|into|at|on|of|by|as|from|with|for|after|took|is|was|done|saved|written|failed)\b"
    r"|\S*/(?:s|sec|it|iter|step|min|h)\b|\d[\d,.]*/\d)"
)
_PART = r"[\w.~@%+={}-]"
_PARTS = rf"{_PART}{{1,120}}(?: {_JOINS}{_PART}{{1,120}}){{0,4}}"
_ROOTED = re.compile(
    rf"(?i)(?<![\w./~])(?:[a-z0-9]+://|~?/|\.{{1,2}}/)(?:{_PARTS}/){{0,24}}(?:{_PARTS}?{_FILE}|{_PART}{{1,200}}|(?<=/))"
)
_STEP_SAID = re.compile(
    r"(?i)\b(?:global[_ ]?step|steps?|iter(?:ation)?s?|updates?|batch)[ _=:#@-]{0,3}(\d{1,12})(?![\d.]*\d?s\b)"
)
_STEP_BEHIND = re.compile(r"(?i)@ ?(\d{1,12}) updates|\b(?:at|after) (\d{1,12}) (?:steps|iterations|iters|updates)\b")
_EPOCH_SAID = re.compile(r"(?i)\bepochs?[ _=:#-]{0,3}(\d{1,7}(?:\.\d{1,4})?)|\b(?:at|after) (\d{1,7}) epochs?\b")
_STEP_IN_PATH = re.compile(
    r"(?i)(?:checkpoint|ckpt|step|steps|iter|iteration|model|update|ba|snapshot)s?[-_= ]{0,2}(\d{2,12})"
    r"(?![\d.]*[a-z]?[bBmM]\b)"
)
_EPOCH_IN_PATH = re.compile(r"(?i)(?<![a-z])(?:epoch|ep)[-_= ]{0,2}(\d{1,6})")
_BARE_IN_PATH = re.compile(r"/(\d{1,12})(?:/|$)")


class Save(NamedTuple):
    """What a line says about a checkpoint, where it lies, and which step or epoch it is of; None where not said.

    ``is_async``: it is written while training goes on. ``in_place``: it takes the place of an earlier one there.
    """

    says: Says
    path: str | None = None
    step: int | None = None
    epoch: float | None = None
    is_async: bool = False
    in_place: bool = False


def may_save(text: str) -> bool:
    """Whether `read_save` is worth trying on a line; cheap."""
    lowered = text[:_SEARCHED].lower()
    for word in _WORDS:  # noqa: SIM110 (every line comes here)
        if word in lowered:
            return True
    return False


def read_save(text: str) -> Save | None:
    """What a line (without its prefixes) says about a checkpoint, None for most. Never fails."""
    text = text[:_SEARCHED]
    for known in checkpoint_lines():
        if known.contains in text:
            found = known.line.search(text)
            if found is not None:
                return _known(known, found, text)
    return _general(text)


def _known(known: CheckpointLine, found: re.Match[str], text: str) -> Save:
    said = found.groupdict()
    path = _tidy(said.get("path"))
    step = int(said["step"]) if said.get("step") else None
    epoch = float(said["epoch"]) if said.get("epoch") else None
    if step is None and epoch is None:
        step, epoch = _place(text, path)
    in_place = known.in_place
    if in_place is None:
        in_place = _in_place(path, named=step is not None or epoch is not None)
    return Save(known.says, path, step, epoch, known.is_async, in_place)


def _general(text: str) -> Save | None:
    if _ASYNC_MODE.search(text):
        return Save("async")
    if _FAILED.search(text):
        named = _FILE_NAME.search(text)
        return Save("failed", _tidy(_with_blanks(text, named)) if named is not None else None, *_place(text, None))
    removed = _REMOVED.search(text)
    if removed is not None:
        quoted = _QUOTED.search(text, removed.start())
        return Save("removed", _tidy(quoted["path"] if quoted is not None else removed["path"]))
    if _NO_FACT.search(text):
        return None
    loaded = _LOADED.search(text)
    if loaded is not None:
        path = _path(text) if _QUOTED.search(text) or _ROOTED.search(text) else _tidy(loaded["path"] or loaded["other"])
        return Save("loaded", path, *_place(text, path))
    if _NO_STATE.search(text):
        return None
    done = _DONE.search(text)
    begun = _BEGUN.search(text) if done is None else None
    if done is None and begun is None:
        return None
    path = _path(text)
    step, epoch = _place(text, path)
    is_async = begun is not None and _ASYNC.search(text) is not None
    in_place = _in_place(path, named=step is not None or epoch is not None)
    return Save("done" if done is not None else "begun", path, step, epoch, is_async, in_place)


def _path(text: str) -> str | None:
    """Where the checkpoint lies: a file of a kind that holds one, else what has slashes, else what follows "to"."""
    quoted = _QUOTED.search(text)
    if quoted is not None:
        return _tidy(quoted["path"])
    named = _FILE_NAME.search(text) or _SLASHED.search(text)
    if named is not None:
        return _tidy(_with_blanks(text, named))
    for found in _TO_PATH.finditer(text):
        path = _tidy(found["path"])
        if path and not _AMOUNT.fullmatch(path) and re.search(r"[\d./_-]", path):
            return path
    called = _NAMED.search(text)
    return _tidy(called[0]) if called is not None else None


def _with_blanks(text: str, named: re.Match[str]) -> str:
    """The whole path that what was found is in, or begins."""
    for rooted in _ROOTED.finditer(text):
        if " " in rooted[0] and rooted.start() <= named.start() < rooted.end() and rooted.end() >= named.end():
            return rooted[0]
    return named[0]


def _tidy(path: str | None) -> str | None:
    return (path or "").strip("'\"`()[],;").rstrip(".:") or None


@lru_cache(maxsize=256)
def _in_path(path: str) -> tuple[int | None, float | None]:
    steps = _STEP_IN_PATH.findall(path)
    epochs = _EPOCH_IN_PATH.findall(path)
    if not steps and not epochs:
        steps = _BARE_IN_PATH.findall(path)
    return int(steps[-1]) if steps else None, float(epochs[-1]) if epochs else None


def _place(text: str, path: str | None) -> tuple[int | None, float | None]:
    """Step and epoch that the line names, or its path."""
    words = text.replace(path, " ") if path else text
    step, epoch = _STEP_BEHIND.search(words) or _STEP_SAID.search(words), _EPOCH_SAID.search(words)
    named = _in_path(path) if path else (None, None)
    if step is None and epoch is None:
        return named
    said = int(next(filter(None, step.groups()))) if step is not None else None
    if said is not None and named[0] == said + 1:  # "step 29" counts from 0, "ckpt-30" is of 30 steps
        said = named[0]
    return said, float(next(filter(None, epoch.groups()))) if epoch is not None else None


def _in_place(path: str | None, *, named: bool) -> bool:
    """Whether a save to where an earlier one lies overwrites it: a single file does, as does what has no number."""
    return path is not None and (not named or re.search(_FILE, path) is not None)
