"""Telling people: `on_created` is called once, and again only if it failed or was killed."""

from __future__ import annotations

from typing import Any

import pytest

from django_stephooks import aio, resume_hook, retry_run, step, step_hook, workflow
from django_stephooks.engine.worker import advance
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.sweep import sweep

from .watching import again, answer, calls_of, data_of, did, events_of, hook_of, later

pytestmark = pytest.mark.django_db(transaction=True)


def tell(token: str) -> None:
    did.append("told")


def fail_at_first(token: str) -> None:
    did.append("mail")
    if did.count("mail") == 1:
        raise ConnectionError("no mail server")


def always_fail(token: str) -> None:
    did.append("mail")
    raise ConnectionError("no mail server")


async def afail_at_first(token: str) -> None:
    fail_at_first(token)


TELLING = {f.__name__: f for f in (tell, fail_at_first, always_fail)}


@step(max_retries=2, retry_delay="1m")
def ask(telling: str) -> Any:
    did.append("attempt")
    return step_hook("approve", on_created=TELLING[telling], timeout="1d")


@workflow
def asking_workflow(telling: str) -> Any:
    return step_hook("approve", on_created=TELLING[telling], timeout="1d")


@step(max_retries=2, retry_delay="1m")
async def aask() -> Any:
    return await aio.step_hook("approve", on_created=afail_at_first)


@step(max_retries=2, retry_delay="1m")
async def aask_with_plain_callback() -> Any:
    return await aio.step_hook("approve", on_created=fail_at_first)


def test_it_gets_the_token_after_the_hook_is_stored():
    seen = []
    TELLING["look"] = lambda token: seen.append((token, Hook.objects.get().token))
    ask.start("look")
    ((given, stored),) = seen
    assert given == stored


@pytest.mark.parametrize("definition", [ask, asking_workflow])
def test_one_that_finished_is_never_called_again(definition, clock):
    run = definition.start("tell")
    assert hook_of(run).notified_at == clock.now
    for _ in range(3):  # woken for nothing
        Run.objects.filter(pk=run.pk).make_ready(clock.now)
        clock.advance("1m")
        sweep()
        assert again(run).status == Run.Status.SUSPENDED
    answer(run)
    assert run.result == "yes"
    assert did.count("told") == 1


@pytest.mark.parametrize(
    ("definition", "arguments"),
    [
        (ask, ["fail_at_first"]),
        (asking_workflow, ["fail_at_first"]),
        (aask, []),
        (aask_with_plain_callback, []),
    ],
)
def test_one_that_raises_once_is_called_again_by_the_policy(definition, arguments, clock):
    run = again(definition.start(*arguments))
    assert run.status == Run.Status.SUSPENDED
    hook = hook_of(run)
    assert hook.notified_at is None
    # A workflow has no policy of its own: the default one, whose first delay is a second.
    wait = run.due_at - clock.now
    assert wait.total_seconds() == (1 if definition is asking_workflow else 60)

    later(clock, wait, run)

    assert did.count("mail") == 2
    assert run.status == Run.Status.SUSPENDED
    assert Hook.objects.get(run=run).token == hook.token
    assert hook_of(run).expires_at == hook.expires_at, "the deadline does not move"
    answer(run)
    assert run.result == "yes"
    assert did.count("mail") == 2


@pytest.mark.parametrize(("definition", "attempts"), [(ask, 3), (asking_workflow, 4)])
def test_one_that_always_raises_fails_the_run_and_the_question_is_no_longer_asked(
    definition, attempts, clock
):
    run = definition.start("always_fail")
    for _ in range(attempts):
        later(clock, "1h", run)
    assert run.status == Run.Status.FAILED
    assert did.count("mail") == attempts
    assert run.error["type"] == "builtins:ConnectionError"
    assert Hook.objects.get(run=run).status == Hook.Status.CANCELLED

    TELLING["always_fail"] = tell
    try:
        retry_run(run)
    finally:
        TELLING["always_fail"] = always_fail
    assert again(run).status == Run.Status.SUSPENDED
    assert Event.Type.HOOK_REOPENED in events_of(run)
    answer(run)
    assert run.result == "yes"
    assert did.count("told") == 1


def test_a_failed_telling_counts_as_an_attempt_and_an_answer_stops_it(clock):
    run = ask.start("always_fail")
    (retrying,) = data_of(run, Event.Type.STEP_RETRYING)
    assert retrying["attempt"] == 1
    # Somebody found it in the admin.
    answer(run)
    assert again(run).status == Run.Status.SUSPENDED, "the delay still counts"
    later(clock, "1m", run)
    assert run.result == "yes"
    assert did.count("mail") == 1


@step(max_retries=2, retry_delay=0)
def ask_again_at_once(telling: str) -> Any:
    did.append("attempt")
    return step_hook("approve", on_created=TELLING[telling])


@pytest.mark.parametrize("telling", ["fail_at_first", "always_fail"])
def test_it_is_called_again_at_once_if_the_policy_has_no_delay(telling):
    run = again(ask_again_at_once.start(telling))
    if telling == "fail_at_first":
        assert run.status == Run.Status.SUSPENDED
        assert did == ["attempt", "mail", "attempt", "mail"]
    else:
        assert run.status == Run.Status.FAILED
        assert did == ["attempt", "mail"] * 3


@step(max_retries=0)
def ask_without_retries() -> Any:
    return step_hook("approve", on_created=always_fail)


@step
def note(what: str) -> str:
    did.append(what)
    return what


@workflow
def goes_on_without_asking() -> Any:
    try:
        return ask_without_retries()
    except ConnectionError as error:
        did.append(str(error))
    return [note("went on"), step_hook("other", on_created=tell)]


def test_a_workflow_can_go_on_when_nobody_could_be_told():
    run = again(goes_on_without_asking.start())
    assert run.status == Run.Status.SUSPENDED, run.error
    answer(run)
    assert run.result == ["went on", "yes"]
    assert did == ["mail", "no mail server", "went on", "told", "no mail server"]
    assert Hook.objects.get(run=run, name="approve").status == Hook.Status.CANCELLED


@step(max_retries=1, retry_delay="1m")
def swallows_that_nobody_was_told() -> Any:
    try:
        return step_hook("approve", on_created=fail_at_first)
    except BaseException:  # noqa: BLE001
        did.append("swallowed")
        try:
            note("never")
        except BaseException:  # noqa: BLE001
            did.append("again")
        return "nobody was asked"


def test_a_failed_telling_can_not_be_swallowed(clock):
    run = swallows_that_nobody_was_told.start()
    assert again(run).status == Run.Status.SUSPENDED
    assert "never" not in did
    later(clock, "1m", run)
    assert run.status == Run.Status.SUSPENDED
    answer(run)
    assert run.result == "yes"


# --- answered while people are being told ----------------------------------------------------------


def answer_at_once(token: str) -> None:
    did.append("told")
    resume_hook(token, "at once")


TELLING["answer_at_once"] = answer_at_once


@pytest.mark.parametrize("definition", [ask, asking_workflow])
def test_an_answer_from_inside_is_returned_at_once(definition):
    run = again(definition.start("answer_at_once"))
    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == "at once"
    assert run.turn == 1
    assert did.count("told") == 1


def test_an_answer_between_the_look_and_the_suspension_is_seen(monkeypatch, no_worker):
    from django_stephooks.engine import store

    suspend = store.suspend

    def answered_meanwhile(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(store, "suspend", suspend)
        resume_hook(Hook.objects.get().token, "meanwhile")
        return suspend(*args, **kwargs)

    monkeypatch.setattr(store, "suspend", answered_meanwhile)
    run = ask.start("tell")
    advance("default")
    assert again(run).status == Run.Status.PENDING
    advance("default")
    assert again(run).result == "meanwhile"
    assert did.count("told") == 1


def test_a_deadline_that_passes_while_people_are_told_counts_at_once(clock):
    TELLING["slow"] = lambda token: clock.advance("2d")
    run = again(ask.start("slow"))
    assert run.status == Run.Status.FAILED
    assert run.error["type"] == "django_stephooks.exceptions:HookTimeoutError"
    assert calls_of(run, Event.Type.HOOK_EXPIRED) == ["ask:1/approve:1"]


@step
def five_rounds() -> list[Any]:
    return [step_hook("review", on_created=tell) for _ in range(5)]


def test_five_rounds_tell_five_times():
    run = five_rounds.start()
    for number in range(5):
        assert did.count("told") == number + 1
        answer(run, number)
    assert run.result == [0, 1, 2, 3, 4]
    assert did.count("told") == 5


@workflow
def tells_of_many() -> list[Any]:
    return [step_hook("review", on_created=fail_at_first_each) for _ in range(6)]


def fail_at_first_each(token: str) -> None:
    did.append(token)
    if did.count(token) == 1:
        raise ConnectionError("no mail server")


def test_in_a_workflow_each_question_has_its_own_attempts(clock):
    """A long loop does not fail because each round's first mail did."""
    run = tells_of_many.start()
    for number in range(6):
        later(clock, "1s", run)
        answer(run, number)
    assert run.result == [0, 1, 2, 3, 4, 5]
    assert len(did) == 12


def stop_the_process(token: str) -> None:
    did.append("mail")
    if did.count("mail") == 1:
        raise SystemExit


TELLING["stop_the_process"] = stop_the_process


def test_a_process_stopped_while_telling_tells_again(no_worker):
    run = ask.start("stop_the_process")
    with pytest.raises(SystemExit):
        advance("default")
    assert again(run).status == Run.Status.PENDING
    advance("default")
    assert did.count("mail") == 2
    assert again(run).status == Run.Status.SUSPENDED
    assert events_of(run, Event.Type.HOOK_CREATED) == ["hook_created ask:1/approve:1"]
