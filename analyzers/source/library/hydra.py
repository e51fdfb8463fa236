"""Hydra: composing a configuration tree from its defaults lists, groups and overrides."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field

from analyzers.source.files import normal
from analyzers.source.library.configs import as_value, key_lines, merge_into, override_value, plain_config, set_path
from analyzers.source.program.machine import Machine
from analyzers.source.program.values import Const, Map, Origin, Seq, Unknown, Val

FILES_MAX = 100


@dataclass(slots=True)
class Composer:
    """One composition: where the files are, which groups were chosen, and what a sweep leaves open."""

    machine: Machine
    folder: str
    choices: dict[str, str | None] = field(default_factory=dict)
    overrides: list[tuple[str, str, Origin]] = field(default_factory=list)
    used: int = 0
    swept: set[str] = field(default_factory=set)

    def compose(self, name: str) -> Map:
        """The configuration called ``name`` with everything its defaults list and the overrides bring in."""
        root = Map({}, attr=True, label="hydra")
        self._scan_for_overrides(name)
        self._add(root, name, "", None)
        for key, text, origin in self.overrides:
            if text.count(",") and not text.startswith(("[", "{", "'", '"')) and self.sweeping:
                self.swept.add(key)
            else:
                set_path(root, key.split("."), override_value(text, origin))
        self._sweeper(root)
        for key in self.swept:
            set_path(root, key.split("."), Unknown("varies in a sweep"))
        interpolate(root, root, 0)
        root.items.pop("hydra", None)
        return root

    sweeping: bool = False

    def _file(self, name: str) -> tuple[str, str] | None:
        for ending in ("", ".yaml", ".yml"):
            path = normal(posixpath.join(self.folder, name + ending))
            text = self.machine.tree.read(path) if ending or name.endswith((".yaml", ".yml")) else None
            if text is not None:
                return path, text
        return None

    def _scan_for_overrides(self, name: str) -> None:
        """Chosen files may override groups of the root (``override /trainer: gpu``): find those before composing."""
        plain = self._plain(name)
        for entry in _defaults(plain):
            group, option, _ = _entry(entry)
            if group is None:
                continue
            chosen = self.choices.get(group, option)
            inner = self._plain(f"{group}/{chosen}") if chosen else None
            for inner_entry in _defaults(inner):
                inner_group, inner_option, is_override = _entry(inner_entry)
                if is_override and inner_group is not None:
                    self.choices.setdefault(inner_group.lstrip("/"), inner_option)

    def _plain(self, name: str) -> object:
        found = self._file(name)
        return plain_config(self.machine, found[1], found[0]) if found is not None else None

    def _add(self, target: Map, name: str, package: str, depth_group: str | None) -> None:
        found = self._file(name)
        self.used += 1
        if found is None or self.used > FILES_MAX:
            return
        path, text = found
        plain = plain_config(self.machine, text, path)
        if not isinstance(plain, dict):
            return
        header = re.search(r"^#\s*@package\s+(\S+)", text, re.MULTILINE)
        if header:
            package = {"_global_": "", "_group_": package}.get(header.group(1), header.group(1))
        defaults = _defaults(plain)
        body = {k: v for k, v in plain.items() if k != "defaults"}
        own_added = False
        for entry in defaults:
            if entry == "_self_":
                self._merge(target, package, body, path, text)
                own_added = True
                continue
            group, option, is_override = _entry(entry)
            if is_override:
                continue
            if group is None:
                self._add(
                    target,
                    posixpath.join(depth_group or posixpath.dirname(name), str(option or "")),
                    package,
                    depth_group,
                )
                continue
            absolute = group.lstrip("/")
            full = (
                absolute
                if group.startswith("/") or not posixpath.dirname(name)
                else f"{posixpath.dirname(name)}/{absolute}"
            )
            chosen = self.choices.get(full, self.choices.get(absolute, option))
            if chosen is not None:
                self._add(target, f"{full}/{chosen}", full.partition("@")[2] or full.replace("/", "."), full)
        if not own_added:
            self._merge(target, package, body, path, text)

    def _merge(self, target: Map, package: str, body: object, path: str, text: str) -> None:
        value = as_value(body, Origin(path, 1, "default"), attr=True, lines=key_lines(text))
        if not isinstance(value, Map):
            return
        for part in package.split(".") if package else []:
            inner = target.items.get(part)
            if not isinstance(inner, Map):
                inner = Map({}, value.origin, attr=True)
                target.items[part] = inner
            target = inner
        merge_into(target, value)

    def _sweeper(self, root: Map) -> None:
        hydra = root.items.get("hydra")
        sweeper = hydra.items.get("sweeper") if isinstance(hydra, Map) else None
        params = sweeper.items.get("params") if isinstance(sweeper, Map) else None
        if isinstance(params, Map):
            self.swept.update(str(k) for k in params.items)


def _defaults(plain: object) -> list[object]:
    found = plain.get("defaults") if isinstance(plain, dict) else None
    return list(found) if isinstance(found, list) else []


def _entry(entry: object) -> tuple[str | None, str | None, bool]:
    """A defaults entry as (group, option, whether it overrides)."""
    if isinstance(entry, dict) and len(entry) == 1:
        key, value = next(iter(entry.items()))
        name = str(key)
        is_override = name.startswith("override ")
        name = name.removeprefix("override ").removeprefix("optional ").strip()
        return name, None if value is None else str(value), is_override
    return None, str(entry), False


def compose(machine: Machine, folder: str, name: str, words: list[Val]) -> Map:
    """The configuration that a Hydra program would see under this command line."""
    composer = Composer(machine, folder)
    for word in words:
        text = word.value if isinstance(word, Const) else None
        if not isinstance(text, str):
            continue
        origin = word.origin
        if text in ("-m", "--multirun"):
            composer.sweeping = True
        match = re.fullmatch(r"(?:--)?([+~]{0,2})([\w./@-]+)=(.*)", text, re.DOTALL)
        if text.startswith("--config-name=") or not match:
            name = text.partition("=")[2] if text.startswith("--config-name=") else name
            continue
        _, key, value = match.groups()
        if machine.tree.is_dir(normal(posixpath.join(folder, key.replace("@", "/")))) and "." not in key:
            composer.choices[key] = None if value in ("null", "") else value
            if match.group(1) and value:
                composer.overrides.append(("__appended__", value, origin))
        else:
            composer.overrides.append((key, value, origin))
    composer.overrides = [o for o in composer.overrides if o[0] != "__appended__"]
    return composer.compose(name.removesuffix(".yaml"))


def interpolate(value: Val, root: Map, depth: int) -> Val:
    """Replace ``${a.b}`` by what it names; what can not be named (environment, resolvers) becomes unknown."""
    if depth > 12:
        return value
    if isinstance(value, Map):
        for key, inner in list(value.items.items()):
            value.items[key] = interpolate(inner, root, depth + 1)
    elif isinstance(value, Seq):
        value.items = [interpolate(i, root, depth + 1) for i in value.items]
    elif isinstance(value, Const) and isinstance(value.value, str) and "${" in value.value:
        whole = re.fullmatch(r"\$\{([\w.]+)\}", value.value)
        if whole:
            found: Val | None = root
            for part in whole.group(1).split("."):
                found = found.items.get(part) if isinstance(found, Map) else None
            if found is not None and found is not root:
                return interpolate(found, root, depth + 1) if isinstance(found, Const) else found
        return Unknown("interpolation", value.origin)
    return value
