"""Values come back exactly, or are refused at the edge; none wedges a run or a list."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from django_stephooks import (
    SerializationError,
    cancel_run,
    codec,
    load_step_checkpoint,
    once,
    resume_hook,
    save_step_checkpoint,
    step,
    step_hook,
    workflow,
)
from django_stephooks.models import Event, Hook, Run, StepCheckpoint
from django_stephooks.models.fields import Encoded
from tests.app import workflows
from tests.factories import ArticleFactory, HookFactory

from .lookups import hook_of, worked

pytestmark = pytest.mark.django_db

AWKWARD: list[Any] = [
    "a\u0000b",
    "lone \ud800 surrogate",
    "\udc00",
    "😀 é 名前",
    {"a\u0000key": ["\u0000"], "\udfff": 1},
    1e16,
    -0.0,
    2**70,
    {"b": 1, "a": {"z": [], "y": {}}},
    ["", None, False, [[]], {"": ""}],
]
OURS: list[Any] = [
    datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC),
    datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    date(2026, 11, 30),
    time(12, 0, 0, 1),
    timedelta(days=-1, microseconds=1),
    Decimal("1.50"),
    uuid.UUID(int=7),
    b"\x00\xff",
    {1, 2},
    frozenset({"a"}),
    (1, (2, [3])),
    {1: "int", "1": "str", (2,): None},
    float("nan"),
    float("-inf"),
]


def short(value: Any) -> str:
    return ascii(value)[:30]


# --- exactly ---------------------------------------------------------------------------------------


@step
def keeps(value: Any) -> list[Any]:
    if load_step_checkpoint() is None:
        save_step_checkpoint({"value": value})
    recorded = once("recorded", lambda: value)
    answer = step_hook("approve", context={"value": value})
    checkpoint = load_step_checkpoint()
    return [value, checkpoint["value"], recorded, answer]


@workflow
def keeping(value: Any) -> Any:
    return keeps(value)


@pytest.mark.parametrize("value", AWKWARD, ids=short)
def test_awkward_values_come_back_from_everywhere(value: Any) -> None:
    run = keeping.start(value)
    assert worked(run).status == Run.Status.SUSPENDED, run.error
    hook = hook_of(worked(run))
    assert hook.context == {"value": value}
    resume_hook(hook.token, value)
    assert worked(run).status == Run.Status.COMPLETED, run.error
    assert run.arguments == {"value": value}
    assert run.result == [value] * 4
    assert repr(run.result) == repr([value] * 4)


@pytest.mark.parametrize("value", OURS, ids=short)
def test_our_own_records_keep_python_types(value: Any) -> None:
    run = keeping.start(value)
    resume_hook(hook_of(worked(run)).token, "yes")
    assert worked(run).status == Run.Status.COMPLETED, run.error
    assert repr(run.result) == repr([value, value, value, "yes"])


def test_a_comment_with_a_nul_character_is_an_answer_like_any_other() -> None:
    run = workflows.question.start()
    answer = {"approved": False, "comment": "no\u0000\ud800way"}
    resume_hook(hook_of(worked(run)).token, answer)
    assert worked(run).result == answer


@pytest.mark.parametrize(
    "answer",
    [
        {"__type__": "cloudpickle", "data": "gASVHwAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOU"},
        {"$t": "model", "c": "os:system", "v": {}},
        {"$t": "set", "v": [1]},
        {"$t": "dict", "v": [["a", 1]]},
        [{"$t": "str", "v": ["a"]}],
    ],
    ids=short,
)
def test_an_answer_is_nothing_but_data(answer: Any) -> None:
    run = workflows.loop_in_a_step.start(2)
    resume_hook(hook_of(worked(run)).token, answer)
    resume_hook(hook_of(worked(run)).token, answer)
    assert worked(run).result == [answer, answer]


@step
def changes_what_it_loaded() -> Any:
    if load_step_checkpoint() is None:
        save_step_checkpoint({"rounds": [1]})
    loaded = load_step_checkpoint()
    loaded["rounds"].append(2)
    answer = step_hook("approve")
    return [load_step_checkpoint(), answer]


@workflow
def changing() -> Any:
    return changes_what_it_loaded()


def test_changing_a_loaded_checkpoint_changes_nothing_stored() -> None:
    run = worked(changing.start())
    assert StepCheckpoint.objects.get().data == {"rounds": [1]}
    resume_hook(hook_of(worked(run)).token, "yes")
    assert worked(run).result == [{"rounds": [1]}, "yes"]


# --- or refused, with the path named ---------------------------------------------------------------


def test_a_value_that_is_not_json_is_no_payload() -> None:
    run = workflows.question.start()
    token = hook_of(worked(run)).token
    for payload, sentence in [
        ({"scores": [1.0, float("nan")]}, "payload.scores[1]: nan is not JSON"),
        ({"scores": [float("inf")]}, "payload.scores[0]: inf is not JSON"),
        ({"when": datetime.now(UTC)}, "payload.when: Values of type datetime.datetime are not"),
        ({1: "one"}, "payload: JSON objects have strings as keys, not int"),
        ((1, 2), "payload: A tuple is not JSON; pass list(value)."),
    ]:
        with pytest.raises(SerializationError) as refused:
            resume_hook(token, payload)
        assert str(refused.value).startswith(sentence)
    assert hook_of(worked(run)).payload is None
    resume_hook(token, "still open")
    assert worked(run).result == "still open"


@step
def saves_unstorable(what: str) -> str:
    value = {"user": ArticleFactory()}
    try:
        if what == "checkpoint":
            save_step_checkpoint({"state": value})
        elif what == "once":
            once("charge", lambda: value)
        elif what == "context":
            step_hook("approve", context=value)
        elif what == "title":
            step_hook("approve", title="a\u0000b")
    except SerializationError as error:
        return str(error)
    return "stored"


@workflow
def saving(what: str) -> str:
    return saves_unstorable(what)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("checkpoint", "checkpoint.state.user: Model instances are not stored; pass the pk."),
        ("once", "once[charge].user: Model instances are not stored; pass the pk."),
        ("context", "context.user: Model instances are not stored; pass the pk."),
        (
            "title",
            "title: the character U+0000 at position 1 can not be stored; remove it.",
        ),
    ],
)
def test_what_can_not_be_stored_is_refused_where_it_is_saved(what: str, sentence: str) -> None:
    assert worked(saving.start(what)).result == sentence


@step
def returns_unstorable() -> Any:
    workflows.seen.append("work")
    return {"found": [object()]}


@workflow
def unstorable_step() -> Any:
    return returns_unstorable()


@workflow
def unstorable_workflow() -> Any:
    return {"found": [object()]}


@pytest.mark.parametrize("definition", [unstorable_step, unstorable_workflow, returns_unstorable])
def test_a_result_that_can_not_be_stored_fails_the_run_at_once(definition: Any, seen: list[Any]) -> None:
    run = worked(definition.start())
    assert run.status == Run.Status.FAILED
    assert run.error["message"].startswith("result.found[0]: Values of type builtins.object")
    assert len(seen) <= 1  # trying again would only say the same


@pytest.mark.parametrize("by", ["dana\u0000", "\ud800", "x" * 201], ids=short)
def test_a_name_that_can_not_be_stored_is_refused_before_anything_is(by: str) -> None:
    run = workflows.question.start()
    with pytest.raises(SerializationError, match=r"^by: "):
        resume_hook(hook_of(worked(run)).token, "yes", by=by)
    with pytest.raises(SerializationError, match=r"^by: "):
        cancel_run(run, by=by)
    assert worked(run).status == Run.Status.SUSPENDED


@pytest.mark.parametrize("channel", ["x" * 21, "a\u0000b"], ids=short)
def test_a_channel_that_can_not_be_stored_is_refused(channel: str) -> None:
    run = workflows.question.start()
    with pytest.raises(SerializationError, match=r"^channel: "):
        resume_hook(hook_of(worked(run)).token, "yes", channel=channel)


def test_a_reason_may_be_any_text() -> None:
    run = workflows.question.start()
    cancel_run(run, reason="no\u0000\ud800more")
    assert run.events.get(type=Event.Type.RUN_CANCELLED).data["reason"] == "no\u0000\ud800more"


# --- one bad row -----------------------------------------------------------------------------------


def test_rows_with_lone_surrogates_can_be_listed_and_shown() -> None:
    HookFactory(context={"text": "\ud800"}, received=True, answer="\udfff")
    HookFactory(context={"text": "fine"})
    shown = [codec.printable([hook.context, hook.payload]) for hook in Hook.objects.order_by("pk")]
    assert json.dumps(shown, ensure_ascii=False).encode() == (
        b'[[{"text": "\xef\xbf\xbd"}, "\xef\xbf\xbd"], [{"text": "fine"}, null]]'
    )


def test_a_stored_answer_that_can_not_be_read_fails_its_run_and_no_list() -> None:
    run = HookFactory(received=True).run
    Hook.objects.update(payload=Encoded("{broken"))
    HookFactory()
    assert len(list(Hook.objects.all())) == 2
    assert worked(run).status == Run.Status.FAILED
    assert run.error["message"].startswith("payload of Hook")
