"""What tells one job from another before it runs: who, what program with which settings, how much work, how asked for.

These are read from a record alone, so that an ended job and one that is asked about are seen in the same way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from analyzers.history.text import script, stem
from analyzers.types import JobRecord
from predictors.pace import facts_of, work_of
from predictors.workload import number

#: Jobs of the same group share an effect.
GROUPS = ("user", "user and name", "script", "code", "request", "user and request")
SCRIPT = GROUPS.index("script")
USER = GROUPS.index("user")
#: What kind of work it is: jobs that agree in more of these are more alike.
KINDS = ("framework", "workload_type", "task", "model", "dataset")
_SIZES = ("epochs", "max_steps", "global_batch_size", "model_params_approx", "seq_len", "image_size", "num_gpus")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
#: Of a launch command so many settings are looked at, and no words longer than this: those are paths and queries.
_MOST_SETTINGS, _LONGEST_WORD = 40, 40


@dataclass(frozen=True, slots=True)
class Traits:
    """``groups`` in the order of `GROUPS` and ``kinds`` of `KINDS` (None: not known); ``options``, ``facts`` and
    ``amounts`` are logarithms by name, ``words`` the settings that are no numbers (1 for each). Those of another script
    are other options and words, whatever their name."""

    groups: tuple[Hashable | None, ...]
    kinds: tuple[str | None, ...]
    options: Mapping[Hashable, float]
    words: Mapping[Hashable, float]
    facts: Mapping[str, float]
    amounts: Mapping[str, float]


def traits_of(record: JobRecord) -> Traits:
    """What is known of a job at submission; nothing of its end is read."""
    facts, work = facts_of(record), work_of(record)
    name = stem(record.name) if record.name else ""
    path = script(record.command) if record.command else ""
    request = (record.gpus, record.requested_s)
    amounts = {} if work is None else {work.unit: work.amount}
    if record.requested_s and 0.0 < record.requested_s < math.inf:
        amounts["limit"] = math.log(record.requested_s)
    options, words = settings(record.command or "")
    program = (path, str(record.facts.get("framework"))) if path else None
    return Traits(
        groups=(
            record.user,
            (record.user, name) if record.user and name else None,
            program,
            record.fingerprint or None,
            request,
            (record.user, request) if record.user else None,
        ),
        kinds=tuple(str(record.facts[kind]) if kind in record.facts else None for kind in KINDS),
        options={(program, name): value for name, value in options.items()},
        words={(program, word): 1.0 for word in sorted(words)},
        facts={size: math.log(value) for size in _SIZES if (value := number(facts, size)) is not None},
        amounts=amounts,
    )


def settings(command: str) -> tuple[dict[str, float], frozenset[str]]:
    """What a launch command sets: logarithms of positive numbers by option, and ``option=word`` of the others.

    >>> settings("python train.py --width 64 --model=forest small.json")[1] == {"model=forest", "=small.json"}
    True
    """
    numbers: dict[str, float] = {}
    words: set[str] = set()
    option, place = "", 0
    for word in command.split()[:_MOST_SETTINGS]:
        name, equals, value = word.partition("=")
        if word.startswith("-") and not equals and not _NUMBER.fullmatch(word):
            option = word.lstrip("-")
            continue
        if equals:
            option, value = name.lstrip("-"), value
        else:
            value = word
        if not _NUMBER.fullmatch(value):
            words.add(f"{option}={value[:_LONGEST_WORD]}")
        elif 0.0 < float(value) < math.inf:
            numbers[option or f"#{place}"] = math.log(float(value))
        place += not option
        option = ""
    return numbers, frozenset(words) - {"=python", "=python3", f"={script(command)}"}
