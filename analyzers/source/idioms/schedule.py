"""How long training goes on: epochs, steps, no bound at all, and what may end it early."""

from __future__ import annotations

import ast
import math
import re

from analyzers.source.idioms.named import NAMES
from analyzers.source.idioms.training import (
    Training,
    accumulation_in,
    break_limits,
    count_of,
    counted_by_modulus,
    counters_left_on,
    data_loop,
)
from analyzers.source.program.events import Guard, Loop
from analyzers.source.program.values import Const, Obj, Origin, Range, Seq
from analyzers.source.reading import Reading, as_flag, as_number, whole

_EARLY_NAMES = re.compile(
    r"patience|early|stop|reward|solved|counter|no_improve|converge|best|target_acc|threshold|tolerance|plateau",
    re.IGNORECASE,
)
_ACCUMULATION = frozenset(NAMES["grad_accum"])


def offer_schedule(reading: Reading, training: Training) -> None:
    """``epochs``, ``max_steps``, ``iter_type`` and ``early_stopping``."""
    if training.trainer or "hf" in reading.settings or "lightning" in reading.settings or training.call is None:
        _from_settings(reading, training)
    else:
        _from_loops(reading, training)
    _early_stopping(reading, training)


def _from_settings(reading: Reading, training: Training) -> None:
    quick = reading.settings.get("fast_dev_run")
    if quick is not None and as_flag(quick.value):
        reading.offer("max_steps", 1, 0.85, quick.origin)
        reading.offer("epochs", 1, 0.85, quick.origin)
        reading.offer("iter_type", "step", 0.85, quick.origin)
        return
    limit = reading.number("max_steps_hf")
    epochs = reading.number("epochs")
    if limit is not None and limit[0] > 0:
        reading.offer("max_steps", int(limit[0]), 0.9, limit[1].origin)
        reading.offer("iter_type", "step", 0.9, limit[1].origin)
        return
    if epochs is not None and epochs[0] > 0 and (training.call is not None or "hf" in reading.settings):
        if training.unseen:
            return
        rounds = _rounds(training)
        if rounds is not None:
            reading.offer("epochs", whole(epochs[0] * rounds), epochs[1].confidence, epochs[1].origin)
        reading.offer("iter_type", "epoch", epochs[1].confidence, epochs[1].origin)
        return
    if epochs is not None and epochs[0] == -1:
        reading.offer("iter_type", "unbounded", 0.7, epochs[1].origin)
    if not reading.words_read_unseen:
        return
    steps, samples = reading.number("max_steps"), reading.number("train_samples")
    if steps is not None:
        reading.offer("max_steps", int(steps[0]), steps[1].confidence, steps[1].origin)
        reading.offer("iter_type", "step", steps[1].confidence, steps[1].origin)
    elif samples is not None:
        reading.offer("iter_type", "step", samples[1].confidence, samples[1].origin)
        size = reading.number("global_batch")
        if size is not None and size[0] > 0 and "rampup" not in reading.settings:
            reading.offer("max_steps", math.ceil(samples[0] / size[0]), 0.8, samples[1].origin, "computed")
    elif epochs is not None and epochs[0] > 0:
        reading.offer("epochs", whole(epochs[0]), epochs[1].confidence, epochs[1].origin)
        reading.offer("iter_type", "epoch", epochs[1].confidence, epochs[1].origin)


def _rounds(training: Training) -> float | None:
    """How often a trainer is started on one and the same model: 1 unless loops around it repeat it.

    None where that is not known, or where the rounds may each train a model of their own (folds, a search).
    """
    loops = training.loops if training.trainer else ()
    if not loops or training.call is None:
        return 1
    model = training.call.receiver
    built = model.call if isinstance(model, Obj) else None
    counts = [as_number(count_of(loop)) for loop in loops]
    if built is None or any(loop in built.loops for loop in loops):
        return None
    known = [count for count in counts if count is not None]
    return math.prod(known) if len(known) == len(counts) else None


def outer_loops(training: Training) -> list[Loop]:
    """The training loops without inner ones that only accumulate gradients."""
    inner = [loop for loop in training.loops[1:] if not _accumulates(loop) and loop not in training.slices]
    return [*training.loops[:1], *inner]


def _accumulates(loop: Loop) -> bool:
    return isinstance(loop.iterable, Range) and loop.target.lower().startswith(("micro", "accum", "sub_step"))


def _from_loops(reading: Reading, training: Training) -> None:
    loops = outer_loops(training)
    if not loops:
        return
    data = [i for i, loop in enumerate(loops) if data_loop(loop)]
    counted = [(i, count_of(loop)) for i, loop in enumerate(loops)]
    known = [(i, count) for i, count in counted if count is not None]
    innermost_data = data[-1] if data else None
    for loop in loops:
        limits = break_limits(loop)
        if limits:
            smallest = min(limits, key=lambda c: as_number(c) or 0)
            number = as_number(smallest)
            is_epoch = any("epoch" in text for text in (loop.target.lower(), _names_of(loop)))
            if number is not None and not is_epoch and not _only_debug(loop):
                batches = _batches_of_a_step(reading, loop)
                if batches is not None:
                    reading.offer("max_steps", int(number) // batches, 0.85, smallest.origin)
                reading.offer("iter_type", "step", 0.85, smallest.origin)
                return
            if number is not None and is_epoch:
                reading.offer("epochs", int(number), 0.85, smallest.origin)
                reading.offer("iter_type", "epoch", 0.85, smallest.origin)
                return
    epoch = next(((i, c) for i, c in reversed(known) if innermost_data is None or i < innermost_data), None)
    zipped = [
        i for i in data if isinstance(getattr(loops[i].iterable, "attrs", {}), dict) and count_of(loops[i]) is not None
    ]
    if zipped and epoch is None:
        count = count_of(loops[zipped[-1]])
        if count is not None:
            reading.offer("max_steps", int(as_number(count) or 0), 0.85, count.origin)
            reading.offer("iter_type", "step", 0.85, count.origin)
            return
    if data and epoch is None and _is_zip_over_range(loops[data[-1]]):
        read = reading.number("epochs")
        if read is not None:  # the number of steps follows from epochs and the size of the data
            reading.offer("epochs", whole(read[0]), read[1].confidence, read[1].origin)
            reading.offer("iter_type", "epoch", read[1].confidence, read[1].origin)
            return
        reading.offer("iter_type", "step", 0.6, loops[data[-1]].origin)
        return
    if epoch is not None and (innermost_data is not None or "epoch" in loops[epoch[0]].target.lower()):
        index, count = epoch
        epochs = int(as_number(count) or 0)
        sure = 0.9 if not count.assumed else 0.75
        reading.offer("epochs", epochs, sure, _place(count, loops[index]))
        reading.offer("iter_type", "epoch", sure, loops[index].origin)
        last = count_of(loops[innermost_data]) if innermost_data is not None else None
        if last is not None:
            reading.offer("max_steps", epochs * int(as_number(last) or 0), 0.8, last.origin, "computed")
        elif len(loops) == 1 and not training.slices:  # the whole data in one batch: one step an epoch
            reading.offer("max_steps", epochs, 0.7, _place(count, loops[index]), "computed")
        return
    if epoch is not None:
        steps = 1
        for _, count in known[:1]:
            steps = int(as_number(count) or 0)
        reading.offer("max_steps", steps, 0.85, _place(known[0][1], loops[known[0][0]]))
        reading.offer("iter_type", "step", 0.85, loops[known[0][0]].origin)
        return
    if loops[0].trip is None and not loops[0].limits:
        reading.offer("iter_type", "unbounded", 0.8, loops[0].origin)
    elif data and len(loops) == 1:
        counts = bool(counters_left_on(loops[0]))  # up to a number that is not known
        reading.offer("iter_type", "step" if counts else "epoch", 0.6, loops[0].origin)
    elif "epoch" in loops[0].target.lower():
        reading.offer("iter_type", "epoch", 0.75, loops[0].origin)


def _batches_of_a_step(reading: Reading, loop: Loop) -> int | None:
    """How many counts of a loop's limit make one step of the optimizer, which looks at the same counter's remainder.

    None where it does, but by a number that is not known.
    """
    for call in reading.calls:
        if call.name != "step" or "optim" not in call.path.lower() or not any(outer is loop for outer in call.loops):
            continue
        if counted_by_modulus(call.guards) & counters_left_on(loop):
            modulus = as_number(accumulation_in(call.guards))
            return int(modulus) if modulus and modulus >= 1 else None
    return 1


def _is_zip_over_range(loop: Loop) -> bool:
    parts = loop.iterable.attrs.get("iterables") if isinstance(loop.iterable, Obj) else None
    return isinstance(parts, Seq) and any(isinstance(part, Range) for part in parts.items)


def _place(count: Const, loop: Loop) -> Origin:
    return count.origin if count.origin.file else loop.origin


def _only_debug(loop: Loop) -> bool:
    return "debug" in _names_of(loop) and "step" not in _names_of(loop)


def _names_of(loop: Loop) -> str:
    return " ".join(test_text(guard) for guards in loop.breaks for guard in guards[-1:]).lower()


def test_text(guard: Guard) -> str:
    """A condition as it is written (bounded)."""
    if guard.test is None:
        return ""
    try:
        return ast.unparse(guard.test)[:400]
    except (RecursionError, ValueError):
        return ""


def _on_a_goal(guards: tuple[Guard, ...]) -> bool:
    """Whether a break stands under a comparison of a loss or score with a bound."""
    return any(
        guard.value.detail[:1] == ("compare",)
        and guard.value.detail[1] in ("Lt", "LtE", "Gt", "GtE")
        and re.search(r"loss|acc|score|error|psnr", test_text(guard), re.IGNORECASE) is not None
        for guard in guards
    )


def _early_stopping(reading: Reading, training: Training) -> None:
    for call in reading.calls:
        name = call.path.rpartition(".")[2].replace("<", " ").replace(">", " ")
        if re.search(r"early_?stop", name, re.IGNORECASE) and not call.path.endswith("_args"):
            if "fast_dev_run" in reading.settings and as_flag(reading.settings["fast_dev_run"].value):
                continue
            reading.offer("early_stopping", True, 0.85, call.origin)
            return
    for loop in training.loops:
        for guards in loop.breaks:
            text = " ".join(test_text(guard) for guard in guards)
            if text and (_EARLY_NAMES.search(text) or _on_a_goal(guards)):
                reading.offer("early_stopping", True, 0.75, loop.origin)
                return
    for loop in reading.record.loops:
        for guards in loop.breaks:
            text = " ".join(test_text(guard) for guard in guards)
            if re.search(r"early|trigger|patience", text) and any(outer is loop for outer in training.loops):
                reading.offer("early_stopping", True, 0.75, loop.origin)
                return
    if training.unseen or not (reading.followed or reading.launch.entry is None):
        return
    if reading.complete or reading.value("workload_type") in ("eval", "inference", "preprocess"):
        reading.offer("early_stopping", False, 0.85)
    elif reading.launch.entry is None and "tp" in reading.settings:
        reading.offer("early_stopping", False, 0.6)
    elif reading.launch.entry is not None and training.call is not None:
        reading.offer("early_stopping", False, 0.7)
