"""The story that the browser tests are about, asked by a real workflow."""

from __future__ import annotations

from typing import Any, Literal

import pydantic
from django.contrib.auth.models import User

from django_stephooks import FatalError, step, step_hook, workflow
from django_stephooks.mail import email_reviewers
from django_stephooks.models import Hook
from tests.factories import ArticleFactory, UserFactory

DANA = "dana@example.com"
HEADLINE = "Harbour tunnel delayed again"
QUESTION = f"Publish '{HEADLINE}'?"

BEFORE = {
    "headline": HEADLINE,
    "byline": "Sam Okafor",
    "text": (
        "The harbour tunnel will open two years later than promised. The city council was told on Monday "
        "that the ground under the old quay is softer than the survey had said. It will cost 40 million more."
    ),
}
AFTER = {
    **BEFORE,
    "text": (
        "The harbour tunnel will open three years later than promised. The city council was told on Monday "
        "that the ground under the old quay is softer than the survey had said. It will cost 48 million "
        "more, according to the treasurer."
    ),
}
FACTS = {"numbers": ["three years", "48 million"], "names": ["city council", "treasurer"]}


@step
def editor_review(timeout: Any, recipients: list[str]) -> Any:
    return step_hook(
        "editor_review",
        title=QUESTION,
        description="The fact checkers changed two figures. The page closes tonight.",
        context={"before": BEFORE, "after": AFTER, "facts": FACTS},
        timeout=timeout,
        on_timeout="return",
        on_created=email_reviewers(recipients) if recipients else None,
    )


@workflow
def publish_story(timeout: Any = "4h", recipients: list[str] | None = None) -> str:
    answer = editor_review(timeout, recipients or [])
    return "published" if answer["approved"] else f"spiked: {answer['comment']}"


@step
def start_the_press(pages: int) -> None:
    raise FatalError(f"The press has paper for {pages - 1} of {pages} pages.")


@workflow
def print_paper(pages: int = 32) -> None:
    editor_review("4h", [])
    start_the_press(pages)


class Layout(pydantic.BaseModel):
    approved: bool
    page: int = pydantic.Field(ge=1, le=32, description="From 1 to 32.")
    section: Literal["City", "Business", "Sport"] = "City"
    remarks: str = ""
    with_picture: bool = False
    reviewer: str = ""


@step
def place() -> Any:
    return step_hook("layout", title="Where does the tunnel go?", payload_schema=Layout, timeout="2h")


@workflow
def lay_out() -> Any:
    return place()


def ask(workflow: Any = publish_story, **options: Any) -> Hook:
    """Have Sam start the workflow; it asks and waits."""
    sam = User.objects.filter(username="sam").first() or UserFactory(username="sam")
    article = ArticleFactory(title=HEADLINE)
    run = workflow.using(started_by=sam, subject=article).start(**options)
    return Hook.objects.get(run=run)


def answer_of(hook: Hook) -> tuple[str, Any, str]:
    """What is stored of its answer by now: its status, the payload and who gave it."""
    hook = Hook.objects.get(pk=hook.pk)
    return hook.status, hook.payload, hook.answered_by_label
