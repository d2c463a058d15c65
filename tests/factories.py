"""Rows for tests: a trait per state. States with side effects are reached through the services.

Rows fit together like those of real runs: the journal says what the row's status says, so a run
made here really goes on when its hook is answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import factory
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.utils import timezone
from factory.django import DjangoModelFactory, Password

from django_stephooks.models import Event, Hook, Run, StepCheckpoint
from django_stephooks.services.hooks import expire_hooks, resume_hook
from django_stephooks.services.runs import cancel_run

from .app.models import Article

Now = factory.LazyFunction(lambda: timezone.now())  # so that it is the test's clock, if there is one


def grant(user: Any, *codenames: str) -> None:
    """Give a user permissions of this package."""
    permissions = Permission.objects.filter(
        content_type__app_label="django_stephooks", codename__in=codenames
    )
    user.user_permissions.add(*permissions)


class UserFactory(DjangoModelFactory):
    """A user whose password is "password". `permissions=["review_hook"]` gives some of ours."""

    class Meta:
        model = get_user_model()

    class Params:
        staff = factory.Trait(is_staff=True)
        superuser = factory.Trait(is_staff=True, is_superuser=True)
        reviewer = factory.Trait(is_staff=True, permissions=["view_hook", "review_hook"])

    username = factory.Sequence(lambda n: f"user{n}")
    email = factory.LazyAttribute(lambda user: f"{user.username}@example.com")
    password = Password("password")

    permissions = ()

    @classmethod
    def _create(cls, model_class: Any, *args: Any, permissions: Iterable[str] = (), **kwargs: Any) -> Any:
        user = super()._create(model_class, *args, **kwargs)
        if permissions:
            grant(user, *permissions)
        return user


class ArticleFactory(DjangoModelFactory):
    """Something for a run to be about."""

    class Meta:
        model = Article

    title = factory.Sequence(lambda n: f"Article {n}")


class RunFactory(DjangoModelFactory):
    """A run of `tests.app.workflows.publish`: ready, unless a trait says otherwise."""

    class Meta:
        model = Run

    class Params:
        running = factory.Trait(
            status=Run.Status.RUNNING,
            turn=1,
            due_at=factory.LazyAttribute(lambda run: run.created_at + timedelta(minutes=1)),
        )
        # Its worker was killed: the lease ended before now.
        crashed = factory.Trait(status=Run.Status.RUNNING, turn=1)
        suspended = factory.Trait(status=Run.Status.SUSPENDED, turn=1, due_at=None)
        sleeping = factory.Trait(
            status=Run.Status.SUSPENDED,
            turn=1,
            due_at=factory.LazyAttribute(lambda run: run.created_at + timedelta(hours=1)),
        )
        completed = factory.Trait(
            status=Run.Status.COMPLETED,
            turn=1,
            due_at=None,
            finished_at=Now,
            result={"title": "A story", "answer": {"approved": True}},
        )
        failed = factory.Trait(
            status=Run.Status.FAILED,
            turn=1,
            due_at=None,
            finished_at=Now,
            error={
                "type": "builtins:ValueError",
                "message": "It went wrong.",
                "args": ("It went wrong.",),
                "traceback": "",
            },
        )
        cancelled = factory.Trait(reach=cancel_run)

    reach = None
    workflow = "tests.app.workflows.publish"
    queue = "default"
    arguments = factory.LazyFunction(lambda: {"title": "A story"})
    created_at = Now
    due_at = factory.SelfAttribute("created_at")

    @classmethod
    def _create(cls, model_class: type[Run], *args: Any, reach: Any = None, **kwargs: Any) -> Run:
        run = super()._create(model_class, *args, **kwargs)
        EventFactory(run=run, type=Event.Type.RUN_STARTED, created_at=run.created_at)
        if run.status in (Run.Status.COMPLETED, Run.Status.FAILED):
            EventFactory(run=run, type=f"run_{run.status}", created_at=run.finished_at)
        if reach is not None:
            reach(run)
            run.refresh_from_db()
        return run


class HookFactory(DjangoModelFactory):
    """The question that `publish` asks, of a run that waits for it: pending, unless a trait says otherwise.

    `received=True` is answered with `answer`, by `by`, through `channel`.
    """

    class Meta:
        model = Hook

    class Params:
        received = factory.Trait(reach="receive")
        past_deadline = factory.Trait(
            created_at=factory.LazyFunction(lambda: timezone.now() - timedelta(hours=2)),
            expires_at=factory.LazyAttribute(lambda hook: hook.created_at + timedelta(hours=1)),
        )
        expired = factory.Trait(past_deadline=True, reach="expire")
        cancelled = factory.Trait(reach="cancel")
        overdue = factory.Trait(past_deadline=True, on_timeout=Hook.OnTimeout.SUSPEND)

    reach = None
    answer = factory.LazyFunction(lambda: {"approved": True})
    by = None
    channel = "python"
    run = factory.SubFactory(RunFactory, suspended=True, created_at=factory.SelfAttribute("..created_at"))
    call = "review:1/approve:1"
    name = "approve"
    title = factory.Sequence(lambda n: f"Publish story {n}?")
    on_timeout = Hook.OnTimeout.RETURN
    created_at = Now

    @classmethod
    def _create(
        cls,
        model_class: type[Hook],
        *args: Any,
        reach: str | None = None,
        answer: Any = None,
        by: Any = None,
        channel: str = "python",
        **kwargs: Any,
    ) -> Hook:
        hook: Hook = super()._create(model_class, *args, **kwargs)
        step, _, _ = hook.call.rpartition("/")
        if step:
            EventFactory(run=hook.run, type=Event.Type.STEP_STARTED, call=step)
        EventFactory(
            run=hook.run,
            type=Event.Type.HOOK_CREATED,
            call=hook.call,
            data={"expires_at": hook.expires_at},
            created_at=hook.created_at,
        )
        if reach == "receive":
            resume_hook(hook.token, answer, by=by, channel=channel)
        elif reach == "expire":
            expire_hooks(Hook.objects.filter(pk=hook.pk), now=timezone.now())
        elif reach == "cancel":
            cancel_run(hook.run)
        if reach is not None:
            hook.refresh_from_db()
            hook.run.refresh_from_db()
        return hook


class EventFactory(DjangoModelFactory):
    """An event; by default that the run was started."""

    class Meta:
        model = Event

    run = factory.SubFactory(RunFactory)
    type = Event.Type.RUN_STARTED
    data = factory.LazyFunction(dict)
    created_at = Now


class CheckpointFactory(DjangoModelFactory):
    """What the step `review` of a waiting run saved. `large=True`: 100 kB of it."""

    class Meta:
        model = StepCheckpoint

    class Params:
        large = factory.Trait(data=factory.LazyFunction(lambda: {"state": "x" * 100_000}))

    run = factory.SubFactory(RunFactory, suspended=True)
    call = "review:1"
    data = factory.LazyFunction(lambda: {"state": "saved"})
    saved_at = Now
