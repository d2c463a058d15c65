"""Classes as text, "module:qualname", and back; for pydantic models and payload schemas."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def class_path(cls: type) -> str:
    """The text that finds this class again in another process; ValueError if none would."""
    path = f"{cls.__module__}:{cls.__qualname__}"
    try:
        found = load_class(path)
    except ImportError:
        found = None
    if found is not cls:
        raise ValueError(
            f"The class {cls.__qualname__} can not be found again as {path}; "
            "define it at the top level of a module."
        )
    return path


def load_class(path: str) -> type:
    """The class at "module:qualname"; ImportError if there is none.

    Names are looked up in the namespaces as they are: no attribute hook of a module or class runs.
    """
    module_name, _, qualname = path.partition(":")
    names = qualname.split(".")
    if not all(name.isidentifier() for name in [*module_name.split("."), *names]):
        raise ImportError("This is not the path of a class.")
    found: Any = sys.modules.get(module_name) or _import(module_name)
    for name in names:
        found = getattr(found, "__dict__", {}).get(name)
    if not isinstance(found, type):
        raise ImportError(f"There is no class {qualname} in {module_name} (any more).")
    return found


def _import(module_name: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ImportError:
        raise
    except (Exception, SystemExit) as error:
        raise ImportError(f"Importing {module_name} failed: {type(error).__name__}.") from error


def is_pydantic(value: Any) -> bool:
    """Whether this is a pydantic model (an instance). Pydantic is optional and never imported here:
    what it made can only be there if it was imported before.
    """
    base = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    return base is not None and isinstance(value, base)


def is_pydantic_class(value: Any) -> bool:
    """Whether this is a pydantic model class."""
    base = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    return base is not None and isinstance(value, type) and issubclass(value, base)
