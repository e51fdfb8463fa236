"""What earlier failures say about this one, about nodes and about jobs that keep failing."""

from analyzers.failures.past.accounting_records import records_of_rows
from analyzers.failures.past.judge import WINDOW_S, judge
from analyzers.failures.past.lemons import ALPHA, NodeStanding, rank_nodes
from analyzers.failures.past.record import Told, record_of
from analyzers.failures.past.repeats import ENOUGH, Repeated, repeat_offenders
from analyzers.failures.past.store import FileFailureStore

__all__ = [
    "ALPHA", "ENOUGH", "WINDOW_S", "FileFailureStore", "NodeStanding", "Repeated", "Told", "judge", "rank_nodes",
    "record_of", "records_of_rows", "repeat_offenders",
]  # fmt: skip
