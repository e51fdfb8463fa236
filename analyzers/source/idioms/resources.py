"""How many processes, GPUs and nodes a launch uses, and how the work is divided among them."""

from __future__ import annotations

from collections.abc import Callable

from analyzers.source.idioms.named import inner
from analyzers.source.idioms.training import Training, trainer_calls
from analyzers.source.launch.model import Launch
from analyzers.source.launch.read import locate
from analyzers.source.library.configs import config_value, readable
from analyzers.source.program.values import Bound, Const, Ext, Map, Obj, Origin, Unknown, Val
from analyzers.source.reading import Reading, as_number, as_text

_DISTRIBUTED = ("torchrun", "deepspeed", "accelerate", "mpirun", "horovodrun")
_DDP = ("DistributedDataParallel", "DDP")
_FSDP = ("FullyShardedDataParallel", "FSDP", "fully_shard")


def place(launch: Launch, name: str) -> Origin:
    """Where a launcher setting was written."""
    setting = launch.settings.get(name)
    return Origin(setting.file, setting.line, "override") if setting is not None else Origin("launch", 1, "override")


def accelerate_config(reading: Reading) -> Map | None:
    """The YAML that ``accelerate launch --config_file`` names, or None."""
    launch = reading.launch
    setting = launch.settings.get("config")
    if setting is None or "accelerate" not in launch.launchers:
        return None
    path = locate(setting.value, launch.cwd, reading.machine.tree) or readable(reading.machine, setting.value)
    loaded = config_value(reading.machine, path, attr=False) if path is not None else None
    return loaded if isinstance(loaded, Map) else None


def node_count(launch: Launch) -> tuple[int, Origin] | None:
    """The number of nodes, or None where it is not fixed (an elastic range, a host file)."""
    for name in ("nnodes", "nodes"):
        setting = launch.settings.get(name)
        if setting is None:
            continue
        count = launch.number(name)
        return (count, place(launch, name)) if count is not None else None
    if "hostfile" in launch.settings:
        return None
    tasks, per_node = launch.number("tasks"), launch.number("tasks_per_node")
    if tasks and per_node and "srun" in launch.launchers:
        return -(-tasks // per_node), place(launch, "tasks")
    return 1, Origin("launch", 1, "computed")


def process_count(launch: Launch) -> int | None:
    """The size of the job's world where the launch command fixes it."""
    nodes = node_count(launch)
    outer = [name for name in launch.launchers if name in _DISTRIBUTED]
    per_node = launch.number("nproc")
    if "torchrun" in outer:
        if "nproc" not in launch.settings:
            per_node = 1
        return per_node * nodes[0] if per_node is not None and nodes is not None else None
    if "deepspeed" in outer:
        include = launch.settings.get("include")
        if include is not None and ":" in include.value and "@" not in include.value:
            return len(include.value.partition(":")[2].split(","))
        return per_node * nodes[0] if per_node is not None and nodes is not None else None
    if "accelerate" in outer or "mpirun" in outer or "horovodrun" in outer:
        count = launch.number("processes")
        return count if count is not None else (per_node * nodes[0] if per_node and nodes else None)
    if "srun" in launch.launchers:
        tasks = launch.number("tasks")
        per = launch.number("tasks_per_node")
        return tasks if tasks is not None else (per * nodes[0] if per is not None and nodes is not None else 1)
    return 1


def visible_devices(launch: Launch) -> int | None:
    """GPUs that one process sees: ``CUDA_VISIBLE_DEVICES``, else what was requested on its node."""
    visible = launch.env.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        listed = [v for v in visible.split(",") if v.strip()]
        if all(v.strip().isdigit() for v in listed):
            return len(listed)
        return 0 if visible.strip() in ("", "-1") else None
    per_node = launch.number("gpus_per_node")
    if per_node is not None:
        return per_node
    nodes = node_count(launch)
    total = launch.number("gpus")
    if total is not None and nodes is not None and nodes[0]:
        return total // nodes[0]
    return launch.number("gpus_per_task") if "srun" not in launch.launchers else None


def offer_resources(reading: Reading, training: Training) -> None:
    """``num_nodes``, ``num_gpus`` and ``parallelism``."""
    config = accelerate_config(reading)
    if config is not None:
        _accelerate(reading, config)
    _nodes(reading)
    _gpus(reading, training)
    _parallelism(reading, training, config)


def _accelerate(reading: Reading, config: Map) -> None:
    if reading.processes is None:
        number = as_number(inner(config, "num_processes"))
        reading.processes = int(number) if number is not None else None
    reading.set("mixed_precision", inner(config, "mixed_precision"), 0.8)
    reading.set("zero", inner(config, "deepspeed_config", "zero_stage"), 0.85)
    reading.set("grad_accum", inner(config, "deepspeed_config", "gradient_accumulation_steps"), 0.8)
    checkpointing = inner(config, "fsdp_config", "fsdp_activation_checkpointing")
    reading.set("activation_checkpointing", checkpointing, 0.85)


def _nodes(reading: Reading) -> None:
    nodes = node_count(reading.launch)
    lightning = reading.number("lightning_nodes")
    if lightning is not None and nodes is not None and nodes[0] == 1:
        reading.offer("num_nodes", int(lightning[0]), 0.92, lightning[1].origin)
    elif nodes is not None:
        config = accelerate_config(reading)
        machines = as_number(inner(config, "num_machines")) if config is not None else None
        if "accelerate" in reading.launch.launchers and "nnodes" not in reading.launch.settings:
            if machines is not None:
                reading.offer("num_nodes", int(machines), 0.85, config.origin if config is not None else None)
            return  # the user's own default configuration decides
        sure = 0.97 if {"nnodes", "nodes"} & set(reading.launch.settings) else 0.85
        reading.offer("num_nodes", nodes[0], sure, nodes[1])


def uses_gpu(reading: Reading) -> bool | None:
    """Whether this program puts work on a GPU under this launch; None where it can not be told."""
    if "force_cpu" in reading.settings:
        return False
    # These put the model on a device themselves.
    moved = bool({"accelerate", "hf", "deepspeed", "known"} & set(reading.settings))
    on_cpu = False
    for call in reading.calls:
        if (call.name in ("cuda", "set_device", "set_device_index", "xpu") and "()." in call.path) or call.name in (
            "current_accelerator", "set_device"):  # fmt: skip
            moved = True
        if call.name in ("to", "device", "Device", "move_data_to_device", "to_device") or "device" in call.kwargs:
            for value in [*call.args[:2], *([call.kwargs["device"]] if "device" in call.kwargs else [])]:
                answer = _device_kind(value)
                moved = moved or answer is True
                on_cpu = on_cpu or answer is False
    # Device text that a program only keeps in a variable (``device = "cuda"``) and reads.
    named = as_text(reading.machine.reads.get("device"))
    if named is not None:
        moved = moved or named.startswith(("cuda", "gpu"))
        on_cpu = on_cpu or named == "cpu"
    if moved:
        return True
    if on_cpu or reading.followed:
        return False
    return None


def _device_kind(value: Val) -> bool | None:
    if isinstance(value, Const) and isinstance(value.value, str):
        if value.value.startswith(("cuda", "gpu", "xpu", "hip")):
            return True
        return False if value.value == "cpu" else None
    if isinstance(value, Unknown):
        kinds = [_device_kind(option) for option in value.options]
        if value.detail[:1] == ("text",) and str(value.detail[1]).startswith("cuda"):
            return True
        return True if True in kinds else None
    if isinstance(value, Obj) and isinstance(value.cls, Ext):
        path = value.cls.path
        if "type" in value.attrs and path == "torch.device":
            return _device_kind(value.attrs["type"])
        if path != "torch.device" and ("device" in path.rpartition(".")[2] or path.endswith("current_accelerator")):
            return True  # get_device(), init_distributed_device(): they take a GPU where there is one
        if path == "torch.device" and value.call is not None:
            return _device_kind(value.call.args[0]) if value.call.args else None
    if isinstance(value, Bound) and value.name == "device":
        return True if isinstance(value.owner, Obj) else None  # accelerator.device, fabric.device
    if isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return True  # .to(local_rank)
    return None


def _gpus(reading: Reading, training: Training) -> None:
    launch = reading.launch
    if _lightning_gpus(reading):
        return
    on_gpu = uses_gpu(reading)
    distributed = bool(set(launch.launchers) & {*_DISTRIBUTED, "srun", "submitit"})
    framework = str(reading.value("framework") or "")
    if distributed and launch.launchers and reading.processes is not None and reading.processes > 0:
        if {"srun", "submitit"} & set(launch.launchers) and not set(launch.launchers) & set(_DISTRIBUTED):
            _srun_gpus(reading, on_gpu)
            return
        if on_gpu is False and reading.complete and not reading.settings.get("deepspeed"):
            return
        name = next((n for n in ("nproc", "processes", "include") if n in launch.settings), "nnodes")
        reading.offer(
            "num_gpus", reading.processes, 0.95 if on_gpu or launch.entry is None else 0.8, place(launch, name)
        )
        return
    if distributed:
        return
    if framework == "none" and reading.complete:
        reading.offer("num_gpus", 0, 0.85)
        return
    if on_gpu is False and framework == "pytorch" and not _automatic(reading):
        reading.offer("num_gpus", 0, 0.8)
        return
    spawned = reading.first("multiprocessing.spawn", "start_processes")
    if spawned is not None and reading.processes is not None and on_gpu:
        reading.offer("num_gpus", reading.processes, 0.85, spawned.origin)
        return
    if _spreads_by_itself(reading):
        nodes = reading.value("num_nodes")
        if reading.devices is not None and isinstance(nodes, int):
            reading.offer("num_gpus", reading.devices * nodes, 0.85, place(launch, "gpus_per_node"))
        return
    if launch.entry is None:
        if reading.devices is not None and framework:
            reading.offer("num_gpus", reading.devices, 0.75, place(launch, "gpus_per_node"))
        return
    if reading.devices == 0:
        reading.offer("num_gpus", 0, 0.9, Origin("launch", 1))
    elif reading.followed and not _automatic(reading) and framework in ("pytorch", "jax", "tensorflow"):
        sure = 0.85 if framework != "tensorflow" else 0.7
        reading.offer("num_gpus", 1, sure if on_gpu or framework != "pytorch" else 0.45)


def _srun_gpus(reading: Reading, on_gpu: bool | None) -> None:
    launch = reading.launch
    per_task = launch.number("gpus_per_task")
    nodes = node_count(launch)
    per_node = launch.number("gpus_per_node")
    if per_task is not None and reading.processes:
        reading.offer("num_gpus", per_task * reading.processes, 0.9, place(launch, "gpus_per_task"))
    elif per_node is not None and nodes is not None:
        used = per_node * nodes[0]
        if reading.processes and launch.number("tasks_per_node") == per_node:
            used = min(used, reading.processes)  # one GPU for each task: fewer tasks leave some idle
        reading.offer("num_gpus", used, 0.9, place(launch, "gpus_per_node"))
    elif launch.number("gpus") is not None:
        reading.offer("num_gpus", launch.number("gpus"), 0.9, place(launch, "gpus"))


def _lightning_gpus(reading: Reading) -> bool:
    if "lightning" not in reading.settings:
        return False
    accelerator = reading.settings.get("accelerator")
    kind = as_text(accelerator.value) if accelerator is not None else "auto"
    nodes = reading.number("lightning_nodes")
    count = nodes[0] if nodes is not None else 1
    devices = reading.settings.get("devices")
    if kind == "cpu":
        reading.offer("num_gpus", 0, 0.92, accelerator.origin if accelerator is not None else None)
        return True
    number = as_number(devices.value) if devices is not None else None
    if (
        devices is not None
        and number is None
        and isinstance(devices.value, Const) is False
        and hasattr(devices.value, "items")
    ):
        number = len(devices.value.items)  # a list of device indices
    if number is not None and number > 0 and devices is not None:
        origin = devices.origin
        reading.offer("num_gpus", int(number * count), 0.93 if kind in ("gpu", "cuda") else 0.75, origin)
        reading.processes = int(number * count)
    return True


def _automatic(reading: Reading) -> bool:
    """Whether the framework takes all the GPUs it finds."""
    return bool({"hf", "accelerate", "deepspeed"} & set(reading.settings)) or (
        bool(trainer_calls(reading)) and (str(reading.value("framework")) == "pytorch")
    )


def _spreads_by_itself(reading: Reading) -> bool:
    spread = (
        "DataParallel", "pmap", "data_parallel", "MirroredStrategy", "spawn", "start_processes", "NamedSharding",
        "shard_map", "PositionalSharding", "Mesh", "make_mesh", "replicate", "MultiWorkerMirroredStrategy",
    )  # fmt: skip
    for call in reading.calls:
        if call.name in spread and not (call.name == "data_parallel" and call.guards):
            return True
        if as_text(call.kwargs.get("device_map")) == "auto":
            return True
    return any("sharding" in c.path.lower() and "jax" in c.path for c in reading.calls)


def _parallelism(reading: Reading, training: Training, config: Map | None) -> None:
    found: list[str] = []
    origins: list[Origin] = []
    sure = 0.9

    def add(name: str, origin: Origin | None = None) -> None:
        if name not in found:
            found.append(name)
            if origin is not None:
                origins.append(origin)

    for name, setting in (("tp", "tp"), ("pp", "pp")):
        number = reading.number(setting)
        if number is not None and number[0] > 1:
            add(name, number[1].origin)
    tensor = reading.first("parallelize_module")
    if tensor is not None:
        add("tp", tensor.origin)
    pipeline = reading.first("PipelineModule")
    if pipeline is not None:
        stages = as_number(pipeline.argument(None, "num_stages"))
        if stages is None or stages > 1:
            add("pp", pipeline.origin)
    zero = reading.number("zero")
    if zero is not None and 1 <= zero[0] <= 3:
        add(f"zero{int(zero[0])}", zero[1].origin)
    wrapped = _wrapper_origin(reading, _FSDP)
    kind = as_text(inner(config, "distributed_type")) if config is not None else None
    if wrapped is not None or kind == "FSDP" or "use_fsdp" in reading.launch.settings or _set_text(reading, "fsdp"):
        add("fsdp", wrapped or (config.origin if config is not None else None))
    strategy = _set_text(reading, "strategy")
    if strategy is not None:
        for mark, name in (("ddp", "ddp"), ("fsdp", "fsdp"), ("deepspeed_stage_3", "zero3"), ("deepspeed_stage_2",
                           "zero2"),
                           ("deepspeed_stage_1", "zero1"), ("dp", "dp")):  # fmt: skip
            if strategy.startswith(mark):
                add(name, reading.settings["strategy"].origin)
                break
    ddp = _wrapper_origin(reading, _DDP)
    if ddp is not None and "fsdp" not in found:
        add("ddp", ddp)
    data_parallel = reading.first("DataParallel", "pmap", "MirroredStrategy")
    optional = data_parallel is not None and bool(data_parallel.guards) and reading.devices is None
    if optional and "ddp" not in found:
        return  # only where the machine has several devices
    if data_parallel is not None and "ddp" not in found and (reading.devices is None or reading.devices > 1):
        add("dp", data_parallel.origin)
    _implicit_ddp(reading, found, add, kind)
    if found:
        reading.offer("parallelism", list(found), sure, origins, "literal")
    elif _alone(reading):
        reading.offer("parallelism", ["none"], 0.85 if reading.complete else 0.7)


def _set_text(reading: Reading, name: str) -> str | None:
    setting = reading.settings.get(name)
    text = as_text(setting.value) if setting is not None else None
    return text or None


def _wrapper_origin(reading: Reading, names: tuple[str, ...]) -> Origin | None:
    for call in reading.calls:
        if call.name in names and ("torch" in call.path or "apex" in call.path or "fairscale" in call.path):
            # Wrapped under a rank's own condition counts; wrapped only if some option holds does not.
            return call.origin
    return None


def _implicit_ddp(reading: Reading, found: list[str], add: Callable[[str], None], kind: str | None) -> None:
    """Frameworks that set data parallelism up themselves once there is more than one process."""
    world = reading.processes
    model_parallel = {"tp", "pp"} & set(found)
    is_deepspeed = "deepspeed" in reading.settings or "deepspeed" in reading.launch.launchers
    sharded = {"fsdp", "zero2", "zero3"} & set(found)
    if sharded or "ddp" in found:
        return
    if reading.settings.get("tp") is not None or reading.settings.get("pp") is not None:
        ranks = (reading.number("tp") or (1, None))[0] * (reading.number("pp") or (1, None))[0]
        if world is not None and world > ranks:
            add("ddp")
        return
    if is_deepspeed and not {"zero1"} & set(found):
        starts = reading.first("deepspeed.initialize") is not None or "hf" in reading.settings
        starts = starts and "deepspeed_unseen" not in reading.settings
        if starts and (world is None or world > 1):
            add("ddp")
    elif ("accelerate" in reading.settings or "hf" in reading.settings) and world is not None and world > 1:
        if kind in (None, "MULTI_GPU", "NO") and not found:
            add("ddp")
    elif model_parallel and world is None:
        add("ddp")


def _alone(reading: Reading) -> bool:
    if reading.processes is None or reading.processes > 1:
        return False
    if "accelerate" in reading.launch.launchers and "processes" not in reading.launch.settings:
        return False
    explicit = bool(set(reading.launch.launchers) & {"torchrun", "deepspeed", "accelerate", "mpirun"})
    if _automatic(reading) and "lightning" not in reading.settings and not explicit:
        return False
    return not _spreads_by_itself(reading) and (reading.complete or bool(reading.value("framework")))


def data_parallel_size(reading: Reading) -> int | None:
    """Data-parallel replicas, or None where the machine decides."""
    world = reading.processes
    if world is None:
        return None
    tp, pp = reading.number("tp"), reading.number("pp")
    ranks = int((tp[0] if tp else 1) * (pp[0] if pp else 1))
    if "dp" in (reading.value("parallelism") or []):  # type: ignore[operator]
        return reading.devices
    if pp is None and "pp" in (reading.value("parallelism") or []):  # type: ignore[operator]
        return None
    return max(1, world // ranks) if ranks and world % ranks == 0 else None
