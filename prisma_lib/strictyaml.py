"""YAML without its surprises.

`1e-4` is a number, `yes`, `12:30` and `2024-01-01` are text, and only true and false
are booleans. Errors are: repeated keys, keys that are not text, tags that build
objects, and aliases, with which 300 bytes can unfold to gigabytes.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from prisma_lib.errors import ConfigError

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


class StrictLoader(yaml.SafeLoader):
    """Builds plain values only, and refuses what a reader would misread."""

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

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
        """Refuses keys that occur twice or are not text."""
        seen: set[str] = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if key.tag != "tag:yaml.org,2002:str":
                raise yaml.YAMLError(f"line {line}: the key {key.value!r} is not text")
            if key.value in seen:
                raise yaml.YAMLError(f"line {line}: the key {key.value!r} occurs twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


for name, (pattern, first) in SCALARS.items():
    StrictLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{name}", re.compile(f"^(?:{pattern})$"), first
    )


def read(path: Path) -> dict[str, Any]:
    """Reads a YAML file whose top level is a mapping.

    Args:
        path: The file.

    Returns:
        Its content.

    Raises:
        ConfigError: When the file does not exist, is no strict YAML, or has anything
            but a mapping at the top level.
    """
    try:
        loader = StrictLoader(path.read_text("utf-8"))
        content = loader.get_single_data()
    except FileNotFoundError as error:
        known = sorted(item.name for item in path.parent.glob("*.yaml"))
        raise ConfigError(
            f"{path} does not exist: {path.parent} has {', '.join(known) or 'none'}"
        ) from error
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path}: expected a mapping at the top level, found "
            f"{type(content).__name__}; write lines such as `notebook: 20_darcy`"
        )
    return content
