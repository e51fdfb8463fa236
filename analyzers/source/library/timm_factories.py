"""timm's factories: what its optimizers, schedules, loaders and data configurations are made from.

Source: the signatures in timm's documentation and in ``timm/optim``, ``timm/scheduler`` and ``timm/data``.
"""

from __future__ import annotations

from analyzers.source.program.attributes import attribute
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.values import NONE, Const, Ext, Map, Obj, Seq, Unknown, Val, number, string

#: timm's names of optimizers -> the class that is made (timm's own where it is not PyTorch's).
_OPTIMIZERS = {
    "sgd": "torch.optim.SGD", "nesterov": "torch.optim.SGD", "momentum": "torch.optim.SGD",
    "sgdp": "torch.optim.SGD", "adam": "torch.optim.Adam", "adamw": "torch.optim.AdamW",
    "nadam": "torch.optim.NAdam", "nadamw": "torch.optim.NAdam", "radam": "torch.optim.RAdam",
    "adamax": "torch.optim.Adamax", "adadelta": "torch.optim.Adadelta", "adagrad": "torch.optim.Adagrad",
    "rmsprop": "torch.optim.RMSprop", "rmsproptf": "torch.optim.RMSprop", "adafactor": "timm.optim.Adafactor",
    "lamb": "timm.optim.LAMB", "lambc": "timm.optim.LAMB", "lars": "timm.optim.LARS", "lion": "timm.optim.Lion",
    "novograd": "timm.optim.NovoGrad", "muon": "timm.optim.Muon", "fusedsgd": "torch.optim.SGD",
    "fusedadam": "torch.optim.Adam", "fusedadamw": "torch.optim.AdamW", "fusedlamb": "timm.optim.LAMB",
}  # fmt: skip
_CYCLIC = ("cosine", "tanh", "poly")


def _field(a: Arguments, config: Val, name: str) -> Val | None:
    """A value of an argparse-like object, or None where it has none."""
    if isinstance(config, Map):
        if name in config.items:
            return attribute(a.machine, config, name, a.origin) if config.attr else config.items[name]
        return None
    return attribute(a.machine, config, name, a.origin) if isinstance(config, Obj) else None


@models("timm.optim.optimizer_kwargs", "timm.optim.optim_factory.optimizer_kwargs")
def _optimizer_kwargs(a: Arguments) -> Val | None:
    config = a.get(0, "cfg") or NONE
    found = {name: _field(a, config, name) for name in ("opt", "lr", "weight_decay", "momentum")}
    return Map({name: value for name, value in found.items() if value is not None}, a.origin)


@models("timm.optim.create_optimizer_v2", "timm.optim.optim_factory.create_optimizer_v2")
def _optimizer(a: Arguments) -> Val | None:
    return _made(a, a.get(0, "model_or_params"), a.get(1, "opt", "optimizer_name") or Const("sgd"), a.get(2, "lr"))


@models("timm.optim.create_optimizer", "timm.optim.optim_factory.create_optimizer")
def _optimizer_from_arguments(a: Arguments) -> Val | None:
    config = a.get(0, "args") or NONE
    return _made(a, a.get(1, "model"), _field(a, config, "opt"), _field(a, config, "lr"))


def _made(a: Arguments, model: Val | None, name: Val | None, rate: Val | None) -> Val:
    text = (string(name) or "").lower().rpartition("lookahead_")[2].replace("_", "")
    path = _OPTIMIZERS.get(text)
    if path is None or model is None:
        return Unknown("timm optimizer", a.origin)
    known = rate is not None and not (isinstance(rate, Const) and rate.value is None)
    return a.machine.call(Ext(path), [model], {"lr": rate} if known and rate is not None else {}, a.origin)


@models("timm.scheduler.scheduler_kwargs", "timm.scheduler.scheduler_factory.scheduler_kwargs")
def _scheduler_kwargs(a: Arguments) -> Val | None:
    config = a.get(0, "cfg") or NONE
    found = {
        "num_epochs": _field(a, config, "epochs"), "sched": _field(a, config, "sched"),
        "cooldown_epochs": _field(a, config, "cooldown_epochs"), "warmup_epochs": _field(a, config, "warmup_epochs"),
        "warmup_prefix": _field(a, config, "warmup_prefix"),
    }  # fmt: skip
    return Map({name: value for name, value in found.items() if value is not None}, a.origin)


@models("timm.scheduler.create_scheduler_v2", "timm.scheduler.scheduler_factory.create_scheduler_v2")
def _scheduler(a: Arguments) -> Val | None:
    parts = {n: a.get(None, n) for n in ("cooldown_epochs", "warmup_epochs", "warmup_prefix")}
    epochs = a.get(2, "num_epochs") or Const(300, a.origin)
    return _scheduled(a, epochs, a.get(1, "sched") or Const("cosine"), parts)


@models("timm.scheduler.create_scheduler", "timm.scheduler.scheduler_factory.create_scheduler")
def _scheduler_from_arguments(a: Arguments) -> Val | None:
    config = a.get(0, "args") or NONE
    parts = {n: _field(a, config, n) for n in ("cooldown_epochs", "warmup_epochs", "warmup_prefix")}
    return _scheduled(a, _field(a, config, "epochs"), _field(a, config, "sched"), parts)


def _scheduled(a: Arguments, epochs: Val | None, kind: Val | None, parts: dict[str, Val | None]) -> Val:
    """The schedule and how many epochs it lasts: a cyclic one is followed by its cool-down."""
    schedule = Obj(Ext("timm.scheduler.Scheduler"), {}, a.origin, a.machine.record.calls[-1])
    count, extra = number(epochs), number(parts["cooldown_epochs"]) or 0
    if isinstance(parts["warmup_prefix"], Const) and parts["warmup_prefix"].value:
        extra += number(parts["warmup_epochs"]) or 0
    if count is None or not isinstance(epochs, Const):
        return Seq([schedule, epochs or Unknown("epochs", a.origin)], "tuple", a.origin)
    total = Const(count + extra, epochs.origin) if string(kind) in _CYCLIC and extra else epochs
    return Seq([schedule, total], "tuple", a.origin)


@models("timm.data.create_loader", "timm.data.loader.create_loader")
def _loader(a: Arguments) -> Val | None:
    given: dict[str, Val] = {}
    for position, name, own in ((2, "batch_size", "batch_size"), (3, "is_training", "shuffle")):
        value = a.get(position, name)
        if value is not None:
            given[own] = value
    data = a.get(0, "dataset")
    return a.machine.call(Ext("torch.utils.data.DataLoader"), [data] if data is not None else [], given, a.origin)


@models("timm.data.resolve_data_config", "timm.data.config.resolve_data_config")
def _data_config(a: Arguments) -> Val | None:
    """The input size that the arguments fix; the rest is the model's own configuration, which is not seen."""
    config = a.get(0, "args") or NONE
    size, side = _field(a, config, "input_size"), _field(a, config, "img_size")
    if number(side) is not None and side is not None:
        size = Seq([Const(3), side, side], "tuple", a.origin)
    items: dict[object, Val] = {"input_size": size} if isinstance(size, Seq) else {}
    return Map(items, a.origin, open=True)
