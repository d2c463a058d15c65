"""What a person may answer an agent: the schemas of its hooks, and how answers look to LangChain."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Literal

import pydantic

# What LangChain's human-in-the-loop middleware lets people decide.
DECISIONS = ("approve", "edit", "reject", "respond")


# What an agent is told where nobody was there.
NO_ANSWER = "Nobody answered in time."
NOT_DONE = "Nobody decided in time, so it was not done."


class Reply(pydantic.BaseModel):
    """The answer to a question that an agent asked. A plain text is taken for one too."""

    answer: str = pydantic.Field(min_length=1)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _text(cls, data: Any) -> Any:
        return {"answer": data} if isinstance(data, str) else data


class Decision(pydantic.BaseModel):
    """What is to become of a tool call; each set of allowed decisions has a subclass.

    LangChain's own shape, `{"type": "reject", "message": "…"}`, is taken as well.
    """

    @pydantic.model_validator(mode="before")
    @classmethod
    def _langchain(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "type" not in data:
            return data
        taken = {"decision": data["type"]}
        if "approved" in cls.model_fields and data["type"] in ("approve", "reject"):
            taken = {"approved": data["type"] == "approve"}
        if "message" in data:
            taken["message"] = data["message"]
        if "edited_action" in data:
            taken["arguments"] = dict(data["edited_action"]).get("args")
        return taken

    @pydantic.model_validator(mode="after")
    def _complete(self) -> Decision:
        if self.type == "edit" and getattr(self, "arguments", None) is None:
            raise ValueError("Give the arguments that the tool is to be called with.")
        if self.type == "respond" and not getattr(self, "message", ""):
            raise ValueError("Give the message that the agent gets in place of the tool's result.")
        return self

    @property
    def type(self) -> str:
        """One of `DECISIONS`."""
        if "approved" in type(self).model_fields:
            return "approve" if getattr(self, "approved", False) else "reject"
        return str(getattr(self, "decision", ""))

    def for_langchain(self, name: str) -> dict[str, Any]:
        """As the middleware takes it, for a call of the tool of this name."""
        decided: dict[str, Any] = {"type": self.type}
        if self.type == "edit":
            decided["edited_action"] = {"name": name, "args": getattr(self, "arguments", None)}
        elif self.type in ("reject", "respond") and (message := getattr(self, "message", "")):
            decided["message"] = message
        return decided


def decision_schema(allowed: Iterable[str]) -> type[Decision]:
    """The schema for these decisions. ValueError if one is not known."""
    wanted = tuple(allowed)
    if not wanted or not set(wanted) <= set(DECISIONS):
        raise ValueError(f"{wanted!r} are not decisions: give some of {', '.join(DECISIONS)}.")
    schema: type[Decision] = globals()[_name(name for name in DECISIONS if name in wanted)]
    return schema


def _name(allowed: Iterable[str]) -> str:
    return "Or".join(name.title() for name in allowed)


def _made(allowed: tuple[str, ...]) -> type[Decision]:
    fields: dict[str, Any] = {"decision": (Literal[allowed], ...)}
    if allowed == ("approve", "reject"):
        fields = {"approved": (bool, ...)}  # the review desk makes two buttons of it
    if {"reject", "respond"} & {*allowed}:
        fields["message"] = (str, "")
    if "edit" in allowed:
        fields["arguments"] = (dict[str, Any] | None, None)
    return pydantic.create_model(_name(allowed), __base__=Decision, __module__=__name__, **fields)


# Each can be found by its name in another process, as a hook's schema must be.
for _count in range(1, len(DECISIONS) + 1):
    for _allowed in itertools.combinations(DECISIONS, _count):
        globals()[_name(_allowed)] = _made(_allowed)
