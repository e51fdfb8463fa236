"""What a log measures beside its progress (learning rate, gradient norm, throughput), under one name each."""

from __future__ import annotations

import re
from functools import lru_cache

from analyzers.logs.fields import CAMEL, EVAL, Pair, meaning, number

_SPLIT = re.compile(r"[\s_.\-/()|:%]+")
_NOT_THE_RATE = """
    scheduler schedule decay warmup max min base initial init final end mult scale factor type policy steps step
"""
_NO_RATE = frozenset(_NOT_THE_RATE.split())
_PER_GPU = frozenset({"gpu", "device", "chip", "rank", "card", "accelerator"})
_TOKENS = frozenset({"tok", "toks", "token", "tokens", "words"})
_SAMPLE_WORDS = """
    sample samples example examples image images img imgs seq seqs sequence sequences sentence sentences frame frames
    utt utts graph graphs
"""
_SAMPLES = frozenset(_SAMPLE_WORDS.split())
_SECONDS = frozenset({"s", "sec", "second", "secs", "seconds"})
_SHORT = {
    "wps": "tokens_per_second", "tps": "tokens_per_second", "tgs": "tokens_per_second_per_gpu",
    "gnorm": "grad_norm", "gradnorm": "grad_norm", "mfu": "mfu",
}  # fmt: skip
#: A throughput whose unit stands behind it: ``45,210 tok/s``, ``12.4k tokens/s/gpu``.
_BEHIND = re.compile(
    r"(?<![\w.])(?P<amount>\d{1,3}(?:,\d{3})+(?:\.\d{1,6})?|\d{1,12}(?:\.\d{1,9})?) ?(?P<times>[kKM]?) ?"
    r"(?P<what>[A-Za-z]{3,9}) ?/ ?s(?:ec(?:ond)?s?)?(?![A-Za-z])(?P<each>/ ?(?:gpu|device|chip|GPU))?"
)
_TIMES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6}
_MOST = 1e15


def measures(text: str, found: list[Pair]) -> dict[str, float] | None:
    """The measurements of a line by their one name (docs/json/progress.md), None where there are none.

    ``found`` are the line's pairs. A share is between 0 and 1; throughputs are per second.
    """
    said: dict[str, float] | None = None
    for pair in found:
        name = measure(pair.key)
        value = _amount(name, pair) if name else None
        if name and value is not None:
            said = said or {}
            said.setdefault(name, value)
    if "/s" in text:
        for behind in _BEHIND.finditer(text, 0, 600):
            name = _throughput(behind["what"].lower(), per_gpu=behind["each"] is not None)
            value = number(behind["amount"])
            if name and value is not None:
                said = said or {}
                said.setdefault(name, value * _TIMES[behind["times"]])
    return said


def _amount(name: str, pair: Pair) -> float | None:
    value = number(pair.value)
    if value is None or _MOST < abs(value) < float("inf"):
        return None
    if name in ("mfu", "accuracy", "eval_accuracy"):
        value = value / 100 if pair.unit == "%" or "%" in pair.key or 1.5 < value <= 100 else value
        return value if 0 <= value <= 1 else None
    return value


@lru_cache(maxsize=4096)
def measure(key: str) -> str | None:
    """The one name of what a printed name measures, or None."""
    lowered = CAMEL.sub(" ", key).lower()
    words = [word for word in _SPLIT.split(lowered) if word and not word.isdigit()]
    every = frozenset(words)
    if not words or len(words) > 7:
        return None
    is_eval = not every.isdisjoint(EVAL)
    meant = meaning(key)
    if meant is not None and meant.role == "eval_loss":
        return "eval_loss"
    if every & {"accuracy", "acc", "top1"} and not every & {"best", "max", "steps", "grad"}:
        return "eval_accuracy" if is_eval else "accuracy"
    if is_eval:
        return None
    return _of_training(words, every, lowered)


def _of_training(words: list[str], every: frozenset[str], lowered: str) -> str | None:
    per_gpu = not every.isdisjoint(_PER_GPU)
    if ("lr" in every or {"learning", "rate"} <= every) and every.isdisjoint(_NO_RATE):
        return "learning_rate"
    if "norm" in every and every & {"grad", "gradient", "gradients"} and every.isdisjoint({"clip", "max"}):
        return "grad_norm"
    if {"loss", "scale"} <= every and every.isdisjoint({"window", "min", "init", "initial"}):
        return "loss_scale"
    if every & {"tflops", "tflop"}:
        return "tflops_per_gpu" if per_gpu else "tflops"
    for word in words:
        if _SHORT.get(word) and len(words) <= 3:
            return f"{_SHORT[word]}_per_gpu" if per_gpu and _SHORT[word] == "tokens_per_second" else _SHORT[word]
    if every & _SECONDS and ("per" in every or "/s" in lowered):
        what = next((word for word in words if word in _TOKENS | _SAMPLES), "")
        return _throughput(what, per_gpu=per_gpu)
    if every & {"reward", "return", "rew"} and every & {"mean", "avg", "episode", "ep", "episodic"}:
        return "reward"
    return None


def _throughput(what: str, *, per_gpu: bool) -> str | None:
    kind = "tokens" if what in _TOKENS else "samples" if what in _SAMPLES else ""
    return f"{kind}_per_second{'_per_gpu' if per_gpu else ''}" if kind else None
