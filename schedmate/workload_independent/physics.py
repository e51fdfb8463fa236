"""How long a run takes and what it needs: arithmetic over an efficiency that nobody who reads programs can know."""

from __future__ import annotations

import math
from dataclasses import dataclass

from schedmate.workload.types import ClusterSpec
from schedmate.workload_independent.draws import Draw
from schedmate.workload_independent.settings import Project, Setting
from schedmate.workload_independent.tables import tables

_BYTES_PER_MIB = 2**20
#: Weights, gradients and two moments in single precision, and a half-precision copy.
_STATE_BYTES = {"fp32": 16, "tf32": 16, "bf16": 18, "amp-fp16": 18}
_ADAPTER_SHARE = 0.006
#: Styles whose programs throw activations away and compute them again: a third more arithmetic, little memory.
_RECOMPUTES = frozenset({"trl_sft"})
#: Kernel launches and the optimizer's own work in one step.
_STEP_OVERHEAD_S = 0.012
#: Part of the gradient exchange that hides behind the backward pass.
_OVERLAP = 0.55


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds and MiB of one run. ``step_s`` has no pauses in it; ``pause_s`` comes once an epoch or a validation."""

    startup_s: float
    step_s: float
    pause_s: float
    busy: float
    communication: float
    gpu_memory_mib: float
    host_memory_mib: float


@dataclass(frozen=True, slots=True)
class Machines:
    """One cluster as it really is."""

    spec: ClusterSpec
    seed: int

    def factor(self, name: str, sigma: float, *key: object) -> float:
        """A lasting trait of the cluster, a user or a project, as a factor with median 1."""
        return Draw(self.seed, "trait", name, *key).scatter(sigma)

    def costs(self, project: Project, run: Setting, draw: Draw, *, train: bool = True, compiles: bool = False) -> Costs:
        """What this run costs; ``draw`` is the chance of this one run."""
        numbers = tables().numbers
        share = numbers["efficiency"]
        model, length = project.model, run.length or 0
        lasting = (
            self.factor("cluster", share["sigma_cluster"])
            * self.factor("user", share["sigma_user"], project.user)
            * self.factor("project", share["sigma_project"], project.key)
        )
        reached = min(
            0.75, model.eff * share["precision_gain"][run.precision] * lasting * draw.scatter(share["sigma_run"])
        )
        peak = self.spec.peak_flops * share["precision"][run.precision]
        flops = model.flops_per_sample(length) * (1.0 if train else 1 / 3)
        if project.style in _RECOMPUTES:
            flops *= 4 / 3
        compute_s = run.accum * (run.batch * flops / (peak * reached) + _STEP_OVERHEAD_S / lasting)
        slow = self.factor("input", numbers["input"]["core_slowdown_sigma"], project.user)
        per_sample_s = project.dataset.cpu_ms / 1e3 * slow
        cores = max(1.0, run.workers * 0.85)
        input_s = run.accum * run.batch * per_sample_s / cores
        exchange_s = self._exchange_s(model.params * (_ADAPTER_SHARE if model.adapter else 1.0), run) if train else 0.0
        # With workers the input is fetched beside the arithmetic, and the slower of the two sets the pace.
        fetch_s = max(0.0, input_s - compute_s) if run.workers else input_s
        step_s = compute_s + exchange_s + fetch_s + 0.03 * input_s
        return Costs(
            startup_s=self._startup_s(project, run, draw, compiles),
            step_s=step_s,
            pause_s=self._pause_s(project, run, compute_s / run.accum, per_sample_s / cores) if train else 0.0,
            busy=compute_s / step_s * min(1.0, 0.35 + 0.65 * min(1.0, reached * 3)),
            communication=exchange_s / step_s,
            gpu_memory_mib=self._gpu_memory_mib(project, run, draw, train),
            host_memory_mib=run.nodes * 2_500 + run.gpus * (3_200 + run.workers * 420) * draw.scatter(0.2),
        )

    def _exchange_s(self, params: float, run: Setting) -> float:
        if run.gpus == 1:
            return 0.0
        width = self.spec.inter_node_bytes_s * run.gpus_per_node if run.nodes > 1 else self.spec.intra_node_bytes_s
        sent = 2 * params * (4 if run.precision in ("fp32", "tf32") else 2) * (run.gpus - 1) / run.gpus
        return (1 - _OVERLAP) * sent / (0.6 * width) + 2e-5 * math.log2(run.gpus)

    def _startup_s(self, project: Project, run: Setting, draw: Draw, compiles: bool) -> float:
        pauses = tables().numbers["pauses"]
        weights_mib = project.model.params * 4 / _BYTES_PER_MIB
        startup_s: float = draw.between(*pauses["startup_s"]) + pauses["queue_of_imports_s"] * run.nodes
        startup_s += draw.log_between(*pauses["dataset_index_s"]) + weights_mib / pauses["weights_mib_s"]
        return startup_s + (draw.log_between(*pauses["compile_s"]) if compiles else 0.0)

    def _pause_s(self, project: Project, run: Setting, batch_s: float, per_sample_s: float) -> float:
        """Validation over the whole held-out set, and writing the weights."""
        pauses = tables().numbers["pauses"]
        batches = math.ceil(project.dataset.val / (run.batch * run.gpus))
        if run.steps is not None:
            batches = min(batches, 100)
        one_s: float = max(batch_s * pauses["validation_cost"], per_sample_s * run.batch)
        weights_mib = project.model.params * (_ADAPTER_SHARE if project.model.adapter else 3) * 4 / _BYTES_PER_MIB
        return batches * one_s + weights_mib / float(pauses["weights_mib_s"])

    def _gpu_memory_mib(self, project: Project, run: Setting, draw: Draw, train: bool) -> float:
        model = project.model
        state = 2.0 if not train else 2.0 + 16 * _ADAPTER_SHARE if model.adapter else _STATE_BYTES[run.precision]
        wide = 1.8 if run.precision in ("fp32", "tf32") else 1.0
        kept = 0.2 if project.style in _RECOMPUTES else 1.0
        live = kept * model.activations_mib(run.length or 0) * run.batch * wide * (1.0 if train else 0.15)
        return (750 + model.params * state / _BYTES_PER_MIB + live) * draw.between(1.03, 1.18)

    def fits(self, project: Project, run: Setting, margin: float = 0.85) -> bool:
        """Whether the run stays below this share of a GPU's memory, as its user would have found out."""
        return self._gpu_memory_mib(project, run, Draw(0, "middle"), True) < margin * self.spec.gpu_memory_mib
