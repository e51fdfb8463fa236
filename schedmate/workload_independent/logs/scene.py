"""What every bad end has in common: who was where, tracebacks, and what others print because of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from schedmate.workload.types import FailureTruth, Generated, moment
from schedmate.workload_independent.draws import Draw
from schedmate.workload_independent.settings import Draft

#: Styles whose programs drive all their GPUs from one process.
_ONE_PROCESS = frozenset({"positional", "keras", "flax", "generate"})


@dataclass(frozen=True, slots=True)
class Ending:
    """Text at the end of the main log, files beside it, what is true. ``before_training``: it never came to step."""

    tail: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)
    truth: FailureTruth | None = None
    before_training: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """A job at its end: ``rank`` is the one that something happened to, ``nodes`` where it ran."""

    job: Generated[Draft]
    end_s: float
    nodes: tuple[str, ...]
    rank: int
    draw: Draw

    @property
    def user(self) -> str:
        """Whose job it is."""
        return self.job.ask.user

    @property
    def entry(self) -> str:
        """The program's own file."""
        return next((path for path in self.job.recipe.program.files if path.endswith(".py")), "main.py")

    @property
    def node(self) -> str:
        """Where the rank was."""
        return self.nodes[self.rank * len(self.nodes) // self.job.ask.gpus]

    @property
    def has_ranks(self) -> bool:
        """Whether there is a process for each GPU."""
        return self.job.ask.gpus > 1 and self.job.truth.style not in _ONE_PROCESS

    @property
    def home(self) -> str:
        """The folder that tracebacks name."""
        return f"/home/{self.user}/{self.job.recipe.project.name}"


def stamp(scene: Scene) -> str:
    """When it ended, as Slurm prints it."""
    return f"{moment(scene.end_s):%Y-%m-%dT%H:%M:%S}"


def traceback(scene: Scene, line: str, *deeper: str) -> str:
    """A traceback of this job; ranks beyond the first carry torchrun's prefix, and its echo comes after."""
    words = scene.job.recipe.project.words
    text = [
        "Traceback (most recent call last):",
        f'  File "{scene.home}/{scene.entry}", line {scene.draw.whole(20, 140)}, in <module>',
    ]
    text += [f"    {words['entry']}()" if scene.draw.chance(0.4) else "    main()"]
    for place in deeper:
        function = scene.draw.one(("forward", "_call_impl", "__init__", "load"))
        text += [f'  File "{place}", line {scene.draw.whole(40, 2400)}, in {function}']
    text.append(line)
    many = scene.has_ranks
    out = "\n".join(f"[rank{scene.rank}]: {row}" if many and scene.rank else row for row in text) + "\n"
    if many:
        out += _others_give_up(scene)
        out += (
            f"W{moment(scene.end_s):%m%d %H:%M:%S}.104000 22881 "
            "torch/distributed/elastic/multiprocessing/api.py:900] Sending process "
            f"{22900 + scene.rank + 1} closing signal SIGTERM\n"
            f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n{'=' * 60}\n{scene.entry} FAILED\n"
            f"Root Cause (first observed failure):\n[0]:\n  rank      : {scene.rank} (local_rank: {scene.rank % 8})\n"
            f"  exitcode  : 1 (pid: {22900 + scene.rank})\n"
        )
    return "\n" + out


def _others_give_up(scene: Scene) -> str:
    """What other ranks print because this one is gone: louder than the cause, and later."""
    others = [rank for rank in range(min(scene.job.ask.gpus, 8)) if rank != scene.rank]
    echo = scene.draw.one(
        (
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1251, remote "
            "process exited or there was "
            "a network error, NCCL version 2.21.5\nncclRemoteError: A call failed possibly due to a "
            "network error or a remote "
            "process exiting prematurely.",
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by "
            "peer [10.1.4.7]:34811",
            "",
        )
    )
    if not echo:
        return ""
    rows = [
        f"[rank{rank}]: {row}" for rank in others for row in ("Traceback (most recent call last):", *echo.splitlines())
    ]
    return "\n".join(rows) + "\n"


def told(
    scene: Scene, category: str, subcategory: str, actions: tuple[str, ...], *lines: str, node: bool = False
) -> FailureTruth:
    """The truth of this cause; ``node`` puts the node at fault and no rank."""
    many = scene.has_ranks
    return FailureTruth(
        failure=str(scene.job.truth.failure),
        category=category,  # type: ignore[arg-type]
        subcategory=subcategory,
        actions=actions,
        ranks=(scene.rank,) if many and not node else (),
        nodes=(scene.node,) if node else (),
        lines=lines,
    )


def everywhere(truth: FailureTruth) -> FailureTruth:
    """All ranks do the same wrong thing: no one of them is to blame."""
    return replace(truth, ranks=())
