"""A diagnosis beside the earlier ones of this cluster: compared with them, and kept for later ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.failures.past import FileFailureStore, Told, judge, record_of
from analyzers.types import Diagnosis
from schedmate.config import Settings

if TYPE_CHECKING:
    from analyzers.failures.events import Scan
    from analyzers.failures.topology import Topology

_SHOWN_NODES = 4


class Remembering:
    """One diagnosed job and the store of earlier ones. What is kept is what its own files say, before the comparison:
    else a wrong suspicion would prove itself."""

    def __init__(
        self, settings: Settings, found: Diagnosis, scan: Scan, topology: Topology, told: Told, path: Path
    ) -> None:
        self._found = found
        self._store = FileFailureStore(settings.path("failures.store"))
        unnamed = str(path.resolve())[-200:]
        self._record = record_of(found, scan, topology, told, unnamed=unnamed, now_s=time.time())

    @property
    def known(self) -> int:
        """How many ends of jobs are in the store. Raises `UserError` where it can not be read."""
        return len(self._store)

    @property
    def where_from(self) -> str:
        """Which store that is, and what fills it."""
        return f"{self._store.path} is filled by diagnose --remember and by schedmate failures import"

    def compared(self) -> Diagnosis:
        """The diagnosis with what earlier ones say about it."""
        return judge(self._found, self._record, self._store)

    def keep(self) -> str:
        """Add it to the store; what was kept, in words. Raises `UserError` where that can not be written."""
        self._store.add([self._record])
        this = self._record
        owner = f" of {this.user}" if this.user else ""
        nodes = f", on {_listed(this.nodes)}" if this.nodes else ", on no node that is known"
        what = "that it ended well" if this.category == "none" else f"{this.category} / {this.subcategory}"
        return (
            f"job {this.job_id}{owner}, run {this.attempt}: {what}{nodes}; {self.known:,} ends of jobs are in "
            f"{self._store.path} now"
        )


def _listed(nodes: tuple[str, ...]) -> str:
    more = f" and {len(nodes) - _SHOWN_NODES} more" if len(nodes) > _SHOWN_NODES else ""
    return " ".join(nodes[:_SHOWN_NODES]) + more
