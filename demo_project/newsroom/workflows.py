"""The way of a story: draft, fact check, editor's review, and then print or the spike.

Plain functions. In a run, each step's result is recorded once: kill the worker wherever you like,
what was done is not done again.
"""

from __future__ import annotations

import os
import time
from typing import Any, TypedDict

from django.conf import settings
from django.utils import timezone

from django_stephooks import (
    STEP_HOOK_TIMEOUT,
    FatalError,
    RetryableError,
    delete_step_checkpoint,
    load_step_checkpoint,
    save_step_checkpoint,
    step,
    step_hook,
    workflow,
)
from django_stephooks.mail import email_reviewers

from .editing import Facts, find_facts, house_style
from .models import LogLine, Story


class Decision(TypedDict):
    """What became of the question put to the editor."""

    approved: bool
    comment: str
    by: str


@workflow
def publish_story(story_id: int) -> str:
    """Bring one story from the author's manuscript to its end, and say which end."""
    prepare_draft(story_id)
    facts = check_facts(story_id)
    decision = editor_review(story_id, facts)
    if decision["approved"]:
        return publish(story_id, decision)
    return spike(story_id, decision)


@step
def prepare_draft(story_id: int) -> int:
    """Set the manuscript in house style; return how many words it has."""
    story = _begin("prepare_draft", story_id)
    text = house_style(story.submitted)
    Story.objects.filter(pk=story_id).update(text=text)
    words = len(text.split())
    _done("prepare_draft", story_id, f"{words} words in house style")
    return words


@step
def check_facts(story_id: int) -> Facts:
    """Collect what has to be looked up; some stories make trouble here, if asked to."""
    story = _begin("check_facts", story_id)
    if story.trouble == Story.Trouble.NONSENSE:
        raise FatalError(f"No word of '{story.headline}' is in any dictionary.")
    if story.trouble == Story.Trouble.ARCHIVE:
        raise RetryableError("The archive is closed at this hour.", retry_after="1h")
    if story.trouble == Story.Trouble.SLOW:
        time.sleep(getattr(settings, "NEWSROOM_SLOW", 0))
    facts = find_facts(story.text)
    Story.objects.filter(pk=story_id).update(facts=facts, status=Story.Status.CHECKED)
    _done(
        "check_facts",
        story_id,
        f"{len(facts['numbers'])} numbers and {len(facts['names'])} names to look up",
    )
    return facts


@step
def editor_review(story_id: int, facts: Facts) -> Decision:
    """Ask the editor and wait, for a day if need be, without holding a worker."""
    proof = load_step_checkpoint()
    if proof is None:
        # Reached once: when the answer comes this step starts again from its top, and finds the
        # page proof that it had already made.
        proof = make_page_proof(_begin("editor_review", story_id), facts)
        save_step_checkpoint(proof)
        Story.objects.filter(pk=story_id).update(status=Story.Status.REVIEW)

    answer = step_hook(
        "editor_review",
        timeout=proof["seconds"],
        on_created=email_reviewers(["editor@example.com"]),
        on_timeout="return",
        title=f"Publish '{proof['headline']}'?",
        description=proof["question"],
        context={key: proof[key] for key in ("before", "after", "facts")},
    )
    if answer is STEP_HOOK_TIMEOUT:
        decision = Decision(
            approved=proof["policy"] == Story.Policy.PUBLISH,
            comment="No answer before the deadline.",
            by="nobody",
        )
    else:
        decision = Decision(approved=answer["approved"], comment=answer["comment"], by=answer["reviewer"])
    verdict = "approved" if decision["approved"] else "rejected"
    _done("editor_review", story_id, f"{verdict} by {decision['by']}: {decision['comment']}")
    delete_step_checkpoint()
    return decision


@step
def publish(story_id: int, decision: Decision) -> str:
    """Put the story on the front page."""
    _begin("publish", story_id)
    _settle(story_id, Story.Status.PUBLISHED, decision, published_at=timezone.now())
    _done("publish", story_id, "on the front page")
    return "published"


@step
def spike(story_id: int, decision: Decision) -> str:
    """Put the story where it will not be read."""
    _begin("spike", story_id)
    _settle(story_id, Story.Status.SPIKED, decision)
    _done("spike", story_id, "on the spike")
    return "spiked"


def make_page_proof(story: Story, facts: Facts) -> dict[str, Any]:
    """Everything the editor needs to decide; imagine that it took an hour of a press."""
    falls_to = story.get_policy_display().lower()
    return {
        "headline": story.headline,
        "question": f"By {story.byline}. Without an answer in time: {falls_to}.",
        "before": {"headline": story.headline, "byline": story.byline, "text": story.submitted},
        "after": {"headline": story.headline, "byline": story.byline, "text": story.text},
        "facts": facts,
        "policy": story.policy,
        "seconds": story.review_seconds,
    }


def _begin(name: str, story_id: int) -> Story:
    story = Story.objects.get(pk=story_id)
    _log(name, story_id, LogLine.Mark.BEGAN)
    time.sleep(getattr(settings, "NEWSROOM_PACE", 0))
    return story


def _done(name: str, story_id: int, remark: str) -> None:
    _log(name, story_id, LogLine.Mark.DONE, remark)


def _log(name: str, story_id: int, mark: LogLine.Mark, remark: str = "") -> None:
    LogLine.objects.create(
        story_id=story_id, step=name, mark=mark, remark=remark[:250], process_id=os.getpid()
    )


def _settle(story_id: int, status: str, decision: Decision, **fields: Any) -> None:
    Story.objects.filter(pk=story_id).update(
        status=status, verdict=decision["comment"], decided_by=decision["by"], **fields
    )
