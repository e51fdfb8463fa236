"""What frameworks do with the functions and objects they are given: who calls whom, and what wraps what."""

from __future__ import annotations

import posixpath

from analyzers.source.files import normal
from analyzers.source.launch.model import Setting
from analyzers.source.library.hydra import compose
from analyzers.source.program.attributes import bind, class_attribute
from analyzers.source.program.calls import bind_arguments, call_method
from analyzers.source.program.native import HANDLERS, Arguments, models
from analyzers.source.program.values import (
    NONE,
    ClassVal,
    Const,
    Ext,
    Func,
    Map,
    Obj,
    Origin,
    Partial,
    Scaled,
    Seq,
    Unknown,
    Val,
    string,
)

# --- wrappers that stand for what they wrap -----------------------------------------------------------------------

_WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel", "torch.nn.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel",
    "torch.nn.parallel.DataParallel", "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
    "apex.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel", "deepspeed.pipe.PipelineModule",
    "timm.utils.ModelEmaV2", "mmengine.model.MMDistributedDataParallel",
)  # fmt: skip


@models(*_WRAPPERS)
def _wrapper(a: Arguments) -> Val | None:
    inner = a.get(0, "module", "layers")
    call = a.machine.record.calls[-1] if a.machine.record.calls else None
    return Obj(Ext(a.path), {"module": inner} if inner is not None else {}, a.origin, call)


@models("torch.compile", "torch.jit.script", "jax.jit", "jax.pmap", "jax.vmap", "jax.grad", "jax.value_and_grad",
        "jax.checkpoint",
        "jax.remat", "flax.nnx.jit", "flax.nnx.value_and_grad", "flax.nnx.grad", "tensorflow.function",
        "flax.jax_utils.replicate",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm", "torch.no_grad", "equinox.filter_jit", "flax.linen.remat",
        "torch.nn.utils.weight_norm", "torch.nn.utils.spectral_norm", "torch.nn.utils.parametrizations.weight_norm",
        "torch.nn.utils.parametrizations.spectral_norm",
        "torch.distributed.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard",
        "detectron2.engine.defaults.create_ddp_model", "detectron2.engine.create_ddp_model",
        "peft.get_peft_model")  # fmt: skip
def _same(a: Arguments) -> Val | None:
    first = a.get(0, "model", "fun", "f", "module")
    return first if isinstance(first, Func | Obj | ClassVal | Partial) else None


@models("flax.training.checkpoints.restore_checkpoint")
def _restored(a: Arguments) -> Val | None:
    """A first start finds nothing and goes on with what it was given."""
    return a.get(1, "target")


_SETS_UP = ("setup", "setup_module", "setup_optimizers", "setup_dataloaders")


@models("accelerate.Accelerator().prepare", "?().prepare", "apex.amp.initialize",
        *(f"{home}.Fabric().{name}" for home in ("lightning", "lightning.fabric", "lightning_fabric")
          for name in _SETS_UP))  # fmt: skip
def _prepare(a: Arguments) -> Val | None:
    values = list(a.args)
    return values[0] if len(values) == 1 else Seq(values, "tuple", a.origin) if values else None


@models("deepspeed.initialize")
def _deepspeed(a: Arguments) -> Val | None:
    call = a.machine.record.calls[-1] if a.machine.record.calls else None
    model = a.get(1, "model")
    engine = Obj(Ext("deepspeed.DeepSpeedEngine"), {"module": model} if model is not None else {}, a.origin, call)
    data = a.get(4, "training_data")
    loader = Obj(Ext("deepspeed.DeepSpeedDataLoader"), {"dataset": data} if data is not None else {}, a.origin, call)
    optimizer = a.get(2, "optimizer") or Obj(Ext("deepspeed.Optimizer"), {}, a.origin)
    scheduler = a.get(5, "lr_scheduler") or Unknown("scheduler")
    return Seq([engine, optimizer, loader, scheduler], "tuple", a.origin)


@models("()._replace", "()._asdict")
def _unknown_copy(a: Arguments) -> Val | None:
    return a.unknown("copy")


_FABRIC = ("lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric", "lightning.fabric.fabric.Fabric")


@models(*_FABRIC)
def _fabric(a: Arguments) -> Val | None:
    """Fabric knows its world: devices times nodes, of which this is the first process."""
    devices, nodes = a.get(2, "devices"), _count(a.get(3, "num_nodes") or Const(1))
    count = len(devices.items) if isinstance(devices, Seq) else _count(devices)
    known = count is not None and count > 0 and nodes is not None
    world: Val = Const(count * nodes, a.origin) if known else Scaled(1, 1, a.origin)  # type: ignore[operator]
    a.machine.processes = world.value if isinstance(world, Const) and isinstance(world.value, int) else None
    attrs: dict[str, Val] = {"world_size": world, "is_global_zero": Const(True, a.origin)}
    attrs.update({name: Const(0, a.origin) for name in ("global_rank", "local_rank", "node_rank")})
    return Obj(Ext(a.path), attrs, a.origin, a.machine.record.calls[-1])


@models(*(f"{path}().launch" for path in _FABRIC))
def _fabric_launch(a: Arguments) -> Val | None:
    if a.args and isinstance(a.args[0], Func | Partial):
        a.machine.call(a.args[0], [a.owner or NONE, *a.args[1:]], a.kwargs, a.origin)
    return NONE


# --- functions that call back -------------------------------------------------------------------------------------


@models("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes",
        "torch_xla.distributed.xla_multiprocessing.spawn",
        "torch_xla.launch")  # fmt: skip
def _spawn(a: Arguments) -> Val | None:
    function = a.get(0, "fn")
    arguments = a.get(1, "args")
    count = a.get(2, "nprocs")
    number = count.value if isinstance(count, Const) else None
    a.machine.processes = number if isinstance(number, int) and not isinstance(number, bool) else None
    if function is not None:
        rest = arguments.items if isinstance(arguments, Seq) else []
        a.machine.call(function, [Const(0, Origin("", 0)), *rest], {}, a.origin)
    return NONE


@models("detectron2.engine.launch", "detectron2.engine.launch.launch")
def _launch_on_each(a: Arguments) -> Val | None:
    """One process for each GPU of each machine."""
    each, machines = _count(a.get(1, "num_gpus_per_machine")), _count(a.get(2, "num_machines") or Const(1))
    a.machine.processes = each * machines if each is not None and machines is not None else None
    if machines is not None and machines > 1:
        a.machine.launch.settings["nnodes"] = Setting(str(machines), a.origin.file, a.origin.line)
    return _launch(a)


def _count(value: Val | None) -> int | None:
    number = value.value if isinstance(value, Const) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


@models("accelerate.notebook_launcher", "fairseq.distributed_utils.call_main",
        "torch.multiprocessing.Process", "multiprocessing.Process", "threading.Thread")  # fmt: skip
def _launch(a: Arguments) -> Val | None:
    function = a.get(0, "main_func", "function", "target")
    arguments = a.get(5 if a.path.startswith("detectron2.") else None, "args")
    if function is not None and isinstance(function, Func | Partial):
        a.machine.call(function, arguments.items if isinstance(arguments, Seq) else [], {}, a.origin)
    return NONE


@models("accelerate.utils.find_executable_batch_size", "@accelerate.utils.find_executable_batch_size",
        "@accelerate.utils.memory.find_executable_batch_size")  # fmt: skip
def _find_batch_size(a: Arguments) -> Val | None:
    call = a.owner.call if isinstance(a.owner, Obj) else None
    starting = (call.argument(1, "starting_batch_size") if call is not None else None) or a.kwargs.get(
        "starting_batch_size"
    )
    function = a.get(0, "function")
    if isinstance(function, Func):
        return Partial(function, [starting or Unknown("batch size")], {}, a.origin)
    return None


# --- Hydra --------------------------------------------------------------------------------------------------------


@models("@hydra.main")
def _hydra_main(a: Arguments) -> Val | None:
    call = a.owner.call if isinstance(a.owner, Obj) else None
    attrs: dict[str, Val] = {"function": a.args[0]}
    if call is not None:
        attrs["path"] = call.argument(0, "config_path") or NONE
        attrs["name"] = call.argument(1, "config_name") or NONE
    return Obj(Ext("hydra.Main"), attrs, a.origin)


@models("hydra.Main()()")
def _hydra_call(a: Arguments) -> Val | None:
    owner = a.owner
    if not isinstance(owner, Obj):
        return None
    argv = a.machine.library_values.get("sys.argv")
    words = argv.items[1:] if isinstance(argv, Seq) else []
    folder, name = _config_place(owner, words, a)
    config: Val = compose(a.machine, folder, name, words) if name else Map({}, a.origin, attr=True, open=True)
    if isinstance(config, Map):
        a.machine.library_values["hydra.config"] = config
    return a.machine.call(owner.attrs["function"], [config], {}, a.origin)


def _config_place(owner: Obj, words: list[Val], a: Arguments) -> tuple[str, str]:
    path, name = string(owner.attrs.get("path")), string(owner.attrs.get("name")) or ""
    folder = normal(posixpath.join(posixpath.dirname(a.origin.file), path or "."))
    texts = [string(w) or "" for w in words]
    for position, text in enumerate(texts):
        option, equals, value = text.partition("=")
        following = value if equals else texts[position + 1] if position + 1 < len(texts) else ""
        if option in ("--config-path", "-cp", "--config-dir", "-cd"):
            folder = normal(posixpath.join(posixpath.dirname(a.origin.file), following))
        elif option in ("--config-name", "-cn"):
            name = following
    return folder, name


@models("hydra.utils.instantiate", "hydra.instantiate", "hydra.utils.call", "detectron2.config.instantiate",
        "detectron2.config.instantiate.instantiate")  # fmt: skip
def _instantiate(a: Arguments) -> Val | None:
    config = a.get(0, "config")
    if not isinstance(config, Map):
        return a.unknown("instantiate")
    return built(a, config, {k: v for k, v in a.kwargs.items() if not k.startswith("_")}, 0)


def built(a: Arguments, config: Map, extra: dict[str, Val], depth: int) -> Val:
    """The object that a ``_target_`` mapping describes, its nested ones first."""
    values: dict[str, Val] = {}
    for key, value in config.items.items():
        name = str(key)
        if isinstance(value, Map) and depth < 8:
            value = built(a, value, {}, depth + 1)
        if not name.startswith("_"):
            values[name] = value
    config.reads.update(config.items)
    written = config.items.get("_target_")
    target = string(written)
    if target is None and not isinstance(written, Ext | Func | ClassVal):
        return Map({**values, **extra}, config.origin, attr=True)
    values.update(extra)
    callee = written if target is None and written is not None else by_path(a, target or "")
    partial = config.items.get("_partial_")
    if isinstance(partial, Const) and partial.value is True:
        return Partial(callee, [], values, config.origin)
    return a.machine.call(callee, [], values, config.origin)


def by_path(a: Arguments, dotted: str) -> Val:
    """A class or function by its dotted path: in the tree, else a library name."""
    module_name, _, member = dotted.rpartition(".")
    importer = next(iter(a.machine.modules.values()), None)
    path = a.machine.resolve(module_name, importer, 0) if importer is not None and module_name else None
    module = a.machine.load(path, module_name) if path is not None and not path.endswith("/") else None
    found = module.names.get(member) if module is not None else None
    if found is None and module is None:
        a.machine.record.imports.setdefault(dotted, a.origin)
    return found or Ext(dotted, a.origin)


# --- Lightning ----------------------------------------------------------------------------------------------------

_TRAINER_PATHS = ("lightning.Trainer", "pytorch_lightning.Trainer", "lightning.pytorch.Trainer",
                  "lightning.pytorch.trainer.Trainer", "pytorch_lightning.trainer.Trainer")  # fmt: skip
_FIT_HOOKS = ("setup", "configure_optimizers", "configure_model", "training_step", "on_train_epoch_end",
              "validation_step",
              "on_validation_epoch_end", "forward")  # fmt: skip


def _fit(a: Arguments) -> Val | None:
    model = a.get(0, "model")
    data = a.get(None, "datamodule") or a.get(1, "train_dataloaders", "train_dataloader")
    if isinstance(data, Obj) and isinstance(data.cls, ClassVal) and isinstance(a.owner, Obj):
        a.machine.store(data.attrs, "trainer", a.owner)
    if isinstance(model, Obj) and isinstance(a.owner, Obj):
        a.machine.store(model.attrs, "trainer", a.owner)
    for source in (data, model):
        for hook in ("prepare_data", "setup", "train_dataloader"):
            if source is not None:
                call_method(a.machine, source, hook, [Const("fit")] if hook == "setup" else [], a.origin)
    for hook in _FIT_HOOKS:
        arguments: list[Val] = [Unknown("batch"), Unknown("index")] if hook.endswith("_step") else []
        if model is not None and hook not in ("setup", "forward"):
            call_method(a.machine, model, hook, arguments, a.origin)
    return NONE


for _path in _TRAINER_PATHS:
    HANDLERS[f"{_path}().fit"] = _fit


def _trainer(a: Arguments) -> Val | None:
    """A Lightning trainer knows its world: devices times nodes."""
    call = a.machine.record.calls[-1]
    trainer = Obj(Ext(a.path), {}, a.origin, call)
    devices, nodes = a.kwargs.get("devices"), a.kwargs.get("num_nodes")
    count = devices.value if isinstance(devices, Const) else len(devices.items) if isinstance(devices, Seq) else None
    machines = nodes.value if isinstance(nodes, Const) else 1
    known = isinstance(count, int) and not isinstance(count, bool) and count > 0 and isinstance(machines, int)
    trainer.attrs["world_size"] = Const(count * machines, a.origin) if known else Scaled(1, 1, a.origin)  # type: ignore[operator]
    return trainer


for _path in _TRAINER_PATHS:
    HANDLERS[_path] = _trainer


@models("().save_hyperparameters")
def _save_hyperparameters(a: Arguments) -> Val | None:
    """The constructor's arguments become ``self.hparams``."""
    owner = a.owner
    if not isinstance(owner, Obj) or not isinstance(owner.cls, ClassVal) or owner.call is None:
        return NONE
    init = class_attribute(owner.cls, "__init__")
    if isinstance(init, Func):
        names = bind_arguments(a.machine, bind(init, owner), [owner, *owner.call.args], owner.call.kwargs)
        hyperparameters = {k: v for k, v in names.items() if k != "self"}
        a.machine.store(owner.attrs, "hparams", Map({**hyperparameters}, a.origin, attr=True))
    return NONE


# --- samplers, loaders and the like that only pass things through --------------------------------------------------


@models("deepspeed.utils.RepeatingLoader", "itertools.cycle")
def _endless(a: Arguments) -> Val | None:
    return Obj(Ext("itertools.cycle"), {"loader": a.args[0]} if a.args else {}, a.origin)


@models("tensorflow.keras.Sequential().fit", "keras.Sequential().fit")
def _keras_fit(a: Arguments) -> Val | None:
    return None
