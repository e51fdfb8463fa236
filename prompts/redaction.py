"""Takes secrets out of text before it is stored, shown or sent to a model.

Three ways lead to a secret: its own shape (`secret_shapes.TOKEN`), its place (URLs, headers, log-in commands,
private-key blocks), and the name in front of it. Whatever stands behind the name of a password goes; behind weaker
names (``token``, ``api_key``) only what looks like a secret goes, since logs are full of ``pad_token=<pad>`` and
``max_tokens=512``. Hashes, UUIDs and file names with no such name in front of them stay.

Time is linear in the length of the text; the number of lines never changes, so that ``file:line`` stays true.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from prompts import secret_shapes as shapes
from prompts.key_blocks import without_key_blocks
from prompts.secret_shapes import REDACTED as REDACTED

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SUFFIX = frozenset(
    ("b64", "base64", "value", "val", "hex", "prod", "dev", "test", "staging", "old", "new", "data", "string")
)
_HARMLESS = re.compile(
    r"(?i)<?redacted>?$|\*{3,}|x{4,}$|\.{3}$|\$(?:[{(]|[a-z_][a-z0-9_]*$)|%s$|%\([a-z_]+\)s|%[a-z_]+%$|\{\{"
    r"|<[a-z_ -]{1,40}>?$|\[(?:pad|unk|cls|sep|mask)\b"
    r"|(?:none|null|nil|true|false|undefined|unset|empty|yes|no|on|off|required|optional|missing|invalid|expired)$"
    r"|\{[a-z_][a-z0-9_.]*(?:[:!\[(]|$)"
    r"|os\.(?:environ|getenv)|getenv\(|environ\b|getpass\b|input\(|(?:self|args|cfg|config|settings|opts?|hparams)\."
)
#: Strengths of names: 1, `_VARIABLE` (of the environment) and `_PASSWORD` need no further proof.
_VARIABLE, _PASSWORD = 2, 3
_CALL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*[(\[]|\([A-Za-z_]|\[[A-Za-z_]")
_DOTTED = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+$")
_VARIABLE_NAME = re.compile(r"[a-z_][a-z0-9_]*$")
_PUNCTUATION = re.compile(r"[)\]},;:]+$")
_BREAK = re.compile(r"[\s\"',;&|<>(){}\[\]]")
_MOST_PARTS, _LONGEST_PART_CHARS = 16, 512
_PATH = re.compile(r"[~.]{0,2}/|[A-Za-z]:\\|[a-z][a-z0-9+.-]{1,15}://")
_FILE = re.compile(r"[\w./-]*\.(?:txt|json|ya?ml|pem|crt|key|env|toml|ini|py|sh|log|model|bin|pt|safetensors)$")
#: Base64 of ASCII: the three bytes of each four characters have no high bit, which is true of hardly any word.
BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/])(?:[I-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589]"
    r"[A-Za-z0-9+/]){3,4096}(?:[A-Za-z0-9+/]{2,3})?={0,2}(?![A-Za-z0-9+/=])"
)
_PAIR = re.compile(r"[A-Za-z0-9_.@-]{1,64}:[^\s:]{6,256}")
_DIGIT, _LETTER, _LOWER, _UPPER = (re.compile(p) for p in ("[0-9]", "[A-Za-z]", "[a-z]", "[A-Z]"))
_REST = re.compile(r"[A-Za-z0-9+/=_.-]*")
_NUMBER = re.compile(r"[-+]?[0-9][0-9.,_]*(?:[eE][-+]?[0-9]+)?[kKMGTBbsx%]{0,3}$")


def redact(text: str) -> str:
    """The text with every recognised secret replaced by ``<redacted>``; applying it twice changes nothing more."""
    return BASE64.sub(_unless_harmless_inside, _redact_plain(text))


def _redact_plain(text: str) -> str:
    text = _redact_split(without_key_blocks(text))  # first: one half of a token may be long enough to pass for one
    text = shapes.AWS_PAIR.sub(rf"\g<1>{REDACTED}", text)
    text = shapes.URL_PASSWORD.sub(rf"\g<1>{REDACTED}", text)
    text = shapes.URL_USER_TOKEN.sub(_unless_plain, text)
    text = shapes.WEBHOOK.sub(rf"\g<1>{REDACTED}", text)
    text = shapes.COMMAND_SECRET.sub(rf"\g<1>{REDACTED}", text)
    text = shapes.PIPED.sub(_unless_variable, text)
    text = shapes.COOKIE.sub(rf"\g<1>{REDACTED}", text)
    for pattern, strength_of in _NAMED:
        text = _redact_after(text, pattern, strength_of)
    text = _redact_after(text, shapes.OPTION, _named, _default_of)
    text = _redact_after(text, shapes.NAME_AND_JOIN, _assigned, _alternative_of)
    text = shapes.BEARER.sub(_credential, text)
    return shapes.TOKEN.sub(REDACTED, text)


def shortened(text: str, most_chars: int) -> str:
    """The text cut to a length such that no half of a secret is left for `redact` to miss: behind a whole word."""
    if len(text) <= most_chars:
        return text
    end = most_chars
    if not _BREAK.match(text[end]):
        while end and most_chars - end < _LONGEST_PART_CHARS and not _BREAK.match(text[end - 1]):
            end -= 1
    return text[:end]


def redact_tree(value: Any) -> Any:
    """`redact` applied to every string of a JSON-like value, keys included; numbers and the rest stay."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact_tree(key): _redact_item(key, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact_tree(item) for item in value]
    return value


def _redact_item(key: Any, item: Any) -> Any:
    if isinstance(key, str) and isinstance(item, str) and _is_secret_value(_strength(key), item):
        return REDACTED
    return redact_tree(item)


def _redact_after(
    text: str,
    pattern: re.Pattern[str],
    strength_of: Callable[[re.Match[str]], int],
    value_at: Callable[[re.Match[str]], int] = re.Match.end,
) -> str:
    """Redact the value that follows each match, where the match calls for it."""
    pieces: list[str] = []
    copied = 0
    for match in pattern.finditer(text):
        if match.end() < copied:
            continue
        strength = strength_of(match)
        at = value_at(match) if strength else -1
        group = shapes.GROUP.match(text, at) if at >= copied else None
        value = shapes.VALUE.match(text, group.end() if group else at) if at >= copied else None
        if value is None:
            continue
        parts = _parts(text, value)
        whole = "".join(text[start:end] for start, end in parts)
        if not _is_secret_value(strength, whole, is_code=not value["open"] and _is_code(whole, strength)):
            continue
        for start, end in parts:
            pieces += [text[copied:start], REDACTED]
            copied = end
        copied = _REST.match(text, copied).end()  # type: ignore[union-attr]
    return "".join([*pieces, text[copied:]])


def _parts(text: str, value: re.Match[str]) -> list[tuple[int, int]]:
    """Where the literals stand that a value is put together from; mostly one."""
    parts = [value.span("value")]
    while value["open"] and len(parts) < _MOST_PARTS and (joint := shapes.JOINT.match(text, parts[-1][1])):
        end = text.find(joint[1], joint.end(), joint.end() + _LONGEST_PART_CHARS)
        line_end = text.find("\n", joint.end(), end) if end >= 0 else 0
        if end <= joint.end() or line_end >= 0:
            break
        parts.append((joint.end(), end))
    return parts


def _redact_split(text: str) -> str:
    """Tokens that are put together from several literals: found with what joins them left out."""
    joints = [joint.span() for joint in shapes.JOINT.finditer(text)]
    if not joints:
        return text
    starts, ends = [0, *(end for _, end in joints)], [*(start for start, _ in joints), len(text)]
    joined, offsets, length = [], [], 0  # where each piece begins in the joined text
    for start, end in zip(starts, ends, strict=True):
        joined.append(text[start:end])
        offsets.append(length)
        length += end - start
    gone: dict[int, tuple[int, int]] = {}  # of a piece: from, to
    for match in shapes.TOKEN.finditer("".join(joined)):
        first, last = bisect_right(offsets, match.start()) - 1, bisect_right(offsets, match.end() - 1) - 1
        for index in range(first, last + 1) if last > first else ():
            low, high = max(match.start() - offsets[index], 0), match.end() - offsets[index]
            known = gone.get(index)
            gone[index] = (min(low, known[0]) if known else low, min(high, len(joined[index])))
    for index, (low, high) in gone.items():
        joined[index] = joined[index][:low] + REDACTED + joined[index][high:] if high > low else joined[index]
    between = [text[start:end] for start, end in joints] + [""]
    return "".join(part for pair in zip(joined, between, strict=True) for part in pair)


def _assigned(match: re.Match[str]) -> int:
    name, at = match[1], match.start(1)
    if at and match.string[at - 1] == "\\" and name[0] in "nrt":  # may be a line's end, written out as in JSON
        strength = max(_strength(name), _strength(name[1:]))
    else:
        strength = _strength(name)
    joined_by_equals = "=" in match.group(0)
    # NAME=value in capitals is an environment variable: a secret there needs no further proof
    return _VARIABLE if strength == 1 and joined_by_equals and name.isupper() else strength


def _named(match: re.Match[str]) -> int:
    return _strength(match[1])


def _in_capitals(match: re.Match[str]) -> int:
    """What stands beside the name of a password need not be one, unless it is a variable of the environment."""
    strength = _strength(match[1])
    return strength if match[1].isupper() else min(strength, 1)


def _in_call(match: re.Match[str]) -> int:
    """As `_in_capitals`, but for the first argument of a function."""
    before = match.string[max(0, match.start() - 3) : match.start()].rstrip("\\")[-2:]
    is_call = before[-1:] == "(" and (before[:1].isalnum() or before[:1] in ("_", "]"))
    return _strength(match[1]) if is_call else _in_capitals(match)


def _default_of(match: re.Match[str]) -> int:
    """Where the default of a declared option stands, -1 where it has none."""
    start, stop = match.end(), match.end() + shapes.OPTION_CHARS
    found = shapes.OPTION_DEFAULT.search(match.string, start, stop)
    if found is None or shapes.OPTION_ENDS.search(match.string, start, found.start()):
        return -1
    return found.end()


def _alternative_of(match: re.Match[str]) -> int:
    """Where the value stands that counts if another one is empty, -1 where there is none on this line."""
    stop = match.string.find("\n", match.end(), match.end() + shapes.ALTERNATIVE_CHARS)
    stop = match.end() + shapes.ALTERNATIVE_CHARS if stop < 0 else stop
    found = shapes.ALTERNATIVE.search(match.string, match.end(), stop)
    return -1 if found is None else found.end()


_NAMED: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], int]], ...] = (
    (shapes.NAME_AND_JOIN, _assigned),
    (shapes.FLAG_AND_SPACE, _named),
    (shapes.NAMED_VALUE, _assigned),
    (shapes.NAMED_PAIR, _in_call),
    (shapes.ANNOTATED, _assigned),
    (shapes.CELL, _in_capitals),
    (shapes.ELEMENT, _named),
    (shapes.SPACED, _named),
    (shapes.EXPANSION, _assigned),
)


def _strength(name: str) -> int:
    """0: no name of a secret; 1: of one if the value looks like it; `_PASSWORD`: of one, whatever the value."""
    words = [w for w in re.split(r"[_.\-\s]+", _CAMEL.sub("_", name).lower()) if w]
    while len(words) > 1 and (words[-1] in _SUFFIX or words[-1].isdigit()):
        words.pop()
    if not words:
        return 0
    last = words[-1].rstrip("0123456789")
    before = words[-2] if len(words) > 1 else ""
    singular = last[:-1] if last.endswith("s") and last not in ("pass",) else last
    if singular in shapes.PASSWORD_WORDS or singular.endswith(("password", "passwd", "passphrase")):
        return _PASSWORD
    if last == "pass" and before in shapes.PASS_OWNERS:
        return _PASSWORD
    if last == "token" or (last.endswith("token") and last not in ("detoken", "pretoken", "subtoken")):
        return 0 if before in shapes.TEXT_TOKEN_WORDS else 1
    if singular.endswith("secret") or singular in ("credential", "authorization", "auth", "apikey", "sig", "signature"):
        return 1
    if last in ("psk", "pat", "dsn") and before:
        return 1
    if singular == "key":
        return 1 if before in shapes.KEY_OWNERS else 0
    return 1 if singular.endswith(("apikey", "accesskey", "secretkey", "privatekey", "accountkey", "authkey")) else 0


def _is_secret_value(strength: int, value: str, *, is_code: bool = False) -> bool:
    if not strength or not value or is_code or _HARMLESS.match(value) or _PUNCTUATION.match(value):
        return False
    if strength >= _VARIABLE:
        return not _PATH.match(value)
    return _looks_secret(value)


def _is_code(value: str, strength: int) -> bool:
    """Whether a value without quotes is an expression of a program: it names a secret and is none."""
    if _CALL.match(value):
        return True
    return strength < _PASSWORD and (
        bool(_DOTTED.match(value)) or (bool(_VARIABLE_NAME.match(value)) and _strength(value) > 0)
    )


def _looks_secret(value: str) -> bool:
    """Whether a value has the looks of a generated secret: long, and of mixed make, and no number, path or words."""
    if len(value) < 8 or _NUMBER.match(value) or _PATH.match(value) or _FILE.match(value) or " " in value:
        return False
    if _DIGIT.search(value) and _LETTER.search(value):
        return True
    if len(value) >= 16 and _LOWER.search(value) and _UPPER.search(value):
        return True
    return len(value) >= 20 and value.isalnum()


def _unless_variable(match: re.Match[str]) -> str:
    return match[0] if match[2].startswith("$") else f"{match[1]}{REDACTED}"


def _unless_plain(match: re.Match[str]) -> str:
    return REDACTED if _looks_secret(match[1]) else match[0]


def _credential(match: re.Match[str]) -> str:
    value = match[2]
    generated = any(c.isdigit() for c in value) or _is_basic_pair(value)
    return f"{match[1]}{REDACTED}" if generated else match[0]


def _is_basic_pair(value: str) -> bool:
    """Whether it is the base64 of ``user:password``."""
    try:
        return b":" in base64.b64decode(value, validate=True)
    except ValueError:
        return False


def _unless_harmless_inside(match: re.Match[str]) -> str:
    """Base64 of a secret, or of ``user:password``, whatever the name in front of it."""
    packed = match[0].rstrip("=")
    try:
        inside = base64.b64decode(packed + "=" * (-len(packed) % 4)).decode("ascii")
    except ValueError:
        return match[0]
    if not all(c.isprintable() or c in "\r\n\t" for c in inside):
        return match[0]
    return REDACTED if _PAIR.fullmatch(inside) or _redact_plain(inside) != inside else match[0]
