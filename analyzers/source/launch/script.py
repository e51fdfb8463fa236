"""Following a shell script: which programs it starts, with which words, in which folder and environment.

The script is read, never run: assignments, tests on known values, functions and here-documents are followed; both
sides of a test that can not be decided are followed, and what they leave different becomes unknown.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from analyzers.source.files import Tree, normal
from analyzers.source.ignore import glob_match
from analyzers.source.launch.syntax import Compound, Joined, Node, Simple, Token, parse
from analyzers.source.launch.words import FIELDS_MAX, TEXT_MAX, UNKNOWN, Expander, Variables, Word

COMMANDS_MAX = 5_000
DEPTH_MAX = 12
SCRIPT_CHARACTERS_MAX = 200_000
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(\[\w+\])?(\+?=)(.*)", re.DOTALL)
_DIRECTIVE = re.compile(r"^#(?:SBATCH|BSUB|PBS|FLUX:?)\s+(.*)$", re.MULTILINE)
#: Commands that neither start the job's program nor change what is known.
_QUIET = frozenset(
    ["echo", "printf", "set", "unset", "shopt", "trap", "ulimit", "module", "mkdir", "rm", "cp", "mv", "ln", "touch",
     "cat", "tee", "sleep", "date", "wait", "clear", "true", "false", ":", "ls", "pwd", "exit", "return", "hostname",
     "scontrol", "nvidia-smi", "which", "type", "chmod", "wget", "curl", "tar", "unzip", "git", "pip",
     "pip3", "source", ".", "cd", "pushd", "popd", "export", "declare", "local", "readonly", "typeset",
     "test", "[", "[[", "let", "read", "alias", "break", "continue", "hash", "kill"]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Started:
    """A program that a script or command line starts."""

    words: tuple[Word, ...]
    env: dict[str, str]
    cwd: str
    condition: bool = False
    stdin: str = ""


@dataclass(slots=True)
class Shell:
    """The state of one shell: variables, folder (relative to the tree), functions, and what was started."""

    tree: Tree
    variables: Variables = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    cwd: str = ""
    file: str = "launch"
    functions: dict[str, list[Node]] = field(default_factory=dict)
    started: list[Started] = field(default_factory=list)
    steps: int = 0
    depth: int = 0
    unsure: int = 0
    stopped: bool = False

    def run(self, text: str, file: str) -> None:
        """Follow shell text as if it were sourced."""
        if self.depth >= DEPTH_MAX:
            self.tree.warn(f"{file}: scripts call each other too deeply; the rest was left out")
            return
        before, self.file = self.file, file
        self.depth += 1
        if len(text) > SCRIPT_CHARACTERS_MAX:
            self.tree.warn(f"{file}: only the first {SCRIPT_CHARACTERS_MAX} characters of this script are read")
        try:
            nodes = parse(text[:SCRIPT_CHARACTERS_MAX])
        except RecursionError:
            self.tree.warn(f"{file}: too deeply nested to be read")
            nodes = []
        self.follow(nodes)
        self.depth -= 1
        self.file = before

    def follow(self, nodes: list[Node]) -> None:
        """Follow commands in order, minding ``&&`` and ``||`` after a test that is known."""
        outcome: bool | None = True
        joined = ""
        for node in nodes:
            if self.stopped or self._is_over():
                return
            if isinstance(node, Joined):
                joined = node.operator
                continue
            skip = (joined == "&&" and outcome is False) or (joined == "||" and outcome is True)
            joined = ""
            if skip:
                continue
            self.steps += 1
            outcome = self._simple(node) if isinstance(node, Simple) else self._compound(node)

    def _is_over(self) -> bool:
        """Whether more commands or time went into this than a launch may take."""
        if self.steps > COMMANDS_MAX or self.tree.deadline.passed():
            self.tree.warn(f"{self.file}: too much to follow to its end; what it starts later was left out")
            return True
        return False

    def expander(self) -> Expander:
        """An expander over the present variables."""
        return Expander(self.variables, self._substitute)

    def expand(self, tokens: list[Token]) -> list[Word]:
        """Raw words as expanded words that know their line."""
        expander = self.expander()
        words: list[Word] = []
        for token in tokens:
            if len(words) >= FIELDS_MAX or self.tree.deadline.passed():
                expander.cut = True
                break
            words.extend(Word(text, self.file, token.line) for text in expander.fields(token.text))
        if expander.cut:
            self.tree.warn(f"{self.file}: a command is longer than is followed; its end was left out")
        return words[:FIELDS_MAX]

    def _simple(self, command: Simple) -> bool | None:
        tokens = command.words
        local: dict[str, str | list[str]] = {}
        leading = 0
        while leading < len(tokens) and (match := _ASSIGN.fullmatch(tokens[leading].text)):
            leading += 1
            local[match.group(1)] = self._assignment(match, leading < len(tokens))
        tokens = tokens[leading:]
        if not tokens:
            return True
        words = self.expand(tokens)
        if command.heredoc is not None:
            self._write_heredoc(words, command)
        if not words:
            return True
        name = words[0].text
        if name in self.functions:
            return self._call(name, words[1:])
        builtin = _BUILTINS.get(name)
        if builtin is not None:
            return builtin(self, words, tokens)
        if name in _QUIET:
            return None if name != "true" else True
        if name in ("exit", "return"):
            return None
        env = {k: v for k, v in self.variables.items() if isinstance(v, str) and k in self.exported}
        env.update({k: v for k, v in local.items() if isinstance(v, str)})
        if len(self.started) < 500:
            self.started.append(Started(tuple(words), env, self.cwd, self.unsure > 0, self._fed(words, command)))
        return None

    def _assignment(self, match: re.Match[str], only_for_command: bool) -> str | list[str]:
        name, index, operator, raw = match.groups()
        expander = self.expander()
        value: str | list[str]
        if raw.startswith("("):
            inner = parse(raw[1:].removesuffix(")").replace("\n", " "))
            value = [w.text for node in inner if isinstance(node, Simple) for w in self.expand(node.words)]
        else:
            value = expander.assigned(raw)
        if operator == "+=":
            old = self.variables.get(name, "")
            if isinstance(old, list):
                value = [*old, *(value if isinstance(value, list) else [value])][:FIELDS_MAX]
            else:
                value = old + (value if isinstance(value, str) else " ".join(value))
                value = value if len(value) <= TEXT_MAX else value[:TEXT_MAX] + UNKNOWN
        if index is not None:
            value = UNKNOWN
        if not only_for_command:
            self.variables[name] = value
        return value

    def _write_heredoc(self, words: list[Word], command: Simple) -> None:
        targets = [raw for operator, raw in command.redirects if operator in (">", ">|")]
        if not words or words[0].text not in ("cat", "tee") or command.heredoc is None:
            return
        names = self.expander().fields(targets[0]) if targets else [w.text for w in words[1:]]
        if not names or len(self.tree.overlay) > 50:
            return
        # A name that is unknown in part stays usable: the same variable names the same file later.
        self._write(normal(posixpath.join(self.cwd, names[0])), self._heredoc_text(command.heredoc))

    def _heredoc_text(self, heredoc: str) -> str:
        return heredoc[1:] if heredoc[0] == "'" else self.expander().text(heredoc[1:])

    def _write(self, path: str, text: str) -> None:
        if not (self.tree.headers_only and path in self.tree.scripts):  # it says that it is not to be read
            self.tree.overlay[path] = text

    def _fed(self, words: list[Word], command: Simple) -> str:
        """The file that a command reads from its standard input; text that stands in the script becomes one."""
        source = next((pair for pair in reversed(command.redirects) if pair[0] in ("<", "<<<")), None)
        if source is not None and source[0] == "<":
            return self.expander().assigned(source[1])
        if (source is None and command.heredoc is None) or len(self.tree.overlay) > 50:
            return ""
        name = f"here-document at {posixpath.basename(self.file)} {words[0].line}"
        self._write(name, self.expander().assigned(source[1]) if source else self._heredoc_text(command.heredoc or "'"))
        return name

    def _call(self, name: str, words: list[Word]) -> bool | None:
        if self.depth >= DEPTH_MAX:
            return None
        saved = {k: self.variables.get(k) for k in ("@", "*", "#", *map(str, range(1, 10)))}
        self.set_positional([w.text for w in words])
        self.depth += 1
        self.follow(self.functions[name])
        self.depth -= 1
        for key, value in saved.items():
            if value is None:
                self.variables.pop(key, None)
            else:
                self.variables[key] = value
        return None

    def set_positional(self, values: list[str]) -> None:
        """Set ``$1`` ... ``$9``, ``$@``, ``$*`` and ``$#``."""
        for number in range(1, max(10, min(len(values), 100) + 1)):
            self.variables[str(number)] = values[number - 1] if number <= len(values) else ""
        self.variables["@"] = list(values)
        self.variables["*"] = list(values)
        self.variables["#"] = str(len(values))

    def _compound(self, node: Compound) -> bool | None:
        if node.kind == "function":
            self.functions[node.name] = node.branches[0][1]
        elif node.kind == "group":
            self.follow(node.branches[0][1])
        elif node.kind == "if":
            self._if(node)
        elif node.kind == "case":
            self._case(node)
        elif node.kind == "for":
            self._for(node)
        else:
            self.follow(node.branches[0][1])
        return None

    def _for(self, node: Compound) -> None:
        values = [w.text for w in self.expand(node.words)]
        if len(values) > 1:
            before = len(self.started)
        self.variables[node.name] = values[0] if values else UNKNOWN
        self.follow(node.branches[0][1])
        if len(values) > 1 and len(self.started) > before:
            self.tree.warn(f"{self.file}: a loop starts its program {len(values)} times; only the first is read")

    def _if(self, node: Compound) -> None:
        undecided: list[list[Node]] = []
        for condition, body in node.branches:
            outcome = self.condition(condition) if condition else True
            if outcome is False:
                continue
            if outcome is True and not undecided:
                self.follow(body)
                return
            undecided.append(body)
            if outcome is True:
                break
        self._alternatives(undecided, complete=any(not condition for condition, _ in node.branches))

    def _alternatives(self, bodies: list[list[Node]], complete: bool) -> None:
        before = dict(self.variables)
        outcomes: list[Variables] = [] if complete else [before]
        self.unsure += 1
        for body in bodies:
            self.variables = dict(before)
            self.follow(body)
            stopped, self.stopped = self.stopped, False
            if not stopped:
                outcomes.append(self.variables)
        self.unsure -= 1
        merged: Variables = dict(outcomes[0]) if outcomes else before
        for other in outcomes[1:]:
            for key in set(merged) | set(other):
                if merged.get(key) != other.get(key):
                    merged[key] = UNKNOWN
        self.variables = merged

    def _case(self, node: Compound) -> None:
        subject = " ".join(w.text for w in self.expand(node.words))
        if UNKNOWN in subject:
            self._alternatives([body for _, body in node.branches], complete=False)
            return
        for condition, body in node.branches:
            patterns = self.expand(condition[0].words) if condition and isinstance(condition[0], Simple) else []
            if any(glob_match(p.text, subject) for p in patterns):
                self.follow(body)
                return

    def condition(self, nodes: list[Node]) -> bool | None:
        """A test's outcome, or None where it depends on the machine."""
        outcome: bool | None = True
        joined = "&&"
        for node in nodes:
            if isinstance(node, Joined):
                joined = node.operator
                continue
            this: bool | None = None
            if isinstance(node, Simple):
                words = self.expand(node.words)
                this = self._test([w.text for w in words], node)
            if joined == "&&":
                outcome = False if outcome is False or this is False else (True if outcome and this else None)
            elif joined == "||":
                outcome = (
                    True if outcome is True or this is True else (False if outcome is False and this is False else None)
                )
            else:
                outcome = this
        return outcome

    def _test(self, texts: list[str], node: Simple) -> bool | None:
        if not texts:
            return None
        negate = False
        if texts[0] == "!":
            negate, texts = True, texts[1:]
        if not texts or texts[0] not in ("[", "[[", "test"):
            return {"true": True, "false": False}.get(texts[0] if texts else "")
        inner = [t for t in texts[1:] if t not in ("]", "]]")]
        while inner[:1] == ["!"]:
            negate, inner = not negate, inner[1:]
        answer = self._comparison(inner)
        return answer if answer is None else answer != negate

    def _comparison(self, inner: list[str]) -> bool | None:
        for operator in ("-o", "||", "-a", "&&"):
            if operator in inner[1:]:
                at = inner.index(operator, 1)
                left, right = self._comparison(inner[:at]), self._comparison(inner[at + 1 :])
                either = operator in ("-o", "||")
                if left is either or right is either:
                    return either
                return None if left is None or right is None else not either
        if any(UNKNOWN in t for t in inner):
            return None
        if len(inner) == 0:
            return False
        if len(inner) == 1:
            return {"-n": False, "-z": True}.get(inner[0], inner[0] != "")
        if len(inner) == 2:
            if inner[0] in ("-z", "-n"):
                return (inner[1] == "") == (inner[0] == "-z")
            if inner[0] in ("-f", "-e", "-s", "-r"):
                return True if self.tree.is_file(posixpath.join(self.cwd, inner[1])) else None
            return None
        if len(inner) == 3:
            return _compare(*inner)
        return None

    def _substitute(self, command: str) -> str | None:
        texts = command.split()
        if texts == ["pwd"]:
            return "./" + self.cwd if self.cwd else "."
        if len(texts) == 2 and texts[0] in ("dirname", "basename", "echo"):
            value = "".join(self.expander().fields(texts[1]))
            if UNKNOWN in value:
                return None
            return {"dirname": posixpath.dirname(value) or ".", "basename": posixpath.basename(value)}.get(
                texts[0], value
            )
        if re.fullmatch(r"cd .*dirname .*&& *pwd( -P)?", command):
            return "./" + posixpath.dirname(self.file)
        return None


def _compare(left: str, operator: str, right: str) -> bool | None:
    if operator in ("=", "=="):
        return glob_match(right, left) if "*" in right else left == right
    if operator == "!=":
        return left != right
    try:
        a, b = int(left), int(right)
    except ValueError:
        return None
    answers = {"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}
    return answers.get(operator)


def _cd(shell: Shell, words: list[Word], _: list[Token]) -> bool | None:
    target = words[1].text if len(words) > 1 else UNKNOWN
    # A folder that is unknown or outside (a checkout elsewhere on the cluster) leaves us where we are.
    if UNKNOWN not in target and not target.startswith("/"):
        moved = normal(posixpath.join(shell.cwd, target))
        if shell.tree.is_dir(moved):
            shell.cwd = moved
    return True


def _export(shell: Shell, words: list[Word], tokens: list[Token]) -> bool | None:
    for token in tokens[1:]:
        match = _ASSIGN.fullmatch(token.text)
        name = token.text
        if match:
            name = match.group(1)
            shell._assignment(match, only_for_command=False)
        if words[0].text == "export" or "-x" in [w.text for w in words]:
            shell.exported.add(name)
    return True


def _source(shell: Shell, words: list[Word], _: list[Token]) -> bool | None:
    if len(words) > 1 and words[1].known:
        path = normal(posixpath.join(shell.cwd, words[1].text))
        text = shell.tree.read(path)
        if text is not None:
            shell.tree.obey(text, path)
            shell.run(text, path)
    return None


def _eval(shell: Shell, words: list[Word], _: list[Token]) -> bool | None:
    shell.run(" ".join(w.text for w in words[1:]), shell.file)
    return None


def _exit(shell: Shell, words: list[Word], _: list[Token]) -> bool | None:
    shell.stopped = True
    return None


def _set(shell: Shell, words: list[Word], _: list[Token]) -> bool | None:
    texts = [w.text for w in words]
    if "--" in texts:
        shell.set_positional(texts[texts.index("--") + 1 :])
    return True


def _shift(shell: Shell, words: list[Word], _: list[Token]) -> bool | None:
    values = shell.variables.get("@")
    if isinstance(values, list):
        shell.set_positional(values[1:])
    return True


def _test(shell: Shell, words: list[Word], tokens: list[Token]) -> bool | None:
    return shell.condition([Simple(list(tokens))])


_BUILTINS: dict[str, Callable[[Shell, list[Word], list[Token]], bool | None]] = {
    "cd": _cd, "pushd": _cd, "export": _export, "declare": _export, "local": _export, "readonly": _export,
    "typeset": _export, "source": _source, ".": _source, "eval": _eval, "exit": _exit, "set": _set, "shift": _shift,
    "[": _test, "[[": _test, "test": _test,
}  # fmt: skip


def directives(text: str) -> list[tuple[str, int]]:
    """Batch directives of a job script (``#SBATCH ...``) with their lines.

    Slurm reads them up to the first line that is neither empty nor a comment; what stands below is a comment.
    """
    found = []
    first_command = re.search(r"^[ \t]*[^#\s]", text, re.MULTILINE)
    slurm_end = first_command.start() if first_command else len(text)
    for match in _DIRECTIVE.finditer(text[:200_000]):
        if match.start() < slurm_end or not match.group().startswith("#SBATCH"):
            found.append((match.group(1).split(" #")[0].strip(), text.count("\n", 0, match.start()) + 1))
    return found
