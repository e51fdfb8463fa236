"""The record of ended jobs and the search for those most like a new one.

File-backed here; the service implements the same `HistoryStore` port on SQL, with the same `HistoryIndex`.
"""

from analyzers.history.index import HistoryIndex
from analyzers.history.memory import MemoryHistoryStore
from analyzers.history.store import FileHistoryStore

__all__ = ["FileHistoryStore", "HistoryIndex", "MemoryHistoryStore"]
