"""The process's surroundings: arguments, environment, paths, ranks and devices, as the launch command sets them."""

from __future__ import annotations

import posixpath

from analyzers.source.launch.words import UNKNOWN
from analyzers.source.library.configs import readable
from analyzers.source.library.estimators import MODES
from analyzers.source.library.flags import HOMES
from analyzers.source.program.expressions import known_items
from analyzers.source.program.machine import Machine
from analyzers.source.program.native import HANDLERS, Arguments, models
from analyzers.source.program.values import (
    NONE,
    Const,
    Ext,
    Map,
    Native,
    Obj,
    Origin,
    Scaled,
    Seq,
    Unknown,
    Val,
    string,
)

_BUILTIN_NAMES = ["int", "float", "str", "bool", "len", "range", "enumerate", "iter", "reversed", "sorted", "list",
                  "tuple", "set", "next", "zip", "map", "filter", "dict", "max", "min", "sum", "abs", "round", "pow",
                  "getattr", "hasattr", "setattr", "vars", "dir", "isinstance", "type", "exit", "quit", "print", "id",
                  "repr", "eval", "open", "object", "super", "property", "staticmethod", "classmethod", "callable",
                  "any", "all", "divmod", "hash", "input", "issubclass", "bytes", "bytearray", "frozenset", "slice",
                  "Exception", "ValueError", "RuntimeError", "KeyError", "TypeError", "NotImplementedError",
                  "ImportError", "AssertionError", "OSError", "FileNotFoundError", "StopIteration",
                  "KeyboardInterrupt", "AttributeError", "IndexError", "complex", "chr", "ord", "hex", "bin",
                  "format", "delattr", "NotImplemented", "Ellipsis", "__import__", "globals", "locals"]  # fmt: skip


def prepare(machine: Machine) -> None:
    """Fill in what a started process finds: builtins, ``sys.argv``, ``os.environ``, ``FLAGS``."""
    values = machine.library_values
    for name in _BUILTIN_NAMES:
        values[f"builtins.{name}"] = Ext(name)
    values["builtins.exec"] = Native("exec", lambda a: NONE)
    program = machine.launch.entry or machine.launch.program
    values["builtins.__file__"] = Const("./" + program)
    arguments: list[Val] = [Const(program, Origin("launch", 1))]
    for word in machine.launch.arguments:
        origin = Origin(word.file or "launch", word.line or 1, "override")
        arguments.append(Const(word.text, origin) if word.known else partly_known(word.text, origin))
    values["sys.argv"] = Seq(arguments, "list", Origin("launch", 1))
    values["os.environ"] = environment(machine)
    values["absl.flags.FLAGS"] = Map({}, attr=True, open=True, label="flags")
    for home in HOMES:
        values[f"{home}.FLAGS"] = values["absl.flags.FLAGS"]
    values["torch.backends.mps.is_available"] = Native("mps", lambda a: Const(False, a.origin))
    values.update(MODES)
    machine.handlers = HANDLERS


def partly_known(text: str, origin: Origin) -> Unknown:
    """A word of the launch of which a part is not known: ``detail`` keeps what it is written as."""
    return Unknown("launch argument", origin, detail=("word", text))


def environment(machine: Machine) -> Map:
    """``os.environ`` as the launchers set it. Rank 0 stands for all: it is the one that logs and saves."""
    launch = machine.launch
    items: dict[object, Val] = {
        name: Const(value, Origin("launch", 1, "override")) if UNKNOWN not in value else Unknown(name)
        for name, value in launch.env.items()
    }
    distributed = bool({"torchrun", "deepspeed", "accelerate"} & set(launch.launchers))
    if "accelerate" in launch.launchers and machine.processes == 1:
        distributed = False
    if distributed:
        place = Origin("launch", 1, "computed")
        items["RANK"] = items["LOCAL_RANK"] = Const("0", place)
        items["MASTER_ADDR"], items["MASTER_PORT"] = Unknown("address"), Unknown("port")
        items["WORLD_SIZE"] = world_size(machine)
        items["LOCAL_WORLD_SIZE"] = Unknown("processes per node")
    under_slurm = "srun" in launch.launchers or "sbatch" in launch.launchers
    is_open = "mpirun" in launch.launchers or under_slurm
    if "srun" in launch.launchers:
        items["SLURM_PROCID"] = items["SLURM_LOCALID"] = Const("0")
    return Map(items, Origin("launch", 1), open=is_open, label="environ")


def world_size(machine: Machine) -> Val:
    """The number of processes, or one per device where only the machine knows."""
    place = Origin("launch", 1, "computed")
    return Const(machine.processes, place) if machine.processes is not None else Scaled(1, 1, place)


@models("os.getenv", "os.environ.get")
def _getenv(a: Arguments) -> Val | None:
    environ = a.machine.library_values["os.environ"]
    name = a.text(0)
    assert isinstance(environ, Map)
    if name is not None and name in environ.items:
        return environ.items[name]
    if environ.open and name is not None and name.startswith(("SLURM", "OMPI", "PMI", "RANK", "WORLD", "LOCAL_RANK")):
        return a.unknown(f"environment {name}")
    return a.get(1, "default") or NONE


@models("torch.distributed.get_world_size", "?().get_world_size", "accelerate.Accelerator().num_processes",
        "deepspeed.comm.get_world_size", "idist.get_world_size", "horovod.torch.size", "hvd.size")  # fmt: skip
def _world_size(a: Arguments) -> Val | None:
    return world_size(a.machine)


@models("torch.distributed.get_rank", "deepspeed.comm.get_rank", "horovod.torch.rank", "horovod.torch.local_rank",
        "jax.process_index", "torch.distributed.get_node_local_rank")  # fmt: skip
def _rank(a: Arguments) -> Val | None:
    return Const(0, a.origin)


@models("torch.cuda.device_count", "torch.accelerator.device_count", "jax.local_device_count")
def _device_count(a: Arguments) -> Val | None:
    count = a.machine.devices_per_process
    return Const(count, a.origin) if count is not None else Scaled(1, 1, a.origin)


@models("jax.device_count")
def _all_devices(a: Arguments) -> Val | None:
    count = a.machine.devices_per_process
    if count is not None and a.machine.launch.number("nodes") in (None, 1):
        return Const(count, a.origin)
    return Scaled(1, 1, a.origin)


@models("tensorflow.distribute.MirroredStrategy", "tensorflow.compat.v1.distribute.MirroredStrategy")
def _mirrored(a: Arguments) -> Val | None:
    """One replica on each device that is listed, else on each that the process sees."""
    listed = known_items(a.get(0, "devices") or NONE)
    if listed:
        a.machine.devices_per_process = len(listed)
    count = a.machine.devices_per_process
    replicas: Val = Const(count, a.origin) if count is not None else Scaled(1, 1, a.origin)
    return Obj(Ext(a.path), {"num_replicas_in_sync": replicas}, a.origin)


@models("tensorflow.distribute.get_strategy")
def _default_strategy(a: Arguments) -> Val | None:
    """The strategy outside of any other's scope: one replica."""
    return Obj(Ext(a.path), {"num_replicas_in_sync": Const(1, a.origin)}, a.origin)


@models("jax.process_count")
def _process_count(a: Arguments) -> Val | None:
    return Const(a.machine.launch.number("nodes") or a.machine.launch.number("tasks") or 1, a.origin)


@models("torch.cuda.is_available", "torch.accelerator.is_available", "torch.cuda.is_bf16_supported",
        "torch.distributed.is_nccl_available", "torch.distributed.is_available")  # fmt: skip
def _available(a: Arguments) -> Val | None:
    return Const(a.machine.devices_per_process != 0, a.origin, assumed=True)


@models("torch.distributed.is_initialized")
def _initialized(a: Arguments) -> Val | None:
    started = any(c.name in ("init_process_group", "init_distributed") for c in a.machine.record.calls)
    return Const(True, a.origin) if started else a.unknown("is_initialized")


@models(
    "torch.xpu.is_available", "torch.npu.is_available", "torch.backends.mps.is_available", "torch.backends.mps.is_built"
)
def _unavailable(a: Arguments) -> Val | None:
    return Const(False, a.origin, assumed=True)


@models("torch.device", "torch.accelerator.current_accelerator")
def _device(a: Arguments) -> Val | None:
    """A device knows its type; the accelerator is taken to be there unless the launch says there is none."""
    text = a.text(0, "device", "type")
    if a.path.endswith("current_accelerator"):
        text = "cpu" if a.machine.devices_per_process == 0 else "cuda"
    if text is None:
        return None
    kind = Const(text.partition(":")[0], a.origin, assumed=True)
    return Obj(Ext("torch.device"), {"type": kind}, a.origin, a.machine.record.calls[-1])


@models("os.path.join", "posixpath.join")
def _join(a: Arguments) -> Val | None:
    parts = [string(v) for v in a.args]
    if all(p is not None for p in parts):
        return Const(posixpath.join(*[p for p in parts if p is not None])[:4000], a.origin) if parts else None
    known = [p for p in parts if p]
    return Unknown("path", a.origin, detail=("text", "/".join(known)))


@models(
    "os.path.dirname",
    "os.path.basename",
    "os.path.abspath",
    "os.path.realpath",
    "os.path.expanduser",
    "os.path.normpath",
)
def _path_part(a: Arguments) -> Val | None:
    text = a.text(0)
    if text is None:
        return a.unknown("path")
    name = a.path.rpartition(".")[2]
    if name == "dirname":
        return Const(posixpath.dirname(text) or ".", a.origin)
    return Const(posixpath.basename(text), a.origin) if name == "basename" else Const(text, a.origin)


@models("os.getcwd", "os.curdir")
def _cwd(a: Arguments) -> Val | None:
    return Const(".", a.origin)


@models("str().resolve", "str().absolute", "str().expanduser", "str().as_posix")
def _same_path(a: Arguments) -> Val | None:
    return a.owner


@models("str().joinpath")
def _joined_path(a: Arguments) -> Val | None:
    return _join(Arguments(a.machine, [a.owner or NONE, *a.args], {}, a.origin, a.path))


@models("pathlib.Path.cwd")
def _path_cwd(a: Arguments) -> Val | None:
    return Const(".", a.origin)


@models("os.path.relpath")
def _relative(a: Arguments) -> Val | None:
    start = a.text(1, "start") or "."
    return a.args[0] if a.args and start in (".", "./") else a.unknown("path")


@models("pathlib.Path", "pathlib.PurePath")
def _path(a: Arguments) -> Val | None:
    parts = [string(v) for v in a.args]
    if parts and all(p is not None for p in parts):
        return Const(posixpath.join(*[p for p in parts if p is not None]), a.origin)
    return None


@models("sys.path.append", "sys.path.insert")
def _search_path(a: Arguments) -> Val | None:
    text = string(a.args[-1]) if a.args else None
    if text is not None and not text.startswith("/") and len(a.machine.search_paths) < 20:
        from analyzers.source.files import normal

        folder = normal(text)
        if folder not in a.machine.search_paths:
            a.machine.search_paths.append(folder)
    return NONE


@models("os.path.exists", "os.path.isfile", "os.path.isdir", "pathlib.Path().exists")
def _exists(a: Arguments) -> Val | None:
    """A configuration or program that lies in the tree will be there; of other files the present says little."""
    text = a.text(0) if a.owner is None else None
    if text is not None and text.endswith(_KEPT) and not a.path.endswith("isdir") and readable(a.machine, text):
        return Const(True, a.origin, assumed=True)
    return a.unknown("exists")


_KEPT = (".yaml", ".yml", ".json", ".toml", ".py")


@models("importlib.import_module", "__import__")
def _import_module(a: Arguments) -> Val | None:
    name = a.text(0)
    if name is None or not name.replace(".", "").isidentifier():
        return a.unknown("import")
    path = a.machine.resolve(name, next(iter(a.machine.modules.values())), 0)
    if path is None or path.endswith("/"):
        return Ext(name, a.origin)
    return a.machine.load(path, name) or a.unknown("import")
