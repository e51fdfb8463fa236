"""Programs that send themselves to a cluster: what they ask for, and the function that runs there."""

from __future__ import annotations

from analyzers.source.launch.model import Setting
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.values import NONE, Const, Ext, Map, Obj, Val

_EXECUTORS = ("submitit.AutoExecutor", "submitit.SlurmExecutor", "submitit.LocalExecutor")
_REQUEST = {
    "nodes": "nodes", "gpus_per_node": "gpus_per_node", "tasks_per_node": "tasks_per_node",
    "slurm_ntasks_per_node": "tasks_per_node", "ntasks_per_node": "tasks_per_node", "num_gpus": "gpus_per_node",
    "slurm_gpus_per_node": "gpus_per_node", "slurm_nodes": "nodes",
}  # fmt: skip


@models(*(f"{path}().update_parameters" for path in _EXECUTORS))
def _request(a: Arguments) -> Val | None:
    settings = a.machine.launch.settings
    for name, value in a.kwargs.items():
        if name in _REQUEST and isinstance(value, Const) and isinstance(value.value, int):
            settings[_REQUEST[name]] = Setting(str(value.value), value.origin.file, value.origin.line)
    nodes, tasks = a.machine.launch.number("nodes"), a.machine.launch.number("tasks_per_node")
    a.machine.processes = (nodes or 1) * tasks if tasks is not None else None
    a.machine.launch.launchers.append("submitit")
    return NONE


@models(*(f"{path}().submit" for path in _EXECUTORS))
def _submit(a: Arguments) -> Val | None:
    if "Local" not in a.path:
        _environment(a)
    if a.args:
        a.machine.call(a.args[0], list(a.args[1:]), dict(a.kwargs), a.origin)
    return Obj(Ext("submitit.Job"), {}, a.origin)


def _environment(a: Arguments) -> None:
    """What the first task finds when Slurm starts it."""
    environ = a.machine.library_values.get("os.environ")
    if isinstance(environ, Map):
        found = {"SLURM_PROCID": 0, "SLURM_LOCALID": 0, "SLURM_NTASKS": a.machine.processes,
                 "SLURM_NNODES": a.machine.launch.number("nodes") or 1}  # fmt: skip
        environ.items.update({k: Const(str(v), a.origin) for k, v in found.items() if v is not None})
        environ.open = True


@models("submitit.JobEnvironment", "submitit.helpers.JobEnvironment")
def _job_environment(a: Arguments) -> Val | None:
    attrs: dict[str, Val] = {name: Const(0, a.origin) for name in ("global_rank", "local_rank", "node")}
    attrs["num_nodes"] = Const(a.machine.launch.number("nodes") or 1, a.origin)
    if a.machine.processes is not None:
        attrs["num_tasks"] = Const(a.machine.processes, a.origin)
    return Obj(Ext(a.path), attrs, a.origin)
