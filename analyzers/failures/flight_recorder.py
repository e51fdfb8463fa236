"""Reads the dumps of PyTorch's flight recorder and finds who did not come to a collective, or came with another one.

Every rank keeps the last collectives that it enqueued and writes them down when one times out, as a pickle (read here
by a reader that builds nothing but plain values) or as JSON.
Source: https://pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from analyzers.logs.companions import LogFile
from analyzers.types import LogEvidence

MOST_BYTES = 32 * 1024 * 1024
#: The recorder's ring holds 2,000 calls unless told otherwise; more of them, shapes, ranks or frames are left out.
MOST_CALLS = 20_000
MOST_SHAPES, MOST_DIMENSIONS = 8, 16
MOST_MEMBERS = 200_000
MOST_FRAMES = 64
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python3|<frozen|/torch/")
#: Collectives in which every rank must bring the same shapes; others may differ by rank.
_EQUAL_SHAPES = frozenset({"all_reduce", "reduce_scatter", "_reduce_scatter_base", "_all_gather_base"})


@dataclass(frozen=True, slots=True)
class Call:
    """One collective that a rank enqueued: the ``sequence``-th of its group. ``evidence`` says it in one line."""

    group: str
    sequence: int
    operation: str
    shapes: str
    done: bool
    evidence: LogEvidence


@dataclass(frozen=True, slots=True)
class Record:
    """What one rank wrote down: its calls by group and sequence number, and who belongs to each group."""

    rank: int
    calls: dict[tuple[str, int], Call]
    members: dict[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Stuck:
    """The collective at which the job hung. ``ranks`` stand out: those that came with another operation
    (``mismatch``), or those that did not come though the others waited. ``calls``: what they did, last first."""

    ranks: tuple[int, ...]
    mismatch: bool
    calls: tuple[Call, ...]
    waited_in: Call


class _Plain(pickle.Unpickler):
    """Builds dictionaries, lists, tuples, numbers and strings; any class in the stream is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"names {module}.{name}")


def read_dumps(files: Iterable[LogFile], warn: Callable[[str], None]) -> list[Record]:
    """The records of all dumps that can be read; the others are named to ``warn``."""
    found: dict[int, Record] = {}
    for file in files:
        try:
            record = _record(file)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, EOFError, pickle.UnpicklingError,
                RecursionError, IndexError, MemoryError, OverflowError) as error:  # fmt: skip
            warn(f"{file.name}: is no flight-recorder dump that can be read ({type(error).__name__}): skipped")
            continue
        found.setdefault(record.rank, record)
    return list(found.values())


def _record(file: LogFile) -> Record:
    with file.path.open("rb") as stream:
        raw = stream.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise ValueError("too large")
    tree = json.loads(raw) if raw.lstrip()[:1] == b"{" else _Plain(io.BytesIO(raw)).load()
    if file.rank is None:
        raise ValueError("no rank in its name")
    calls: dict[tuple[str, int], Call] = {}
    for at, entry in enumerate(tree["entries"][-MOST_CALLS:], 1):
        if not isinstance(entry, Mapping) or entry.get("is_p2p"):
            continue
        call = _call(file.name, at, entry)
        calls[call.group, call.sequence] = call
    members = {str(name): _ranks(group) for name, group in dict(tree.get("pg_config") or {}).items()}
    return Record(file.rank, calls, members)


def _call(file: str, at: int, entry: Mapping[str, Any]) -> Call:
    name = entry["process_group"]
    group = _word(name[0] if isinstance(name, list | tuple) else name, 80)
    operation = _word(entry["profiling_name"], 200).rpartition(":")[2][:60]
    shapes = " ".join(map(_shape, list(entry.get("input_sizes") or ())[:MOST_SHAPES]))
    state = _word(entry.get("state", ""), 20)
    sequence = int(entry.get("collective_seq_id", entry.get("seq_id", -1)))
    frame = _own_frame(entry.get("frames") or ())
    text = f"{operation} number {sequence} of group {group}, shapes {shapes or 'unknown'}, {state}{frame}"
    return Call(group, sequence, operation, shapes, state == "completed", LogEvidence(file, at, text))


def _own_frame(frames: Iterable[Any]) -> str:
    """Where the job's own code called it."""
    for frame in list(frames)[:MOST_FRAMES]:
        path = _word(frame.get("filename", ""), 4096)
        if path and not _LIBRARY.search(path):
            return f", called at {path[-160:]}:{int(frame.get('line', 0))} in {_word(frame.get('name', ''), 80)}"
    return ""


def _word(value: Any, most: int) -> str:
    """A plain word. Anything built of other things is refused: a few bytes can stand for gigabytes of text."""
    if not isinstance(value, str | int):
        raise TypeError(f"{type(value).__name__} where a word was expected")
    return str(value)[:most]


def _shape(size: Any) -> str:
    """The shape of one tensor, ``[8, 128]``."""
    if not isinstance(size, list | tuple):
        return _word(size, 20)
    return f"[{', '.join(_word(number, 20) for number in size[:MOST_DIMENSIONS])}]"


def _ranks(group: Any) -> frozenset[int]:
    said = group.get("ranks", "") if isinstance(group, Mapping) else group
    numbers = re.findall(r"\d{1,7}", said) if isinstance(said, str) else list(said)
    if len(numbers) > MOST_MEMBERS:
        raise ValueError("more ranks than any job has")
    return frozenset(int(_word(number, 7)) for number in numbers)


def find_stuck(records: list[Record]) -> Stuck | None:
    """Where the ranks part: the first collective, in each group, that some enqueued and others did not or not alike.
    A rank that is absent from one group because it waits in another is not to blame; the one that waits nowhere is.
    """
    if len(records) < 2:
        return None
    parted = [found for group in sorted({g for r in records for g, _ in r.calls}) if (found := _part(group, records))]
    for found in parted:
        if found.mismatch:
            return found
    waiting = {rank for found in parted for rank in _present(found, records)}
    blamed = [(found, tuple(r for r in found.ranks if r not in waiting)) for found in parted]
    for found, ranks in blamed:
        if ranks:
            return Stuck(ranks, False, _last_calls(ranks, records), found.waited_in)
    return None


def _part(group: str, records: list[Record]) -> Stuck | None:
    here = [r for r in records if any(g == group for g, _ in r.calls)]
    members = _members(group, records) or {r.rank for r in here}
    told = [r for r in records if r.rank in members]
    if len(members) < 2 or len(here) < 1:
        return None
    numbers = sorted({n for r in here for g, n in r.calls if g == group})
    oldest = max((min(n for g, n in r.calls if g == group) for r in here), default=0)
    for number in (n for n in numbers if n >= oldest):
        calls = {r.rank: r.calls[group, number] for r in told if (group, number) in r.calls}
        if kinds := _kinds(calls):
            odd = tuple(sorted(rank for ranks in kinds[1:] for rank in ranks))
            blamed = odd if len(kinds[0]) > len(odd) else ()  # of two halves neither is the odd one
            return Stuck(blamed, True, tuple(calls[rank] for rank in odd), calls[kinds[0][0]])
        absent = tuple(sorted(members - set(calls)))
        if absent and len(absent) < len(members) and not any(call.done for call in calls.values()):
            return Stuck(absent, False, (), next(iter(calls.values())))
    return None


def _members(group: str, records: list[Record]) -> set[int]:
    """Who belongs to a group. The default group is named by an empty string in some versions' configuration."""
    for record in records:
        for name in (group, "" if group == "0" else group):
            if len(record.members.get(name, ())) > 1:
                return set(record.members[name])
    return set()


def _kinds(calls: Mapping[int, Call]) -> list[list[int]]:
    """The ranks by what they came with (the operation, and the shapes where these must be equal), most of them first;
    empty where all came with the same."""
    kinds: dict[tuple[str, str], list[int]] = {}
    for rank, call in sorted(calls.items()):
        kinds.setdefault((call.operation, call.shapes if call.operation in _EQUAL_SHAPES else ""), []).append(rank)
    return sorted(kinds.values(), key=len, reverse=True) if len(kinds) > 1 else []


def _present(stuck: Stuck, records: list[Record]) -> set[int]:
    at = (stuck.waited_in.group, stuck.waited_in.sequence)
    return {record.rank for record in records if at in record.calls}


def _last_calls(ranks: tuple[int, ...], records: list[Record]) -> tuple[Call, ...]:
    by_rank = {record.rank: record for record in records}
    last = [list(by_rank[rank].calls.values())[-1] for rank in ranks if rank in by_rank and by_rank[rank].calls]
    return tuple(last)
