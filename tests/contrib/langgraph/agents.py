"""The agents and steps of these tests. What their tools did, and when their models spoke, is in `did`."""

from __future__ import annotations

from typing import Any, TypedDict

import pydantic
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, wrap_tool_call
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from django_stephooks import emit, step
from django_stephooks.aio import emit as aio_emit
from django_stephooks.contrib.langgraph import StepSaver, aio, approve, ask_human, run_agent
from tests.engine.watching import did

from .scripted import ScriptedModel, calls


def model_spoke(number: int) -> None:
    did.append(f"model {number}")


@tool
def refund(order: int, amount: int) -> str:
    """Pay money back."""
    did.append(f"refund {order} {amount}")
    return f"paid {amount}"


@wrap_tool_call
def errors_are_ignored(request: Any, handler: Any) -> Any:
    """The middleware that many agents have: whatever a tool raises is told to the model."""
    try:
        return handler(request)
    except Exception as error:  # noqa: BLE001  (this is the point)
        return ToolMessage(f"ignored {type(error).__name__}", tool_call_id=request.tool_call["id"])


@wrap_tool_call
async def aerrors_are_ignored(request: Any, handler: Any) -> Any:
    try:
        return await handler(request)
    except Exception as error:  # noqa: BLE001  (this is the point)
        return ToolMessage(f"ignored {type(error).__name__}", tool_call_id=request.tool_call["id"])


def agent(*script: AIMessage, tools: Any = (refund, ask_human), middleware: Any = ()) -> Any:
    model = ScriptedModel(script=[*script], told=model_spoke)
    return create_agent(model, tools=[*tools], middleware=[*middleware])


def texts(state: Any) -> list[str]:
    """What was said, as a step can return it."""
    return [str(message.text) for message in state["messages"]]


def ask(question: str, id: str) -> tuple[str, dict[str, Any], str]:
    return ("ask_human", {"question": question}, id)


def pay(order: int, amount: int, id: str) -> tuple[str, dict[str, Any], str]:
    return ("refund", {"order": order, "amount": amount}, id)


HELLO = {"messages": [("user", "Where is my money?")]}
SCRIPT = [
    calls(pay(7, 30, "c1"), ask("May they keep it?", "c2"), text="Let me see."),
    AIMessage("All is well."),
]

GRAPHS: dict[str, Any] = {
    "side effect beside a question": agent(*SCRIPT),
    "errors ignored": agent(*SCRIPT, middleware=[errors_are_ignored]),
    "errors ignored, async": agent(*SCRIPT, middleware=[aerrors_are_ignored]),
}


@step(max_retries=0)
def converse(graph: str, options: Any = None) -> Any:
    return texts(run_agent(GRAPHS[graph], HELLO, **(options or {})))


@step(max_retries=0)
async def aconverse(graph: str, options: Any = None) -> Any:
    return texts(await aio.run_agent(GRAPHS[graph], HELLO, **(options or {})))


# Approvals.

GATED = {"refund": {"allowed_decisions": ["approve", "reject"]}}


def gated(*script: AIMessage, mode: str, on: Any = None) -> Any:
    gate = HumanInTheLoopMiddleware(interrupt_on=on or GATED, interrupt_mode=mode)  # type: ignore[arg-type]
    return agent(*script, middleware=[gate])


TWO_REFUNDS = [calls(pay(7, 30, "c1"), pay(8, 40, "c2")), AIMessage("Done.")]
SAME_ID = [calls(pay(7, 30, "c1")), calls(pay(7, 99, "c1")), AIMessage("Done.")]
MODES: tuple[Any, ...] = ("batched", "per_call")
for mode in MODES:
    GRAPHS[f"two refunds, {mode}"] = gated(*TWO_REFUNDS, mode=mode)
    GRAPHS[f"same id, {mode}"] = gated(*SAME_ID, mode=mode)
    GRAPHS[f"one refund, {mode}"] = gated(calls(pay(7, 30, "c1")), AIMessage("Done."), mode=mode)
    GRAPHS[f"anything goes, {mode}"] = gated(
        calls(pay(7, 30, "c1")), AIMessage("Done."), mode=mode, on={"refund": True}
    )
    GRAPHS[f"only approve, {mode}"] = gated(
        calls(pay(7, 30, "c1")),
        AIMessage("Done."),
        mode=mode,
        on={"refund": {"allowed_decisions": ["approve"]}},
    )

GRAPHS["two questions"] = agent(
    calls(ask("First?", "c1"), ask("Second?", "c2"), ask("Third?", "c3")), AIMessage("Thanks.")
)
GRAPHS["one after the other"] = agent(
    calls(ask("First?", "c1")), calls(ask("Second?", "c2")), AIMessage("Thanks.")
)
GRAPHS["ten rounds"] = agent(*(calls(ask("Again?", "c1")) for _ in range(10)), AIMessage("Thanks."))


# Graphs of one's own.


class Shop(TypedDict, total=False):
    said: Any
    bought: Any


price = [10]


class Size(pydantic.BaseModel):
    size: int


def graph_of(node: Any, **options: Any) -> Any:
    return StateGraph(Shop).add_node("node", node).set_entry_point("node").compile(**options)


def asks_plainly(state: Shop) -> Shop:
    return {"said": interrupt("What is it?")}


def asks_twice(state: Shop) -> Shop:
    return {"said": [interrupt("First?"), interrupt("Second?")]}


def wants_a_size(state: Shop) -> Shop:
    answer = interrupt({"which": "size"}, response_schema=Size)
    return {"said": answer.size}


def buys(state: Shop) -> Shop:
    now = price[0]
    decision = approve("buy", {"price": now})
    if decision["type"] == "approve":
        did.append(f"bought for {now}")
    return {"bought": decision}


def sizes(item: str) -> Any:
    def node(state: Shop) -> Shop:
        answer = interrupt({"item": item, "price": price[0]}, response_schema=Size)
        did.append(f"{item} of {answer.size} for {price[0]}")
        return {}

    return node


two_sizes = StateGraph(Shop).add_node("hat", sizes("hat")).add_node("shoes", sizes("shoes"))
two_sizes.add_edge(START, "hat").add_edge(START, "shoes")

speaker = ScriptedModel(script=[AIMessage("Let me think.")], told=model_spoke)


def speaks_then_asks(state: Shop) -> Shop:
    speaker.invoke("Go on.")
    answer = interrupt("May I?")
    speaker.invoke("Go on.")
    return {"said": answer}


GRAPHS |= {
    "speaks, then asks": graph_of(speaks_then_asks),
    "two sizes": two_sizes.compile(),
    "plain": graph_of(asks_plainly),
    "twice in a node": graph_of(asks_twice),
    "size": graph_of(wants_a_size),
    "buys": graph_of(buys),
    "with a checkpointer": graph_of(asks_plainly, checkpointer=StepSaver()),
}


@step(max_retries=0)
def run_graph(graph: str, options: Any = None, with_schema: bool = False) -> Any:
    return run_agent(GRAPHS[graph], {}, schemas=[Size] if with_schema else (), **(options or {}))


@step(max_retries=0)
async def arun_graph(graph: str, options: Any = None, with_schema: bool = False) -> Any:
    return await aio.run_agent(GRAPHS[graph], {}, schemas=[Size] if with_schema else (), **(options or {}))


# Watched by a visitor.


def words(chunk: Any) -> str:
    message, _ = chunk
    return str(message.text) if isinstance(message, AIMessageChunk) else f"[{message.text}]"


def tell_once(chunk: Any, key: str) -> None:
    if said := words(chunk):
        emit(said, key=key)


def tell(chunk: Any, key: str) -> None:
    if said := words(chunk):
        emit(said)


async def atell_once(chunk: Any, key: str) -> None:
    if said := words(chunk):
        await aio_emit(said, key=key)


TELL = {"keyed": tell_once, "counted": tell}


@step(max_retries=0)
def talk(graph: str, telling: str = "keyed") -> Any:
    return texts(run_agent(GRAPHS[graph], HELLO, on_stream=TELL[telling]))


@step(max_retries=0)
async def atalk(graph: str) -> Any:
    return texts(await aio.run_agent(GRAPHS[graph], HELLO, on_stream=atell_once))


@step(max_retries=0)
def tells(graph: str) -> Any:
    return run_agent(GRAPHS[graph], {}, on_stream=tell_once)


@step(max_retries=0)
async def atells(graph: str) -> Any:
    return await aio.run_agent(GRAPHS[graph], {}, on_stream=atell_once)
