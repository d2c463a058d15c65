"""The program of the design's second section, with nothing changed but what it calls."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync

from django_stephooks import resume_hook
from django_stephooks.aio import (
    STEP_HOOK_TIMEOUT,
    delete_step_checkpoint,
    load_step_checkpoint,
    save_step_checkpoint,
    step,
    step_hook,
)
from django_stephooks.models import Hook, Run, StepCheckpoint

seen: list[object] = []


async def expensive_setup(draft: str) -> dict[str, str]:
    seen.append("setup")
    return {"draft": draft}


async def send_to_reviewer(token: str) -> None:
    seen.append(("mail", token))


async def finalize(state: dict[str, str], feedback: object) -> list[object]:
    return ["final", state, feedback]


async def finalize_without_review(state: dict[str, str]) -> list[object]:
    return ["unreviewed", state]


@step
async def review_step(draft: str):
    checkpoint = await load_step_checkpoint()
    if checkpoint is None:
        state = await expensive_setup(draft)  # once, whatever happens later
        await save_step_checkpoint({"state": state})
    else:
        state = checkpoint["state"]

    async def notify(token: str):
        await send_to_reviewer(token)

    feedback = await step_hook("human_review", timeout="24h", on_created=notify, on_timeout="return")
    if feedback is STEP_HOOK_TIMEOUT:
        return await finalize_without_review(state)
    result = await finalize(state, feedback)
    await delete_step_checkpoint()
    return result


@pytest.fixture(autouse=True)
def nothing_seen():
    seen.clear()


@pytest.mark.django_db(transaction=True)
def test_it_asks_waits_and_finishes_with_the_answer():
    run = review_step.start("a draft")
    run.refresh_from_db()
    assert run.status == Run.Status.SUSPENDED, run.error
    hook = Hook.objects.get()
    assert seen == ["setup", ("mail", hook.token)]
    assert StepCheckpoint.objects.get().data == {"state": {"draft": "a draft"}}

    resume_hook(hook.token, {"ok": True})

    run.refresh_from_db()
    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == ["final", {"draft": "a draft"}, {"ok": True}]
    assert seen == ["setup", ("mail", hook.token)]
    assert not StepCheckpoint.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_it_can_be_started_from_async_code():
    async def begin():
        return await review_step.astart("a draft")

    run = async_to_sync(begin)()
    run.refresh_from_db()
    assert run.status == Run.Status.SUSPENDED, run.error
