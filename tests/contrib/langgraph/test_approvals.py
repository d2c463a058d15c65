"""Tool calls that people approve, in both modes of LangChain's middleware; and those of one's own code."""

from __future__ import annotations

import pytest

from django_stephooks import InvalidPayloadError, resume_hook
from django_stephooks.contrib import decisions
from django_stephooks.models import Hook, Run
from tests.engine.watching import later

from .agents import MODES, aconverse, arun_graph, converse, price, run_graph
from .playing import answer, open_hooks, work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_worker")]

both = pytest.mark.parametrize("converse", [converse, aconverse], ids=["def", "async def"])
both_modes = pytest.mark.parametrize("mode", MODES)
both_graphs = pytest.mark.parametrize("run_graph", [run_graph, arun_graph], ids=["def", "async def"])

YES, NO = {"approved": True}, {"approved": False, "message": "Too much."}


@pytest.fixture(autouse=True)
def usual_price():
    price[0] = 10
    yield
    price[0] = 10


@both
@both_modes
def test_each_tool_call_is_a_question_of_its_own(converse, mode, did):
    run = work(converse.start(f"two refunds, {mode}"))
    hooks = [*Hook.objects.filter(run=run).order_by("pk")]
    assert [hook.context for hook in hooks] == [
        {"tool": "refund", "arguments": {"order": 7, "amount": 30}},
        {"tool": "refund", "arguments": {"order": 8, "amount": 40}},
    ]
    resume_hook(hooks[1].token, NO)
    run = work(run)
    assert (run.status, did) == (Run.Status.SUSPENDED, ["model 0"])
    resume_hook(hooks[0].token, YES)
    run = work(run)
    assert did == ["model 0", "refund 7 30", "model 1"]
    told = " / ".join(run.result)
    assert "paid 30" in told
    assert "Too much." in told


@both
@both_modes
def test_rejected_call_never_executes_and_changed_arguments_ask_again(converse, mode, did):
    """The model calls again with the same id and another amount."""
    run = work(converse.start(f"same id, {mode}"))
    run = answer(run, NO)
    assert did == ["model 0", "model 1"]
    (hook,) = open_hooks(run).values()
    assert hook.context["arguments"] == {"order": 7, "amount": 99}
    run = answer(run, YES)
    assert did == ["model 0", "model 1", "refund 7 99", "model 2"]


@both
@both_modes
def test_approval_is_for_these_arguments_only(converse, mode, did):
    run = work(converse.start(f"same id, {mode}"))
    run = answer(run, YES)
    assert did == ["model 0", "refund 7 30", "model 1"]
    run = answer(run, NO)
    assert did == ["model 0", "refund 7 30", "model 1", "model 2"]
    assert run.status == Run.Status.COMPLETED


@both
@both_modes
def test_nobody_decides_and_the_call_is_rejected(converse, mode, clock, did):
    run = work(converse.start(f"one refund, {mode}", {"timeout": "1h"}))
    run = work(later(clock, "2h", run))
    assert did == ["model 0", "model 1"]
    assert "Nobody decided in time" in run.result[2]


@both
@both_modes
def test_nobody_decides_where_to_reject_is_not_allowed(converse, mode, clock, did):
    run = work(converse.start(f"only approve, {mode}", {"timeout": "1h"}))
    run = work(later(clock, "2h", run))
    assert did == ["model 0"]
    assert (run.status, run.error["type"]) == ("failed", "django_stephooks.exceptions:HookTimeoutError")


@both
@both_modes
@pytest.mark.parametrize(
    ("payload", "refunds", "told"),
    [
        ({"decision": "approve"}, ["refund 7 30"], "paid 30"),
        ({"decision": "edit", "arguments": {"order": 7, "amount": 5}}, ["refund 7 5"], "paid 5"),
        ({"decision": "respond", "message": "Paid by hand."}, [], "Paid by hand."),
        ({"decision": "reject"}, [], "rejected"),
        # LangChain's own shapes.
        ({"type": "approve"}, ["refund 7 30"], "paid 30"),
        ({"type": "reject", "message": "No."}, [], "No."),
        (
            {"type": "edit", "edited_action": {"name": "refund", "args": {"order": 7, "amount": 5}}},
            ["refund 7 5"],
            "paid 5",
        ),
    ],
    ids=str,
)
def test_every_decision(converse, mode, payload, refunds, told, did):
    run = work(converse.start(f"anything goes, {mode}"))
    run = answer(run, payload)
    assert did == ["model 0", *refunds, "model 1"]
    assert told in run.result[2]


@both
def test_edit_that_does_not_fit_the_tool_reopens_the_question(converse, did):
    run = work(converse.start("anything goes, per_call"))
    run = answer(run, {"decision": "edit", "arguments": {"order": 7, "amount": "lots"}})
    (hook,) = open_hooks(run).values()
    assert "The last answer was refused" in hook.description
    run = answer(run, {"decision": "edit", "arguments": {"order": 7, "amount": 5}})
    assert did == ["model 0", "refund 7 5", "model 1"]


@pytest.mark.parametrize(
    "payload",
    [None, "yes", {}, {"decision": "maybe"}, {"decision": "edit"}, {"decision": "respond"}],
    ids=repr,
)
def test_nonsense_is_refused_when_it_is_offered(payload):
    run = work(converse.start("anything goes, batched"))
    (hook,) = open_hooks(run).values()
    with pytest.raises(InvalidPayloadError):
        resume_hook(hook.token, payload)
    assert answer(run, {"decision": "approve"}).status == Run.Status.COMPLETED


def test_every_set_of_decisions_has_a_schema():
    assert decisions.decision_schema(["reject", "approve"]).__name__ == "ApproveOrReject"
    assert decisions.decision_schema(decisions.DECISIONS).__name__ == "ApproveOrEditOrRejectOrRespond"
    for nonsense in ([], ["maybe"], ["approve", "maybe"]):
        with pytest.raises(ValueError, match="not decisions"):
            decisions.decision_schema(nonsense)


@both_graphs
def test_code_of_ones_own_asks_again_when_its_arguments_have_changed(run_graph, did):
    run = work(run_graph.start("buys"))
    price[0] = 12
    run = answer(run, YES)
    assert did == []
    (hook,) = open_hooks(run).values()
    assert hook.context == {"tool": "buy", "arguments": {"price": 12}}
    run = answer(run, YES)
    assert did == ["bought for 12"]
    assert run.result == {"bought": {"type": "approve"}}


@both_graphs
def test_code_of_ones_own_is_told_no(run_graph, did):
    run = work(run_graph.start("buys"))
    assert answer(run, NO).result == {"bought": {"type": "reject", "message": "Too much."}}
    assert did == []


@both_graphs
def test_answer_does_not_count_when_what_it_is_about_has_changed_meanwhile(run_graph, did):
    """Its sibling was answered, and on that occasion the graph asks it with another price."""
    run = work(run_graph.start("two sizes"))
    hat, shoes = Hook.objects.filter(run=run).order_by("pk")
    for hook in (hat, shoes):
        resume_hook(hook.token, {"size": 40})
    price[0] = 12
    run = work(run)
    (again,) = Hook.objects.filter(run=run).pending()
    assert again.context["asked"] == {"item": "shoes", "price": 12}
    assert [*run.events.filter(type="step_warned").values_list("call", flat=True)] == [shoes.call]
    resume_hook(again.token, {"size": 41})
    assert work(run).status == Run.Status.COMPLETED
    assert did[1:] == ["shoes of 41 for 12"]
