"""``.schedmateignore``: what a job's owner does not want to be read. Patterns as in ``.gitignore``.

The file counts in the work dir and in the folders above it (a project's top, a home folder), there with patterns
relative to it; one that belongs to somebody else is passed over, so that nobody can switch off another's reading.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NAME = ".schedmateignore"
_BYTES_MAX = 64_000
_RULES_MAX = 500
#: A path of more folders than this is taken to be ignored as soon as there is any rule.
_PARTS_MAX = 64
_WILD = frozenset("*?[\\")
_EVERYTHING = frozenset({"*", "**", "/*", "/**", "**/*"})


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern, split at its slashes; ``base`` is how the work dir lies under the file's folder."""

    segments: tuple[str, ...]
    negated: bool
    folders_only: bool
    base: tuple[str, ...]
    text: str

    @property
    def is_everything(self) -> bool:
        """Whether it matches whatever there is."""
        return self.text in _EVERYTHING

    def matches(self, path: Sequence[str]) -> bool:
        """Whether it matches this path (relative to the work dir, perhaps climbing out of it) itself."""
        climbed = sum(part == ".." for part in path)
        if climbed > len(self.base):
            return False  # not below the folder that the rule is for
        below = (*self.base[: len(self.base) - climbed], *path[climbed:])
        if len(self.segments) == 2 and self.segments[0] == "**":  # a plain name, anywhere
            return bool(below) and glob_match(self.segments[1], below[-1])
        return _segments_match(self.segments, below)


@dataclass(frozen=True, slots=True)
class Ignored:
    """All rules for one work dir, weakest first; ``source`` names where they stand."""

    rules: tuple[Rule, ...] = ()
    source: str = ""
    problem: str = ""

    @property
    def everything(self) -> bool:
        """Whether nothing of the work dir is to be read."""
        if self.problem:
            return True
        last = max((i for i, rule in enumerate(self.rules) if rule.is_everything and not rule.negated), default=None)
        return last is not None and not any(rule.negated for rule in self.rules[last:])

    def __call__(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether a path relative to the work dir, or a folder that it lies in, is ignored."""
        if not self.rules or path == NAME:
            return False
        parts = tuple(part for part in path.split("/") if part)
        if len(parts) > _PARTS_MAX:
            return True
        # As git does it: what lies in an ignored folder can not be taken out of it again.
        climbed = sum(part == ".." for part in parts)
        return any(self._decided(parts[:n], is_folder or n < len(parts)) for n in range(climbed + 1, len(parts) + 1))

    def _decided(self, parts: tuple[str, ...], is_folder: bool) -> bool:
        for rule in reversed(self.rules):
            if (is_folder or not rule.folders_only) and rule.matches(parts):
                return not rule.negated
        return False


def ignored_in(root: Path) -> Ignored:
    """The rules for a work dir. A rule file that can not be read counts as one that ignores everything."""
    real = Path(os.path.realpath(root))
    try:
        owners = {0, os.geteuid(), real.stat().st_uid}
    except OSError:
        return Ignored()
    rules: list[Rule] = []
    sources: list[str] = []
    for folder in (*reversed(real.parents), real):
        text = _read(folder / NAME, owners, inside=folder == real)
        if text is None:
            continue
        shown = NAME if folder == real else f"{NAME} in {folder}"
        sources.append(shown)
        if isinstance(text, OSError):
            return Ignored(tuple(rules), shown, f"{shown} can not be read ({text.strerror}); it is taken to ignore all")
        rules.extend(parse_rules(text, real.relative_to(folder).parts))
    problem = f"{sources[-1]} has too many patterns; it is taken to ignore all" if len(rules) > _RULES_MAX else ""
    return Ignored(tuple(rules[:_RULES_MAX]), ", ".join(sources), problem)


def _read(path: Path, owners: set[int], *, inside: bool) -> str | OSError | None:
    try:
        status = path.stat() if path.exists() else path.lstat()  # a link that leads nowhere is somebody's wish too
        if not inside and status.st_uid not in owners:
            return None
        if not stat.S_ISREG(status.st_mode):
            what = "a link that leads nowhere" if stat.S_ISLNK(status.st_mode) else "not a regular file"
            return OSError(0, what) if inside else None
        if status.st_size > _BYTES_MAX:
            return OSError(0, "too large")
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            text = file.read(_BYTES_MAX).decode("utf-8-sig")
        return OSError(0, "not text") if "\0" in text else text
    except UnicodeDecodeError:
        return OSError(0, "not UTF-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        # Above the work dir a closed folder is nobody's wish; in it the file stands for one.
        return error if inside else None


def parse_rules(text: str, base: tuple[str, ...] = ()) -> list[Rule]:
    """The rules of a file's text, in its order."""
    rules = []
    for line in text.splitlines():
        pattern = line.rstrip()
        if not pattern or pattern.startswith("#"):
            continue
        negated = pattern.startswith("!")
        pattern = pattern[1:] if negated else pattern.removeprefix("\\") if pattern[:2] in ("\\#", "\\!") else pattern
        folders_only = pattern.endswith("/") and pattern != "/"
        segments = tuple(part for part in pattern.split("/") if part and part != ".")
        anchored = "/" in pattern.rstrip("/")
        if segments:
            spread = segments if anchored else ("**", *segments)
            rules.append(Rule(spread, negated, folders_only, base, pattern.removeprefix("./")))
    return rules


def _segments_match(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Whether a whole path matches; ``**`` stands for any number of folders. Time: product of the lengths."""
    reachable = {0}
    for position, segment in enumerate(pattern):
        following: set[int] = set()
        for at in reachable:
            if segment == "**":
                last = position == len(pattern) - 1
                following.update(range(at + 1 if last else at, len(path) + 1))
            elif at < len(path) and glob_match(segment, path[at]):
                following.add(at + 1)
        reachable = following
    return len(path) in reachable


def glob_match(pattern: str, text: str) -> bool:
    """``*``, ``?`` and ``[...]`` within one name. Time: product of the lengths, whatever the pattern."""
    if not _WILD & set(pattern):
        return pattern == text
    items = _items(pattern)
    at = i = 0
    star, resume = -1, 0
    while i < len(text):
        if at < len(items) and items[at] == "*":
            star, resume = at, i
            at += 1
        elif at < len(items) and _item_matches(items[at], text[i]):
            at += 1
            i += 1
        elif star >= 0:
            resume += 1
            at, i = star + 1, resume
        else:
            return False
    return all(item == "*" for item in items[at:])


def _items(pattern: str) -> list[str]:
    items: list[str] = []
    i = 0
    while i < len(pattern):
        end = pattern.find("]", i + 2) if pattern[i] == "[" else -1
        if end > 0:
            items.append(pattern[i : end + 1])
            i = end + 1
        elif pattern[i] == "\\" and i + 1 < len(pattern):
            items.append(pattern[i : i + 2])
            i += 2
        else:
            items.append(pattern[i])
            i += 1
    return items


def _item_matches(item: str, character: str) -> bool:
    if item == "?":
        return True
    if len(item) == 1:
        return item == character
    if item[0] == "\\":
        return item[1] == character
    inner = item[1:-1]
    negated = inner[0] in "!^"
    inner = inner[1:] if negated else inner
    found = i = 0
    while i < len(inner):
        if i + 2 < len(inner) and inner[i + 1] == "-":
            found |= inner[i] <= character <= inner[i + 2]
            i += 3
        else:
            found |= inner[i] == character
            i += 1
    return bool(found) != negated
