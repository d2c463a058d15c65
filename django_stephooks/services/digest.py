"""A digest of what a hook asks: the page shows it, the answer brings it back.

So an answer to a question that has changed in between is refused, and the journal can say what was
seen by whoever answered.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django_stephooks.models import Hook

_SETS = ("set", "frozenset")


def digest_of(hook: Hook) -> str:
    """SHA-256, in hex, of the hook's title, description, context, schema and call; the same everywhere."""
    parts = [hook.title, hook.description, _context_of(hook), hook.schema, hook.call]
    # As ASCII: a context may hold lone surrogates, which have no bytes.
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode("ascii")).hexdigest()


def _context_of(hook: Hook) -> Any:
    """The stored tree of the context, in one order of the members of sets.

    Strings are hashed anew in each process, so a set comes in another order there.
    """
    field: Any = Hook._meta.get_field("context")
    text = field.get_prep_value(field.pre_save(hook, False))
    if text is None:
        return None
    try:
        return _in_order(json.loads(text))
    except (RecursionError, ValueError):
        return text


def _in_order(node: Any) -> Any:
    if isinstance(node, list):
        return [_in_order(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {key: _in_order(item) for key, item in node.items()}
    # What is tagged so is a set: a dict that has such a key itself is written as pairs.
    if found.get("$t") in _SETS and isinstance(found.get("v"), list):
        found["v"].sort(key=json.dumps)
    return found
