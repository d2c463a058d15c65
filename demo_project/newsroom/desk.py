"""What the newsroom does with a story from outside its run: hand it in, take it back."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from django_stephooks import cancel_run

from .models import Story
from .workflows import publish_story


def submit(story: Story) -> Story:
    """Save a story and start its way through the house, both or neither."""
    with transaction.atomic():
        story.save()
        # The key makes a second press of the button find the first one's run.
        run = publish_story.using(key=f"story-{story.pk}", subject=story, started_by=story.author).start(
            story_id=story.pk
        )
        # Not story.save(): with the inline runtime and no transaction around us the run has
        # already been at work on this row.
        Story.objects.filter(pk=story.pk).update(run=run)
    story.refresh_from_db()
    return story


def withdraw(story: Story, *, by: AbstractBaseUser, reason: str = "") -> None:
    """Cancel a story's run; a question that waits for the editor goes with it."""
    if story.run is not None:
        cancel_run(story.run, by=by, reason=reason)
