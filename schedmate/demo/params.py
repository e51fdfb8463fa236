"""Every number the synthetic workload is drawn from, in one place, with where it comes from.

Sources, by short name:

- *Philly*: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC
  2019.
- *Helios*: Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters", SC
  2021.
- *PAI*: Weng et al., "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale Heterogeneous GPU Clusters",
  NSDI 2022.
- *Acme*: Hu et al., "Characterization of Large Language Model Development in the Datacenter", NSDI 2024.
- *Tsafrir*: Tsafrir, Etsion and Feitelson, "Backfilling Using System-Generated Predictions Rather than User Runtime
  Estimates", IEEE TPDS 2007 (and their earlier model of user estimates, JSSPP 2005).

A number without a source is a choice of ours and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """One pool of identical nodes (choice: small enough to read on one page)."""

    nodes: int = 16
    gpus_per_node: int = 8
    gpu_type: str = "A100-80GB"
    #: Dense bf16 peak of the A100 from its data sheet, FLOP/s.
    peak_flops: float = 312e12
    gpu_memory_mib: int = 81_920
    #: NVLink inside a node and one 200 Gbit/s NIC per GPU between nodes, as usable bytes/s (choice).
    intra_node_bytes_s: float = 200e9
    inter_node_bytes_s: float = 18e9

    @property
    def gpus(self) -> int:
        """All GPUs of the cluster."""
        return self.nodes * self.gpus_per_node


#: GPUs of a project. Helios: more than half of the jobs use one GPU, fewer than a tenth use more than eight and those
#: take most of the GPU time. Philly's public log is more extreme (93 % one GPU); Acme less so.
GPUS_SHARE: Mapping[int, float] = {1: 0.56, 2: 0.09, 4: 0.11, 8: 0.16, 16: 0.05, 32: 0.025, 64: 0.005}

#: What a session is. PAI: most tasks are repeats of earlier ones; Helios and Acme: debugging and evaluation are most
#: of the jobs and little of the GPU time. The split itself is ours.
SESSION_SHARE: Mapping[str, float] = {"single": 0.45, "debug_then_run": 0.27, "sweep": 0.08, "evaluation": 0.20}
SWEEP_JOBS = (3, 8)
DEBUG_RUNS = (1, 3)

#: How jobs end that do not fail by their own limit. Philly, table 6: 69.3 % passed, 13.5 % killed, 17.2 % unsuccessful.
#: Applied per kind so that the whole stays near these: debug runs fail and are killed more often than sweeps complete.
END_SHARE: Mapping[str, Mapping[str, float]] = {
    "single": {"completed": 0.70, "cancelled": 0.13, "failed": 0.17},
    "debug": {"completed": 0.62, "cancelled": 0.10, "failed": 0.28},
    "sweep": {"completed": 0.68, "cancelled": 0.22, "failed": 0.10},
    "evaluation": {"completed": 0.88, "cancelled": 0.04, "failed": 0.08},
}

#: Failure causes. Philly, table 7 (trials): host out of memory, incorrect inputs and semantic errors lead; Acme,
#: table 3: Python errors lead by count, hardware by GPU time; shares below follow their order, not their decimals.
FAILURE_SHARE: Mapping[str, float] = {
    "exception": 0.30,
    "config": 0.14,
    "cuda_oom": 0.18,
    "host_oom": 0.12,
    "bad_sample": 0.10,
    "disk_full": 0.06,
    "gpu_fault": 0.06,
    "link_fault": 0.04,
}
#: Where in the planned run a failure strikes, as (low, high) of the planned fraction, log-uniform. Philly, section 4.2:
#: user errors come early, infrastructure failures at any time.
FAILURE_AT: Mapping[str, tuple[float, float]] = {
    "exception": (0.002, 0.3),
    "config": (0.0, 0.0),
    "cuda_oom": (0.0005, 0.05),
    "host_oom": (0.02, 0.6),
    "bad_sample": (0.01, 0.7),
    "disk_full": (0.1, 0.9),
    "gpu_fault": (0.05, 0.95),
    "link_fault": (0.05, 0.95),
}
#: Causes that only make sense with several ranks on several nodes.
NEEDS_SEVERAL_NODES = frozenset({"link_fault"})

#: Run length that a user plans for a single-GPU project: log-normal (choice: median and spread such that durations span
#: minutes to days, as in all four papers); Philly figure 3: larger jobs run longer.
PLANNED_MEDIAN_S = 2.8 * 3600
PLANNED_SIGMA = 1.35
PLANNED_GROWTH_PER_GPU = 0.18
PLANNED_RANGE_S = (420.0, 24 * 3600.0)
DEBUG_STEPS = (20, 200)
EVALUATION_MEDIAN_S = 420.0
EVALUATION_SIGMA = 0.7

#: Limits on offer (hours). Tsafrir: users pick few round values, many the largest, and overestimate severalfold.
LIMIT_HOURS = (0.5, 1, 2, 4, 8, 12, 24, 48, 72)
LIMIT_IS_MAXIMUM_SHARE = 0.25
LIMIT_FACTOR_MEDIAN = 2.4
LIMIT_FACTOR_SIGMA = 0.7

#: Share of submissions by hour of the day. Helios figure 3: low at night, a dip at lunch and at dinner.
HOURLY = (3, 2, 1.5, 1, 1, 1, 1.5, 2, 4, 6, 7, 6.5, 5, 5.5, 6.5, 7, 6.5, 6, 4.5, 4.5, 5, 5, 4.5, 4)

#: Users by activity: PAI reports 5 % of users with three quarters of the work; we soften it to a Zipf exponent of 0.9.
USER_ZIPF = 0.9
PROJECTS_PER_USER = 3


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """Size of the workload. ``load`` is GPU time asked for over GPU time offered while jobs arrive."""

    seed: int = 1
    jobs: int = 400
    users: int = 24
    load: float = 0.95
    cluster: ClusterSpec = field(default_factory=ClusterSpec)


TENANTS = ("vision", "language", "speech", "robotics", "platform")
#: Date of second 0 of the workload, only for time stamps in logs (a Monday, UTC).
EPOCH_DATE = "2026-03-02T00:00:00+00:00"
