"""Models of library functions that carry values: what argparse, YAML, Hydra and their like do with what they are given.

Importing this package registers them.
"""

from analyzers.source.library import (
    arguments,
    builtin,
    configs,
    flags,
    frameworks,
    lightning_cli,
    methods,
    nodes,
    pyconfigs,
    signatures,
    submission,
    system,
    typed_cli,
)

__all__ = [
    "arguments", "builtin", "configs", "flags", "frameworks", "lightning_cli", "methods", "nodes", "pyconfigs",
    "signatures", "submission", "system", "typed_cli",
]  # fmt: skip
