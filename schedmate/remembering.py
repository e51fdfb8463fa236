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

    def compared(self) -> Diagnosis:
        """The diagnosis with what earlier ones say about it."""
        return judge(self._found, self._record, self._store)

    def keep(self) -> None:
        """Add it to the store. Raises `UserError` where that can not be written."""
        self._store.add([self._record])
