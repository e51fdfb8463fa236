"""Reads source code and launch commands: `analyze(submission)` returns `SourceFacts`, each with evidence.

Nothing of the job is executed or imported; everything is parsed as text. The launch command is followed down to the
program it starts (`launch/`), the program is walked on abstract values (`program/`, with models of the libraries that
carry values in `library/`), and what was met is turned into facts (`idioms/`).
"""

from analyzers.source.analyze import analyze

__all__ = ["analyze"]
