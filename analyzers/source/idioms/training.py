"""Finding the training loop: which call learns, and in which loops it stands."""

from __future__ import annotations

from dataclasses import dataclass

from analyzers.source.program.events import Call, Guard, Loop
from analyzers.source.program.values import Const, Ext, Obj, Origin, Range, Unknown, Val
from analyzers.source.reading import Reading, as_number

_LEARNING = frozenset({"backward", "train_batch", "apply_gradients", "minimize", "train_on_batch", "apply_updates"})
_TRAINER_STARTS = frozenset({"fit", "train", "fit_generator"})
#: Libraries whose trainers' own defaults the idioms know.
_KNOWN_TRAINERS = ("transformers.", "trl.", "lightning.", "pytorch_lightning.", "keras.", "tensorflow.", "tf_keras.",
                   "pl.", "L.", "sentence_transformers.")  # fmt: skip


@dataclass(slots=True)
class Training:
    """The call that learns (or that starts a library's trainer) and its loops, outermost first.

    ``described``: a framework's description says what its trainer does. ``slices``: inner loops that only go over parts
    of one batch, the step being taken after them.
    """

    call: Call | None
    loops: tuple[Loop, ...]
    trainer: bool = False
    described: bool = False
    slices: tuple[Loop, ...] = ()

    @property
    def unseen(self) -> bool:
        """Whether a trainer runs it of which nothing is known but its name."""
        if self.described or not self.trainer or self.call is None:
            return False
        return not self.call.path.startswith(_KNOWN_TRAINERS)


def learning_calls(reading: Reading) -> list[Call]:
    """Calls that compute gradients or apply them."""
    found = []
    for call in reading.calls:
        if call.name in _LEARNING:
            if call.name == "apply_updates" and "optax" not in call.path:
                continue
            found.append(call)
        elif call.path.endswith("()") and any(map(is_optimizer, [*call.args, *call.kwargs.values()])):
            found.append(call)  # a scaler or engine that goes backward and steps: scaler(loss, optimizer)
        elif call.name == "update" and ("Optimizer" in call.path or "optax" in call.path):
            found.append(call)
    return found


def is_optimizer(value: Val) -> bool:
    """Whether a value is an optimizer of a library."""
    if isinstance(value, Unknown):
        return any(map(is_optimizer, value.options))
    return isinstance(value, Obj) and isinstance(value.cls, Ext) and ".optim." in value.cls.path + "."


def trainer_calls(reading: Reading) -> list[Call]:
    """Calls that hand the loop over to a library: ``Trainer.fit``, ``trainer.train()``, ``model.fit``."""
    found = []
    for call in reading.calls:
        if call.name == "train_and_evaluate" and ".estimator." in call.path:
            found.append(call)
        if call.name not in _TRAINER_STARTS or "()." not in call.path:
            continue
        owner = call.path.rpartition("().")[0]
        is_trainer = owner.rpartition(".")[2].endswith(("Trainer", "TrainerV2", "Runner", "Estimator"))
        if (is_trainer and call.name in ("fit", "train")) or is_keras_fit(call):
            found.append(call)
    return found


def is_keras_fit(call: Call) -> bool:
    """Whether a Keras model learns by this call: its arguments are data, the model is what it is called on."""
    owner = call.path.rpartition("().")[0]
    return "keras" in owner and call.name == "fit" and ".preprocessing." not in owner  # a generator fits statistics


def is_estimator(call: Call) -> bool:
    """Whether a call starts a training by TensorFlow's Estimator: it saves, and goes on from what it finds saved."""
    return call.path.startswith("tensorflow.") and "stimator" in call.path and call.name.startswith("train")


def find_training(reading: Reading) -> Training:
    """The training of this program: the learning call that stands in the most loops, else a trainer's start."""
    if reading.run is not None:
        return Training(reading.run, reading.run.loops, trainer=True, described=True)
    estimators = [c for c in trainer_calls(reading) if is_estimator(c)]
    if estimators:
        return Training(estimators[-1], estimators[-1].loops, trainer=True)
    learning = learning_calls(reading)
    if learning:
        best = max(learning, key=lambda c: len(c.loops))
        stepping = [c for c in reading.calls if c.name in ("step", "optimize", "apply_gradients") and c.loops]
        slices = tuple(
            loop
            for loop in best.loops[1:]
            if slice_size(loop) is not None and not any(loop in c.loops for c in stepping)
        )
        return Training(best, best.loops, slices=slices)
    started = trainer_calls(reading)
    if started:
        return Training(started[-1], started[-1].loops, trainer=True)
    return Training(None, ())


def data_loop(loop: Loop) -> bool:
    """Whether a loop goes over data rather than counting."""
    if loop.kind == "while" or isinstance(loop.iterable, Range):
        return False
    if isinstance(loop.iterable, Obj) and isinstance(loop.iterable.cls, Ext):
        path = loop.iterable.cls.path
        if path in ("itertools.count", "itertools.cycle"):
            return path.endswith("cycle")
        inner = loop.iterable.attrs.get("iterable")
        return not isinstance(inner, Range)
    return isinstance(loop.iterable, Unknown | Obj) or loop.iterable is None


def slice_size(loop: Loop) -> int | None:
    """The samples that one round takes of a batch: ``for i in range(0, len(batch), n)``, the batch's size not known."""
    if not isinstance(loop.iterable, Range):
        return None
    start, stop, step = (as_number(v) for v in (loop.iterable.start, loop.iterable.stop, loop.iterable.step))
    return int(step) if start == 0 and stop is None and step is not None and step > 1 else None


_STEPS = frozenset({"step", "apply_gradients", "update"})


def stepped_slice(reading: Reading, training: Training) -> tuple[int, Origin] | None:
    """The part of the data that each optimizer step learns from, where the innermost loop goes over slices.

    ``for start in range(0, batch_size, minibatch_size): ...; optimizer.step()``.
    """
    inner = training.loops[-1] if training.loops and not training.trainer else None
    if inner is None or not isinstance(inner.iterable, Range) or len(training.loops) < 2:
        return None
    stop, step = as_number(inner.iterable.stop), as_number(inner.iterable.step)
    if step is None or step <= 1 or stop is None or stop <= step or as_number(inner.iterable.start) != 0:
        return None
    steps = any(c.name in _STEPS and c.loops and c.loops[-1] is inner for c in reading.calls)
    place = getattr(inner.iterable.step, "origin", inner.origin)
    return (int(step), place) if steps else None


def count_of(loop: Loop) -> Const | None:
    """A loop's known number of rounds."""
    return loop.trip if isinstance(loop.trip, Const) and as_number(loop.trip) is not None else None


def break_limits(loop: Loop) -> list[Const]:
    """Numbers that a counter is compared with to leave a loop."""
    found: list[Const] = []
    for guards in loop.breaks:
        for guard in guards[-1:]:
            found.extend(_limits(guard.value))
    for _, limit in loop.limits:
        if isinstance(limit, Const):
            found.append(limit)
    return [f for f in found if as_number(f) is not None and (as_number(f) or 0) > 0]


def _limits(value: Unknown) -> list[Const]:
    detail = value.detail
    if detail[:1] == ("compare",) and len(detail) == 4:
        operator, left, right = detail[1:]
        if _is_counter(left) and isinstance(right, Const) and operator in ("Gt", "GtE", "Eq", "Lt", "LtE"):
            return [right]
        if _is_counter(right) and isinstance(left, Const) and operator in ("Lt", "LtE", "Eq", "Gt", "GtE"):
            return [left]
    if detail[:1] == ("bool",) and len(detail) == 2 and isinstance(detail[1], tuple):
        return [limit for part in detail[1] if isinstance(part, Unknown) for limit in _limits(part)]
    return []


def _is_counter(value: object) -> bool:
    if not isinstance(value, Unknown):
        return False
    detail = value.detail
    if detail[:1] in (("counter",), ("loop",)):
        return True
    return detail[:1] == ("arithmetic",) and any(_is_counter(part) for part in detail[1:])


def accumulation_in(guards: tuple[Guard, ...]) -> Const | None:
    """The modulus of an ``(i + 1) % n == 0`` that something stands under."""
    for guard in guards:
        for value in _operands(guard.value):
            if isinstance(value, Unknown) and value.detail[:1] == ("mod",) and isinstance(value.detail[1], Const):
                return value.detail[1]
    return None


def accumulates(guards: tuple[Guard, ...]) -> bool:
    """Whether something stands under an ``i % n == 0`` at all, known or not."""
    return any(
        isinstance(value, Unknown) and value.detail[:1] == ("mod",)
        for guard in guards
        for value in _operands(guard.value)
    )


def counters_left_on(loop: Loop) -> set[str]:
    """The counters that a loop's breaks look at."""
    return {name for guards in loop.breaks for guard in guards[-1:] for name in _counters(guard.value)}


def counted_by_modulus(guards: tuple[Guard, ...]) -> set[str]:
    """The counters whose remainders something stands under."""
    found: set[str] = set()
    for guard in guards:
        for value in _operands(guard.value):
            if isinstance(value, Unknown) and value.detail[:1] == ("mod",):
                found |= _counters(value)
    return found


def _counters(value: Val) -> set[str]:
    details = [part.detail for part in _operands(value) if isinstance(part, Unknown)]
    return {str(detail[1]) for detail in details if detail[:1] == ("counter",) and len(detail) == 2}


def _operands(value: Val, depth: int = 0) -> list[Val]:
    if not isinstance(value, Unknown) or depth > 4:
        return []
    found: list[Val] = [value]
    for part in value.detail:
        for inner in part if isinstance(part, tuple) else (part,):
            if isinstance(inner, Unknown):
                found.append(inner)
                found.extend(_operands(inner, depth + 1))
    return found
