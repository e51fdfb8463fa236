"""TensorFlow's Estimators: training calls the program's ``model_fn`` and ``input_fn``."""

from __future__ import annotations

from analyzers.source.program.machine import Machine
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.values import NONE, Const, Func, Map, Obj, Origin, Partial, Unknown, Val

_HOMES = ("tensorflow", "tensorflow.compat.v1")
_ESTIMATORS = tuple(
    f"{home}.{path}"
    for home in _HOMES
    for path in ("estimator.Estimator", "estimator.tpu.TPUEstimator", "contrib.tpu.TPUEstimator",
                 "contrib.learn.Estimator")
)  # fmt: skip
#: What the library's own mode keys are worth.
MODES = {
    f"{home}.{keys}.{name}": Const(value)
    for home in _HOMES
    for keys in ("estimator.ModeKeys", "contrib.learn.ModeKeys")
    for name, value in (("TRAIN", "train"), ("EVAL", "eval"), ("PREDICT", "infer"))
}


@models(*(f"{path}().train" for path in _ESTIMATORS))
def _train(a: Arguments) -> Val | None:
    _learn(a, a.owner, a.get(0, "input_fn"))
    return None


@models(*(f"{home}.estimator.train_and_evaluate" for home in _HOMES))
def _train_and_evaluate(a: Arguments) -> Val | None:
    spec = a.get(1, "train_spec")
    call = spec.call if isinstance(spec, Obj) else None
    _learn(a, a.get(0, "estimator"), call.argument(0, "input_fn") if call is not None else None)
    return None


def _learn(a: Arguments, estimator: Val | None, input_fn: Val | None) -> None:
    made = estimator.call if isinstance(estimator, Obj) else None
    if made is None:
        return
    params = made.argument(None, "params")
    given = Map(dict(params.items) if isinstance(params, Map) else {}, a.origin, open=params is not None)
    batch = made.argument(None, "train_batch_size")
    if batch is not None:
        given.items["batch_size"] = batch
    values: dict[str, Val] = {
        "features": Unknown("features", a.origin), "labels": Unknown("labels", a.origin), "mode": Const("train"),
        "params": given, "config": made.argument(None, "config") or NONE,
    }  # fmt: skip
    _call(a.machine, input_fn, values, a.origin)
    _call(a.machine, made.argument(0, "model_fn"), values, a.origin)


def _call(machine: Machine, function: Val | None, values: dict[str, Val], origin: Origin) -> None:
    inner = function.func if isinstance(function, Partial) else function
    if function is None or not isinstance(inner, Func):
        return
    spec = inner.node.args
    names = {p.arg for p in [*spec.args, *spec.kwonlyargs]}
    machine.call(function, [], {name: value for name, value in values.items() if name in names}, origin)
