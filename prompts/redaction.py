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
from collections.abc import Callable
from typing import Any

from prompts import secret_shapes as shapes

REDACTED = "<redacted>"

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = re.compile(r"[^\n]{0,80}?[A-Za-z0-9+/=]{24,}\s*$|\s*$|[^\n]{0,80}(?:Proc-Type|DEK-Info|Version|Comment):")
_LONGEST_KEY_CHARS = 32_768

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SUFFIX = frozenset(
    ("b64", "base64", "value", "val", "hex", "prod", "dev", "test", "staging", "old", "new", "data", "string")
)
_HARMLESS = re.compile(
    r"(?i)<?redacted>?$|\*{3,}|x{4,}$|\.{3}$|\$(?:[{(]|[a-z_][a-z0-9_]*$)|%s$|%\([a-z_]+\)s|%[a-z_]+%$|\{\{"
    r"|<[a-z_ -]{1,40}>?$|\[(?:pad|unk|cls|sep|mask)\b"
    r"|(?:none|null|nil|true|false|undefined|unset|empty|yes|no|on|off|required|optional|missing|invalid|expired)$"
    r"|os\.(?:environ|getenv)|getenv\(|environ\b|getpass\b|input\(|(?:self|args|cfg|config|settings|opts?|hparams)\."
)
_PATH = re.compile(r"[~.]{0,2}/|[A-Za-z]:\\|[a-z][a-z0-9+.-]{1,15}://")
_FILE = re.compile(r"[\w./-]*\.(?:txt|json|ya?ml|pem|crt|key|env|toml|ini|py|sh|log|model|bin|pt|safetensors)$")
_DIGIT, _LETTER, _LOWER, _UPPER = (re.compile(p) for p in ("[0-9]", "[A-Za-z]", "[a-z]", "[A-Z]"))
_REST = re.compile(r"[A-Za-z0-9+/=_.-]*")
_NUMBER = re.compile(r"[-+]?[0-9][0-9.,_]*(?:[eE][-+]?[0-9]+)?[kKMGTBbsx%]{0,3}$")


def redact(text: str) -> str:
    """The text with every recognised secret replaced by ``<redacted>``; applying it twice changes nothing more."""
    text = _redact_key_blocks(text)
    text = shapes.AWS_PAIR.sub(rf"\g<1>{REDACTED}", text)
    text = shapes.URL_PASSWORD.sub(rf"\g<1>{REDACTED}", text)
    text = shapes.URL_USER_TOKEN.sub(_unless_plain, text)
    text = shapes.WEBHOOK.sub(rf"\g<1>{REDACTED}", text)
    text = shapes.COMMAND_SECRET.sub(rf"\g<1>{REDACTED}", text)
    text = shapes.COOKIE.sub(rf"\g<1>{REDACTED}", text)
    text = _redact_after(text, shapes.NAME_AND_JOIN, _assigned)
    text = _redact_after(text, shapes.FLAG_AND_SPACE, _flagged)
    text = _redact_after(text, shapes.NAMED_VALUE, _assigned)
    text = shapes.BEARER.sub(_credential, text)
    return shapes.TOKEN.sub(REDACTED, text)


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


def _redact_key_blocks(text: str) -> str:
    """Private keys, whole or cut off, on lines of their own or with ``\\n`` written out."""
    pieces: list[str] = []
    position = 0
    end: re.Match[str] | None = None
    exhausted = False
    while begin := _KEY_BEGIN.search(text, position):
        if not exhausted and (end is None or end.start() < begin.end()):
            end = _KEY_END.search(text, begin.end())
            exhausted = end is None
        if end is not None and 0 <= end.start() - begin.end() <= _LONGEST_KEY_CHARS:
            stop = end.end()
        else:
            stop = _end_of_cut_key(text, begin.end())
        block = text[begin.start() : stop]
        pieces += [text[position : begin.start()], REDACTED, "\n" * block.count("\n")]
        position = stop
    return "".join([*pieces, text[position:]])


def _end_of_cut_key(text: str, position: int) -> int:
    """Where a key block without its END line stops: at the first line that is not base64."""
    line_end = text.find("\n", position)
    if line_end < 0 or line_end - position > 64:  # the key goes on in the same line
        return len(text) if line_end < 0 else line_end
    position = line_end
    while position < len(text):
        line_end = text.find("\n", position + 1)
        line_end = len(text) if line_end < 0 else line_end
        line = text[position + 1 : line_end]
        if not line.strip() or not _KEY_LINE.match(line):
            return position
        position = line_end
    return position


def _redact_after(text: str, pattern: re.Pattern[str], strength_of: Callable[[re.Match[str]], int]) -> str:
    """Redact the value that follows each match, where the match calls for it."""
    pieces: list[str] = []
    copied = 0
    for match in pattern.finditer(text):
        if match.end() < copied:
            continue
        strength = strength_of(match)
        if not strength:
            continue
        value = shapes.VALUE.match(text, match.end())
        if value is None or not _is_secret_value(strength, value["value"]):
            continue
        pieces += [text[copied : value.start("value")], REDACTED]
        copied = _REST.match(text, value.end("value")).end()  # type: ignore[union-attr]
    return "".join([*pieces, text[copied:]])


def _assigned(match: re.Match[str]) -> int:
    name, at = match[1], match.start(1)
    if at and match.string[at - 1] == "\\" and name[0] in "nrt":  # may be a line's end, written out as in JSON
        strength = max(_strength(name), _strength(name[1:]))
    else:
        strength = _strength(name)
    joined_by_equals = "=" in match.group(0)
    # NAME=value in capitals is an environment variable: a secret there needs no further proof
    return 2 if strength == 1 and joined_by_equals and name.isupper() else strength


def _flagged(match: re.Match[str]) -> int:
    return _strength(match[1])


def _strength(name: str) -> int:
    """0: no name of a secret; 1: of one if the value looks like it; 2: of one, whatever the value."""
    words = [w for w in re.split(r"[_.\-\s]+", _CAMEL.sub("_", name).lower()) if w]
    while len(words) > 1 and (words[-1] in _SUFFIX or words[-1].isdigit()):
        words.pop()
    if not words:
        return 0
    last = words[-1].rstrip("0123456789")
    before = words[-2] if len(words) > 1 else ""
    singular = last[:-1] if last.endswith("s") and last not in ("pass",) else last
    if singular in shapes.PASSWORD_WORDS or singular.endswith(("password", "passwd", "passphrase")):
        return 2
    if last == "pass" and before in shapes.PASS_OWNERS:
        return 2
    if last == "token" or (last.endswith("token") and last not in ("detoken", "pretoken", "subtoken")):
        return 0 if before in shapes.TEXT_TOKEN_WORDS else 1
    if singular.endswith("secret") or singular in ("credential", "authorization", "auth", "apikey", "sig", "signature"):
        return 1
    if last in ("psk", "pat", "dsn") and before:
        return 1
    if singular == "key":
        return 1 if before in shapes.KEY_OWNERS else 0
    return 1 if singular.endswith(("apikey", "accesskey", "secretkey", "privatekey", "accountkey", "authkey")) else 0


def _is_secret_value(strength: int, value: str) -> bool:
    if not strength or not value or _HARMLESS.match(value):
        return False
    if strength == 2:
        return not _PATH.match(value)
    return _looks_secret(value)


def _looks_secret(value: str) -> bool:
    """Whether a value has the looks of a generated secret: long, and of mixed make, and no number, path or words."""
    if len(value) < 8 or _NUMBER.match(value) or _PATH.match(value) or _FILE.match(value) or " " in value:
        return False
    if _DIGIT.search(value) and _LETTER.search(value):
        return True
    if len(value) >= 16 and _LOWER.search(value) and _UPPER.search(value):
        return True
    return len(value) >= 20 and value.isalnum()


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
