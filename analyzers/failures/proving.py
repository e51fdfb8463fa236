"""Whether signatures hold on their own samples."""

from __future__ import annotations

from collections.abc import Iterable

from analyzers.failures.matcher import Matcher, combined
from analyzers.failures.signatures import Signature

#: Lines that a signature must fit, and as many that it must not.
LEAST_SAMPLES = 2
#: Building the automaton pays from so many lines on.
_AUTOMATON_FROM_LINES = 100


def sample_faults(tested: Iterable[Signature], among: tuple[Signature, ...]) -> dict[str, list[str]]:
    """What is wrong with the samples of each signature, by its id; those without a fault are left out.

    A signature has at least two lines that it fits, wins on them ``among`` all others (or loses to one that means the
    same), and at least two lines that it does not fit.
    """
    chosen = list(tested)
    lines = [line for signature in chosen for line in signature.match]
    regexes = [each.regex for each in among]
    matcher = Matcher(regexes, None if len(lines) >= _AUTOMATON_FROM_LINES else combined(tuple(regexes)))
    hits = matcher.hits("\n".join(lines), lines) if lines else {}
    faults: dict[str, list[str]] = {}
    at = 0
    for signature in chosen:
        found = _of_one(signature)
        for line in signature.match:
            fitting = [among[number] for number in hits.get(at, ())]
            at += 1
            best = max(fitting, key=lambda each: each.priority, default=None)
            if best is not None and signature.regex.search(line) and not _same(best, signature):
                found.append(f"{best.id} wins on {line!r}")
        if found:
            faults[signature.id] = found
    return faults


def _of_one(signature: Signature) -> list[str]:
    found = [
        f"{count} {kind} samples; at least {LEAST_SAMPLES} are needed"
        for kind, count in (("match", len(signature.match)), ("reject", len(signature.reject)))
        if count < LEAST_SAMPLES
    ]
    found += [f"does not fit {line!r}" for line in signature.match if not signature.regex.search(line)]
    found += [f"fits {line!r}, which it must not" for line in signature.reject if signature.regex.search(line)]
    return found


def _same(best: Signature, signature: Signature) -> bool:
    return best.id == signature.id or best.family == signature.family or best.category == signature.category
