"""A deploy while a run waits: it goes on where that is safe, or fails with what was expected and what came.

A person is never asked again silently, and an answer is never dropped silently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from django_stephooks import aio, cancel_run, once, resume_hook, retry_run, sleep, step, step_hook, workflow
from django_stephooks.models import Event, Hook, Run

from .watching import again, answer, calls_of, did, hook_of, later

pytestmark = pytest.mark.django_db(transaction=True)


@step
def fetch() -> str:
    did.append("fetch")
    return "fetched"


@step
def check() -> str:
    did.append("check")
    return "checked"


@step
def send() -> str:
    did.append("send")
    return "sent"


def original() -> list[Any]:
    return [fetch(), check(), step_hook("editor"), step_hook("lawyer"), send()]


@workflow
def story() -> Any:
    return original()


@step(max_retries=0)
def lone_story() -> Any:
    return original()


@workflow
def nested_story() -> Any:
    return lone_story()


@pytest.fixture
def deploy(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Put other code in the place of `original`, as a deploy does."""

    def deploy(code: Any) -> None:
        monkeypatch.setattr(story, "function", code)
        monkeypatch.setattr(lone_story, "function", code)

    return deploy


def does_not_fit(run: Run, expected: str, came: str) -> None:
    assert again(run).status == Run.Status.FAILED
    assert run.error["type"] == "django_stephooks.exceptions:NonDeterminismError"
    message = run.error["message"]
    assert repr(expected) in message, message
    assert came in message, message
    assert "Put the" in message
    assert not Hook.objects.filter(run=run, status=Hook.Status.PENDING).exists()


# --- what does not fit -----------------------------------------------------------------------------


def hook_inserted_before() -> list[Any]:
    return [fetch(), check(), step_hook("boss"), step_hook("editor"), step_hook("lawyer"), send()]


def hook_renamed() -> list[Any]:
    return [fetch(), check(), step_hook("chief editor"), step_hook("lawyer"), send()]


def hooks_swapped() -> list[Any]:
    return [fetch(), check(), step_hook("lawyer"), step_hook("editor"), send()]


def hook_removed() -> list[Any]:
    return [fetch(), check(), step_hook("lawyer"), send()]


def step_removed() -> list[Any]:
    return [fetch(), step_hook("editor"), step_hook("lawyer"), send()]


@step(name="check it")
def check_it() -> str:
    did.append("check it")
    return "checked"


def step_renamed() -> list[Any]:
    return [fetch(), check_it(), step_hook("editor"), step_hook("lawyer"), send()]


def ends_early() -> str:
    return "nothing asked"


def step_became_a_hook() -> list[Any]:
    return [fetch(), step_hook("check"), step_hook("editor")]


@step(name="editor")
def editor() -> str:
    did.append("the machine edits")
    return "edited"


def hook_became_a_step() -> list[Any]:
    return [fetch(), check(), editor(), step_hook("lawyer"), send()]


def timer_inserted_before() -> list[Any]:
    sleep("1h")
    return original()


def once_inserted_before() -> list[Any]:
    once("key", did.append, "inserted")
    return original()


IN_A_WORKFLOW = [
    (hook_inserted_before, "editor:1", "came to 'boss:1' instead"),
    (hook_renamed, "editor:1", "came to 'chief editor:1' instead"),
    (hooks_swapped, "editor:1", "came to 'lawyer:1' instead"),
    (hook_removed, "editor:1", "came to 'lawyer:1' instead"),
    (step_removed, "check:1", "came to 'lawyer:1' instead"),
    (step_renamed, "check:1", "came to 'check it:1' instead"),
    (ends_early, "fetch:1", "finished without it"),
    (step_became_a_hook, "check:1", "has a hook of that name now"),
    (hook_became_a_step, "editor:1", "has a step of that name now"),
    (timer_inserted_before, "fetch:1", "came to 'sleep:1' instead"),
    (once_inserted_before, "fetch:1", "came to 'once[key]' instead"),
]
# Inside a step only what a person said is bound to its place: the step may take another path
# when it is tried again.
IN_A_STEP = [
    (hook_inserted_before, "lone_story:1/editor:1", "came to 'lone_story:1/boss:1' instead"),
    (hook_renamed, "lone_story:1/editor:1", "came to 'lone_story:1/chief editor:1' instead"),
    (hooks_swapped, "lone_story:1/editor:1", "came to 'lone_story:1/lawyer:1' instead"),
    (hook_removed, "lone_story:1/editor:1", "came to 'lone_story:1/lawyer:1' instead"),
    (ends_early, "lone_story:1/editor:1", "completed 'lone_story:1' without it"),
    (step_became_a_hook, "lone_story:1/check:1", "has a hook of that name now"),
    (hook_became_a_step, "lone_story:1/editor:1", "has a step of that name now"),
]
CASES = [
    *[pytest.param(story, *case, id=f"story-{case[0].__name__}") for case in IN_A_WORKFLOW],
    *[
        pytest.param(definition, *case, id=f"{definition.call_name}-{case[0].__name__}")
        for case in IN_A_STEP
        for definition in (lone_story,)
    ],
    *[pytest.param(nested_story, *case, id=f"nested-{case[0].__name__}") for case in IN_A_STEP],
]


@pytest.mark.parametrize(("definition", "code", "expected", "came"), CASES)
def test_it_fails_naming_both_and_goes_on_after_the_code_is_put_back(
    definition, code, expected, came, deploy
):
    run = definition.start()
    before = list(did)
    deploy(code)

    answer(run, "the editor's yes")

    does_not_fit(run, expected, came)
    assert [did_it for did_it in did if did_it not in before] in ([], ["inserted"]) or code is step_renamed
    assert "send" not in did

    deploy(original)
    retry_run(run)
    assert again(run).status == Run.Status.SUSPENDED, run.error
    assert hook_of(run).name == "lawyer"
    answer(run, "the lawyer's yes")
    assert run.result == ["fetched", "checked", "the editor's yes", "the lawyer's yes", "sent"]
    assert did.count("fetch") == did.count("check") == did.count("send") == 1


@pytest.mark.parametrize(("definition", "code", "expected", "came"), CASES)
def test_it_can_always_be_cancelled(definition, code, expected, came, deploy):
    waiting = definition.start()
    failed = definition.start()
    deploy(code)
    answer(failed)
    for run in (waiting, failed):
        cancel_run(run)
        assert again(run).status == Run.Status.CANCELLED
        assert not Hook.objects.filter(run=run, status=Hook.Status.PENDING).exists()


# --- a run that is woken without an answer -----------------------------------------------------------


@pytest.mark.parametrize("definition", [story, lone_story])
def test_nobody_is_asked_something_else_while_the_first_question_still_waits(definition, deploy, clock):
    run = definition.start()
    hook = hook_of(run)
    deploy(hook_renamed)
    Run.objects.filter(pk=run.pk).make_ready(clock.now)
    later(clock, "1m", run)
    does_not_fit(run, hook.call, "chief editor:1")

    deploy(original)
    retry_run(run)
    assert hook_of(run).token == hook.token, "the same question, the same link"


# --- what is safe --------------------------------------------------------------------------------------


def step_added_after() -> list[Any]:
    return [fetch(), check(), step_hook("editor"), check(), step_hook("lawyer"), send()]


def hook_added_after() -> list[Any]:
    return [fetch(), check(), step_hook("editor"), step_hook("boss"), step_hook("lawyer"), send()]


def later_hook_renamed() -> list[Any]:
    return [fetch(), check(), step_hook("editor"), step_hook("counsel"), send()]


def other_arguments() -> list[Any]:
    return [
        fetch(),
        check(),
        step_hook("editor", title="New words", timeout="1d"),
        step_hook("lawyer"),
        send(),
    ]


@pytest.mark.parametrize("definition", [story, lone_story, nested_story])
@pytest.mark.parametrize(
    ("code", "asked"),
    [
        (step_added_after, ["editor", "lawyer"]),
        (hook_added_after, ["editor", "boss", "lawyer"]),
        (later_hook_renamed, ["editor", "counsel"]),
        (other_arguments, ["editor", "lawyer"]),
    ],
)
def test_what_comes_behind_the_question_may_change(definition, code, asked, deploy):
    run = definition.start()
    deploy(code)
    for name in asked:
        assert hook_of(run).name == name
        answer(run)
    assert run.status == Run.Status.COMPLETED, run.error
    assert [hook.name for hook in Hook.objects.filter(run=run).order_by("pk")] == asked
    assert did.count("fetch") == 1


def step_inserted_into_the_step() -> list[Any]:
    return [fetch(), check_it(), check(), step_hook("editor"), step_hook("lawyer"), send()]


def step_removed_from_the_step() -> list[Any]:
    return [fetch(), step_hook("editor"), step_hook("lawyer"), send()]


@pytest.mark.parametrize("code", [step_inserted_into_the_step, step_removed_from_the_step])
@pytest.mark.parametrize("definition", [lone_story, nested_story])
def test_inner_steps_of_a_step_may_come_and_go(definition, code, deploy):
    run = definition.start()
    deploy(code)
    answer(run)
    answer(run)
    assert run.status == Run.Status.COMPLETED, run.error
    assert did.count("fetch") == 1


# --- timers, and concurrent code --------------------------------------------------------------------------


@workflow
def napping() -> Any:
    sleep("1h")
    return step_hook("awake")


def does_not_nap() -> Any:
    return step_hook("awake")


def test_a_timer_that_was_removed_is_noticed(monkeypatch, clock):
    run = napping.start()
    nap = napping.function
    monkeypatch.setattr(napping, "function", does_not_nap)
    later(clock, "1h", run)
    does_not_fit(run, "sleep:1", "came to 'awake:1' instead")
    monkeypatch.setattr(napping, "function", nap)
    retry_run(run)
    answer(run)
    assert run.result == "yes"


@workflow
async def side_by_side() -> Any:
    return await asyncio.gather(aio.step_hook("a"), aio.step_hook("b"))


async def one_renamed() -> Any:
    return await asyncio.gather(aio.step_hook("other"), aio.step_hook("b"))


async def one_removed() -> Any:
    return [await aio.step_hook("b")]


@pytest.mark.parametrize("code", [one_renamed, one_removed])
def test_an_answer_that_concurrent_code_does_not_read_is_noticed(code, monkeypatch):
    run = side_by_side.start()
    function = side_by_side.function
    monkeypatch.setattr(side_by_side, "function", code)
    answer(run, "yes", "a:1")
    if code is one_removed:
        # It still waits for b, which is its right; but it may not end without having read a.
        answer(run, "yes", "b:1")
    does_not_fit(run, "a:1", "code")

    monkeypatch.setattr(side_by_side, "function", function)
    retry_run(run)
    if code is one_renamed:
        answer(run, "yes", "b:1")
    assert again(run).result == ["yes", "yes"]


def test_a_run_retried_before_the_code_is_fixed_fails_again_and_drops_nothing(deploy):
    run = story.start()
    hook = hook_of(run)
    deploy(hook_renamed)
    resume_hook(hook.token, "kept")
    for _ in range(3):
        retry_run(run)
        does_not_fit(run, "editor:1", "chief editor:1")
    deploy(original)
    retry_run(run)
    answer(run)
    assert run.result[2] == "kept"
    assert calls_of(run, Event.Type.HOOK_CREATED) == ["editor:1", "lawyer:1"]
