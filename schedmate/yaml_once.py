"""YAML in which no key of a mapping may be there twice.

The plain reader keeps the last one and says nothing, so a pool or a tenant that was pasted and not renamed would take
the place of another.
"""

from __future__ import annotations

from typing import Any

import yaml

#: So many values may come from aliases.
MOST_REPEATED = 10_000


class TwiceError(yaml.MarkedYAMLError):
    """A key that is there twice; ``problem`` says which."""


class _Loader(yaml.SafeLoader):
    """Looks at the keys as they are written, before merges (``<<``) bring in others that may be overridden."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set[tuple[str, str]]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise TwiceError(problem=f"{key.value[:200]!r} is there twice", problem_mark=key.start_mark)
                seen.add((key.tag, key.value))
        return node


class _BoundedLoader(_Loader):
    """Bounds what aliases bring in again: a few lines of them, one inside the other, can stand for gigabytes."""

    _left = MOST_REPEATED

    def compose_node(self, parent: Any, index: Any) -> Any:
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if is_alias:
            waiting: list[Any] = [node]
            while waiting:
                self._left -= 1
                if self._left < 0:
                    raise TwiceError(problem="its aliases (*name) repeat too much")
                inner = waiting.pop().value
                for each in inner if isinstance(inner, list) else ():
                    waiting.extend(each if isinstance(each, tuple) else (each,))
        return node


def load_once(text: str | bytes) -> Any:
    """The one document of a text. Raises ``yaml.YAMLError``, `TwiceError` among them."""
    return yaml.load(text, Loader=_BoundedLoader)
