"""Fill an empty newsroom: three people, and stories in every state a run can be in.

No state is written into a row: each is reached as a story of yours would reach it.
"""

from __future__ import annotations

import io
import time
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser, Permission
from django.core.management import BaseCommand, CommandError, call_command

from demo_project.newsroom import desk, manuscripts
from demo_project.newsroom.manuscripts import Manuscript
from demo_project.newsroom.models import Story
from django_stephooks import resume_hook
from django_stephooks.conf import app_settings
from django_stephooks.models import Hook

MINUTE, DAY = 60, 24 * 60 * 60


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--if-empty", action="store_true", help="do nothing if there is a story already")

    def handle(self, *args: Any, **options: Any) -> None:
        if app_settings.RUNTIME != "inline":
            raise CommandError(
                "The seed answers its own questions, so its runs must go on in this process: "
                'use STEPHOOKS["RUNTIME"] = "inline".'
            )
        if Story.objects.exists():
            if options["if_empty"]:
                return
            raise CommandError("There are stories already. Start with an empty database.")
        seed()
        self.stdout.write(f"{Story.objects.count()} stories are on their way; one has failed, as it should.")


def seed() -> None:
    """Make the people and the stories."""
    admin, editor, author = make_people()

    def hand_in(manuscript: Manuscript, **fields: Any) -> Story:
        return desk.submit(
            Story(
                headline=manuscript.headline,
                byline=manuscript.byline,
                submitted=manuscript.text,
                author=author,
                **fields,
            )
        )

    # Two that nobody answers. Their deadline is the first thing seeded and passes for real.
    hand_in(manuscripts.WALDEN, review_seconds=1, policy=Story.Policy.PUBLISH)
    hand_in(manuscripts.TELL_TALE, review_seconds=1, policy=Story.Policy.SPIKE)
    time.sleep(1.1)
    call_command("stephooks_sweep", stdout=io.StringIO())

    answer(hand_in(manuscripts.GETTYSBURG), admin, approved=True, comment="Set it in full.")
    answer(hand_in(manuscripts.NETHERFIELD), editor, approved=True, comment="")
    answer(
        hand_in(manuscripts.BALLOON),
        editor,
        approved=False,
        comment="Seventy-five hours? The numbers don't add up.",
    )

    hand_in(manuscripts.JABBERWOCK, trouble=Story.Trouble.NONSENSE)
    hand_in(manuscripts.VIRGINIA, trouble=Story.Trouble.ARCHIVE)
    desk.withdraw(hand_in(manuscripts.TWO_CITIES), by=author, reason="It grew into a novel.")

    hand_in(manuscripts.FOG, review_seconds=3 * DAY, policy=Story.Policy.PUBLISH)
    hand_in(manuscripts.WHALE, review_seconds=DAY)
    hand_in(manuscripts.FROG, review_seconds=45 * MINUTE)


def make_people() -> tuple[AbstractUser, AbstractUser, AbstractUser]:
    """Make admin, editor and author; each one's password is their name."""
    users = get_user_model().objects
    admin = users.create_superuser("admin", "admin@example.com", "admin")
    editor = users.create_user("editor", "editor@example.com", "editor", is_staff=True)
    editor.user_permissions.set(
        Permission.objects.filter(
            content_type__app_label="django_stephooks", codename__in=("view_hook", "review_hook")
        )
    )
    return admin, editor, users.create_user("author", "author@example.com", "author")


def answer(story: Story, by: AbstractUser, *, approved: bool, comment: str) -> None:
    """Answer the question that a story waits for, as the admin's buttons do."""
    hook = Hook.objects.get(run__story=story, status="pending")
    resume_hook(
        hook.token,
        {"approved": approved, "comment": comment, "reviewer": by.get_username()},
        by=by,
    )
