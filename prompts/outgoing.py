"""Text on its way to a model: what can not be seen in it, secrets and private addresses taken out, then shortened.

In this order, always: a secret that is cut in two first would not be known by its half.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from prompts.redaction import REDACTED, redact

#: Hosts that only exist behind somebody's door: private IP ranges, names without or with a private last part.
_PRIVATE_HOST = (
    r"(?:10(?:\.[0-9]{1,3}){3}|192\.168(?:\.[0-9]{1,3}){2}|172\.(?:1[6-9]|2[0-9]|3[01])(?:\.[0-9]{1,3}){2}"
    r"|169\.254(?:\.[0-9]{1,3}){2}|\[f[cd][0-9a-f:]{2,40}\]"
    r"|(?:[a-z0-9_-]{1,63}\.){1,8}(?:internal|intranet|intra|corp|local|lan|home|private|localdomain|arpa|svc)"
    r"|(?!localhost\b)[a-z][a-z0-9_-]{0,62})"
)
_PRIVATE_URL = re.compile(
    rf"(?i)(?<![a-z0-9+.-])((?:https?|ssh|git|ftps?|sftp|wss?|s3|git\+ssh|git\+https?)://(?:[^\s/@\"'<>]{{1,128}}@)?){_PRIVATE_HOST}"
    rf"(?::[0-9]{{1,5}})?(?=[/?#\s\"'<>),;\]}}]|$)(?:[^\s\"'<>]{{0,2048}}[^\s\"'<>,.;:)\]}}])?",
)
#: A bucket is no host: its name and path say where data lies, and reading source asks for just that.
_BUCKET = re.compile(r"(?i)s3://$")
_MAIL = re.compile(
    r"(?:(?<![A-Za-z0-9._%+/:@-])|(?<=mailto:))(?!git@)[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}"
    r"@(?=(?:[A-Za-z0-9-]{1,63}\.){1,8}(?:[a-z]{2}|com|org|net|edu|gov|mil|info|cloud|tech|internal|local|corp|lan)"
    r"(?![A-Za-z0-9_(]))"
)


def outgoing(text: str) -> str:
    """The text as a model may see it; the number of its lines stays."""
    text = redact(visible(text))
    text = _PRIVATE_URL.sub(_without_host, text)
    return _MAIL.sub(f"{REDACTED}@", text)


def _without_host(match: re.Match[str]) -> str:
    return match[0] if _BUCKET.match(match[1]) else f"{match[1]}{REDACTED}"


def outgoing_lines(lines: Sequence[str]) -> list[str]:
    """Lines that follow each other, as `outgoing`: a key over several of them is seen as one. A line end within a line
    becomes a space."""
    return outgoing("\n".join(line.replace("\n", " ") for line in lines)).split("\n") if lines else []


def outgoing_line(line: str, most_chars: int) -> str:
    """One line, cut to ``most_chars`` afterwards."""
    return outgoing(line.replace("\n", " "))[:most_chars]


def encodable(text: str) -> str:
    """The text with a mark in the place of what UTF-8 can not hold: half characters, as names of files may have."""
    return text.encode("utf-8", "replace").decode("utf-8")


def visible(text: str) -> str:
    """The text without what can not be seen in it: characters that hide a secret from `redact`, turn the order of what
    is read around, or end a line for some readers and not for others."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(_visible(c) for c in encodable(text))


def _visible(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return "" if unicodedata.category(character) == "Cf" else " "
