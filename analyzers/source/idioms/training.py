"""Finding the training loop: which call learns, and in which loops it stands."""

from __future__ import annotations

from dataclasses import dataclass

from analyzers.source.program.events import Call, Guard, Loop
from analyzers.source.program.values import Const, Ext, Obj, Range, Unknown, Val
from analyzers.source.reading import Reading, as_number

_LEARNING = frozenset({"backward", "train_batch", "apply_gradients", "minimize", "train_on_batch", "apply_updates"})
_TRAINER_STARTS = frozenset({"fit", "train", "fit_generator"})
#: Libraries whose trainers' own defaults the idioms know.
_KNOWN_TRAINERS = ("transformers.", "trl.", "lightning.", "pytorch_lightning.", "keras.", "tensorflow.", "tf_keras.",
                   "pl.", "L.", "sentence_transformers.")  # fmt: skip


@dataclass(slots=True)
class Training:
    """The call that learns (or that starts a library's trainer) and its loops, outermost first.

    ``described``: a framework's description says what its trainer does.
    """

    call: Call | None
    loops: tuple[Loop, ...]
    trainer: bool = False
    described: bool = False

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
        if call.name not in _TRAINER_STARTS or "()." not in call.path:
            continue
        owner = call.path.rpartition("().")[0]
        is_trainer = owner.rpartition(".")[2].endswith(("Trainer", "TrainerV2", "Runner", "Estimator"))
        is_keras = "keras" in owner and call.name == "fit"
        if (is_trainer and call.name in ("fit", "train")) or is_keras:
            found.append(call)
    return found


def find_training(reading: Reading) -> Training:
    """The training of this program: the learning call that stands in the most loops, else a trainer's start."""
    if reading.run is not None:
        return Training(reading.run, reading.run.loops, trainer=True, described=True)
    learning = learning_calls(reading)
    if learning:
        best = max(learning, key=lambda c: len(c.loops))
        return Training(best, best.loops)
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
