"""Several questions at once: `wait_all` wants every answer, `wait_first` the first one."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pydantic
import pytest
from asgiref.sync import sync_to_async

from django_stephooks import (
    STEP_HOOK_TIMEOUT,
    HookCancelledError,
    HookTimeoutError,
    NotInRunError,
    aio,
    cancel_run,
    question,
    resume_hook,
    retry_run,
    save_step_checkpoint,
    signals,
    step,
    step_hook,
    wait_all,
    wait_first,
    workflow,
)
from django_stephooks.engine.worker import advance, work
from django_stephooks.models import Event, Hook, Run
from django_stephooks.testing import waiting_hook
from django_stephooks.types import SYSTEM_RACE

from .watching import again, answer, calls_of, data_of, did, events_of, hook_of, later

pytestmark = pytest.mark.django_db(transaction=True)

PEOPLE = ["editor", "lawyer", "chief"]


class Verdict(pydantic.BaseModel):
    approved: bool


def tell(token: str) -> None:
    (hook,) = [hook for hook in Hook.objects.all() if hook.token == token]
    did.append(f"told {hook.name}")
    telling.get(hook.name, lambda token: None)(token)


# What else happens while somebody is told; emptied before each test.
telling: dict[str, Any] = {}
# How the questions of the next run are asked.
options: dict[str, dict[str, Any]] = {}


@pytest.fixture(autouse=True)
def usual() -> None:
    telling.clear()
    options.clear()


def people(**common: Any) -> list[Any]:
    return [question(name, **{**common, **options.get(name, {})}) for name in PEOPLE]


def named(first: tuple[Any, Any]) -> list[Any]:
    who, payload = first
    return [who.name, repr(payload) if payload is STEP_HOOK_TIMEOUT else payload]


def shown(payloads: list[Any]) -> list[Any]:
    return [repr(payload) if payload is STEP_HOOK_TIMEOUT else payload for payload in payloads]


@workflow
def all_in_workflow() -> Any:
    return shown(wait_all(*people(on_created=tell)))


@workflow
def first_in_workflow() -> Any:
    return named(wait_first(*people(on_created=tell)))


@step(max_retries=2, retry_delay="1m")
def all_in_step() -> Any:
    return shown(wait_all(*people(on_created=tell)))


@step(max_retries=2, retry_delay="1m")
def first_in_step() -> Any:
    return named(wait_first(*people(on_created=tell)))


@workflow
def all_nested() -> Any:
    return all_in_step()


@workflow
def first_nested() -> Any:
    return first_in_step()


@step(max_retries=2, retry_delay="1m")
async def all_async() -> Any:
    async def atell(token: str) -> None:
        await sync_to_async(tell)(token)

    return shown(await aio.wait_all(*people(on_created=atell)))


@step(max_retries=2, retry_delay="1m")
async def first_async() -> Any:
    return named(await aio.wait_first(*people(on_created=tell)))


ALL = [all_in_workflow, all_in_step, all_nested, all_async]
FIRST = [first_in_workflow, first_in_step, first_nested, first_async]


def statuses(run: Run) -> dict[str, str]:
    return {hook.name: hook.status for hook in run.hooks.order_by("pk")}


def hook_named(run: Run, name: str) -> Hook:
    return run.hooks.get(name=name)


def answered(run: Run, name: str, payload: Any = None) -> Run:
    resume_hook(hook_named(run, name).token, payload or f"from the {name}")
    return again(run)


# --- all -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", ALL)
@pytest.mark.parametrize("order", list(itertools.permutations(PEOPLE)))
def test_all_answers_come_in_the_order_asked_whatever_order_they_were_given_in(definition, order):
    run = again(definition.start())
    assert statuses(run) == dict.fromkeys(PEOPLE, Hook.Status.PENDING)
    for name in order:
        assert run.status == Run.Status.SUSPENDED
        run = answered(run, name)
    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == ["from the editor", "from the lawyer", "from the chief"]
    assert sorted(did) == ["told chief", "told editor", "told lawyer"]


@pytest.mark.parametrize("definition", [*ALL, *FIRST])
def test_it_suspends_once_for_all_and_says_so(definition):
    run = again(definition.start())
    assert run.turn == 1
    (suspended,) = data_of(run, Event.Type.RUN_SUSPENDED)
    assert sorted(suspended["waits_for"]) == sorted(hook.call for hook in run.hooks.all())
    created = [hook.created_at for hook in run.hooks.all()]
    assert len(set(created)) == 1
    assert all(hook.notified_at for hook in run.hooks.all())


@workflow
def typed() -> Any:
    verdict, plain, nobody = wait_all(
        question("verdict", payload_schema=Verdict),
        question("plain", key="a"),
        question("nobody", timeout="1h", on_timeout="return"),
    )
    return [verdict.approved, plain, nobody is STEP_HOOK_TIMEOUT]


def test_each_answer_is_what_step_hook_would_return(clock):
    run = typed.start()
    answer(run, {"approved": True}, "verdict:1")
    answer(run, None, "plain[a]")
    assert again(run).status == Run.Status.SUSPENDED
    later(clock, "1h", run)
    assert run.result == [True, None, True]


@pytest.mark.parametrize("definition", ALL)
def test_a_deadline_of_one_raises_when_the_others_have_answered(definition, clock):
    options["editor"] = {"timeout": "1h"}
    options["lawyer"] = {"timeout": "2h"}
    run = definition.start()
    later(clock, "2h", run)
    assert statuses(run) == {"editor": "expired", "lawyer": "expired", "chief": "pending"}
    assert run.status == Run.Status.SUSPENDED, "the chief's answer is not thrown away"
    run = answered(run, "chief")
    assert run.status == Run.Status.FAILED
    assert run.error["type"] == "django_stephooks.exceptions:HookTimeoutError"
    assert "'editor'" in run.error["message"], "the first that is to raise"


@workflow
def catches() -> Any:
    try:
        return wait_all(*people(timeout="1h"))
    except HookTimeoutError:
        return step_hook("go_on")


def test_the_outcome_is_replayed_for_ever(clock):
    run = catches.start()
    run = answered(run, "editor")
    run = answered(run, "chief")
    later(clock, "1h", run)
    assert run.status == Run.Status.SUSPENDED
    run = answered(run, "go_on", "yes")
    assert run.result == "yes"


@workflow
def asks_nobody() -> Any:
    return [wait_all(), step_hook("approve")]


def test_to_wait_for_nobody_is_no_wait():
    run = asks_nobody.start()
    answer(run)
    assert run.result == [[], "yes"]


# --- first -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", FIRST)
@pytest.mark.parametrize("first", PEOPLE)
def test_the_first_answer_wins_and_the_others_are_withdrawn_with_it(definition, first):
    run = again(definition.start())
    others = [name for name in PEOPLE if name != first]
    run = answered(run, first)
    assert run.result == [first, f"from the {first}"]
    assert statuses(run) == {first: "received", **dict.fromkeys(others, "cancelled")}
    for name in others:
        hook = hook_named(run, name)
        assert hook.settled_at == hook_named(run, first).settled_at
        with pytest.raises(HookCancelledError, match="somebody else was asked too, and answered first"):
            resume_hook(hook.token, "too late")


def test_the_others_are_withdrawn_in_the_transaction_of_the_answer(no_worker):
    """And not when a worker comes by: until then both could be answered, and one answer dropped."""
    run = first_in_workflow.start()
    advance("default")
    heard = []

    def hear(hook: Hook, **kwargs: Any) -> None:
        heard.append((hook.name, Hook.objects.get(pk=hook.pk).status))

    signals.hook_cancelled.connect(hear)
    try:
        resume_hook(hook_named(run, "lawyer").token, {"approved": False}, by="lou")
    finally:
        signals.hook_cancelled.disconnect(hear)
    assert statuses(run) == {"editor": "cancelled", "lawyer": "received", "chief": "cancelled"}
    assert heard == [("editor", "cancelled"), ("chief", "cancelled")]
    assert calls_of(run, Event.Type.HOOK_CANCELLED) == ["editor:1", "chief:1"]
    told = {"reason": "another was answered first", "first": "lawyer:1", "by": "lou"}
    assert data_of(run, Event.Type.HOOK_CANCELLED) == [told, told]
    assert hook_named(run, "editor").answered_by_label == SYSTEM_RACE.label


@pytest.mark.parametrize("payload", [None, False, 0, "", [], {}])
def test_a_falsy_answer_wins_too(payload):
    run = first_in_workflow.start()
    resume_hook(hook_named(run, "chief").token, payload)
    assert again(run).result == ["chief", payload]


@pytest.mark.parametrize("definition", FIRST)
def test_who_lets_the_deadline_pass_drops_out(definition, clock):
    options["editor"] = {"timeout": "1h", "on_timeout": "raise"}
    options["lawyer"] = {"timeout": "2h", "on_timeout": "return"}
    run = definition.start()
    later(clock, "3h", run)
    assert run.status == Run.Status.SUSPENDED
    run = answered(run, "chief")
    assert run.result == ["chief", "from the chief"]
    assert statuses(run) == {"editor": "expired", "lawyer": "expired", "chief": "received"}


@pytest.mark.parametrize("definition", FIRST)
def test_if_all_do_the_first_is_returned_with_the_sentinel(definition, clock):
    for name in PEOPLE:
        options[name] = {"timeout": "1h", "on_timeout": "return"}
    run = definition.start()
    later(clock, "1h", run)
    assert run.result == ["editor", "STEP_HOOK_TIMEOUT"]


@pytest.mark.parametrize("definition", FIRST)
def test_or_it_raises_for_the_first_that_is_to(definition, clock):
    options["editor"] = {"timeout": "2h", "on_timeout": "return"}
    options["lawyer"] = {"timeout": "1h"}
    options["chief"] = {"timeout": "1m"}
    run = definition.start()
    later(clock, "2h", run)
    assert run.status == Run.Status.FAILED
    assert "'lawyer'" in run.error["message"]


def test_a_deadline_that_nobody_has_noticed_yet_has_passed_all_the_same(clock, no_worker):
    """The page said that it had expired; another's answer does not change that."""
    options["editor"] = {"timeout": "1h"}
    run = first_in_workflow.start()
    advance("default")
    clock.advance("2h")
    resume_hook(hook_named(run, "chief").token, "yes")
    assert statuses(run) == {"editor": "expired", "lawyer": "cancelled", "chief": "received"}
    advance("default")
    assert again(run).result == ["chief", "yes"]


def test_one_that_stays_open_behind_its_deadline_can_still_win(clock):
    options["editor"] = {"timeout": "1h", "on_timeout": "suspend"}
    run = first_in_workflow.start()
    later(clock, "2h", run)
    run = answered(run, "editor")
    assert run.result == ["editor", "from the editor"]


@workflow
def goes_on_behind_a_race() -> Any:
    first = named(wait_first(*people()))
    return [first, named(wait_first(*people())), step_hook("editor")]


def test_each_race_is_one_of_its_own():
    run = goes_on_behind_a_race.start()
    answer(run, 1, "lawyer:1")
    assert {hook.call for hook in run.hooks.pending()} == {"editor:2", "lawyer:2", "chief:2"}
    answer(run, 2, "chief:2")
    answer(run, 3, "editor:3")
    assert run.result == [["lawyer", 1], ["chief", 2], 3]


def test_a_cancelled_run_asks_none_of_them(clock):
    run = first_in_workflow.start()
    cancel_run(run)
    assert set(statuses(run).values()) == {"cancelled"}
    with pytest.raises(HookCancelledError, match="the run is cancelled"):
        resume_hook(hook_named(run, "chief").token, "too late")


# --- telling ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", ALL)
def test_an_answer_from_inside_on_created_is_seen(definition):
    for name in PEOPLE:
        telling[name] = lambda token, name=name: resume_hook(token, f"at once, {name}")
    run = again(definition.start())
    assert (run.turn, run.result) == (1, ["at once, editor", "at once, lawyer", "at once, chief"])


@pytest.mark.parametrize("definition", FIRST)
@pytest.mark.parametrize(("number", "first"), list(enumerate(PEOPLE, start=1)))
def test_nobody_is_told_of_a_race_that_was_won_while_others_were_told(definition, number, first):
    telling[first] = lambda token: resume_hook(token, "at once")
    run = again(definition.start())
    assert (run.turn, run.result) == (1, [first, "at once"])
    assert did == [f"told {name}" for name in PEOPLE[:number]]


def test_an_answer_to_another_that_is_not_told_yet_is_seen():
    """The admin shows all questions as soon as they are stored."""
    telling["editor"] = lambda token: resume_hook(Hook.objects.get(name="chief").token, "from the list")
    run = again(first_in_step.start())
    assert (run.turn, run.result) == (1, ["chief", "from the list"])
    assert did == ["told editor"]


def test_an_answer_between_the_look_and_the_suspension_is_seen(monkeypatch, no_worker):
    from django_stephooks.engine import store

    suspend = store.suspend

    def answered_meanwhile(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(store, "suspend", suspend)
        resume_hook(Hook.objects.get(name="lawyer").token, "meanwhile")
        return suspend(*args, **kwargs)

    monkeypatch.setattr(store, "suspend", answered_meanwhile)
    run = first_in_step.start()
    advance("default")
    assert again(run).status == Run.Status.PENDING
    advance("default")
    assert again(run).result == ["lawyer", "meanwhile"]


def fail_once(token: str) -> None:
    if did.count("told lawyer") == 1:
        raise ConnectionError("no mail server")


@pytest.mark.parametrize("definition", [all_in_step, first_in_step, all_async, first_async])
def test_telling_that_fails_is_tried_again_for_those_who_do_not_know_yet(definition, clock):
    telling["lawyer"] = fail_once
    run = again(definition.start())
    assert did == ["told editor", "told lawyer"]
    assert [bool(hook.notified_at) for hook in run.hooks.order_by("pk")] == [True, False, False]
    later(clock, "1m", run)
    assert did == ["told editor", "told lawyer", "told lawyer", "told chief"]
    assert run.status == Run.Status.SUSPENDED
    for name in PEOPLE:
        if hook_named(run, name).status == Hook.Status.PENDING:
            run = answered(run, name)
    assert run.status == Run.Status.COMPLETED


def stop_the_process(token: str) -> None:
    if did.count("told lawyer") == 1:
        raise SystemExit


def test_a_process_stopped_while_it_tells_the_second_does_not_tell_the_first_again(no_worker):
    telling["lawyer"] = stop_the_process
    run = all_in_step.start()
    with pytest.raises(SystemExit):
        advance("default")
    advance("default")
    assert again(run).status == Run.Status.SUSPENDED
    assert did == ["told editor", "told lawyer", "told lawyer", "told chief"]


def test_a_deadline_that_passes_while_others_are_told_counts_at_once(clock):
    for name in PEOPLE:
        options[name] = {"timeout": "1h", "on_timeout": "return"}
    options["chief"]["timeout"] = "1d"
    telling["lawyer"] = lambda token: clock.advance("2h")
    run = again(all_in_step.start())
    assert statuses(run) == {"editor": "expired", "lawyer": "expired", "chief": "pending"}
    run = answered(run, "chief")
    assert run.result == ["STEP_HOOK_TIMEOUT", "STEP_HOOK_TIMEOUT", "from the chief"]


# --- run again -------------------------------------------------------------------------------------


@step(max_retries=0)
def fails_behind_a_race() -> Any:
    first = named(wait_first(*people(on_created=tell)))
    if "mended" not in did:
        raise LookupError("broken")
    return first


def test_a_retried_run_does_not_ask_again_what_lost_a_race():
    run = fails_behind_a_race.start()
    run = answered(run, "lawyer")
    assert run.status == Run.Status.FAILED
    did.append("mended")
    retry_run(run)
    assert again(run).result == ["lawyer", "from the lawyer"]
    assert Event.Type.HOOK_REOPENED not in events_of(run)
    assert statuses(run) == {"editor": "cancelled", "lawyer": "received", "chief": "cancelled"}


@step(max_retries=0)
def asks_all_with_one_attempt() -> Any:
    return wait_all(*people(on_created=tell))


@step(max_retries=0)
def asks_first_with_one_attempt() -> Any:
    return named(wait_first(*people(on_created=tell)))


@pytest.mark.parametrize(
    ("definition", "result"),
    [
        (asks_all_with_one_attempt, ["from the editor", "from the lawyer", "from the chief"]),
        (asks_first_with_one_attempt, ["editor", "from the editor"]),
    ],
)
def test_a_retried_run_asks_again_what_was_open_when_it_failed(definition, result):
    telling["lawyer"] = fail_once
    run = again(definition.start())
    assert run.status == Run.Status.FAILED
    assert set(statuses(run).values()) == {"cancelled"}
    retry_run(run)
    assert set(statuses(run).values()) == {"pending"}
    assert len(events_of(run, Event.Type.HOOK_REOPENED)) == 3
    assert did == ["told editor", "told lawyer", "told lawyer", "told chief"]
    for name in PEOPLE:
        if again(run).status == Run.Status.SUSPENDED:
            answered(run, name)
    assert again(run).result == result


@workflow
async def waits_side_by_side() -> Any:
    both, first, one = await asyncio.gather(
        aio.wait_all(question("a"), question("b")),
        aio.wait_first(question("c"), question("d")),
        aio.step_hook("e"),
    )
    return [both, named(first), one]


@pytest.mark.parametrize("order", ["abce", "ecba", "dbea", "bade"])
def test_waits_go_on_side_by_side(order):
    run = again(waits_side_by_side.start())
    assert run.hooks.pending().count() == 5
    for name in order:
        answer(run, name.upper(), f"{name}:1")
    first = "c" if "c" in order else "d"
    assert again(run).result == [["A", "B"], [first, first.upper()], "E"]


# --- many, and keys --------------------------------------------------------------------------------


@step
def keyed(keys: list[str]) -> Any:
    return wait_all(*(question("approve", key=key) for key in keys))


def test_keys_name_them_where_the_order_is_not_the_same(monkeypatch, no_worker):
    run = keyed.start(["x", "y"])
    advance("default")
    assert {hook.call for hook in run.hooks.all()} == {"keyed:1/approve[x]", "keyed:1/approve[y]"}
    Run.objects.filter(pk=run.pk).update(arguments={"keys": ["y", "x"]})
    resume_hook(hook_of(run, "keyed:1/approve[x]").token, "X")
    advance("default")
    assert again(run).status == Run.Status.SUSPENDED
    resume_hook(waiting_hook(run, "approve[y]").token, "Y")
    advance("default")
    assert again(run).result == ["Y", "X"]


@pytest.mark.parametrize("count", [100, 1500])
def test_many_hooks_of_one_wait(count, no_worker):
    keys = [str(number) for number in range(count)]
    run = keyed.start(keys)
    advance("default")
    assert again(run).status == Run.Status.SUSPENDED, run.error
    assert run.hooks.pending().count() == count
    assert [hook.call for hook in run.hooks.order_by("pk")] == [f"keyed:1/approve[{key}]" for key in keys]


# --- code that changes, or asks nonsense -----------------------------------------------------------

code: dict[str, Any] = {}


@workflow
def changing() -> Any:
    return code["now"]()


def race(*names: str) -> Any:
    return lambda: named(wait_first(*(question(name) for name in names)))


def everybody(*names: str) -> Any:
    return lambda: wait_all(*(question(name) for name in names))


def one(name: str) -> Any:
    return lambda: step_hook(name)


@pytest.mark.parametrize(
    ("before", "answers", "after", "result"),
    [
        (everybody("a", "b"), "a", everybody("b", "a"), ["B", "A"]),
        (everybody("a", "b"), "a", everybody("a", "b", "c"), ["A", "B", "C"]),
        (everybody("a"), "", one("a"), "A"),
        (one("a"), "", everybody("a", "b"), ["A", "B"]),
        (race("a", "b"), "", race("b", "a"), ["a", "A"]),
        (race("a", "b"), "", race("a", "b", "c"), ["a", "A"]),
        (race("a", "b"), "", race("c", "a", "b"), ["a", "A"]),
        (race("a", "b"), "", one("a"), "A"),
    ],
)
def test_code_may_change_where_no_answer_is_lost(before, answers, after, result):
    code["now"] = before
    run = changing.start()
    for name in answers:
        answer(run, name.upper(), f"{name}:1")
    code["now"] = after
    Run.objects.filter(pk=run.pk).make_ready(run.created_at)
    work("default")
    assert again(run).status == Run.Status.SUSPENDED, run.error
    for hook in run.hooks.order_by("pk"):
        if again(run).status == Run.Status.SUSPENDED and Hook.objects.get(pk=hook.pk).is_waiting():
            answer(run, hook.name.upper(), hook.call)
    assert run.result == result, run.error


@pytest.mark.parametrize(
    ("before", "answered_first", "after", "sentence"),
    [
        (race("a", "b"), "a", race("b"), "hook 'a:1'"),
        (race("a", "b"), "a", one("b"), "hook 'a:1'"),
        (race("a", "b"), "a", everybody("a", "b"), "hook 'a:1'"),
        (race("a", "b"), "a", race("b", "c"), "hook 'a:1'"),
        (everybody("a", "b"), "a", race("a", "b"), "wait_first"),
        (one("a"), "", race("a", "b"), "wait_first"),
        (everybody("a", "b"), "a", everybody("b"), "hook 'a:1'"),
    ],
)
def test_else_it_fails_naming_what_was_recorded_and_goes_on_when_it_is_put_back(
    before, answered_first, after, sentence, no_worker
):
    code["now"] = before
    run = changing.start()
    advance("default")
    if answered_first:
        resume_hook(hook_of(run, f"{answered_first}:1").token, answered_first.upper())
    else:
        Run.objects.filter(pk=run.pk).make_ready(run.created_at)
    code["now"] = after
    while advance("default"):
        pass
    if again(run).status == Run.Status.SUSPENDED:
        # It waits for another answer first.
        resume_hook(run.hooks.pending().first().token, "other")
        advance("default")
    assert again(run).status == Run.Status.FAILED
    assert run.error["type"] == "django_stephooks.exceptions:NonDeterminismError"
    assert sentence in run.error["message"]
    code["now"] = before
    retry_run(run)
    while advance("default"):
        pass
    for hook in run.hooks.pending():
        resume_hook(hook.token, hook.name.upper())
    while advance("default"):
        pass
    assert again(run).status == Run.Status.COMPLETED, run.error


NONSENSE = {
    "nobody": (lambda: wait_first(), "ValueError: wait_first() was given no question"),
    "a name": (
        lambda: wait_all("editor"),
        "TypeError: wait_all() takes what question(…) makes, not 'editor'",
    ),
    "one key twice": (
        lambda: wait_all(question("a", key="k"), question("a", key="k")),
        "ValueError: wait_all() was given 'asks_nonsense:1/a[k]' 2 times: give each its own key.",
    ),
    "context": (
        lambda: wait_all(question("a"), question("b", context=object())),
        "SerializationError: context: ",
    ),
    "reviewers": (
        lambda: wait_first(question("a"), question("b", reviewers=["dana"])),
        "TypeError: 'dana' can not be a reviewer",
    ),
}


@step(max_retries=0)
def asks_nonsense(what: str) -> str:
    try:
        return NONSENSE[what][0]()
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_refused_before_anybody_is_asked(what):
    run = again(asks_nonsense.start(what))
    assert run.result.startswith(NONSENSE[what][1])
    assert not Hook.objects.exists()


@pytest.mark.parametrize(
    ("nonsense", "sentence"),
    [
        ({"name": "a/b"}, "hook name"),
        ({"name": "a", "key": ""}, "key"),
        ({"name": "a", "timeout": "soon"}, "timeout"),
        ({"name": "a", "on_timeout": "explode"}, "on_timeout"),
    ],
)
def test_a_question_that_is_nonsense_is_refused_where_it_is_made(nonsense, sentence):
    with pytest.raises(ValueError, match=sentence):
        question(**nonsense)


@pytest.mark.parametrize("function", [wait_all, wait_first])
def test_outside_a_run_they_say_so(function):
    with pytest.raises(NotInRunError, match=rf"{function.__name__}\(\) was called outside a run"):
        function(question("a"))


def test_a_question_is_equal_to_itself_only_and_shows_what_it_is():
    editor, other = question("editor", key="x"), question("editor", key="x")
    assert [editor, other].index(other) == 1
    assert editor != other
    assert len({editor, other}) == 2
    assert repr(editor) == "question('editor', key='x')"
    assert repr(question("chief", context={"secret": 1})) == "question('chief')"


reused = question("reused", reviewers=iter(["dana@example.com"]))


@workflow
def asks_the_same() -> Any:
    return wait_all(reused, reused)


def test_a_question_may_be_asked_again_and_is_put_to_the_same_people():
    run = asks_the_same.start()
    assert [hook.reviewers for hook in run.hooks.all()] == [["email:dana@example.com"]] * 2


@step
def keeps_a_checkpoint_around() -> Any:
    save_step_checkpoint({"before": 1})
    return named(wait_first(*people(on_created=tell)))


def test_a_vain_turn_tells_nobody_again():
    run = keeps_a_checkpoint_around.start()
    for _ in range(3):
        Run.objects.filter(pk=run.pk).make_ready(run.created_at)
        work("default")
        assert again(run).status == Run.Status.SUSPENDED
    run = answered(run, "editor")
    assert run.result == ["editor", "from the editor"]
    assert len(did) == 3
