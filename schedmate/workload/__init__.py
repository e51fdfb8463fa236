"""Synthetic workloads: jobs as real programs, what they are asked for, and the truth that only the generator knows."""

from schedmate.workload.generator import SemanticGenerator
from schedmate.workload.types import Ask, ClusterSpec, FailureTruth, Generated, Generator, LogFile, Truth, WorkloadSpec

__all__ = [
    "Ask",
    "ClusterSpec",
    "FailureTruth",
    "Generated",
    "Generator",
    "LogFile",
    "SemanticGenerator",
    "Truth",
    "WorkloadSpec",
]
