"""One sitting of one user: tries out, runs, sweeps, evaluates, looks, repairs and tries again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from schedmate.workload.types import Ask, Generated, Kind, Truth
from schedmate.workload_independent.draws import Draw
from schedmate.workload_independent.endings import Ends, Intent
from schedmate.workload_independent.people import People, User
from schedmate.workload_independent.physics import Costs, Machines
from schedmate.workload_independent.settings import Draft, Project, Setting
from schedmate.workload_independent.styles import CHORES, STYLES
from schedmate.workload_independent.styles.base import RATE_FACTORS
from schedmate.workload_independent.tables import tables
from schedmate.workload_independent.timeline import Course, course, steps_of

_LONGEST_RUN_S = 60 * 3600.0
#: Of what XLA and TensorFlow take of a GPU's memory at once, whatever the model needs (their documented defaults).
_TAKEN_AT_ONCE = {"flax": 0.75, "keras": 0.94, "generate": 0.90}
_WHOLE_BATCHES = frozenset({"positional", "toml_profiles", "flax"})
#: Writing text token by token against reading it at once.
_TOKEN_BY_TOKEN = 4.0


@dataclass(slots=True)
class _Folder:
    """The tree that jobs are launched from; its letter changes with every edit."""

    stem: str
    base: Setting
    edits: int = 0

    def edit_for(self, run: Setting, on_launch: frozenset[str]) -> None:
        """Write into the files what a launch can not change."""
        written = {name: getattr(run, name) for name in Setting.__dataclass_fields__ if name not in on_launch}
        edited = replace(self.base, **written)
        if edited != self.base:
            self.base, self.edits = edited, self.edits + 1

    @property
    def name(self) -> str:
        return self.stem + (chr(ord("a") + self.edits % 26) * (1 + self.edits // 26) if self.edits else "")


class Sessions:
    """Makes the jobs of any sitting by its number. Sittings must be asked for in order: ends are held to shares."""

    def __init__(self, seed: int, people: People, machines: Machines, profile: str) -> None:
        self._seed, self._people, self._machines = seed, people, machines
        self._ends = Ends(profile)
        self._habits = tables().numbers["sessions"]

    def jobs(self, number: int) -> Iterator[Generated[Draft]]:
        """The jobs of one sitting; ``submit_s`` counts from its begin, ``job_id`` is left empty."""
        draw = Draw(self._seed, "session", number)
        shape = draw.weighted({name: self._habits[name] for name in _SHAPES})
        user = self._people.someone(draw)
        chore = shape == "evaluate"
        project = self._people.project(user, draw.whole(0, 1 if chore else user.projects - 1), chore=chore)
        base = self._sensible(project, self._people.usual(user, project))
        if not chore and draw.chance(tables().numbers["users"]["changes_mind"]):
            base = self._sensible(project, self._people.shrunk(project, _reconsidered(base, draw)))
        folder = _Folder(f"{user.name}/{project.name}-{number}", base)
        clock_s = 0.0
        for why, kind, run in self._plan(shape, project, base, draw):
            submit_s, tries, reason, now = clock_s, 0, why, run
            while True:
                job = self._job(user, project, folder, now, (reason, kind), submit_s, draw)
                yield job
                failed = job.truth.outcome in ("failed", "timeout")
                if not failed or tries >= self._habits["most_retries"] or not draw.chance(self._habits["retries"]):
                    break
                tries, reason = tries + 1, "retry"
                submit_s += job.truth.duration_s + draw.between(*self._habits["think_s"])
                now = _repaired(self._people, project, folder.base, now, job.recipe.cause)
            # A sweep is handed in at once; everything else waits for what came before.
            clock_s = (clock_s if why == "sweep" else submit_s + job.truth.duration_s) + draw.between(
                *self._habits["sweep_gap_s" if why == "sweep" else "think_s"]
            )

    def _plan(self, shape: str, project: Project, base: Setting, draw: Draw) -> Iterator[tuple[str, Kind, Setting]]:
        style = (STYLES | CHORES)[project.style]
        if shape == "evaluate":
            for _ in range(draw.whole(1, 3)):
                yield "evaluation", "evaluation", base
            return
        if shape in ("debug_then_run", "debug_only"):
            small = replace(base, steps=draw.one((20, 50, 100, 200))) if base.steps else replace(base, epochs=1)
            for _ in range(draw.whole(*self._habits["debug_tries"])):
                yield "debug", "debug", small
        if shape == "sweep":
            if "runs" in style.can_change(project) and draw.chance(0.6):
                yield (
                    "single",
                    "single",
                    replace(base, runs=tuple(base.rate * f for f in RATE_FACTORS[: draw.whole(2, 4)])),
                )
                return
            size = draw.whole(*self._habits["sweep_size"])
            seeds = "seed" in style.can_change(project) and draw.chance(0.5)
            for index in range(size if seeds else min(size, len(RATE_FACTORS))):
                changed = (
                    {"seed": base.seed + index} if seeds else {"rate": float(f"{base.rate * RATE_FACTORS[index]:g}")}
                )
                yield "sweep", "sweep", replace(base, **changed)
        if shape in ("one_run", "debug_then_run"):
            yield "single", "single", base

    def _job(
        self,
        user: User,
        project: Project,
        folder: _Folder,
        run: Setting,
        why: tuple[str, Kind],
        submit_s: float,
        draw: Draw,
    ) -> Generated[Draft]:
        style = (STYLES | CHORES)[project.style]
        intent = self._ends.intend(draw, why[0], user.carelessness, _impossible(run, project))
        if intent.cause == "gpu_oom":
            run, intent = self._too_big(project, run, intent)
        folder.edit_for(run, style.can_change(project))
        program = style.program(project, folder.base, run)
        costs, steps, per_epoch = self._costs(project, run, draw, program.compiles)
        planned_s = costs.startup_s + steps * costs.step_s + steps // (per_epoch or 1_000) * costs.pause_s
        limit_s = _limit_s(user, planned_s, draw)
        happened = course(run, costs, steps, per_epoch, intent, limit_s, draw)
        self._ends.happened(happened.outcome)
        cause = intent.cause if happened.outcome == "failed" else None
        ask = Ask(
            job_id="",
            submit_s=submit_s,
            user=user.name,
            tenant=user.tenant,
            name=f"{project.name}{'-dbg' if why[1] == 'debug' else ''}",
            tree=folder.name,
            command=program.command,
            gpus=run.gpus,
            nodes=run.nodes,
            gpu_type=self._machines.spec.gpu_type,
            limit_s=limit_s,
        )
        truth = self._truth(project, why[1], costs, per_epoch, happened, cause)
        truth = replace(truth, facts=program.facts, unread_options=program.unread)
        return Generated(ask, truth, Draft(project, folder.base, run, program, per_epoch, cause))

    def _truth(
        self, project: Project, kind: Kind, costs: Costs, per_epoch: int | None, happened: Course, cause: str | None
    ) -> Truth:
        memory_mib, whole_mib = costs.gpu_memory_mib, float(self._machines.spec.gpu_memory_mib)
        if project.style in _TAKEN_AT_ONCE:
            memory_mib = max(memory_mib, _TAKEN_AT_ONCE[project.style] * whole_mib)
        if cause == "gpu_oom":
            memory_mib = whole_mib * 0.985
        stepping_s = happened.steps_done * costs.step_s
        return Truth(
            kind=kind,
            style=project.style,
            duration_s=happened.duration_s,
            outcome=happened.outcome,
            steps_planned=happened.steps_planned,
            steps_per_epoch=per_epoch,
            steps_done=happened.steps_done,
            step_s=costs.step_s,
            startup_s=costs.startup_s,
            stopped_early=happened.stopped_early,
            failure=cause,
            peak_gpu_memory_mib=round(min(memory_mib, whole_mib * 0.985)),
            mean_gpu_utilization=round(min(1.0, costs.busy * stepping_s / happened.duration_s), 3),
            communication_share=round(costs.communication, 4),
            peak_host_memory_mib=round(costs.host_memory_mib),
            facts={},
        )

    def _costs(self, project: Project, run: Setting, draw: Draw, compiles: bool) -> tuple[Costs, int, int | None]:
        """Costs, steps of the run, steps of an epoch; work that trains nothing has one pass and no epochs."""
        if project.style not in CHORES:
            costs = self._machines.costs(project, run, draw, compiles=compiles)
            return costs, *steps_of(run, project.dataset.train, whole_batches=project.style in _WHOLE_BATCHES)
        costs = self._machines.costs(project, run, draw, train=False)
        if project.style == "opaque":
            work = Draw(self._seed, "opaque", project.key)
            return (
                replace(costs, step_s=work.log_between(0.002, 1.0) * draw.scatter(0.1)),
                round(work.log_between(2e3, 3e5) * draw.scatter(0.2)),
                None,
            )
        rows = project.dataset.val
        if project.style != "evaluate":
            rows = round(Draw(self._seed, "rows", project.key).log_between(1e3, 2e5))
        if project.style == "generate":
            costs = replace(costs, step_s=costs.step_s * _TOKEN_BY_TOKEN / run.gpus)
        return costs, max(1, -(-rows // run.batch)), None

    def _sensible(self, project: Project, run: Setting) -> Setting:
        """Nobody plans a run that never ends: fewer epochs or steps until it fits in a few days."""
        if project.style in CHORES:
            return replace(run, batch=run.batch * 64) if project.style == "generate" else run
        while True:
            costs, steps, _ = self._costs(project, run, Draw(0, "sensible"), False)
            if steps * costs.step_s < _LONGEST_RUN_S or (run.epochs or run.steps or 1) <= 1:
                return run
            run = (
                replace(run, epochs=run.epochs // 2)
                if run.epochs
                else replace(run, steps=max(1, (run.steps or 2) // 2))
            )

    def _too_big(self, project: Project, run: Setting, intent: Intent) -> tuple[Setting, Intent]:
        """The batch that its user tried although it does not fit; where all fit, another cause."""
        big = run
        for _ in range(6):
            big = replace(big, batch=big.batch * 2)
            if not self._machines.fits(project, big, 1.05):
                return big, intent
        return run, Intent("failed", "shape_mismatch", "first_steps")


_SHAPES = ("one_run", "debug_then_run", "debug_only", "sweep", "evaluate")


def _impossible(run: Setting, project: Project) -> frozenset[str]:
    out = set()
    if run.nodes == 1:
        out.add("nccl_timeout")
    if project.style in CHORES:
        out |= {"nan_loss", "gpu_oom", "shape_mismatch", "bad_argument"}
    if project.style == "opaque":
        out |= {"import_error", "bad_sample"}
    return frozenset(out)


def _reconsidered(base: Setting, draw: Draw) -> Setting:
    """Somewhat other settings than usual."""
    pick = draw.one(("batch", "length", "rate"))
    if pick == "batch":
        return replace(base, batch=max(1, draw.one((base.batch // 2, base.batch * 2))))
    if pick == "rate":
        return replace(base, rate=float(f"{base.rate * draw.one((0.5, 2.0)):g}"))
    factor = draw.one((0.5, 2.0, 3.0))
    if base.epochs:
        return replace(base, epochs=max(1, round(base.epochs * factor)))
    return replace(base, steps=max(10, round((base.steps or 0) * factor)))


def _repaired(people: People, project: Project, base: Setting, run: Setting, cause: str | None) -> Setting:
    """What the next try is set to, given what went wrong."""
    if cause in ("gpu_oom", "host_oom"):
        return people.shrunk(project, replace(run, batch=max(1, run.batch // 2)))
    if cause == "nan_loss":
        return replace(run, rate=float(f"{base.rate * 0.3:g}"))
    return run


def _limit_s(user: User, planned_s: float, draw: Draw) -> float:
    """What the user asks for, in the round numbers that people type."""
    numbers = tables().numbers["users"]
    if user.takes_default:
        return user.default_limit_s
    wanted_h = planned_s * draw.scatter(numbers["limit_guess_sigma"]) * user.padding / 3600
    steps: list[float] = numbers["round_limits_h"]
    return 3600.0 * next((hours for hours in steps if hours >= wanted_h), steps[-1])
