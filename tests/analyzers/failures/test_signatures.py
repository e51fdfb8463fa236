"""Every signature on its own samples, and the rules that keep patterns harmless."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from analyzers.failures.block import Block
from analyzers.failures.marks import MARKS
from analyzers.failures.matcher import LINE_CHARS, Matcher, behind_gap
from analyzers.failures.scan import expressions
from analyzers.failures.signatures import (
    FileSignatureStore,
    Signature,
    check_pattern,
    load_signatures,
    parse_family,
    xid_signature,
    xid_signatures,
)
from prompts.errors import UserError

SIGNATURES = load_signatures(FileSignatureStore())
BY_ID = [pytest.param(signature, id=signature.id) for signature in SIGNATURES]


@pytest.fixture(scope="module")
def matchers() -> list[Matcher]:
    looked_for = expressions(SIGNATURES)
    return [Matcher(looked_for), Matcher(looked_for, automaton=False)]


def hits(matcher: Matcher, text: str) -> dict[int, list[int]]:
    """The patterns that fit, by the line's index."""
    lines = text.split("\n")
    found = {
        index: [number for number in numbers if matcher.fits(number, lines[index])]
        for index, numbers in matcher.candidates(Block(1, text.encode())).lines.items()
    }
    return {index: numbers for index, numbers in found.items() if numbers}


@pytest.mark.parametrize("signature", BY_ID)
def test_samples(signature: Signature, matchers: list[Matcher]) -> None:
    assert len(signature.match) >= 2 and len(signature.reject) >= 2, "two samples of each are the least"
    assert signature.source.startswith("https://") and signature.says
    for line in signature.match:
        assert signature.regex.search(line), line
        for matcher in matchers:
            found = [SIGNATURES[i] for i in hits(matcher, line).get(0, []) if i < len(SIGNATURES)]
            best = max(found, key=lambda s: s.priority)
            assert best.id == signature.id or best.family == signature.family or best.category == signature.category, (
                f"{best.id} wins on {line!r}"
            )
    for line in signature.reject:
        assert not signature.regex.search(line), line


@pytest.mark.parametrize("signature", BY_ID)
def test_clue_reads_on_after_look_at(signature: Signature) -> None:
    begins = ("the ", "a ", "an ", "that ", "what ", "who ", "any ", "all ranks at ")
    assert not signature.clue or signature.clue.startswith(begins), f"Look at {signature.clue}."


@pytest.mark.parametrize("signature", BY_ID)
def test_samples_with_a_launchers_prefix(signature: Signature) -> None:
    anchored = signature.pattern.startswith("^") or "|^" in signature.pattern
    for line in signature.match:
        assert anchored or signature.regex.search(f"[rank12]: {line}")


def test_both_ways_of_matching_agree(matchers: list[Matcher]) -> None:
    lines = [line for s in SIGNATURES for line in (*s.match, *s.reject)] + ["", "é ü 漢字", "\x00\x01", "x" * 9000]
    text = "\n".join(lines)
    automaton, plain = (hits(matcher, text) for matcher in matchers)
    assert automaton == plain and len(automaton) > len(SIGNATURES)


def hard_lines() -> Iterator[str]:
    for unit in ("a", " ", "0", "/", "(", "aA0 ", "Error: ", "failed ", "pid=1,", "loss ", "step 1 ", "[", "\\", "é"):
        yield unit * (LINE_CHARS // len(unit))
    for signature in SIGNATURES:
        for sample in signature.match[:1]:
            yield (sample * (LINE_CHARS // len(sample) + 1))[: LINE_CHARS - 1] + "!"


def test_no_line_makes_a_pattern_run_away() -> None:
    looked_for = [*(s.regex for s in SIGNATURES), *(pattern for _, pattern in MARKS)]
    slowest = 0.0
    for line in hard_lines():
        for pattern in looked_for:
            begin = time.process_time()
            pattern.search(line)
            slowest = max(slowest, time.process_time() - begin)
    assert slowest < 0.25, f"{slowest:.3f} s on one line"


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?<!a)b", r"(a)\1", "(a+)+b", "(a*b*)*", "(?:x.*)+", ".*a.*b.*c"])
def test_dangerous_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["a.*b", "(?:a|b)c+", r"\d{1,9}(?:x|y{0,3})", "(?P<node>[a-z]+) down"])
def test_plain_patterns_are_allowed(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize(
    "text",
    [
        "signatures: [{id: a, role: root}]",
        "signatures: [{id: a, role: no-such-role, pattern: x}]",
        "signatures: [{id: a, role: root, pattern: '(', category: data, subcategory: s, action: none, "
        "retryable: true, says: x}]",
        "signatures: [{id: a, role: root, pattern: x, category: nonsense, subcategory: s, action: none, "
        "retryable: true, says: x}]",
        "- just a list",
        "a: [",
        "signatures: 3",
    ],
)
def test_a_faulty_family_is_one_clear_error(text: str) -> None:
    with pytest.raises(UserError) as error:
        parse_family("mine", text)
    assert "signatures/mine" in str(error.value)


def test_a_literal_needs_no_escaping() -> None:
    (signature,) = parse_family(
        "mine",
        "signatures: [{id: a, role: root, literal: 'a(b*[', category: data, subcategory: s, action: none, "
        "retryable: true, says: x}]",
    )
    assert signature.regex.search("-- a(b*[ --") and not signature.regex.search("ab")


def test_xid_table() -> None:
    table = xid_signatures()
    assert len(table) > 100
    assert xid_signature(79).role == "root" and xid_signature(79).action == "cordon_node_and_restart"
    assert xid_signature(31).category == "user-code" and xid_signature(31).role == "ambiguous"
    assert xid_signature(45).role == "echo" and xid_signature(63).role == "informational"
    assert xid_signature(999).role == "informational"


@pytest.mark.parametrize(
    ("expression", "scanned"),
    [
        (r"(Error|Fatal)\b.{0,200}\b(disk|quota)", r"\b(disk|quota)"),
        (r"a.{0,200}b.{0,300}c", r"b.{0,300}c"),
        (r"a.{0,200}b|c", r"a.{0,200}b|c"),
        (r"(a.{0,200}b)c", r"(a.{0,200}b)c"),
        (r"a.{0,40}b", r"a.{0,40}b"),
        (r"a\.{0,200}b", r"a\.{0,200}b"),
        (r"[.{0,200}]b(", r"[.{0,200}]b("),
        (r"a\|.{0,200}[|]b", r"[|]b"),
        (r"a.{0,200}", r"a.{0,200}"),
    ],
)
def test_what_is_scanned_for(expression: str, scanned: str) -> None:
    assert behind_gap(expression) == scanned


GOOD = {
    "id": "x", "role": "root", "category": "storage", "subcategory": "nfs", "action": "fix_code", "retryable": None,
    "says": "It broke", "pattern": "broken [a-z]",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"says": None, "action": None}, "it needs action and says"),
        ({"pattern": None}, "it needs pattern (or literal)"),
        ({"role": None, "pattern": "", "id": None}, "it needs id, role and pattern (or literal)"),
        ({"role": "boss"}, "role 'boss' is not one of"),
        ({"sayz": "x"}, "there is no field sayz"),
        ({"match": "a line"}, "match must be a list"),
        ({"weight": "much"}, "weight must be a number"),
        ({"pattern": "a("}, "the pattern is none"),
        ({"pattern": "(a+)+"}, "unbounded repeat"),
    ],
)
def test_what_is_wrong_with_a_signature_is_told_in_words(change: dict[str, object], told: str) -> None:
    import yaml

    assert parse_family("f", yaml.safe_dump({"signatures": [GOOD]}))[0].retryable is None
    with pytest.raises(UserError) as refused:
        parse_family("f", yaml.safe_dump({"signatures": [GOOD | change]}))
    text = str(refused.value)
    assert told in text and not re.search(r"Error|__init__|argument|NoneType", text), text


def test_every_pattern_that_comes_with_the_program_is_allowed() -> None:
    """They are not checked again at each start."""
    for family, text in FileSignatureStore().families():
        if family != "xids":
            assert parse_family(family, text)
