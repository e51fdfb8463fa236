"""A second generator of synthetic workloads, written without a look at the first one or at what reads its programs.

It keeps the first honest: what only reads one author's idea of a training job well shows here. `docs/workload.md`
tells what it models and how the same readers fare on both.
"""

from schedmate.workload_independent.generator import IndependentGenerator

__all__ = ["IndependentGenerator"]
