"""Whether this launch writes checkpoints, and whether it could go on from one."""

from __future__ import annotations

import ast
import re

from analyzers.source.idioms.named import launch_options
from analyzers.source.idioms.schedule import test_text
from analyzers.source.idioms.training import Training, is_estimator
from analyzers.source.program.events import Call
from analyzers.source.program.values import Const, Origin
from analyzers.source.reading import Reading, as_flag, as_text

_WRITES = frozenset({
    "save_pretrained", "save_model", "save_checkpoint", "save_state", "save_weights", "save_checkpoint_multiprocess",
    "save_16bit_model", "save_lora_weights", "save_checkpoint_multihost", "async_save", "save_to_checkpoint",
    "save_states",
    "save_full_model", "save_file",
})  # fmt: skip
_CHECKPOINTERS = frozenset({
    "ModelCheckpoint", "CheckpointManager", "CheckpointHook", "BackupAndRestore", "PeriodicCheckpointer",
    "DetectionCheckpointer", "Checkpointer", "CheckpointSaver", "CheckpointCallback",
})  # fmt: skip
_RESUMES = frozenset(
    {"load_state", "load_checkpoint", "restore_checkpoint", "auto_resume", "load_latest_checkpoint", "resume"}
)
_LAST = r"(last|latest|newest|recent)_?(checkpoint|ckpt)|(checkpoint|ckpt)_?(last|latest)"
_RESUME_NAME = re.compile(
    rf"resume|restart_from|continue_from|ckpt_path|load_checkpoint|from_checkpoint|{_LAST}", re.IGNORECASE
)
_RESUMING_CALL = re.compile(rf"^(try_|maybe_|auto_)?resume|restart_from|{_LAST}", re.IGNORECASE)
#: A place for checkpoints may as well be one that they are written to.
_PLACE = re.compile(r"^_?(ckpt|last|latest)\w*_path$|^_?ckpt_path", re.IGNORECASE)
#: Resuming of other things than the training: a run in an experiment tracker, a download.
_OTHER_RESUME = re.compile(r"wandb|download|neptune|mlflow|comet", re.IGNORECASE)


def is_write(call: Call) -> float:
    """How sure a call writes model weights, 0 where it does not."""
    path, name = call.path, call.name
    if name == "save" and (path in ("torch.save", "torch.jit.save", "paddle.save", "thunder.save") or "dist_cp" in path
                           or "distributed.checkpoint" in path):  # fmt: skip
        return 0.9
    if name in _WRITES:
        return 0.88
    if name in ("save", "export") and re.search(
        r"keras|orbax|checkpoint|export|saved_model|tensorflow\.(train|saved)", path, re.IGNORECASE
    ):
        return 0.85
    if re.search(
        r"save.*(model|checkpoint|ckpt|weights|hf_format|snapshot)|(checkpoint|ckpt).*save", name, re.IGNORECASE
    ):
        return 0.72
    return 0.0


def offer_saving(reading: Reading, training: Training) -> None:
    """``checkpoints`` and ``resumable``."""
    if training.call is not None and is_estimator(training.call):
        reading.offer("checkpoints", True, 0.88, training.call.origin, "default")
        reading.offer("resumable", True, 0.85, training.call.origin, "default")
        return
    _checkpoints(reading, training)
    _resumable(reading, training)


def _checkpoints(reading: Reading, training: Training) -> None:
    writes = any(is_write(c) >= 0.85 for c in reading.calls)
    if reading.value("workload_type") in ("eval", "inference", "preprocess") and not writes:
        reading.offer("checkpoints", False, 0.85 if reading.complete else 0.75)
        return
    quick = reading.settings.get("fast_dev_run")
    if quick is not None and as_flag(quick.value):
        reading.offer("checkpoints", False, 0.85, quick.origin)
        return
    for call in reading.calls:
        sure = is_write(call)
        if sure:
            reading.offer("checkpoints", True, sure, call.origin)
        elif call.name in _CHECKPOINTERS:
            reading.offer("checkpoints", True, 0.88, call.origin)
    if "lightning" in reading.settings and training.call is not None and "checkpoints" not in reading.facts:
        switch = reading.settings.get("enable_checkpointing")
        flag = as_flag(switch.value) if switch is not None else True
        reading.offer("checkpoints", flag is not False, 0.8, switch.origin if switch is not None else None, "default")
    strategy = reading.settings.get("save_strategy")
    if "hf" in reading.settings and strategy is not None and "checkpoints" not in reading.facts:
        reading.offer("checkpoints", as_text(strategy.value) != "no", 0.85, strategy.origin)
    if "save" in reading.settings and reading.words_read_unseen:
        reading.offer("checkpoints", True, 0.85, reading.settings["save"].origin)
    if "checkpoints" not in reading.facts and reading.launch.entry is not None:
        if training.unseen or not reading.followed:
            return
        if reading.complete:
            reading.offer("checkpoints", False, 0.82)
        elif training.call is not None and not reading.launch.inexact and not _has_a_checkpointer(reading):
            reading.offer("checkpoints", False, 0.6)


def _has_a_checkpointer(reading: Reading) -> bool:
    """Whether the program builds an object of its own for checkpoints: whether that writes is then not known."""
    return any(re.search(r"<\w*(checkpoint|ckpt)\w*(?<!Config)>", c.path, re.IGNORECASE) for c in reading.calls)


def _resumable(reading: Reading, training: Training) -> None:
    if reading.value("workload_type") in ("eval", "inference", "preprocess"):
        reading.offer("resumable", False, 0.8)
        return
    if training.call is None and reading.launch.entry is not None and "hf" not in reading.settings:
        return
    before_training = reading.calls[: _index_of(reading, training.call)]
    for call in before_training:
        if call.name in _RESUMES or (
            call.name in ("restore",) and re.search(r"checkpoint|orbax|train", call.path, re.IGNORECASE)
        ):
            reading.offer("resumable", True, 0.85, call.origin)
        elif call.name == "load_state_dict" and ("optim" in call.path.lower() or _for_going_on(call)):
            reading.offer("resumable", True, 0.82, call.origin)
    if training.call is not None and training.trainer:
        path = training.call.argument(None, "ckpt_path", "resume_from_checkpoint")
        if path is not None and not (isinstance(path, Const) and path.value in (None, False)):
            reading.offer("resumable", True, 0.85, training.call.origin)
    if "resumable" not in reading.facts:
        found = _restart_path(reading)
        if found is not None:
            reading.offer("resumable", True, 0.8, found)
    if reading.words_read_unseen:
        options = launch_options(reading)
        if "load" in options and "save" in options:
            reading.offer("resumable", True, 0.82, getattr(options["load"], "origin", Origin("launch", 1)))
        return
    if "resumable" not in reading.facts and _loads_aside(reading):
        return  # weights are loaded in a branch that this launch does not take
    if not reading.complete and _has_a_checkpointer(reading):
        return
    if "resumable" not in reading.facts and not training.unseen and reading.followed:
        reading.offer("resumable", False, 0.8 if reading.complete else 0.62)


def _index_of(reading: Reading, call: Call | None) -> int:
    return (
        next((i for i, c in enumerate(reading.calls) if c is call), len(reading.calls))
        if call is not None
        else len(reading.calls)
    )


def _for_going_on(call: Call) -> bool:
    """Whether weights are loaded under a condition that asks for an earlier run's."""
    return any(_EARLIER_RUN.search(test_text(guard)) for guard in call.guards)


_EARLIER_RUN = re.compile(r"resum|restart|continu|checkpoint|ckpt|snapshot|exist|isfile|load", re.IGNORECASE)


def _loads_aside(reading: Reading) -> bool:
    """Whether a function that runs could load weights, in a branch that this launch does not take."""
    met = {(call.origin.file, call.origin.line) for call in reading.calls if call.name in _LOADS}
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _LOADS
        and not path.endswith(".ipynb")
        and (path, node.lineno) not in met
        for path, node in reading.reached()
    )


_LOADS = frozenset({"load_state_dict", "load_weights", "load_checkpoint", "load_state", "restore_checkpoint"})


def _restart_path(reading: Reading) -> Origin | None:
    """An option, a value read or a call named for going on from a checkpoint, in code that runs."""
    elsewhere: set[int] = set()
    for path, node in reading.reached():
        name = ""
        if id(node) in elsewhere:
            continue
        if isinstance(node, ast.Call):
            if _OTHER_RESUME.search(_callee(node)):
                elsewhere.update(id(part) for part in ast.walk(node))
                continue
            name = _declared(node) or _passed(node) or _called(node)
        elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            read = node.attr if isinstance(node, ast.Attribute) else node.id
            name = "" if _PLACE.search(read) or read in _LOADS else read
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            name = node.slice.value if isinstance(node.slice.value, str) else ""
        elif isinstance(node, ast.Compare):
            name = next((s.value for s in node.comparators if isinstance(s, ast.Constant) and s.value == "resume"), "")
        if name and _RESUME_NAME.search(name) and not _OTHER_RESUME.search(name):
            return Origin(path, getattr(node, "lineno", 0))
    return None


def _declared(node: ast.Call) -> str:
    """The option that an ``add_argument`` call declares, where it is one for resuming."""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
        names = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        return next((name for name in names if _RESUME_NAME.search(name)), "")
    return ""


def _passed(node: ast.Call) -> str:
    """The name of an argument for resuming that something other than a plain "no" is passed as."""
    for keyword in node.keywords:
        off = isinstance(keyword.value, ast.Constant) and keyword.value.value in (None, False)
        if keyword.arg and not off and _RESUME_NAME.search(keyword.arg):
            return keyword.arg
    return ""


def _callee(node: ast.Call) -> str:
    """What is called, as far as it is written in names."""
    parts: list[str] = []
    function: ast.expr = node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    return ".".join([getattr(function, "id", ""), *reversed(parts)])


def _called(node: ast.Call) -> str:
    """The name of a called function that looks for the last checkpoint or resumes."""
    name = _callee(node).rpartition(".")[2]
    return name if _RESUMING_CALL.search(name) else ""
