"""Bad input is refused where it comes in, with a sentence that says what was wrong and what to do."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import timedelta
from types import FunctionType
from typing import Any

import pytest

from django_stephooks import (
    FatalError,
    InvalidTokenError,
    NotInRunError,
    SerializationError,
    UnknownWorkflowError,
    aio,
    checks,
    delete_step_checkpoint,
    load_step_checkpoint,
    once,
    registry,
    resume_hook,
    save_step_checkpoint,
    sleep,
    step,
    step_hook,
    workflow,
)
from django_stephooks.models import Hook, Run, StepCheckpoint
from tests.app import workflows
from tests.factories import ArticleFactory, RunFactory
from tests.services.lookups import worked

pytestmark = pytest.mark.django_db


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this test defines is forgotten after it."""
    monkeypatch.setattr(registry, "_definitions", dict(registry._definitions))
    monkeypatch.setattr(registry, "_conflicts", dict(registry._conflicts))


def top_level(qualname: str, module: str = "shop.workflows") -> FunctionType:
    """A function as if it were defined at the top of a module."""

    def function(value: Any = None) -> Any:
        return value

    function.__module__, function.__qualname__, function.__name__ = module, qualname, qualname
    return function  # type: ignore[return-value]


# --- unknown workflows -----------------------------------------------------------------------------


def test_an_unknown_workflow_is_answered_with_the_nearest_names() -> None:
    with pytest.raises(UnknownWorkflowError) as refused:
        registry.get("tests.app.workflows.publsh")
    assert str(refused.value).startswith("No workflow or step is called 'tests.app.workflows.publsh'. ")
    assert "Did you mean 'tests.app.workflows.publish'" in str(refused.value)
    assert "Workflows are found in the workflows.py of each app in INSTALLED_APPS." in str(refused.value)


def test_a_run_of_a_workflow_that_is_gone_fails_with_the_same_sentence(settings: Any) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "DEPLOY_GRACE": "0s"}
    run = RunFactory(workflow="tests.app.workflows.publsh")
    worked(run)
    assert run.status == Run.Status.FAILED
    assert run.error["type"] == "django_stephooks.exceptions:UnknownWorkflowError"
    assert "Did you mean 'tests.app.workflows.publish'" in run.error["message"]


# --- arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kwargs", "reason"),
    [
        ((), {"titel": "A story"}, "got an unexpected keyword argument 'titel'"),
        (("A story", 2), {}, "too many positional arguments"),
        (("A story",), {"title": "another"}, "multiple values for argument 'title'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_at_start(args: Any, kwargs: Any, reason: str) -> None:
    with pytest.raises(TypeError) as refused:
        workflows.publish.start(*args, **kwargs)
    assert str(refused.value) == (
        "tests.app.workflows.publish(title: 'str' = 'A story') -> 'dict[str, Any]' can not be started "
        f"like this: {reason}."
    )
    assert not Run.objects.exists()


def test_a_missing_argument_is_refused_at_start_of_a_lone_step_too() -> None:
    with pytest.raises(TypeError, match=r"can not be started like this: missing a .* argument: 'title'"):
        workflows.review.start()
    assert not Run.objects.exists()


def test_a_model_instance_as_argument_is_refused_with_the_remedy() -> None:
    with pytest.raises(SerializationError) as refused:
        workflows.publish.start(title=ArticleFactory())
    assert str(refused.value) == "arguments.title: Model instances are not stored; pass the pk."
    assert not Run.objects.exists()


# --- definitions -----------------------------------------------------------------------------------


def test_a_nested_function_can_not_be_a_workflow() -> None:
    def publish() -> None: ...

    with pytest.raises(ValueError, match="can not mark") as refused:
        workflow(publish)
    assert str(refused.value).endswith(
        "test_a_nested_function_can_not_be_a_workflow.<locals>.publish: a worker could not find a lambda "
        "or a function inside a function by its name. Define it at the top level of a module."
    )


anonymous = lambda: None  # noqa: E731


def test_a_lambda_can_not_be_a_workflow_even_with_a_name() -> None:
    with pytest.raises(ValueError, match="<lambda>: a worker could not find a lambda"):
        workflow(name="publish")(anonymous)


def test_a_nested_step_can_be_called_in_a_run_but_not_started() -> None:
    @step
    def closure() -> None: ...

    with pytest.raises(ValueError, match=r"closure can not be started: .* It can be called in a run\."):
        closure.start()


def generates() -> Iterator[int]:
    yield 1


class Publisher:
    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("thing", "sentence"),
    [
        (Publisher(), "marks a plain function; .* is a Publisher"),
        (Publisher, "marks a plain function; .* is a type"),
        (functools.partial(generates), "marks a plain function; .* is a partial"),
    ],
    ids=["instance", "class", "partial"],
)
@pytest.mark.parametrize("mark", [workflow, step, aio.workflow], ids=["workflow", "step", "aio"])
def test_only_plain_functions_are_marked(mark: Any, thing: Any, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        mark(thing)


def test_a_workflow_that_yields_is_refused() -> None:
    with pytest.raises(TypeError, match=r"can not mark the generator function generates\(\)"):
        workflow(generates)


@pytest.mark.parametrize("name", ["", "a/b", "x" * 101, "a\nb", 7], ids=ascii)
@pytest.mark.parametrize("mark", [workflow, step])
def test_a_name_that_can_not_stand_in_a_call_is_refused(mark: Any, name: Any, own_registry: None) -> None:
    with pytest.raises(ValueError, match="1 to 100 printable characters, without '/'"):
        mark(name=name)(top_level("named"))


@pytest.mark.parametrize("max_retries", [-1, True, 1.5, "3"])
def test_a_number_of_retries_that_is_none_is_refused(max_retries: Any, own_registry: None) -> None:
    with pytest.raises(ValueError, match=r"max_retries=.* is not a number of retries: give 0, 1, 2"):
        step(max_retries=max_retries)(top_level("retried"))


def test_two_workflows_of_one_name_are_refused_at_start_and_by_a_check(own_registry: None) -> None:
    first = workflow(name="shop.publish")(top_level("publish"))
    second = workflow(name="shop.publish")(top_level("publish_again"))

    for definition in (first, second):
        with pytest.raises(UnknownWorkflowError) as refused:
            definition.start()
        assert str(refused.value) == (
            "Two workflows or steps are called 'shop.publish': shop.workflows.publish and "
            "shop.workflows.publish_again. Give one of them another name=."
        )
    (message,) = checks.check_names_are_unique()
    assert message.id == "stephooks.E007"
    assert "shop.workflows.publish and shop.workflows.publish_again" in message.msg


def test_a_module_that_is_loaded_again_is_no_second_one(own_registry: None) -> None:
    workflow(name="shop.publish")(top_level("publish"))
    newer = workflow(name="shop.publish")(top_level("publish"))
    assert registry.get("shop.publish") is newer
    assert checks.check_names_are_unique() == []


# --- questions -------------------------------------------------------------------------------------

ACCEPTED = (
    'Accepted: "24h", "7d", "1h30m", "90s", "500ms" (units w, d, h, m, s, ms), a number of seconds, '
    "or a timedelta; more than zero, at most 100 years."
)
OPTIONS: dict[str, dict[str, Any]] = {
    "zero": {"timeout": 0},
    "negative": {"timeout": timedelta(seconds=-1)},
    "words": {"timeout": "tomorrow"},
    "empty": {"timeout": ""},
    "too long": {"timeout": "40000d"},
    "true": {"timeout": True},
    "list": {"timeout": [1]},
    "on_timeout": {"on_timeout": "explode"},
    "on_created": {"on_created": "mail"},
    "key": {"key": "a/b"},
    "reviewers": {"reviewers": ["dana"]},
}


@step
def asks_with(what: str) -> str:
    try:
        step_hook("approve", **OPTIONS[what])
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "asked"


@workflow
def asking_with(what: str) -> str:
    return asks_with(what)


@aio.step
async def asks_with_async(what: str) -> str:
    try:
        await aio.step_hook("approve", **OPTIONS[what])
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "asked"


@pytest.mark.parametrize("definition", [asking_with, asks_with_async])
@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("zero", f"ValueError: timeout: 0 is no time at all. {ACCEPTED}"),
        (
            "negative",
            f"ValueError: timeout: datetime.timedelta(days=-1, seconds=86399) is negative. {ACCEPTED}",
        ),
        ("words", f"ValueError: timeout: 'tomorrow' is not a length of time. {ACCEPTED}"),
        ("empty", f"ValueError: timeout: '' is not a length of time. {ACCEPTED}"),
        ("too long", f"ValueError: timeout: '40000d' is longer than 100 years. {ACCEPTED}"),
        ("true", f"ValueError: timeout: True is not a length of time. {ACCEPTED}"),
        ("list", f"ValueError: timeout: [1] is not a length of time. {ACCEPTED}"),
        (
            "on_timeout",
            "ValueError: on_timeout='explode' is not known: give 'raise', 'return' or 'suspend'.",
        ),
        (
            "on_created",
            "TypeError: on_created='mail' can not be called: give a function that takes the token.",
        ),
        ("key", "ValueError: 'a/b' can not be a key: give 1 to 100 printable characters, without '/'."),
        (
            "reviewers",
            "TypeError: 'dana' can not be a reviewer: give a user, a group, or an e-mail address.",
        ),
    ],
)
def test_nonsense_is_refused_before_anything_is_asked(definition: Any, what: str, sentence: str) -> None:
    run = definition.start(what)
    worked(run)
    assert run.result == sentence
    assert not Hook.objects.exists()


@pytest.mark.parametrize("timeout", [0, "-1s", "soon"])
def test_a_nonsense_timeout_of_a_step_is_refused_when_it_is_defined(timeout: Any, own_registry: None) -> None:
    with pytest.raises(ValueError, match=r"timeout: .* Accepted: "):
        step(timeout=timeout)(top_level("timed"))
    with pytest.raises(ValueError, match=r"job_timeout: .* Accepted: "):
        workflow(job_timeout=timeout)(top_level("timed"))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("step_hook", lambda: step_hook("approve")),
        ("save_step_checkpoint", lambda: save_step_checkpoint(1)),
        ("load_step_checkpoint", load_step_checkpoint),
        ("delete_step_checkpoint", delete_step_checkpoint),
        ("once", lambda: once("key", print)),
        ("sleep", lambda: sleep("1s")),
    ],
)
def test_outside_a_run_it_says_so(name: str, call: Any) -> None:
    with pytest.raises(NotInRunError) as refused:
        call()
    assert str(refused.value) == (
        f"{name}() was called outside a run. It works in a workflow or a step that a worker runs: "
        "begin one with .start()."
    )
    assert isinstance(refused.value, RuntimeError)


# --- answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda token: token[:-1], "This token is too short; it was cut on its way."),
        (lambda token: token[:10], "This token is too short; it was cut on its way."),
        (lambda token: token + "a", "This token is too long; something was added to it on its way."),
        (lambda token: token + ".", "This token is too long; something was added to it on its way."),
        (lambda token: token * 1000, "This token is too long; something was added to it on its way."),
        (lambda token: token[:-1] + "=", "This token has characters that no token has."),
        (lambda token: token.swapcase(), "This token "),
        (lambda token: token[:-1] + "ab"[token[-1] == "a"], "This token is not valid (any more)."),
        (lambda token: "", "There is no token here."),
        (lambda token: None, "There is no token here."),
        (lambda token: "\x00" * 44, "This token has characters that no token has."),
        (lambda token: "\ud800" * 44, "This token has characters that no token has."),
    ],
)
def test_a_spoiled_token_is_refused_with_what_happened_to_it(spoil: Any, sentence: str) -> None:
    run = worked(workflows.question.start())
    hook = Hook.objects.get()
    with pytest.raises(InvalidTokenError) as refused:
        resume_hook(spoil(hook.token), "yes")
    assert str(refused.value).startswith(sentence)
    assert hook.token not in str(refused.value)
    worked(run)
    assert run.status == Run.Status.SUSPENDED


def test_a_payload_over_the_cap_is_refused_and_one_at_the_cap_is_not(settings: Any) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "MAX_PAYLOAD_BYTES": 1000}
    run = worked(workflows.question.start())
    hook = Hook.objects.get()
    with pytest.raises(SerializationError) as refused:
        resume_hook(hook.token, "é" * 499 + "x")
    assert str(refused.value) == (
        "payload: It takes 1,001 bytes, more than the 1,000 that MAX_PAYLOAD_BYTES allows. "
        "Keep the bulk elsewhere and pass a reference to it."
    )
    hook.refresh_from_db()
    assert (hook.status, hook.payload) == (Hook.Status.PENDING, None)

    resume_hook(hook.token, "é" * 499)
    worked(run)
    assert run.result == "é" * 499


@step
def saves(size: int) -> str:
    try:
        save_step_checkpoint("x" * size)
    except SerializationError as error:
        return str(error)
    return "saved"


@workflow
def saving(size: int) -> str:
    return saves(size)


def test_a_checkpoint_over_the_cap_is_refused(settings: Any) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "MAX_CHECKPOINT_BYTES": 1000}
    small, big = saving.start(998), saving.start(999)
    worked(small)
    worked(big)
    assert small.result == "saved"
    assert big.result.startswith(
        "checkpoint: It takes 1,001 bytes, more than the 1,000 that MAX_CHECKPOINT_BYTES allows."
    )
    assert not StepCheckpoint.objects.filter(run=big).exists()


def test_the_caps_are_generous() -> None:
    run = worked(workflows.question.start())
    token = Hook.objects.get().token
    with pytest.raises(SerializationError, match="more than the 262,144"):
        resume_hook(token, "x" * (256 * 1024 - 1))
    resume_hook(token, "x" * (256 * 1024 - 2))
    worked(run)
    assert run.status == Run.Status.COMPLETED


def test_errors_have_their_docstring_as_default_message() -> None:
    assert str(FatalError()) == "The step failed for good; it is not retried."
    assert str(InvalidTokenError("my own")) == "my own"
