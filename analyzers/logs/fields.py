"""Finds `name value` pairs in a log line and says what part each name plays in training progress.

Knows shapes, not frameworks: ``loss=4.5``, ``'loss': 2.1``, ``lm loss: 3.1E+00 |``, ``Epoch: [3][ 50/400]``,
``elapsed time per iteration (ms): 1531.7``, ``"num_updates": "200"``, ``train_iters ........ 50000``.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import Literal, NamedTuple

from analyzers.logs.prefix import strip_prefix

#: What a value means. ``total`` and ``epochs`` are how many there will be; ``per_epoch`` is steps per epoch;
#: ``pace`` is in seconds per step, ``rate`` in steps per second, ``wall`` Unix seconds or a date, ``elapsed`` and
#: ``eta`` in seconds.
Role = Literal[
    "step", "total", "epoch", "epochs", "per_epoch", "loss", "eval_loss", "grad",
    "pace", "rate", "wall", "elapsed", "eta",
]  # fmt: skip


class Pair(NamedTuple):
    """One pair as it stands: ``key`` with its unit in parentheses, the value's text, an ``of N`` total, a unit."""

    key: str
    value: str
    total: str | None
    unit: str
    start: int
    end: int


NUMBER = (
    r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
    r"|[-+]?(?:nan|NaN|NAN|inf|Inf|INF|[Ii]nfinity)\b"
)
_CLOCK = r"(?:\d{1,6} days?,? )?\d{1,3}:\d\d(?::\d\d)?(?:\.\d+)?"
_DATE = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_WORD = r"(?!(?<=(?i:loss|norm)[ ])(?i:nan|inf)\b)[A-Za-z_][\w./%@-]*+"  # "loss nan" has a value
#: A word that has a value of its own ("3 loss: 2.1"). Every part is taken once, so a long one costs no more than its
#: length, as does the number before it.
_NAMED = r"(?=\w*?[A-Za-z_]{3})\w*+[.:=]|\w*+\.[A-Za-z_]{3}\w*+[.:=]"
_PAIR = re.compile(
    rf"(?:(?<![\w./%-])|(?<=[\s'\"]--))(?P<key>{_WORD}(?: {_WORD}){{0,7}}+(?: ?\([A-Za-z/]{{1,12}}\))?)"
    r"(?:['\"],[ \t]|['\"]?[ \t]*+(?:[:=]+|\.{3,}|->|\|)?+[ \t]*+)(?:tensor\()?['\"#]?(?P<open>[\[(])?[ \t]*+"
    rf"(?P<value>{_DATE}|{_CLOCK}|(?>{NUMBER}))"
    rf"(?!{_NAMED})"
    r"(?:[ \t]*(?:/|of|out of|von|sur)[ \t]*(?P<total>\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?![.\d/]))?"
    r"(?P<unit>[ \t]?(?:ms|us|µs|sec|s|min|h|it/s|s/it|steps?/s|%)(?![\w/])|(?:ep|ba)(?![\w/]))?"
)
_FRACTION = re.compile(
    r"(?<![\w.,/:-])(?:[\[(][ \t]*+)?(?P<step>\d{1,3}(?:,\d{3})++|\d{1,12})[ \t]*(?:/|of|out of|von|sur)[ \t]*"
    r"(?P<total>\d{1,3}(?:,\d{3})++|\d{1,12})(?![\d/.:]|[ \t]*/)"
)
_MAX_TEXT = 2000
_MAX_PAIRS = 60
_LONGEST_S = 1e10


def pairs(text: str) -> list[Pair]:
    """The pairs of a line, left to right (the first `_MAX_PAIRS` within `_MAX_TEXT` characters)."""
    found: list[Pair] = []
    for match in _PAIR.finditer(text, 0, _MAX_TEXT):
        key, value, total, unit = match.group("key", "value", "total", "unit")
        if (
            match.group("open") == "(" and total is None
        ):  # "STEPS: (6000, 8000)" is a list, "loss 2.1 (2.3)" is not here
            continue
        found.append(Pair(key, value, total, (unit or "").strip(), match.start("key"), match.end()))
        if len(found) >= _MAX_PAIRS:
            break
    return found


def fraction(text: str, named: list[Pair]) -> tuple[int, int, int] | None:
    """A ``step/total`` without a name, such as ``[ 50/400]``, as (step, total, where it starts), or None.

    ``named`` are the line's pairs: a fraction that is one's value is not bare.
    """
    for match in _FRACTION.finditer(text, 0, _MAX_TEXT):
        step, total = (int(match.group(name).replace(",", "")) for name in ("step", "total"))
        at = match.start("step")
        if 0 <= step <= total and total > 1 and not any(pair.start <= at < pair.end for pair in named):
            return step, total, match.start()
    return None


def number(text: str) -> float | None:
    """A printed number (thousands commas, exponents, nan, inf) as a float, or None."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def seconds(text: str, unit: str = "") -> float | None:
    """A printed duration (``38s``, ``132.05ms``, ``0:42:26``, ``1 day, 2:03:04``) in seconds; None for what is none
    or absurd."""
    amount = _seconds(text, unit)
    return amount if amount is not None and 0 <= amount <= _LONGEST_S else None


def _seconds(text: str, unit: str) -> float | None:
    if ":" in text:
        days, _, clock = text.rpartition(" ")
        value = 0.0
        for part in map(number, clock.split(":")):
            if part is None:  # a date
                return None
            value = value * 60 + part
        return value + (86400.0 * int(days.split()[0]) if days else 0.0)
    amount = number(text)
    if amount is None:
        return None
    return amount * {"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60.0, "h": 3600.0}.get(unit, 1.0)


def wall_time(text: str) -> datetime | None:
    """A printed date, or Unix time in seconds or milliseconds, as a time, or None."""
    amount = number(text)
    if amount is None:
        return strip_prefix(text).time
    if amount >= 1e12:
        amount /= 1000
    return strip_prefix(f"{amount:.6f} ").time if 1e9 <= amount < 2e9 else None


_STEP = frozenset(
    (
        "step",
        "steps",
        "iter",
        "iters",
        "iteration",
        "iterations",
        "update",
        "updates",
        "timestep",
        "timesteps",
        "itr",
        "it",
    )
)
_BATCH = frozenset({"batch", "batches", "minibatch", "mb"})
NO_STEP = frozenset(
    (
        *(
            "nan",
            "skipped",
            "warmup",
            "warm",
            "save",
            "saving",
            "saved",
            "log",
            "logging",
            "eval",
            "per",
            "time",
            "size",
        ),
        *("sec", "second", "seconds", "s", "ms", "accumulation", "grad", "every", "interval", "freq", "frequency"),
        *("decay", "lr", "start", "starts", "starting", "resume", "resumed", "resuming", "last", "best", "patience"),
        *("sanity", "checkpoint", "restart", "world", "inference", "denoising", "sampling", "ratio", "bad", "dp", "id"),
        *("from", "next"),
    )
)
_HOW_MANY = frozenset({"max", "total", "num", "number", "n", "train", "training", "target", "optimization", "full"})
EVAL = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev", "holdout"})
_NO_LOSS = frozenset(
    {"scale", "scaler", "scaling", "weight", "coef", "coefficient", "best", "min", "delta", "func", "lr"}
)
_PROSE = frozenset({"or", "and", "became", "in", "for", "with", "to", "the", "a", "on", "from", "after", "using"})
_PER_SECOND = re.compile(
    r"(?:^|[ /])(?:(?:steps?|it|iters?|iterations?|batch|batches|updates?) ?(?:/|per) ?(?:s|secs?|seconds?)"
    r"|ups|its)$"
)
_SECONDS_PER = re.compile(
    r"(?:(?:timing |time )?(?:s|sec|secs|seconds|ms)|(?:elapsed |avg |average |mean |wall )?time|elapsed|duration)"
    r" ?(?:/|per) ?(?:step|steps|it|iter|iters|iteration|iterations|batch|update|global step|train step|training step)"
    r"|(?:avg |average |mean |train |training |global |last )?(?:iter|iteration|step|batch|update|it)"
    r" (?:time|timing|duration|secs?|seconds|ms|latency)(?: (?:in )?(?:avg|mean|ms|s|sec|seconds))?"
)
_UNIT_IN_KEY = re.compile(r"\(\s*(ms|us|s|sec|secs|seconds|min|h)\s*\)|[_ ](ms|us)$|\b(ms) ?(?:/|per)\b", re.I)
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SPLIT = re.compile(r"[\s_.\-]+|/(?!s(?:ec|econd)?s?$)")


class Meaning(NamedTuple):
    """A role with how well the name fits it (lower is better) and the unit that the name itself gives."""

    role: Role
    rank: int
    unit: str


@lru_cache(maxsize=4096)
def meaning(key: str) -> Meaning | None:
    """What a name means for progress, or None. Only the name counts here, not its value."""
    in_key = _UNIT_IN_KEY.search(key)
    unit = next((g for g in in_key.groups() if g), "").lower() if in_key else ""
    bare = re.sub(r"\([^)]*\)", " ", CAMEL.sub(" ", key)).lower()
    words = [word for word in _SPLIT.split(bare.replace("%", " ")) if word]
    if not words:
        return None
    name, every, last = " ".join(words), frozenset(words), words[-1]
    slashed = " ".join(bare.replace("_", " ").split())
    if _PER_SECOND.search(slashed) or _PER_SECOND.search(name):
        return Meaning("rate", 0, unit)
    if _SECONDS_PER.fullmatch(slashed) or _SECONDS_PER.fullmatch(name):
        return Meaning("pace", len(words), unit)
    if "loss" in every or last in ("nll", "cost", "objective"):
        return _loss(words, every)
    if last == "norm" and "grad" in every:
        return Meaning("grad", 0, unit)
    return _counter(words, every, last) or _time_name(name, unit)


def _loss(words: list[str], every: frozenset[str]) -> Meaning | None:
    if every & _NO_LOSS:
        return None
    while words[-1] in ("is", "was", "of", "now", "at"):
        words = words[:-1]
    if words[-1] != "loss" and (len(words) > 4 or every & _PROSE):
        return None
    if every & EVAL:
        return Meaning("eval_loss", len(words), "")
    name = " ".join(words)
    plain = ("loss", "train loss", "training loss", "total loss", "lm loss", "loss train", "loss total", "tr loss")
    if name in plain:
        return Meaning("loss", plain.index(name), "")
    return Meaning("loss", (10 if words[-1] == "loss" else 20) + len(words), "")


def _counter(words: list[str], every: frozenset[str], last: str) -> Meaning | None:
    """Steps and epochs, done or to do."""
    if "per" in every and "epoch" in every and every & (_STEP | _BATCH):
        return Meaning("per_epoch", 0, "")
    if every & EVAL:
        return None
    if last in ("epoch", "epochs", "ep"):
        if every & (NO_STEP - {"n"}):
            return None
        many = bool(every & (_HOW_MANY - {"train", "training"})) or (last == "epochs")
        return Meaning("epochs" if many else "epoch", len(words), "")
    if last not in _STEP | _BATCH or every & NO_STEP or (last == "it" and len(words) > 1):
        return None
    if words[-2:] == ["num", "updates"]:
        return Meaning("step", 0, "")
    many = (
        bool(every & _HOW_MANY) and (last.endswith("s") or bool(every & {"max", "total", "num"})) and last not in _BATCH
    )
    if many:
        return Meaning("total", 0 if "total" in every else 1 if "max" in every else 2, "")
    if last in _BATCH:
        return Meaning("step", 6 + len(words), "")
    return Meaning("step", 0 if "global" in every else 3 if last.startswith("update") else 1 + (len(words) > 2), "")


def _time_name(name: str, unit: str) -> Meaning | None:
    for ending in (" s", " sec", " secs", " seconds"):
        name = name.removesuffix(ending)
    if name in ("eta", "time left", "remaining", "time remaining", "remaining time", "estimated time left"):
        return Meaning("eta", 0, unit)
    if name in ("elapsed", "elapsed time", "time elapsed", "runtime", "train wall", "wall", "total time", "train time"):
        return Meaning("elapsed", 0, unit)
    if name in ("wall time", "timestamp", "ts", "datetime", "date", "unix time", "walltime", "time", "asctime"):
        return Meaning("wall", 0 if name != "time" else 1, unit)
    return None
