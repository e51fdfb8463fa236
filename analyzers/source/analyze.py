"""From a submission to its facts: the launch command is read, the program walked, and the idioms asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from analyzers.source.cache import ReadingCache
from analyzers.source.directive import SourceOffError, header_of
from analyzers.source.files import Tree
from analyzers.source.fingerprint import fingerprint
from analyzers.source.idioms import (
    adapters,
    batch,
    data,
    known,
    named,
    optimisation,
    parameters,
    resources,
    saving,
    schedule,
    shapes,
    subject,
    task,
)
from analyzers.source.idioms.training import find_training
from analyzers.source.launch.model import Launch
from analyzers.source.launch.read import read_launch, with_request
from analyzers.source.launch.request import request_of
from analyzers.source.limits import IDIOMS_CPU_S_MAX, TOO_LONG, BudgetExceededError
from analyzers.source.program.machine import Machine
from analyzers.source.program.values import Origin
from analyzers.source.reader import machine_for, walk
from analyzers.source.reading import Reading
from analyzers.source.secrets import without_secrets
from analyzers.types import FACT_NAMES, Fact, JsonValue, SourceFacts, SourceReading, Submission

#: Starts the warning about a defect of the reader itself; tests fail on it.
INTERNAL = "internal error while reading"


def analyze(submission: Submission, cache: ReadingCache | None = None, *, off_by: str = "") -> SourceFacts:
    """What source and launch command say about a job, without running or importing any of it.

    Facts that can not be known are absent. Never raises for what the work dir or the command holds; what could not
    be read, or only in part, stands in ``warnings``. Takes milliseconds for a usual job and at most about
    `limits.CPU_S_MAX` + `limits.IDIOMS_CPU_S_MAX` seconds for any other; with ``cache``, content that is known costs a
    look at its files. ``off_by`` says, in words, who wants the work dir left alone (``"policy for tenant acme"``): then
    only request and launch command are read, as where the job's owner says so (``.schedmateignore``, a directive).
    """
    if off_by or submission.workdir is None:
        return _read(submission, Tree(None), SourceReading("off" if off_by else "none", off_by))
    if cache is not None:
        known = cache.find(submission)
        if known is not None:
            return known
    tree = Tree(submission.workdir)
    if tree.ignored.everything:
        return _read(submission, tree, SourceReading("off", tree.ignored.source))
    try:
        facts = _read(submission, tree, SourceReading("full"))
    except SourceOffError as off:
        # Leading comments stay: those of launch scripts hold the request, which the scheduler reads as well.
        headers = {path: header_of(text) for path, text in tree.scripts.items()} | {off.file: off.header}
        launch_only = Tree(None, overlay=dict(headers), scripts=headers, headers_only=True)
        facts = _read(submission, launch_only, SourceReading("off", f"{off.file}:{off.line}"))
    if cache is not None and not tree.deadline.cut and not any(w.startswith(INTERNAL) for w in facts.warnings):
        cache.keep(submission, tree, facts)
    return facts


def _read(submission: Submission, tree: Tree, source: SourceReading) -> SourceFacts:
    launch = Launch()
    tree.off = source.state == "off"
    if tree.off:
        tree.warn(f"source code was not read ({source.why}); only the request and the launch command were")

    def read() -> None:
        nonlocal launch
        launch = with_request(read_launch(submission.command, tree, submission.env), submission.gpus, submission.nodes)

    _guarded(tree, read)
    processes, devices = resources.process_count(launch), resources.visible_devices(launch)
    machine: Machine = machine_for(tree, launch, processes, devices)
    _guarded(tree, lambda: walk(machine))
    tree.deadline.restart(IDIOMS_CPU_S_MAX)
    machine.steps = 0
    reading = Reading(launch, machine, processes=machine.processes, devices=machine.devices_per_process)
    gather(reading, tree)
    request = request_of(launch)
    if tree.off:
        _offer_request(reading, request)
    _withdraw_idle_gpus(reading, request)
    facts = {name: reading.facts[name] for name in FACT_NAMES if name in reading.facts}
    if tree.withheld and source.state == "full":
        source = SourceReading("partial", tree.ignored.source)
        some = ", ".join(sorted(tree.withheld)[:5]) + (" and others" if len(tree.withheld) > 5 else "")
        tree.warn(f"not read ({source.why}): {some}")
    return without_secrets(SourceFacts(facts, tuple(tree.warnings), fingerprint(reading), request, source))


def gather(reading: Reading, tree: Tree) -> None:
    """Ask the idioms in the order in which they build on each other."""
    if reading.launch.kind == "none":
        return
    _guarded(tree, lambda: named.collect(reading))
    _guarded(tree, lambda: known.offer_known(reading))
    training = find_training(reading)
    steps: tuple[Callable[[], None], ...] = (
        lambda: subject.offer_framework(reading),
        lambda: subject.offer_workload(reading, training),
        lambda: resources.offer_resources(reading, training),
        lambda: data.offer_dataset(reading),
        lambda: subject.offer_model(reading, training),
        lambda: task.offer_task(reading, training),
        lambda: data.offer_sample_sizes(reading),
        lambda: schedule.offer_schedule(reading, training),
        lambda: batch.offer_batches(reading, training),
        lambda: known.scale_learning_rate(reading),
        lambda: optimisation.offer_optimizer(reading, training),
        lambda: optimisation.offer_precision(reading, training),
        lambda: saving.offer_saving(reading, training),
        lambda: adapters.offer_adapters(reading),
        lambda: shapes.offer_shape(reading, training),
        lambda: parameters.offer_parameters(reading, training),
    )
    for step in steps:
        _guarded(tree, step)
    _withdraw_what_rests_on_absence(reading)
    _withdraw_half_of_the_parallelism(reading)


#: Readings that say no more than that something was not met.
_ABSENCES: dict[str, tuple[JsonValue, ...]] = {
    "checkpoints": (False,), "resumable": (False,), "early_stopping": (False,), "activation_checkpointing": (False,),
    "precision": ("fp32",), "num_gpus": (0, 1),
}  # fmt: skip


def _withdraw_what_rests_on_absence(reading: Reading) -> None:
    """Where not even the kind of work was recognised, what was not met proves nothing."""
    if "workload_type" in reading.facts or reading.value("framework") == "none":
        return
    for name, empty in _ABSENCES.items():
        fact = reading.facts.get(name)
        if fact is not None and fact.value in empty and not fact.evidence:
            del reading.facts[name]
    if reading.value("parallelism") == ["none"]:
        del reading.facts["parallelism"]


def _offer_request(reading: Reading, request: Mapping[str, Fact]) -> None:
    """Where no source was read, a job is taken to use what it asks for."""
    nodes, gpus = request.get("nodes"), request.get("gpus")
    launch = reading.launch
    if gpus is None and "gpus" in launch.settings:
        reading.offer("num_gpus", launch.number("gpus"), 0.75, resources.place(launch, "gpus"))
    elif gpus is not None:
        reading.offer("num_gpus", gpus.value, 0.75, [Origin(e.file, e.line, "override") for e in gpus.evidence])
    if nodes is None and "nodes" in launch.settings:
        reading.offer("num_nodes", launch.number("nodes"), 0.75, resources.place(launch, "nodes"))
    elif nodes is not None:
        reading.offer("num_nodes", nodes.value, 0.9, [Origin(e.file, e.line, "override") for e in nodes.evidence])


def _withdraw_idle_gpus(reading: Reading, request: Mapping[str, Fact]) -> None:
    """That no work for a GPU was met does not hold against GPUs that were asked for."""
    known = reading.facts.get("num_gpus")
    asked = "gpus" in request or {"gpus", "gpus_per_node"} & set(reading.launch.settings)
    if known is not None and known.value == 0 and not known.evidence and asked:
        del reading.facts["num_gpus"]


#: Names for degrees of parallelism, and what is said where they are above 1.
_DEGREES = {"tensor_parallel_degree": "tp", "tensor_parallel_size": "tp", "tp_size": "tp", "tp_degree": "tp",
            "pipeline_parallel_degree": "pp", "pipeline_parallel_size": "pp", "pp_size": "pp",
            "pp_degree": "pp"}  # fmt: skip


def _withdraw_half_of_the_parallelism(reading: Reading) -> None:
    """Where the launch asks for a kind of parallelism that was not met, what was met is not all."""
    said = reading.value("parallelism")
    if not isinstance(said, list):
        return
    for name, kind in _DEGREES.items():
        told = reading.machine.told.get(name)
        if told is not None and isinstance(told.value, int) and told.value > 1 and kind not in said:
            reading.facts.pop("parallelism", None)
            return


def _guarded(tree: Tree, step: Callable[[], None]) -> None:
    """Run one step; a defect of ours in it costs its facts, not the submission."""
    try:
        step()
    except SourceOffError:
        raise
    except BudgetExceededError:
        tree.warn(TOO_LONG)
    except Exception as error:  # noqa: BLE001 (the input is anything a user may write)
        tree.warn(f"{INTERNAL} ({type(error).__name__}: {error}); what was read apart from that stands")
