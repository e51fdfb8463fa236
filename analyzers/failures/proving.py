"""Whether signatures hold on their own samples."""

from __future__ import annotations

from collections.abc import Iterable

from analyzers.failures.signatures import Signature

#: Lines that a signature must fit, and as many that it must not.
LEAST_SAMPLES = 2


def sample_faults(tested: Iterable[Signature], among: tuple[Signature, ...]) -> dict[str, list[str]]:
    """What is wrong with the samples of each signature, by its id; those without a fault are left out.

    A signature has at least two lines that it fits, wins on them ``among`` all others (or loses to one that means the
    same), and at least two lines that it does not fit.
    """
    faults: dict[str, list[str]] = {}
    for signature in tested:
        found = _of_one(signature)
        for line in signature.match:
            best = max(
                (each for each in among if each.regex.search(line)), key=lambda each: each.priority, default=None
            )
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
