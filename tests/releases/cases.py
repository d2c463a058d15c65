"""The runs that a release is to leave behind: how each is made, and what a later release makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from django_stephooks import cancel_run, resume_hook, retry_run
from django_stephooks.engine import store
from django_stephooks.engine.worker import advance
from django_stephooks.models import Hook, Run
from django_stephooks.services.sweep import sweep

from . import workflows
from .workflows import EVERYTHING, Verdict

S = Run.Status


@dataclass(frozen=True, kw_only=True)
class Case:
    """`start` starts the run of a definition with options; `prepare` brings it to where it is kept.

    Then: its `status` there, what is `answered` to it, how it `ends`, with which `result`, and what its
    code `does` behind the point where it was kept.
    """

    workflow: Any
    arguments: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[Run], None] = lambda run: work(run)
    status: Run.Status = S.SUSPENDED
    answers: dict[str, Any] = field(default_factory=dict)
    ends: Run.Status = S.COMPLETED
    result: Any = None
    does: tuple[str, ...] = ()


def make(name: str, case: Case) -> Run:
    run: Run = case.workflow.using(queue=name, key=name).start(*case.arguments, **case.named)
    case.prepare(run)
    # Not refreshed: that would decode its arguments.
    made = Run.objects.get(pk=run.pk)
    assert made.status == case.status, (name, made.status, made.error)
    return made


def drive(run: Run, case: Case) -> Run:
    """Go on with it until it has ended, or waits for an answer that nobody gives."""
    for _ in range(20):
        sweep()
        run = Run.objects.get(pk=run.pk)
        if run.is_finished and run.status != S.FAILED:
            break
        if run.status == S.FAILED:
            retry_run(run, by="dana")
        for hook in Hook.objects.filter(run=run).waiting(timezone.now()):
            resume_hook(hook.token, case.answers[hook.call], by="dana")
        work(run)
    return Run.objects.get(pk=run.pk)


# --- how they come to where they are kept ---


def work(run: Run) -> None:
    while advance(run.queue):
        pass


def not_at_all(run: Run) -> None:
    """Nobody has worked on it."""


def answer(call: str, payload: Any) -> Callable[[Run], None]:
    """Asked, answered, and worked on again."""

    def prepare(run: Run) -> None:
        answer_only(call, payload)(run)
        work(run)

    return prepare


def answer_only(call: str, payload: Any) -> Callable[[Run], None]:
    """Asked and answered; nobody has worked on it since."""

    def prepare(run: Run) -> None:
        work(run)
        resume_hook(Hook.objects.get(run=run, call=call).token, payload, by="dana")

    return prepare


def expire_first(run: Run) -> None:
    """Its deadline has passed, and it asks the next question."""
    work(run)
    sweep(now=timezone.now() + timedelta(seconds=2))
    work(run)


def kill(run: Run) -> None:
    """Killed in its first turn, and again when the next one had hardly begun."""
    try:
        work(run)
    except workflows.PowerCut:
        store.claim(run.queue, lease_until=timezone.now() + timedelta(minutes=1))


def fail_and_retry(run: Run) -> None:
    """It failed in bad weather, was retried in good weather, and asks."""
    work(run)
    workflows.weather.bad = False
    retry_run(run, by="dana", reason="There is room again.")
    work(run)
    workflows.weather.bad = True


def cancel(run: Run) -> None:
    work(run)
    cancel_run(run, by="dana", reason="Not needed.")


def finish(run: Run) -> None:
    answer("approve:1", "early")(run)


VERDICT = {"approved": True, "score": "1.10"}

CASES: dict[str, Case] = {
    "asks in a workflow": Case(
        workflow=workflows.ask_in_workflow,
        arguments=("spring",),
        answers={"approve:1": {"approved": True}},
        result=["a draft of spring", {"approved": True}, "published: a draft of spring"],
        does=("publish",),
    ),
    "asks in a step with a checkpoint": Case(
        workflow=workflows.ask_in_step,
        arguments=("summer",),
        answers={"review:1/review:1": None},
        result=[True, "sent", None, "end"],
    ),
    "asks in a step on its own": Case(
        workflow=workflows.review,
        arguments=("autumn",),
        answers={"review:1/review:1": False},
        result=[True, "sent", False],
    ),
    "asks two at once": Case(
        workflow=workflows.ask_two,
        answers={"ask_one:1/dana[dana]": 1, "ask_one:2/eli[eli]": 2},
        result=[1, 2],
        does=("heard dana", "heard eli"),
    ),
    "asks two at once and one has answered": Case(
        workflow=workflows.ask_two,
        prepare=answer("ask_one:2/eli[eli]", "first"),
        answers={"ask_one:1/dana[dana]": "second"},
        result=["second", "first"],
        does=("heard dana",),
    ),
    "sleeps": Case(
        workflow=workflows.wait_for_a_while, result="published: a draft of rest", does=("publish",)
    ),
    "waits for its next attempt": Case(
        workflow=workflows.fetch_when_it_is_back, result="fetched", does=("fetch",)
    ),
    "has every kind of value": Case(
        workflow=workflows.pass_everything_on,
        arguments=(EVERYTHING,),
        named={"twice": True},
        answers={"look:1": {"$t": "set", "v": [1]}},
        result=[EVERYTHING, EVERYTHING],
        does=("keep",),
    ),
    "asks with a model": Case(
        workflow=workflows.ask_with_model,
        answers={"verdict:1": VERDICT, "again:1": {**VERDICT, "until": "2027-02-03"}},
        result=Verdict(approved=True, score=Decimal("2.20"), until=date(2027, 2, 3)),
    ),
    "has one of two models": Case(
        workflow=workflows.ask_with_model,
        prepare=answer("verdict:1", VERDICT),
        answers={"again:1": {"approved": False, "score": 1}},
        result=Verdict(approved=True, score=Decimal("2.10")),
    ),
    "asks with a form": Case(
        workflow=workflows.ask_with_form,
        answers={"verdict:1": {"until": "2027-02-03"}},
        result={"approved": False, "until": date(2027, 2, 3)},
    ),
    "raises at its deadline": Case(
        workflow=workflows.ask_until_deadline, arguments=("raise",), result="raised"
    ),
    "returns at its deadline": Case(
        workflow=workflows.ask_until_deadline, arguments=("return",), result="returned"
    ),
    "goes on waiting at its deadline": Case(
        workflow=workflows.ask_until_deadline,
        arguments=("suspend",),
        answers={"approve:1": "late"},
        result="late",
    ),
    "had a deadline that passed": Case(
        workflow=workflows.ask_after_a_deadline,
        prepare=expire_first,
        answers={"second:1": "here"},
        result=[True, "here"],
    ),
    "asks in rounds": Case(
        workflow=workflows.ask_in_rounds,
        prepare=answer("round:1", 1),
        answers={"round:2": 2, "round:3": 3, "keyed[a]": "a", "keyed[b]": "b"},
        result=[1, 2, 3, "a", "b"],
    ),
    "nobody has begun": Case(
        workflow=workflows.ask_in_workflow,
        arguments=("winter",),
        prepare=not_at_all,
        status=S.PENDING,
        answers={"approve:1": []},
        result=["a draft of winter", [], "published: a draft of winter"],
        does=("draft", "publish"),
    ),
    "is answered": Case(
        workflow=workflows.ask_in_step,
        arguments=("rain",),
        prepare=answer_only("review:1/review:1", {"stars": 5}),
        status=S.PENDING,
        result=[True, "sent", {"stars": 5}, "end"],
    ),
    "lost its worker": Case(
        workflow=workflows.print_it,
        prepare=kill,
        status=S.RUNNING,
        result="published: a draft of power",
        does=("typeset", "publish"),
    ),
    "has failed": Case(
        workflow=workflows.upload_draft,
        status=S.FAILED,
        result=["a draft of disk", "uploaded"],
        does=("upload",),
    ),
    "was retried": Case(
        workflow=workflows.upload_and_ask,
        prepare=fail_and_retry,
        answers={"seen:1": "yes"},
        result=["uploaded", "yes"],
    ),
    "has completed": Case(
        workflow=workflows.ask_until_deadline,
        arguments=("return",),
        prepare=finish,
        status=S.COMPLETED,
        result="early",
    ),
    "was cancelled": Case(
        workflow=workflows.ask_in_workflow,
        arguments=("nothing",),
        prepare=cancel,
        status=S.CANCELLED,
        ends=S.CANCELLED,
    ),
}
