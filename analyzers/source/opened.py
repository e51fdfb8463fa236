"""The texts that a job's reading leads to, and which of their lines run: what a second reader is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analyzers.source.directive import SourceOffError
from analyzers.source.files import Tree
from analyzers.source.idioms import resources
from analyzers.source.launch.model import Launch
from analyzers.source.launch.read import read_launch, with_request
from analyzers.source.limits import BudgetExceededError
from analyzers.source.program.machine import own_nodes
from analyzers.source.program.notebook import notebook_source
from analyzers.source.reader import machine_for, walk
from analyzers.types import Submission

_ROW_MAX, _ROWS_MAX = 10_000, 50_000
_README = ("README.md", "README.rst", "README.txt", "README", "readme.md")


@dataclass(frozen=True, slots=True)
class Text:
    """One file: ``lines`` with their numbers, and whether it is prose, or code of which language (by its ending)."""

    path: str
    lines: tuple[tuple[int, str], ...]
    ending: str


@dataclass(frozen=True, slots=True)
class Opened:
    """What was opened for a job, in the order in which it was.

    ``ran`` holds, of each program file that could be parsed, the numbers of the lines that the walk went through;
    ``followed`` is False where the program was not found, or not read to its end; ``known`` besides where it leaves
    something to a library that the reader does not know.
    """

    tree: Tree
    texts: tuple[Text, ...] = ()
    ran: Mapping[str, frozenset[int]] = field(default_factory=dict)
    followed: bool = False
    known: bool = False


def open_again(submission: Submission) -> Opened | None:
    """Follow the launch once more and keep the texts. None where source is not to be read, or there is none.

    Raises nothing for what the work dir holds; takes as long as `analyze`.
    """
    if submission.workdir is None:
        return None
    tree = Tree(submission.workdir)
    if tree.ignored.everything:
        return None
    try:
        return _opened(submission, tree)
    except SourceOffError:
        return None


def _opened(submission: Submission, tree: Tree) -> Opened:
    launch, followed, known = Launch(), False, False
    ran: dict[str, set[int]] = {}
    try:
        launch = with_request(read_launch(submission.command, tree, submission.env), submission.gpus, submission.nodes)
        machine = machine_for(tree, launch, resources.process_count(launch), resources.visible_devices(launch))
        walk(machine)
        followed = launch.entry is not None and machine.record.complete
        known = followed and not machine.record.unresolved
        ran = {path: set() for path in machine.parsed}
        for path, parsed in machine.parsed.items():
            ran[path].update(getattr(node, "lineno", 0) for node in own_nodes(parsed))
        for function, path in machine.walked.values():
            ran.setdefault(path, set()).update(getattr(node, "lineno", 0) for node in own_nodes(function))
        for path, module in machine.modules.items():
            if path in ran and module.lines:  # a notebook: numbers of its code, not of its file
                ran[path] = {module.lines[line - 1] for line in ran[path] if 0 < line <= len(module.lines)}
    except SourceOffError:
        raise
    except BudgetExceededError:
        pass
    except Exception as error:  # noqa: BLE001 (the input is anything a user may write)
        tree.warn(f"a second reading went without what the program leads to ({type(error).__name__})")
    for name in _README:
        if tree.is_file(name):
            tree.read(name)
            break
    for path, text in tree.texts().items():
        tree.obey(text, path)  # wherever the directive stands, nothing of it goes to a model
    texts = tuple(as_text(path, text) for path, text in tree.texts().items())
    return Opened(tree, texts, {path: frozenset(lines) for path, lines in ran.items()}, followed, known)


def as_text(path: str, text: str) -> Text:
    """A file's text as numbered lines; of a notebook its code.

    Nobody writes a line of `_ROW_MAX` characters, and to look for comments and secrets in one of a million takes
    seconds: such a line counts as empty.
    """
    ending = path.rpartition("/")[2].rpartition(".")[2].lower() if "." in path else ""
    if ending == "ipynb":
        source, numbers = notebook_source(text)
        return Text(path, tuple(zip(numbers, source.split("\n"), strict=False)), "py")
    rows = ("" if len(row) > _ROW_MAX else row for row in text.split("\n")[:_ROWS_MAX])
    return Text(path, tuple(enumerate(rows, 1)), ending)
