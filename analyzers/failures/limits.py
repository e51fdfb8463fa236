"""How far a job was over a limit, from the lines that end it: what it had, what it needed, what to ask for."""

from __future__ import annotations

import re

from analyzers.types import Diagnosis, LimitChange

#: Above what was needed; and above the limit where it was only seen to be reached.
_ROOM, _GROWTH = 1.2, 1.5
_MIB = {"b": 1 / (1 << 20), "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2}
_AMOUNT = r"(\d{1,15}(?:\.\d{1,6})?) ?([KMGT]?)i?B\b"
_OVER = re.compile(r"exceeded .{0,20}memory limit \((\d{1,15}) ?([KMG]?)B? > (\d{1,15})", re.I)
_CGROUP = re.compile(rf"memory: usage {_AMOUNT}, limit {_AMOUNT}", re.I)
_KILLED = re.compile(rf"(?:anon-rss:|RSS of |using ){_AMOUNT}", re.I)
#: Else the whole node ran out of memory, and nobody knows what this job's share should be.
_OWN_LIMIT = re.compile(r"cgroup|MEMCG|memory limit|container", re.I)
_CUDA = re.compile(rf"Tried to allocate {_AMOUNT}", re.I)
_CUDA_FREE = re.compile(rf"of which {_AMOUNT} is free|; {_AMOUNT} free", re.I)
_TIME_LIMIT = re.compile(r"\btime ?limit[=: ]{1,3}(?:(\d{1,3})-)?(\d{1,3}):(\d\d):(\d\d)\b", re.I)
_LEAST_SHARE_DONE = 0.02


def limit_change(found: Diagnosis, ran_s: float | None, share_done: float | None) -> LimitChange | None:
    """The limit that the verdict is about, with numbers; None where the lines have none to go by."""
    texts = [text[:2000] for text in (*(e.text for e in found.evidence), *(e.text for e in found.echoes))]
    if found.action == "raise_host_memory_or_reduce":
        return _host_memory(texts)
    if found.action == "lower_gpu_memory":
        return _gpu_memory(texts)
    if found.action == "resubmit_longer_limit":
        return _time(texts, ran_s, share_done)
    return None


def _host_memory(texts: list[str]) -> LimitChange | None:
    for text in texts:
        if over := _OVER.search(text):
            unit = _MIB[over[2].lower() or "m"]
            return _memory(int(over[3]) * unit, int(over[1]) * unit)
        if cgroup := _CGROUP.search(text):
            return _memory(_mib(cgroup[3], cgroup[4]), _mib(cgroup[1], cgroup[2]))
    for text in texts:
        if _OWN_LIMIT.search(text) and (killed := _KILLED.search(text)):
            used = _mib(killed[1], killed[2])
            return LimitChange("host-memory", None, round(used), round(used * _GROWTH), "MiB") if used >= 1 else None
    return None


def _memory(had: float, used: float) -> LimitChange | None:
    if had < 1:
        return None
    to = max(used * _ROOM, had * _GROWTH)
    return LimitChange("host-memory", round(had), round(used), round(to), "MiB")


def _gpu_memory(texts: list[str]) -> LimitChange | None:
    for text in texts:
        if asked := _CUDA.search(text):
            free = _CUDA_FREE.search(text)
            had = _mib(free[1] or free[3], free[2] or free[4] or "") if free else None
            return LimitChange("gpu-memory", None if had is None else round(had), round(_mib(asked[1], asked[2])), None,
                               "MiB")  # fmt: skip
    return None


def _time(texts: list[str], ran_s: float | None, share_done: float | None) -> LimitChange | None:
    had = next((_seconds(found) for text in texts if (found := _TIME_LIMIT.search(text))), None)
    base = had if had is not None else ran_s
    if base is None or share_done is None or not _LEAST_SHARE_DONE <= share_done < 1:
        return None
    needed = base / share_done
    return LimitChange("time", had, round(needed), round(needed * _ROOM), "s")


def _seconds(found: re.Match[str]) -> float:
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _mib(amount: str, unit: str) -> float:
    return float(amount) * _MIB[unit.lower() or "b"]
