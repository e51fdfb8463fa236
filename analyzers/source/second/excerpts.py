"""The few lines of a job's texts that speak of what is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analyzers.source.opened import Opened
from analyzers.source.second.checks import given
from analyzers.source.second.lines import Line, code_lines, command_lines, prose_lines
from analyzers.source.second.questions import Question

LINES_A_QUESTION = 6
MOST_LINES = 60
MOST_CHARS = 4_500
_UNFIT = 9


def excerpts(opened: Opened, command: str, asked: Sequence[Question], places: Sequence[tuple[str, int]]) -> list[Line]:
    """The lines worth a second reader's while, in the order of their files; ``places`` are (file, line) to have in."""
    code = [_with_life(line, opened) for text in opened.texts for line in code_lines(text)]
    if opened.followed:  # then what does not run is known, and says nothing
        code = [line for line in code if not line.idle]
    wanted = set(places)
    chosen = {line: 0 for line in code if (line.file, line.number) in wanted}
    for question in asked:
        ranked = sorted(
            ((rank, at, line) for at, line in enumerate(code) if (rank := _rank(line, question)) < _UNFIT),
            key=lambda item: item[:2],
        )
        seen: set[str] = set()
        for rank, _, line in ranked:
            if line.text not in seen and len(seen) < LINES_A_QUESTION:
                seen.add(line.text)
                chosen.setdefault(line, rank)
    if any(question.prose for question in asked):
        chosen |= dict.fromkeys(prose_lines(opened.texts), 1)
    return _bounded(command_lines(command), chosen, code)


def _with_life(line: Line, opened: Opened) -> Line:
    ran = opened.ran.get(line.file)
    return replace(line, idle=True) if line.python and ran is not None and line.number not in ran else line


def _rank(line: Line, question: Question) -> int:
    """0 is best, `_UNFIT` says nothing: of a number what could not back it."""
    if not question.words.search(line.text):
        return _UNFIT
    if question.kind in ("count", "number") and not given(question, line):
        return _UNFIT
    if question.kind == "choice" and not any(pattern.search(line.text) for pattern in question.choices.values()):
        return _UNFIT
    return 3 if line.idle else 0


def _bounded(launch: list[Line], chosen: dict[Line, int], code: list[Line]) -> list[Line]:
    chars = sum(len(line.text) + 16 for line in launch)
    kept: set[Line] = set()
    for line in sorted(chosen, key=lambda each: chosen[each]):
        cost = len(line.text) + len(line.file) + 16
        if len(kept) >= MOST_LINES or chars + cost > MOST_CHARS:
            break
        kept.add(line)
        chars += cost
    prose = [line for line in chosen if line.prose and line in kept]
    return [*launch, *prose, *(each for each in code if each in kept)]
