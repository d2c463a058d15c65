"""The workflows and steps of this project by name; filled by the decorators, asked by the engine."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, NamedTuple

from .exceptions import UnknownWorkflowError

if TYPE_CHECKING:
    from .decorators import Definition


class Conflict(NamedTuple):
    name: str
    first: str
    second: str


_definitions: dict[str, Definition[Any, Any]] = {}
_conflicts: dict[str, Conflict] = {}


def register(definition: Definition[Any, Any]) -> None:
    """Make a definition findable. The same function defined again (a reload) replaces the earlier one."""
    known = _definitions.get(definition.name)
    if known is not None and known.origin != definition.origin:
        _conflicts[definition.name] = Conflict(definition.name, known.origin, definition.origin)
        return
    _definitions[definition.name] = definition


def get(name: str) -> Definition[Any, Any]:
    """The workflow or step of this name; UnknownWorkflowError, with the nearest names, if there is none."""
    if name in _conflicts:
        _, first, second = _conflicts[name]
        raise UnknownWorkflowError(
            f"Two workflows or steps are called {name!r}: {first} and {second}. "
            "Give one of them another name=."
        )
    try:
        return _definitions[name]
    except KeyError:
        near = difflib.get_close_matches(name, _definitions, n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise UnknownWorkflowError(
            f"No workflow or step is called {name!r}.{hint} "
            "Workflows are found in the workflows.py of each app in INSTALLED_APPS."
        ) from None


def definitions() -> list[Definition[Any, Any]]:
    return [definition for name, definition in sorted(_definitions.items())]


def conflicts() -> list[Conflict]:
    """Names that were given twice; a system check reports them."""
    return list(_conflicts.values())
