"""Lightning's command line: model, data and trainer from YAML and options."""

from __future__ import annotations

from analyzers.source.library.configs import merge_into, set_path
from analyzers.source.library.frameworks import by_path
from analyzers.source.library.hydra import interpolate
from analyzers.source.library.pyconfigs import copied
from analyzers.source.library.typed_cli import (
    built_node,
    by_parameters,
    by_signature,
    command_words,
    configuration,
    converted_value,
)
from analyzers.source.program.attributes import attribute, class_attribute
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.values import NONE, ClassVal, Const, Ext, Func, Map, Obj, Seq, Unknown, Val, string

_HOMES = {
    "lightning.pytorch.cli.LightningCLI": "lightning.pytorch.Trainer",
    "lightning.cli.LightningCLI": "lightning.Trainer",
    "pytorch_lightning.cli.LightningCLI": "pytorch_lightning.Trainer",
    "pytorch_lightning.utilities.cli.LightningCLI": "pytorch_lightning.Trainer",
}
_SUBCOMMANDS = ("fit", "validate", "test", "predict")
_PARSER = "jsonargparse.LightningArgumentParser"


@models(*_HOMES, *(f"{path}<>" for path in _HOMES))
def _lightning(a: Arguments) -> Val | None:
    """Model, data and trainer from configuration and command line; with a subcommand it runs as well.

    ``a.owner`` is the instance where the job derives a class of its own.
    """
    home = a.path.removesuffix("<>")
    cli = a.owner if isinstance(a.owner, Obj) else Obj(Ext(home), {}, a.origin)
    words = command_words(a)
    runs = not (isinstance(flag := a.get(None, "run"), Const) and flag.value is False)
    verb = next((t for w in words[:1] if (t := string(w)) in _SUBCOMMANDS), None)
    if runs and verb is not None:
        words = words[1:]
    defaults = _parser_defaults(a, cli)
    given = configuration(a, words, [])
    if verb is not None and isinstance(section := given.items.pop(verb, None), Map):
        merge_into(given, section)
    if given.open:  # what can not be read may have set any of the defaults
        defaults.items.clear()
    merge_into(defaults, given)
    config = defaults
    interpolate(config, config, 0)
    cli.attrs["config"] = config
    model = _part(a, config, "model", a.get(0, "model_class"))
    data = _part(a, config, "data", a.get(1, "datamodule_class"))
    cli.attrs["model"], cli.attrs["datamodule"] = model or NONE, data or NONE
    trainer = _trainer(a, config, _HOMES[home])
    cli.attrs["trainer"] = trainer
    _optimizer(a, config, model)
    if runs and verb is not None:
        arguments = {"datamodule": data} if data is not None else {}
        path = config.items.get("ckpt_path")
        if isinstance(path, Const) and path.value is not None:
            arguments["ckpt_path"] = path
        a.machine.call(attribute(a.machine, trainer, verb, a.origin), [model or NONE], arguments, a.origin)
    return cli


def _part(a: Arguments, config: Map, name: str, cls: Val | None) -> Val | None:
    given = config.items.get(name)
    node = given if isinstance(given, Map) else Map({}, a.origin, attr=True, open=config.open)
    node.open = node.open or config.open
    if "class_path" in node.items:
        return converted_value(a, node, None, [])
    if string(given) is not None:
        return built_node(a, Map({"class_path": given or NONE}, a.origin, attr=True), 0)
    if isinstance(cls, ClassVal):
        return a.machine.call(cls, [], by_signature(a, cls, node, 0), a.origin)
    if isinstance(cls, Func):
        return a.machine.call(cls, [], by_parameters(a, cls, node), a.origin)
    return a.machine.call(cls, [], {}, a.origin) if isinstance(cls, Ext) else None


def _trainer(a: Arguments, config: Map, home: str) -> Val:
    section = config.items.get("trainer")
    values: dict[str, Val] = {}
    preset = a.get(None, "trainer_defaults")
    values.update({str(k): v for k, v in preset.items.items()} if isinstance(preset, Map) else {})
    for key, value in section.items.items() if isinstance(section, Map) else ():
        if not (isinstance(value, Const) and value.value is None):
            values[str(key)] = converted_value(a, value, None, [])
    if config.open:
        for name in ("max_epochs", "devices", "precision", "strategy", "accumulate_grad_batches"):
            values.setdefault(name, Unknown("configuration", a.origin))
    return a.machine.call(Ext(home), [], values, a.origin)


def _optimizer(a: Arguments, config: Map, model: Val | None) -> None:
    """An ``optimizer`` section configures itself: it is called with the model's parameters."""
    node = config.items.get("optimizer")
    if isinstance(node, Map) and "class_path" in node.items and isinstance(model, Obj):
        with_parameters = Map(dict(node.items), node.origin, attr=True)
        arguments = node.items.get("init_args")
        inner = dict(arguments.items) if isinstance(arguments, Map) else {}
        with_parameters.items["init_args"] = Map({"params": model, **inner}, node.origin, attr=True)
        built_node(a, with_parameters, 0)


def _parser_defaults(a: Arguments, cli: Obj) -> Map:
    """What a class of the job's own sets beforehand in ``add_arguments_to_parser``."""
    parser = Obj(Ext(_PARSER), {"defaults": Map({}, a.origin, attr=True)}, a.origin)
    method = class_attribute(cli.cls, "add_arguments_to_parser") if isinstance(cli.cls, ClassVal) else None
    if isinstance(method, Func):
        a.machine.call(method, [cli, parser], {}, a.origin)
    defaults = parser.attrs["defaults"]
    assert isinstance(defaults, Map)
    return defaults


@models(f"{_PARSER}().set_defaults")
def _set_defaults(a: Arguments) -> Val | None:
    defaults = a.owner.attrs.get("defaults") if isinstance(a.owner, Obj) else None
    if not isinstance(defaults, Map):
        return None
    first = a.args[0] if a.args else None
    for key, value in {**(first.items if isinstance(first, Map) else {}), **a.kwargs}.items():
        set_path(defaults, str(key).split("."), copied(value))
    return NONE


@models("lightning.pytorch.cli.instantiate_class", "pytorch_lightning.cli.instantiate_class")
def _instantiate_class(a: Arguments) -> Val | None:
    """``instantiate_class(args, {"class_path": ..., "init_args": ...})``: positional arguments before those named."""
    given, node = a.get(0, "args"), a.get(1, "init")
    if not isinstance(node, Map):
        return None
    arguments = node.items.get("init_args")
    named = {str(k): v for k, v in arguments.items.items()} if isinstance(arguments, Map) else {}
    positional: list[Val] = [given] if given is not None else []
    if isinstance(given, Seq):
        positional = list(given.items)
    cls = by_path(a, string(node.items.get("class_path")) or "")
    return a.machine.call(cls, positional, named, node.origin)
