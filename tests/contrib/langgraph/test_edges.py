"""What else can happen to an agent: errors on the way, hooks inside its tools, threads, many of them."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection, connections
from django.db.backends.signals import connection_created
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from django_stephooks import aio, resume_hook, step, step_hook
from django_stephooks.contrib.langgraph import run_agent
from django_stephooks.engine.worker import advance
from django_stephooks.models import Hook, Run, StepCheckpoint
from tests.engine.watching import did, later

from .agents import (
    GRAPHS,
    HELLO,
    aerrors_are_ignored,
    agent,
    errors_are_ignored,
    pay,
    refund,
    run_graph,
    texts,
)
from .playing import answer, open_hooks, work
from .scripted import calls

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_worker")]


# The hook inside the tool.


@tool
def hook_in_tool(question: str) -> str:
    """Ask a person."""
    return str(step_hook("colleague", title=question))


@tool
async def ahook_in_tool(question: str) -> str:
    """Ask a person."""
    return str(await aio.step_hook("colleague", title=question))


SEED = [calls(("hook_in_tool", {"question": "May they?"}, "c1")), AIMessage("All is well.")]
ASEED = [calls(("ahook_in_tool", {"question": "May they?"}, "c1")), AIMessage("All is well.")]


@step(max_retries=0)
def seed() -> Any:
    """No `run_agent`: the agent is simply called, and one of its tools waits for a person."""
    graph = agent(*SEED, tools=[hook_in_tool], middleware=[errors_are_ignored])
    return texts(graph.invoke(HELLO))


@step(max_retries=0)
async def aseed() -> Any:
    graph = agent(*ASEED, tools=[ahook_in_tool], middleware=[aerrors_are_ignored])
    return texts(await graph.ainvoke(HELLO))


@step(max_retries=0)
async def aseed_in_an_agent() -> Any:
    from django_stephooks.contrib.langgraph.aio import run_agent

    graph = agent(*ASEED, tools=[ahook_in_tool], middleware=[aerrors_are_ignored])
    return texts(await run_agent(graph, HELLO))


@pytest.mark.parametrize(("talk", "spoken"), [(seed, 3), (aseed, 3), (aseed_in_an_agent, 2)])
def test_hook_inside_a_tool_survives_middleware_that_ignores_errors(talk, spoken):
    run = work(talk.start())
    assert [*open_hooks(run)] == ["May they?"]
    run = answer(run, "They may.")
    assert run.result[2:] == ["They may.", "All is well."]
    # Called plainly, the model is asked again for what it had said; `run_agent` remembers.
    assert len(did) == spoken


# Errors.


@tool
def flaky() -> str:
    """Fail once."""
    did.append("flaky")
    if did.count("flaky") == 1:
        raise ConnectionError("not now")
    return "got through"


@step(max_retries=1, retry_delay="1s")
def retried() -> Any:
    graph = agent(
        calls(pay(7, 30, "c1")), calls(("flaky", {}, "c2")), AIMessage("Well."), tools=[refund, flaky]
    )
    return texts(run_agent(graph, HELLO))


def test_step_that_is_tried_again_goes_on_where_the_graph_failed(clock):
    run = work(retried.start())
    assert did == ["model 0", "refund 7 30", "model 1", "flaky"]
    run = work(later(clock, "2s", run))
    assert did == ["model 0", "refund 7 30", "model 1", "flaky", "flaky", "model 2"]
    assert run.result[-1] == "Well."


def mail_is_down(token: str) -> None:
    did.append("told")
    if did.count("told") == 1:
        raise ConnectionError("mail is down")


@step(max_retries=1, retry_delay="1s")
def tells() -> Any:
    return run_agent(GRAPHS["plain"], {}, on_created=mail_is_down)


def test_telling_people_is_tried_again_with_the_step(clock):
    run = work(tells.start())
    run = work(later(clock, "2s", run))
    assert did == ["told", "told"]
    assert answer(run, "it").result == {"said": "it"}


def test_two_agents_in_one_step_and_code_behind_them(did):
    run = work(two_in_a_row.start())
    run = answer(run, "one")
    run = answer(run, "two")
    run = answer(run, "yes")
    assert run.result == ["one", "two", "yes"]
    assert did == ["asks", "asks"]


def asks_once(state: Any) -> Any:
    from langgraph.types import interrupt

    if not state.get("bought"):
        did.append("asks")
        return {"bought": True}
    return {"said": interrupt("What?")}


@step(max_retries=0)
def two_in_a_row() -> Any:
    from langgraph.graph import StateGraph

    from .agents import Shop

    graph = StateGraph(Shop).add_node("first", asks_once).add_node("second", asks_once)
    graph = graph.add_edge("first", "second").set_entry_point("first").compile()
    first = run_agent(graph, {})
    second = run_agent(graph, {})
    return [first["said"], second["said"], step_hook("confirm")]


# Threads.


@tool
def count_users() -> str:
    """Look into the database."""
    return str(get_user_model().objects.count())


@step(max_retries=0)
def counts() -> Any:
    graph = agent(
        calls(*(("count_users", {}, f"c{n}") for n in range(5))), AIMessage("Well."), tools=[count_users]
    )
    return texts(run_agent(graph, HELLO))


def test_tools_that_use_the_database_leave_no_connection_open():
    """They run in threads of LangGraph's, where each has a connection of its own."""
    opened = []

    def note(connection: Any, **kwargs: Any) -> None:
        opened.append(connection)

    connection_created.connect(note)
    try:
        run = work(counts.start())
    finally:
        connection_created.disconnect(note)
    assert run.result[2:7] == ["0"] * 5
    assert len(opened) >= 5
    assert [it for it in opened if it.connection and it is not connections["default"]] == []


# Many.


def all_of_them() -> tuple[int, int]:
    """What there is in this process when everybody waits: objects, threads."""
    while Run.objects.filter(status=Run.Status.PENDING).exists():
        advance("default")
    gc.collect()
    return len(gc.get_objects()), threading.active_count()


def test_conversations_that_wait_are_not_in_memory():
    """A thousand of them; fewer where a server makes it long."""
    many = 1000 if connection.vendor == "sqlite" else 200
    runs = [run_graph.start("plain") for _ in range(100)]
    objects, threads = all_of_them()
    runs += [run_graph.start("plain") for _ in range(many - 100)]
    more_objects, more_threads = all_of_them()
    assert Run.objects.filter(status=Run.Status.SUSPENDED).count() == many
    # The list of the runs itself is some objects for each; a conversation would be hundreds.
    assert more_objects - objects < (many - 100) * 50
    assert more_threads == threads
    for hook in Hook.objects.pending():
        resume_hook(hook.token, f"answer {hook.run_id}")
    all_of_them()
    results = dict(Run.objects.filter(status=Run.Status.COMPLETED).values_list("pk", "result"))
    assert results == {run.pk: {"said": f"answer {run.pk}"} for run in runs}
    assert not StepCheckpoint.objects.exists()
