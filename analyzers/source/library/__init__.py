"""Models of library functions that carry values: what argparse, YAML, Hydra and their like do with what they are given.

Importing this package registers them.
"""

from analyzers.source.library import (
    arguments,
    builtin,
    configs,
    environments,
    estimators,
    flags,
    frameworks,
    layers,
    lightning_cli,
    methods,
    nested_cli,
    nodes,
    pyconfigs,
    signatures,
    submission,
    system,
    timm_factories,
    typed_cli,
)

__all__ = [
    "arguments", "builtin", "configs", "environments", "estimators", "flags", "frameworks", "layers",
    "lightning_cli", "methods", "nested_cli", "nodes", "pyconfigs", "signatures", "submission", "system",
    "timm_factories", "typed_cli",
]  # fmt: skip
