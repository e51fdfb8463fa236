"""Whatever encoding a file is in, as UTF-8 or an 8-bit one, chunk by chunk."""

from __future__ import annotations

import codecs


class Plain:
    """Makes chunks of a file UTF-8 or some 8-bit encoding, without NULs (left by truncated or sparse files)."""

    def __init__(self) -> None:
        self._decoder: codecs.IncrementalDecoder | None = None
        self._is_first = True

    def text(self, chunk: bytes) -> bytes:
        """The next chunk; the first one tells the encoding."""
        if self._is_first:
            self._is_first = False
            self._decoder = _wide_decoder(chunk)
            if self._decoder is None:
                chunk = chunk.removeprefix(codecs.BOM_UTF8)
        if self._decoder is not None:
            chunk = self._decoder.decode(chunk).removeprefix("\ufeff").encode("utf-8", "replace")
        return chunk.translate(None, b"\0") if b"\0" in chunk else chunk  # replacing takes each one by itself


def _wide_decoder(first: bytes) -> codecs.IncrementalDecoder | None:
    """A decoder for UTF-16 or UTF-32, told by the byte order mark or, without one, by where the NULs stand."""
    for mark, encoding in (
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if first.startswith(mark):
            return codecs.getincrementaldecoder(encoding)("replace")
    sample = first[:4096]
    half = len(sample) // 2
    if half >= 8:
        for offset, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
            if sample[offset::2].count(0) > 0.8 * half and sample[1 - offset :: 2].count(0) < 0.05 * half:
                return codecs.getincrementaldecoder(encoding)("replace")
    return None
