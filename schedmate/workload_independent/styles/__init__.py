"""How people write and start training jobs, one function a style; `STYLES` train, `CHORES` do the rest."""

from schedmate.workload_independent.styles.base import Style
from schedmate.workload_independent.styles.chores import CHORES
from schedmate.workload_independent.styles.configured import CONFIGURED
from schedmate.workload_independent.styles.language import LANGUAGE
from schedmate.workload_independent.styles.plain import PLAIN

STYLES: dict[str, Style] = {style.name: style for style in (*PLAIN, *CONFIGURED, *LANGUAGE)}

__all__ = ["CHORES", "STYLES", "Style"]
