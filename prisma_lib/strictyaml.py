"""YAML without its surprises.

`1e-4` is a number, `yes`, `12:30` and `2024-01-01` are text, and only true and false
are booleans. Errors are: repeated keys, keys that are not text, tags that build
objects, and aliases, with which 300 bytes can unfold to gigabytes. Every value knows
its line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from prisma_lib.errors import ConfigError

Keys = tuple[str | int, ...]
TAG = "tag:yaml.org,2002:"
SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    "float": (
        r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
}


@dataclass(frozen=True)
class Document:
    """What a YAML file says, and where.

    Args:
        path: The file.
        content: Its values.
        lines: The line of every value by its key path, such as `("base", "n")`.
    """

    path: Path
    content: dict[str, Any]
    lines: dict[Keys, int] = field(default_factory=dict)

    def place(self, *keys: str | int) -> str:
        """Says where a value stands: file, line and key path."""
        path = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in keys)
        line = f", line {self.lines[keys]}" if keys in self.lines else ""
        return f"{self.path}{line}: {path.lstrip('.')}".removesuffix(": ")


class StrictLoader(yaml.SafeLoader):
    """Reads plain values only, and refuses what could unfold."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Refuses aliases."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            line = event.start_mark.line + 1
            raise yaml.YAMLError(
                f"line {line}: write the value out instead of an alias"
            )
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


for name, (pattern, first) in SCALARS.items():
    StrictLoader.add_implicit_resolver(
        f"{TAG}{name}", re.compile(f"^(?:{pattern})$"), first
    )
PLAIN = {f"{TAG}{name}" for name in ("str", "seq", "map", *SCALARS)}


def read(path: Path) -> Document:
    """Reads a YAML file whose top level is a mapping.

    Args:
        path: The file.

    Returns:
        Its content and the line of every value.

    Raises:
        ConfigError: When the file does not exist, is no strict YAML, or has anything
            but a mapping at the top level; with all faults at once, if it can be
            parsed at all.
    """
    lines: dict[Keys, int] = {}
    try:
        loader = StrictLoader(path.read_text("utf-8"))
        node = loader.get_single_node()
        if found := list(faults(node, (), lines)) if node else []:
            raise ConfigError(f"{path} cannot be read: " + "; ".join(found))
        content = loader.construct_document(node) if node else None
    except FileNotFoundError as error:
        known = sorted(item.name for item in path.parent.glob("*.yaml"))
        raise ConfigError(
            f"{path} does not exist: {path.parent} has {', '.join(known) or 'none'}"
        ) from error
    except (OSError, UnicodeError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path}: expected a mapping at the top level, found "
            f"{type(content).__name__}; write lines such as `notebook: 20_darcy`"
        )
    return Document(path, content, lines)


def faults(node: yaml.Node, keys: Keys, lines: dict[Keys, int]) -> Iterator[str]:
    """Lists what a reader would misread, and notes the line of every value.

    Args:
        node: A node of the file.
        keys: Its key path.
        lines: Takes the lines.
    """
    line = node.start_mark.line + 1
    lines.setdefault(keys, line)
    if node.tag not in PLAIN:
        yield f"line {line}: the tag {node.tag!r} builds an object: give a plain value"
    elif isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            yield from faults(item, (*keys, position), lines)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            line, name = key.start_mark.line + 1, key.value
            if key.tag != f"{TAG}str":
                yield f"line {line}: the key {name!r} is not text"
                continue
            if (*keys, name) in lines:
                yield f"line {line}: the key {name!r} occurs twice"
            lines[*keys, name] = line
            yield from faults(value, (*keys, name), lines)
