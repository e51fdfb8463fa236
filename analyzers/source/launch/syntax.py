"""Shell text as commands: a tolerant reader of the part of the shell language that launch scripts use."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from analyzers.source.launch.words import closing, closing_quote

TOKENS_MAX = 50_000


@dataclass(frozen=True, slots=True)
class Token:
    """A raw word, an operator, or a here-document's body (kind ``heredoc``)."""

    kind: str
    text: str
    line: int


@dataclass(slots=True)
class Simple:
    """One simple command: raw words with lines, redirections, and a here-document that feeds it."""

    words: list[Token] = field(default_factory=list)
    redirects: list[tuple[str, str]] = field(default_factory=list)
    heredoc: str | None = None


@dataclass(slots=True)
class Compound:
    """``if``/``for``/``while``/``case``/``function``/group, with its parts.

    ``branches`` are (condition, body) pairs; for ``for`` the words stand in ``words``; for ``case`` a condition holds
    one Simple whose words are the patterns.
    """

    kind: str
    branches: list[tuple[list[Node], list[Node]]]
    words: list[Token] = field(default_factory=list)
    name: str = ""


@dataclass(slots=True)
class Joined:
    """Marks how the next command is joined to the one before: ``&&``, ``||`` or ``|``."""

    operator: str


Node = Simple | Compound | Joined

_OPERATOR = re.compile(r"&&|\|\||;;|&>>|&>|>>|<<<|<<-|<<|>&|<&|>\||[;&|()<>\n]")
_REDIRECTS = {"&>>", "&>", ">>", "<<<", "<<-", "<<", ">&", "<&", ">|", "<", ">"}
_ASSIGN_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=\(")


def tokenise(text: str) -> list[Token]:
    """Words and operators with line numbers; comments dropped, continuations joined, here-documents attached."""
    tokens: list[Token] = []
    waiting: list[tuple[str, bool]] = []
    i, line = 0, 1
    while i < len(text) and len(tokens) < TOKENS_MAX:
        c = text[i]
        if c in " \t\r":
            i += 1
        elif text.startswith("\\\n", i):
            i += 2
            line += 1
        elif c == "#":
            end = text.find("\n", i)
            i = len(text) if end < 0 else end
        elif operator := _OPERATOR.match(text, i):
            symbol = operator.group()
            i = operator.end()
            if symbol in ("<<", "<<-"):
                delimiter = re.compile(r"[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\"|\\?([\w.-]+))").match(text, i)
                if delimiter:
                    quoted = delimiter.group(3) is None or "\\" in delimiter.group()
                    waiting.append((delimiter.group(1) or delimiter.group(2) or delimiter.group(3) or "", quoted))
                    i = delimiter.end()
                continue
            tokens.append(Token("op", symbol, line))
            if symbol == "\n":
                line += 1
                for delimiter_text, quoted in waiting:
                    body, i, lines = _heredoc(text, i, delimiter_text)
                    tokens.insert(len(tokens) - 1, Token("heredoc", ("'" if quoted else '"') + body, line))
                    line += lines
                waiting.clear()
        else:
            end = _word_end(text, i)
            tokens.append(Token("word", text[i:end], line))
            line += text.count("\n", i, end)
            i = end
    return tokens


def _heredoc(text: str, start: int, delimiter: str) -> tuple[str, int, int]:
    body: list[str] = []
    i, lines = start, 0
    while i < len(text):
        end = text.find("\n", i)
        end = len(text) if end < 0 else end
        row = text[i:end]
        i = end + 1
        lines += 1
        if row.strip("\t") == delimiter:
            break
        body.append(row)
    return "\n".join(body) + "\n", min(i, len(text)), lines


def _word_end(text: str, start: int) -> int:
    i = start
    array = _ASSIGN_ARRAY.match(text, i)
    if array:
        return min(len(text), closing(text, array.end() - 1, "(", ")") + 1)
    while i < len(text):
        c = text[i]
        if c == "\\":
            i += 2
        elif c == "'":
            end = text.find("'", i + 1)
            i = len(text) if end < 0 else end + 1
        elif c == '"':
            i = closing_quote(text, i) + 1
        elif text.startswith("$((", i):
            end = text.find("))", i)
            i = len(text) if end < 0 else end + 2
        elif text.startswith("$(", i):
            i = closing(text, i + 1, "(", ")") + 1
        elif text.startswith("${", i):
            i = closing(text, i + 1, "{", "}") + 1
        elif c == "`":
            end = text.find("`", i + 1)
            i = len(text) if end < 0 else end + 1
        elif c in " \t\r\n;&|()<>":
            if c in "&<>" and i == start:
                return i + 1
            return i
        else:
            i += 1
    return min(i, len(text))


class _Reader:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def word(self) -> str | None:
        token = self.peek()
        return token.text if token is not None and token.kind == "word" else None

    def skip(self, *texts: str) -> bool:
        token = self.peek()
        if token is not None and token.text in texts and token.kind != "heredoc":
            self.at += 1
            return True
        return False

    def skip_separators(self) -> None:
        while self.skip("\n", ";"):
            pass

    def nodes(self, stops: frozenset[str], depth: int = 0) -> list[Node]:
        """Commands until one of the reserved words or operators in ``stops`` (not consumed)."""
        found: list[Node] = []
        while (token := self.peek()) is not None:
            if token.text in stops and token.kind in ("word", "op"):
                break
            if token.kind == "op" and token.text in ("\n", ";", "&"):
                self.at += 1
            elif token.kind == "op" and token.text in ("&&", "||", "|"):
                self.at += 1
                found.append(Joined(token.text))
            elif token.kind == "op" and token.text == "(":
                self.at += 1
                found.append(Compound("group", [([], self.nodes(frozenset({")"}), depth + 1))]))
                self.skip(")")
            elif token.kind == "op" and token.text in (")", ";;"):
                self.at += 1
            elif depth < 40 and (compound := self._compound(token, depth)) is not None:
                found.append(compound)
            else:
                found.append(self._simple())
        return found

    def _compound(self, token: Token, depth: int) -> Compound | None:
        if token.kind != "word":
            return None
        keyword = token.text
        if keyword == "{":
            self.at += 1
            body = self.nodes(frozenset({"}"}), depth + 1)
            self.skip("}")
            return Compound("group", [([], body)])
        if keyword == "if":
            return self._if(depth)
        if keyword in ("while", "until"):
            self.at += 1
            condition = self.nodes(frozenset({"do"}), depth + 1)
            return Compound(keyword, [(condition, self._do(depth))])
        if keyword in ("for", "select"):
            return self._for(depth)
        if keyword == "case":
            return self._case(depth)
        following = [t.text for t in self.tokens[self.at + 1 : self.at + 3]]
        if keyword == "function" or following == ["(", ")"]:
            return self._function(keyword, depth)
        return None

    def _do(self, depth: int) -> list[Node]:
        self.skip_separators()
        self.skip("do")
        body = self.nodes(frozenset({"done"}), depth + 1)
        self.skip("done")
        return body

    def _if(self, depth: int) -> Compound:
        branches: list[tuple[list[Node], list[Node]]] = []
        self.at += 1
        while True:
            condition = self.nodes(frozenset({"then", "fi"}), depth + 1)
            self.skip("then")
            body = self.nodes(frozenset({"elif", "else", "fi"}), depth + 1)
            branches.append((condition, body))
            if self.skip("elif"):
                continue
            if self.skip("else"):
                branches.append(([], self.nodes(frozenset({"fi"}), depth + 1)))
            self.skip("fi")
            return Compound("if", branches)

    def _for(self, depth: int) -> Compound:
        self.at += 1
        name = self.word() or ""
        self.at += 1
        words: list[Token] = []
        self.skip_separators()
        if self.skip("in"):
            while (token := self.peek()) is not None and token.kind == "word":
                words.append(token)
                self.at += 1
        else:
            while (token := self.peek()) is not None and token.text not in ("do", ";", "\n"):
                self.at += 1
        return Compound("for", [([], self._do(depth))], words, name)

    def _case(self, depth: int) -> Compound:
        self.at += 1
        subject = self.peek()
        self.at += 1
        self.skip_separators()
        self.skip("in")
        branches: list[tuple[list[Node], list[Node]]] = []
        while (token := self.peek()) is not None and token.text != "esac":
            if token.kind == "op" and token.text in ("\n", ";", "(", ";;"):
                self.at += 1
                continue
            patterns = Simple()
            while (token := self.peek()) is not None and token.text != ")":
                if token.kind == "word":
                    patterns.words.append(token)
                self.at += 1
            self.skip(")")
            branches.append(([patterns], self.nodes(frozenset({";;", "esac"}), depth + 1)))
        self.skip("esac")
        return Compound("case", branches, [subject] if subject is not None else [])

    def _function(self, keyword: str, depth: int) -> Compound:
        if keyword == "function":
            self.at += 1
        name = self.word() or ""
        self.at += 1
        self.skip("(")
        self.skip(")")
        self.skip_separators()
        if self.skip("{"):
            body = self.nodes(frozenset({"}"}), depth + 1)
            self.skip("}")
        else:
            body = []
        return Compound("function", [([], body)], name=name)

    def _simple(self) -> Simple:
        command = Simple()
        start = self.at
        while (token := self.peek()) is not None:
            if token.kind == "heredoc":
                command.heredoc = token.text
                self.at += 1
            elif token.kind == "op" and token.text in _REDIRECTS:
                self.at += 1
                if command.words and command.words[-1].text.isdigit():
                    command.words.pop()
                target = self.peek()
                if target is not None and target.kind == "word":
                    command.redirects.append((token.text, target.text))
                    self.at += 1
            elif token.kind == "word":
                command.words.append(token)
                self.at += 1
            else:
                break
        if self.at == start:  # never stand still on something unforeseen
            self.at += 1
        return command


def parse(text: str) -> list[Node]:
    """Shell text as a list of commands. Never fails: what is not understood is skipped."""
    return _Reader(tokenise(text)).nodes(frozenset())
