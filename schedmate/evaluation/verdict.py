"""The whole result of an evaluation, and its verdict in plain words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from schedmate.evaluation.report import (
    Counts,
    Prices,
    asking,
    changes,
    counted,
    figures,
    interval,
    quality,
    rejections,
    summed,
)
from schedmate.evaluation.run import Row

Verdict = Literal["no_model", "no_cases", "nothing_to_ask", "no_answer", "helps", "mixed", "no_difference", "harms"]
#: Precision may fall by so many points before that counts as harm.
MOST_FALL_POINTS = 1.0
#: Where nothing was said without the model, so much of what it says must be right for it to help.
_RELIABLE = 0.9
#: With fewer changes than this the figures are told to be few.
_FEW = 20
#: What a set is judged by: all facts of a job, and of a log its category.
_HEADLINE = "category"


def result_of(
    rows: Mapping[str, Sequence[Row]], skipped: Mapping[str, Mapping[str, int]], prices: Prices, *, asked: bool
) -> dict[str, Any]:
    """Everything but who was asked; ``rows`` and ``skipped`` are by kind of set, without those that nobody wanted."""
    sets: dict[str, Any] = {"jobs": None, "logs": None}
    sets |= {kind: _set(kind, rows[kind], skipped[kind], asked=asked) for kind in rows}
    everything = [row for kind in rows for row in rows[kind]]
    questions = asking(everything, prices)
    verdict = _verdict(everything, [each["verdict"] for each in sets.values() if each], questions, asked=asked)
    return {
        **sets,
        "questions": questions,
        "rejected": rejections(everything),
        "verdict": verdict,
        "says": " ".join(_sentences(verdict, sets, questions)),
    }


def _set(kind: str, rows: Sequence[Row], skipped: Mapping[str, int], *, asked: bool) -> dict[str, Any]:
    counts = counted(rows)
    head = counts.get(_HEADLINE, Counts()) if kind == "logs" else summed(list(counts.values()))
    told = changes(head)
    model_right = told["added_right"] + told["mended"]
    model_said = model_right + told["added_wrong"]
    return {
        "cases": len(rows),
        "skipped": dict(skipped),
        "unreadable": sum(bool(row["error"]) for row in rows),
        "judged_by": _HEADLINE if kind == "logs" else "all facts",
        "total": figures(head, asked=asked),
        "by_name": [{"name": name, **figures(each, asked=asked)} for name, each in counts.items()],
        "blamed_without": sum(row["blamed_without"] for row in rows),
        "blamed_with": sum(row["blamed_with"] for row in rows) if asked else None,
        "model_right": model_right,
        "model_said": model_said,
        "model_right_interval": interval(model_right, model_said),
        "seconds_without": round(sum(row["seconds_without"] for row in rows), 3),
        "seconds_with": round(sum(row["seconds_with"] for row in rows), 3) if asked else None,
        "verdict": _verdict_of_set(head) if asked and rows else None,
    }


def _verdict_of_set(head: Counts) -> Verdict:
    """Helps: more is right, and precision keeps within a point (or is high). Mixed: more is right, and more wrong."""
    before, after = quality(head, with_model=False), quality(head, with_model=True)
    rises = after["right"] > before["right"]
    lowest = _RELIABLE if before["precision"] is None else before["precision"] - MOST_FALL_POINTS / 100.0
    fell = (after["precision"] or 0.0) < lowest - 1e-9
    told = changes(head)
    if rises:
        return "mixed" if fell else "helps"
    return "harms" if told["added_wrong"] or told["broken"] else "no_difference"


def _verdict(rows: Sequence[Row], of_sets: Sequence[Any], questions: Mapping[str, Any], *, asked: bool) -> Verdict:
    if not rows:
        return "no_cases"
    if not asked:
        return "no_model"
    if not questions["asked"]:
        return "nothing_to_ask"
    if not questions["accepted"]:
        return "no_answer"
    worst_first: tuple[Verdict, ...] = ("harms", "mixed", "helps")
    return next((each for each in worst_first if each in of_sets), "no_difference")


_OPENING: Mapping[Verdict, str] = {
    "no_model": "No language model is configured: these are the figures without one.",
    "no_cases": "There is no case to try it on.",
    "nothing_to_ask": "The model was not needed: nothing was left open in these cases.",
    "no_answer": "No answer of the model could be used: everything stays as it is without one.",
    "helps": "The model helps here.",
    "mixed": "The model finds more, but what is told is less reliable with it.",
    "no_difference": "The model makes no difference here.",
    "harms": "The model does harm here: leave it off.",
}


def _sentences(verdict: Verdict, sets: Mapping[str, Any], questions: Mapping[str, Any]) -> list[str]:
    words = [_OPENING[verdict]]
    if verdict in ("no_model", "no_cases"):
        return words
    for kind, of_set in sets.items():
        if of_set is None or not of_set["cases"]:
            continue
        told, before, after = of_set["total"]["changes"], of_set["total"]["without"], of_set["total"]["with_model"]
        what = "facts" if kind == "jobs" else "categories"
        words.append(
            f"{kind.capitalize()} ({of_set['cases']}): {what} added right {told['added_right']}, added wrong "
            f"{told['added_wrong']}, mended {told['mended']}, broken {told['broken']}; precision "
            f"{_percent(before['precision'])} -> {_percent(after['precision'])}, recall "
            f"{_percent(before['recall'])} -> {_percent(after['recall'])}."
        )
        if of_set["model_right_interval"] and of_set["model_said"] < _FEW:
            low, high = of_set["model_right_interval"]
            words.append(
                f"{of_set['model_right']} of {of_set['model_said']} is few to go by: with more cases, "
                f"{low:.0%} to {high:.0%} of what it adds may turn out right."
            )
    if questions["asked"]:
        words.append(_of_questions(questions))
    return words


def _of_questions(questions: Mapping[str, Any]) -> str:
    parts = [f"{questions['accepted']} of {questions['asked']} questions had a usable answer"]
    if questions["cached"]:
        parts.append(f"{questions['cached']} of them kept from before")
    failures: Counter[str] = Counter(
        {
            "failed at the endpoint": questions["endpoint_failures"],
            "were not sent": questions["not_asked"],
        }
    )
    parts += [f"{count} {what}" for what, count in failures.items() if count]
    if questions["seconds_median"] is not None:
        parts.append(f"{questions['seconds_median']:.1f} s each (median; p95 {questions['seconds_p95']:.1f} s)")
    if questions["slower_than_wait"]:
        parts.append(
            f"{questions['slower_than_wait']} took longer than the {questions['wait_s']:g} s that a prediction waits"
        )
    parts.append(f"{questions['tokens_sent'] + questions['tokens_received']:,} tokens")
    if questions["cost"]:
        parts.append(f"cost {questions['cost']:.4g}")
    return "; ".join(parts) + "."


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{100 * share:.1f} %"
