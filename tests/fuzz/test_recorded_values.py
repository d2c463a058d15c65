"""Whatever a run stores, it finds again; what can not be stored or read fails that run, with a sentence."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import assume, given
from hypothesis import strategies as st

from django_stephooks import cancel_run, codec, resume_hook
from django_stephooks.engine.worker import work
from django_stephooks.exceptions import InvalidPayloadError, SerializationError
from django_stephooks.models import Event, Hook, Run, StepCheckpoint
from django_stephooks.models.fields import Encoded
from tests.factories import UserFactory
from tests.values.test_codec import same, values

from . import material, workflows
from .material import thrown

pytestmark = pytest.mark.django_db

models = st.builds(material.Tag, name=material.storable_text)
tagged = st.one_of(
    models,
    st.frozensets(models, max_size=2),
    st.dictionaries(models, values, max_size=2),
    st.dictionaries(st.tuples(models), values, max_size=2),
)
# Local time has no word for some of them.
edges = st.sampled_from(
    [
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
        date.min,
        timedelta.max,
        timedelta.min,
    ]
)
edges = st.one_of(edges, edges.map(lambda edge: {edge}), edges.map(lambda edge: {edge: 1}))
storable = values | tagged | edges | st.builds(material.nested, st.sampled_from([1, 99, 100]))


def started(**given: Any) -> Run:
    workflows.given.clear()
    workflows.found.clear()
    workflows.given.update({"result": 1, "checkpoint": 1, "once": 1, "context": 1, **given})
    return workflows.keep.start()


def worked(run: Run) -> Run:
    while work("default"):
        pass
    return Run.objects.get(pk=run.pk)


@given(result=storable, checkpoint=storable, kept=storable, context=storable, payload=material.json_values)
@thrown(0.2)
def test_what_is_stored_is_found_again(
    result: Any, checkpoint: Any, kept: Any, context: Any, payload: Any
) -> None:
    # Around what is given to it, the step itself puts one level.
    assume(checkpoint != material.nested(100))
    run = worked(started(result=result, checkpoint=checkpoint, once=kept, context=context))
    assert run.status == Run.Status.SUSPENDED, run.error
    hook = run.hooks.get()
    assert same(hook.context, context)
    try:
        codec.dumps_plain(payload)
    except SerializationError:
        payload = None
    resume_hook(hook.token, payload)

    run = worked(run)

    assert run.status == Run.Status.COMPLETED, run.error
    assert same(run.result, result)
    assert {"result", "checkpoint", "once", "payload"} == workflows.found.keys()
    assert same(workflows.found["result"], result)
    assert same(workflows.found["checkpoint"], checkpoint)
    assert same(workflows.found["once"], kept)
    assert same(workflows.found["payload"], payload)


@given(
    context=storable | tagged,
    result=storable,
    time_zone=st.sampled_from(["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"]),
)
@thrown(0.2)
def test_what_is_stored_can_be_looked_at(context: Any, result: Any, time_zone: str, settings: Any) -> None:
    settings.TIME_ZONE = time_zone
    run = worked(started(context=context, result=result))
    hook = run.hooks.get()
    client = Client()
    client.force_login(UserFactory(superuser=True))

    for row in (hook, run):
        name = row._meta.model_name
        for address in (
            reverse(f"admin:django_stephooks_{name}_change", args=[row.pk]),
            reverse(f"stephooks-api:{name}", args=[row.public_id]),
        ):
            assert client.get(address).status_code == 200
    resume_hook(hook.token)
    worked(run)
    assert client.get(reverse("admin:django_stephooks_run_change", args=[run.pk])).status_code == 200
    assert client.get(reverse("stephooks-api:run", args=[run.public_id])).status_code == 200


@given(args=st.lists(storable | st.just(object()), max_size=3))
@thrown(0.2)
def test_whatever_an_exception_carries_it_is_raised_again(args: list[Any]) -> None:
    run = worked(started(error=ArithmeticError(*args)))
    assert run.status == Run.Status.SUSPENDED, run.error
    resume_hook(run.hooks.get().token)
    assert worked(run).status == Run.Status.COMPLETED
    try:
        codec.dumps(tuple(args))
    except SerializationError:
        return  # then its text is what is left
    assert same(workflows.found["error"], tuple(args))


@pytest.mark.parametrize("place", ["result", "checkpoint", "once", "context"])
@given(value=st.builds(material.nested, st.just(101)) | st.just(object()) | st.just({"a": [object()]}))
@thrown(0.1)
def test_what_can_not_be_stored_fails_the_run_and_says_where(place: str, value: Any) -> None:
    run = worked(started(**{place: value}))

    assert run.status == Run.Status.FAILED
    assert run.error["type"] == "django_stephooks.exceptions:SerializationError"
    assert run.error["message"].startswith(place)
    cancel_run(run)


@given(text=material.stored_texts)
@thrown(0.2)
def test_a_checkpoint_that_somebody_changed_is_read_or_fails_the_run(text: str) -> None:
    Run.objects.all().delete()
    run = worked(started())
    StepCheckpoint.objects.update(data=Encoded(text))
    resume_hook(run.hooks.get().token)

    run = worked(run)

    try:
        value = codec.loads(text)
    except SerializationError:
        assert run.status == Run.Status.FAILED
        assert run.error["type"] == "django_stephooks.exceptions:SerializationError"
        assert "checkpoint" in run.error["message"]
    else:
        readable = value is None or (isinstance(value, dict) and "state" in value)
        assert run.status == (Run.Status.COMPLETED if readable else Run.Status.FAILED)


@given(text=material.stored_texts)
@thrown(0.2)
def test_a_result_that_somebody_changed_is_read_or_fails_the_run(text: str) -> None:
    Run.objects.all().delete()
    run = worked(started())
    Event.objects.filter(type=Event.Type.STEP_COMPLETED, call="make:1").update(data=Encoded(text))
    resume_hook(run.hooks.get().token)

    run = worked(run)

    try:
        codec.loads(text)["result"]
    except (SerializationError, LookupError, TypeError):
        assert run.status == Run.Status.FAILED
        assert run.error["type"] == "django_stephooks.exceptions:SerializationError"
        assert "'make:1'" in run.error["message"]
    else:
        assert run.status == Run.Status.COMPLETED


@given(text=material.stored_texts)
@thrown(0.2)
def test_an_answer_that_somebody_changed_is_read_or_fails_the_run(text: str) -> None:
    Run.objects.all().delete()
    run = worked(started())
    resume_hook(run.hooks.get().token, "yes")
    Hook.objects.update(payload=Encoded(text))

    run = worked(run)

    try:
        codec.dumps(codec.loads(text))  # it is what the step returns
    except SerializationError:
        assert run.status == Run.Status.FAILED
        assert run.error["type"] == "django_stephooks.exceptions:SerializationError"
    else:
        assert run.status == Run.Status.COMPLETED


@given(
    payload=material.json_values | material.deep_values,
    schema=st.sampled_from(["", "tests.api.forms:Strict", "tests.api.forms:GradeForm"]),
)
@thrown(0.6)
def test_an_answer_is_stored_as_it_is_or_refused_and_nothing_is_used_up(payload: Any, schema: str) -> None:
    Run.objects.all().delete()
    hook = worked(started()).hooks.get()
    Hook.objects.update(schema=schema)
    try:
        resume_hook(hook.token, payload)
    except (SerializationError, InvalidPayloadError):
        hook.refresh_from_db()
        assert (hook.status, hook.payload) == (Hook.Status.PENDING, None)
        assert not Event.objects.filter(type=Event.Type.HOOK_RECEIVED).exists()
        Hook.objects.update(schema="")
        resume_hook(hook.token, "again")
        payload = "again"

    hook.refresh_from_db()
    assert same(hook.payload, payload)
