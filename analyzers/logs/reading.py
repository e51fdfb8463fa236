"""Reads one line: which step, of how many, which epoch, what loss, at which pace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from analyzers.logs.fields import Pair, Role, fraction, meaning, number, pairs, seconds, wall_time
from analyzers.logs.formats import LogFormat, recognise
from analyzers.logs.measures import measures
from analyzers.logs.mining import Candidate, candidates
from analyzers.logs.prefix import strip_prefix, time_within
from analyzers.logs.words import Worded

_EVAL_TEXT = Worded(
    r"(?i)(?<![a-z])(?:eval\w*|valid\w*|val|test\w*|sanity|predict\w*|infer\w*|generat\w*)(?![a-z])",
    "val test sanity predict infer generat",
)
_TRAIN_TEXT = Worded(r"(?i)(?<![a-z])train", "train")
_OTHER_WORK = Worded(
    r"(?i)(?<![a-z])(?:load|download|fetch|upload|map\b|filter|tokeniz|preprocess|process|extract|cach|read|shard|"
    r"sav|writ|compil|warm|quantiz|convert|resolv|index)\w*",
    "load fetch map filter tokeniz process extract cach read shard sav writ compil warm quantiz convert resolv index",
)
_OTHER_WORK_EVEN_IF_TRAIN = Worded(
    r"(?i)(?<![a-z])(?:load|download|fetch|upload|map\b|filter|tokeniz|preprocess|extract|cach|cast|pack|generat)\w*|"
    r"\bsplit\b|examples/s",
    "load fetch map filter tokeniz preprocess extract cach cast pack generat split examples/s",
)
_ALIVE = Worded(
    r"(?i)heart ?beat|keep-?alive|\balive\b|\bping\b|watchdog|slurmstepd|\bsrun: |slurmctld| kernel: ",
    "beat alive ping watchdog slurm srun kernel",
)
_LABEL = re.compile(r"[^a-z]+")
#: Units of how long a run is to be.
_DURATIONS: dict[str, Role] = {"ep": "epochs", "ba": "total"}
_AMOUNT_OF_STEPS = re.compile(
    r"(?:^|[,;:(] ?)(\d{1,3}(?:,\d{3})+|\d{2,12}) (?:training |optimi[sz]ation |gradient )?"
    r"(?:steps|iterations|iters|updates)\b(?! ?(?:per|/|each|ago|left|remaining|of|in|took|so)\b)"
)
_NOT_THE_RUN = re.compile(
    r"(?i)warm|eval|valid|every|each|log|sav|check|accum|skip|resum|after|since|patience|done|took|ago"
)
_STEPS_RANK = 9
#: A bar's time left in whole seconds says nothing about the pace when it is shorter.
_SHORTEST_ETA_S = 3.0
_BARE_RATE = re.compile(
    r"(?<![\w.])(?P<amount>\d{1,9}(?:\.\d{1,9})?) ?(?:(?P<unit>ms|s)/(?:it|iter|step|batch|update)|"
    r"(?:it|iters?|steps?|batch(?:es)?|updates?)/s(?:ec)?)\b"
)
#: What comes before overrides of a configuration in a launch command, and the one of how many epochs.
_OVERRIDING = frozenset({"-o", "--opt", "--opts", "--override", "--cfg-options", "--set"})
_EPOCHS_SET = re.compile(r"(?:[\w.]{1,40}\.)?epochs?=(\d{1,6})")
_DIGITS = frozenset("0123456789")


@dataclass(slots=True)
class Reading:
    """What one line says. ``label`` names the series it belongs to; evaluation does not count as progress.

    ``step``, ``total`` (of steps), ``epoch`` and ``epochs`` as printed; ``loss`` may be nan; ``pace`` in seconds per
    step; ``elapsed`` and ``eta`` in seconds. ``mined``: what may be a counter with an unknown name, in a line without
    a known one. ``planned``: totals that stand in the line (a configuration, a header) as role, how plainly they are
    named, amount. ``measured``: what else the line measures (`analyzers.logs.measures`), which is no progress.
    """

    rank: int | None = None
    time: datetime | None = None
    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    epochs: int | None = None
    loss: float | None = None
    loss_rank: int = 0
    pace: float | None = None
    elapsed: float | None = None
    eta: float | None = None
    label: str = ""
    format: LogFormat | None = None
    is_eval: bool = False
    is_other: bool = False
    mined: tuple[Candidate, ...] = ()
    planned: tuple[tuple[Role, int, int], ...] = ()
    measured: dict[str, float] | None = None

    @property
    def says_something(self) -> bool:
        """Whether the line holds any progress or plan at all."""
        return bool(self.planned or self.mined) or any(
            value is not None for value in (self.step, self.epoch, self.loss, self.pace, self.elapsed)
        )


def read_line(text: str, formats: tuple[LogFormat, ...]) -> Reading | None:
    """Read one cleaned line; None when it says nothing about progress. Never fails."""
    if _DIGITS.isdisjoint(text) or _ALIVE.search(text, 400):
        return None
    prefix = strip_prefix(text)
    rest = prefix.rest[:2000]
    if ".py " in rest and "epoch" in rest:
        launched = _launched_epochs(rest.split())
        if launched is not None:
            return Reading(rank=prefix.rank, time=prefix.time, planned=(("epochs", 0, launched),))
    known = recognise(rest, formats)
    if known is None and prefix.rank is not None and text.lstrip()[:1].isdigit():
        known = recognise(text, formats)  # "1200: 2.31 avg loss": a step, not the task of srun -l
        if known is not None:
            prefix, rest = prefix._replace(rank=None), text[:2000]
    reading = Reading(rank=prefix.rank, time=prefix.time or time_within(text))
    found: list[Pair]
    begins = len(rest)
    names: dict[str, Role] = {}
    if known is not None:
        reading.format, match = known
        names = dict(reading.format.names)
        if match is not None:
            begins = match.start()
            rest = _take_groups(reading, match, rest)
    found = pairs(rest)
    first = _take_pairs(reading, found, names)
    reading.measured = measures(rest, found)
    begins = min(begins, first)
    bare = fraction(rest, found) if reading.step is None else None
    if bare is not None and (reading.epoch is not None or reading.loss is not None or "[" in rest[:60]):
        reading.step, reading.total, at = bare
        begins = min(begins, at)
        reading.label = f"[/]{reading.total}:" + _LABEL.sub(" ", rest[:at].lower())[:60]
    if reading.step is not None and reading.pace is None:
        _take_bare_rate(reading, rest)
    no_step = reading.step is None or reading.label == "batch"  # "20000 steps, batch 256" is a plan
    if no_step and reading.epoch is None and not any(role == "total" for role, *_ in reading.planned):
        amount = _AMOUNT_OF_STEPS.search(rest, 0, 200)
        if amount is not None and not _NOT_THE_RUN.search(rest, 0, 200):
            reading.planned += (("total", _STEPS_RANK, int(amount[1].replace(",", ""))),)
    if reading.step is None and reading.epoch is None and not reading.planned:
        reading.mined = _mined(rest, candidates(rest, found, bare))
    if not reading.says_something:
        return reading if reading.measured else None
    _judge(reading, rest[:begins], found)
    return reading


def _launched_epochs(words: list[str]) -> int | None:
    """Epochs that a launch command overrides, not said to be a total (``train.py -o epoch=36 log_iter=20``)."""
    is_program = is_overriding = False
    for word in words:
        is_program = is_program or word.endswith(".py")
        is_overriding = is_overriding or (is_program and word in _OVERRIDING)
        said = _EPOCHS_SET.fullmatch(word) if is_overriding else None
        if said is not None:
            return int(said[1])
    return None


def _mined(text: str, found: list[Candidate]) -> tuple[Candidate, ...]:
    """Those that do not count an evaluation; those after a word for other work are marked."""
    if not found:
        return ()
    aside, other = _EVAL_TEXT.search(text), _OTHER_WORK.search(text)
    until = aside.start() if aside is not None else len(text)
    since = other.start() if other is not None else len(text)
    return tuple(one._replace(is_other=since < one.end) for one in found if one.end <= until)


def read_row(values: dict[str, str]) -> Reading | None:
    """Read one row of a metrics table (CSV or whitespace) from its column names and values."""
    reading = Reading(label="row")
    found = [Pair(key, value, None, "", 0, 0) for key, value in values.items()]
    _take_pairs(reading, found, {})
    reading.label = "row"
    reading.measured = measures("", found)
    if reading.time is None:
        reading.time = next((time for time in map(time_within, values.values()) if time is not None), None)
    return reading if reading.step is not None or reading.epoch is not None else None


def _take_groups(reading: Reading, match: re.Match[str], rest: str) -> str:
    """Fill in what a format's pattern names; returns the text around the match, for the general rules."""
    said = match.groupdict()
    reading.step = _count(said.get("step"))
    reading.total = _count(said.get("total"))
    reading.epoch = _epoch(said.get("epoch"))
    reading.epochs = _count(said.get("epochs"))
    if said.get("last_epoch"):
        reading.epochs = int(said["last_epoch"]) + 1
    reading.loss = number(said["loss"]) if said.get("loss") else None
    reading.elapsed = seconds(said["elapsed"]) if said.get("elapsed") else None
    reading.eta = seconds(said["eta"].rstrip("s")) if said.get("eta") else None
    amount = number(said["rate"]) if said.get("rate") else None
    if amount:
        reading.pace = _pace(amount, per_step=(said.get("rate_unit") or "").startswith("s/"))
    elif said.get("pace"):
        reading.pace = _pace(seconds(said["pace"], said.get("rate_unit") or "s"), per_step=True)
    elif reading.format is not None and reading.format.bar and reading.eta and reading.eta >= _SHORTEST_ETA_S:
        left = (reading.total or 0) - (reading.step or 0)
        reading.pace = reading.eta / left if left > 0 else None
    before = said.get("desc") if said.get("desc") is not None else rest[: match.start()]
    total = f"{reading.total}:" if reading.format is not None and reading.format.bar else ""
    name = reading.format.name if reading.format is not None else ""
    reading.label = f"{name} {total}" + _LABEL.sub(" ", (before or "").lower())[:60].strip()
    return f"{before} | {said.get('values') or ''} | {rest[match.end() :]}"


def _take_pairs(reading: Reading, found: list[Pair], names: dict[str, Role]) -> int:
    """Fill in what named values say where nothing better is known; returns where the first of them begins."""
    best: dict[Role, int] = {}
    planned: list[tuple[Role, int, int]] = []
    first = 1 << 30
    for pair in found:
        key = pair.key
        special = names.get(key.lower())
        meant = meaning(key)
        role: Role | None = special or (meant.role if meant else None)
        rank = 0 if special or meant is None else meant.rank
        unit = pair.unit or (meant.unit if meant else "")
        if unit in _DURATIONS:  # Composer: max_duration: 6ep
            role, rank = _DURATIONS[unit] if key.lower() == "max_duration" else None, 0
        if role is None or best.get(role, 1 << 30) <= rank:
            continue
        if role in ("total", "epochs", "per_epoch") and pair.total is None:
            amount = _count(pair.value)
            if amount is not None and amount > 0:
                planned.append((role, rank, amount))
            continue
        if _take(reading, role, pair, unit):
            best[role] = rank
            if role == "loss":
                reading.loss_rank = rank
            first = min(first, pair.end if role in ("step", "epoch") else pair.start)
    if reading.total is None and reading.step is not None:  # "iteration 40/900 | global_step: 40"
        totals = (_count(pair.total) for pair in found if pair.total and _count(pair.value) == reading.step)
        reading.total = next((total for total in totals if total and total >= reading.step), None)
    reading.planned = tuple(planned)
    return first


def _take(reading: Reading, role: Role, pair: Pair, unit: str) -> bool:
    """Enter one value; False when it does not fit its role."""
    if role in ("step", "total"):
        step = _count(pair.value)
        if step is None or (
            reading.format is not None and reading.format.line is not None and reading.step is not None
        ):
            return False
        reading.step = step
        total = _count(pair.total)
        reading.total = total if total is not None and total >= step else None
        reading.label = _LABEL.sub(" ", pair.key.lower()).strip()
    elif role in ("epoch", "epochs"):
        epoch = _epoch(pair.value)
        if epoch is None:
            return False
        reading.epoch = epoch
        reading.epochs = _count(pair.total) or reading.epochs
    elif role == "loss":
        loss = number(pair.value)
        if loss is None or pair.unit == "%":
            return False
        reading.loss = loss
    elif role in ("pace", "rate"):
        return _take_pace(reading, role, pair, unit)
    elif role == "elapsed":
        reading.elapsed = seconds(pair.value, unit)
    elif role == "eta":
        reading.eta = seconds(pair.value, unit)
    elif role == "wall":
        if unit == "ms" and reading.pace is None:
            return _take_pace(reading, "pace", pair, unit)
        time = wall_time(pair.value)
        reading.time = reading.time or time
        return time is not None
    return True


def _take_pace(reading: Reading, role: Role, pair: Pair, unit: str) -> bool:
    amount = seconds(pair.value, unit if role == "pace" else "")
    pace = _pace(amount, per_step=role == "pace" or pair.unit == "s/it")
    if pace is None:
        return False
    reading.pace = pace
    return True


def _take_bare_rate(reading: Reading, text: str) -> None:
    """A pace that stands without a name: ``(1.45 s/it)``, ``3.2 steps/s``."""
    said = _BARE_RATE.search(text)
    if said is not None:
        amount = seconds(said["amount"], said["unit"]) if said["unit"] in ("s", "ms") else number(said["amount"])
        reading.pace = _pace(amount, per_step=said["unit"] in ("s", "ms"))


def _pace(amount: float | None, *, per_step: bool) -> float | None:
    """Seconds per step from a printed number of seconds per step or steps per second; None for an absurd one."""
    if amount is None or not 1e-7 < amount < 1e7:
        return None
    return amount if per_step else 1 / amount


def _epoch(text: str | None) -> float | None:
    """A printed epoch, which may be a fraction; None for an absurd one."""
    epoch = number(text) if text else None
    return epoch if epoch is not None and 0 <= epoch < 1e7 else None


def _count(text: str | None) -> int | None:
    """A whole number of at most 10^15, also printed as ``100.0`` or ``1,000``; None for anything else."""
    amount = number(text) if text else None
    if amount is None or not 0 <= amount <= 1e15 or amount != int(amount):
        return None
    return int(amount)


def _judge(reading: Reading, before: str, found: list[Pair]) -> None:
    """Tell evaluation, and work that is not training, from training; by what stands before the counters."""
    head = before[-200:]
    reading.is_other = _OTHER_WORK_EVEN_IF_TRAIN.search(head) is not None
    if not _TRAIN_TEXT.search(head):
        reading.is_eval = _EVAL_TEXT.search(head) is not None
        reading.is_other = reading.is_other or _OTHER_WORK.search(head) is not None
    if reading.loss is None and not reading.is_eval:
        reading.is_eval = any((meant := meaning(pair.key)) is not None and meant.role == "eval_loss" for pair in found)
