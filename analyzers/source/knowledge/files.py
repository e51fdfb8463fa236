"""Reading the data files of this package, quickly and once."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import yaml

#: The C parser where PyYAML has it: the files are read while a submission waits.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def document(*path: str) -> dict[str, Any]:
    """A YAML file of this package."""
    text = files(__package__).joinpath(*path).read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.load(text, _LOADER)
    return loaded


def key(name: str) -> str:
    """A name for comparison: small letters without separators, except where one keeps two numbers apart.

    So ``ViT-B_16`` and ``vit_b_16`` are the same, ``regnet_y_1_6gf`` and ``regnet_y_16gf``, or ``opt-1.3b`` and
    ``opt-13b``, are not.
    """
    apart = re.sub(r"(?<=\d)[\s_/-]+(?=\d)", "-", name.strip().lower())
    return re.sub(r"(?<!\d)[\s_/-]+|[\s_/-]+(?!\d)|[^a-z0-9.-]", "", apart)
