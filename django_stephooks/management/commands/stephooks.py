"""`stephooks`: look at hooks and runs from a shell, and act on them by the rules that hold everywhere."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q
from django.utils import timezone

from django_stephooks import codec
from django_stephooks.exceptions import SerializationError, StepHooksError
from django_stephooks.models import Hook, Run
from django_stephooks.review.forms import verdict
from django_stephooks.services.hooks import resume_hook
from django_stephooks.services.rules import actions_for, has_permission
from django_stephooks.services.runs import cancel_run, retry_run

from ._arguments import count


class Command(BaseCommand):
    help = "Lists, shows, answers, cancels and retries: `stephooks hooks list`, `stephooks runs show 41`, …"

    def add_arguments(self, parser: ArgumentParser) -> None:
        things = parser.add_subparsers(dest="thing", required=True)
        hooks = things.add_parser("hooks", help="questions").add_subparsers(dest="action", required=True)
        runs = things.add_parser("runs", help="executions of workflows").add_subparsers(
            dest="action", required=True
        )
        for actions, what, states in (
            (hooks, "hooks", ["waiting", *Hook.Status.values]),
            (runs, "runs", Run.Status.values),
        ):
            listing = actions.add_parser("list", help=f"the latest {what}")
            listing.add_argument("--status", choices=states)
            listing.add_argument("--workflow", help="the whole name, or the last part of it")
            listing.add_argument("--limit", type=count, default=50)
            actions.add_parser("show", help="everything about one").add_argument("id")
        resume = hooks.add_parser("resume", help="answer one")
        resume.add_argument("id")
        answer = resume.add_mutually_exclusive_group(required=True)
        answer.add_argument("--approve", action="store_true")
        answer.add_argument("--reject", action="store_true")
        answer.add_argument("--payload", help="the whole answer, as JSON")
        resume.add_argument("--comment", default="")
        resume.add_argument(
            "--as", dest="username", required=True, help="who answers; the rules hold for them"
        )
        for name in ("cancel", "retry"):
            action = runs.add_parser(name, help=f"{name} one")
            action.add_argument("id")
            action.add_argument("--reason", default="")
            action.add_argument("--as", dest="username", required=True, help="who does it")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"{options['thing']}_{options['action']}")(**options)
        except StepHooksError as error:
            raise CommandError(str(error)) from error

    # --- hooks ---

    def hooks_list(self, *, status: str | None, workflow: str | None, limit: int, **_: Any) -> None:
        hooks = Hook.objects.select_related("run").defer(
            "context", "payload", "description", "run__arguments"
        )
        if status == "waiting":
            hooks = hooks.waiting(timezone.now())
        elif status:
            hooks = hooks.filter(status=status)
        for hook in _of(hooks, workflow, "run__workflow").waiting_first()[:limit]:
            due = f"until {hook.expires_at:%Y-%m-%d %H:%M %Z}" if hook.expires_at else "no deadline"
            self.stdout.write(f"{hook.pk}  {hook.status:<9}  {due:<28}  {_line(hook)}  ({hook.run})")

    def hooks_show(self, *, id: str, **_: Any) -> None:
        hook = _get(Hook.objects.select_related("run"), id)
        self._table(
            question=str(hook),
            description=hook.description,
            id=str(hook.public_id),
            run=f"{hook.run} ({hook.call})",
            status=hook.status,
            asked=hook.created_at,
            until=hook.expires_at,
            settled=hook.settled_at,
            by=" by ".join(filter(None, [hook.channel, hook.answered_by_label])),
        )
        self._record(hook, "context")
        self._record(hook, "payload")

    def hooks_resume(self, *, id: str, username: str, payload: str | None, **options: Any) -> None:
        hook, user = _get(Hook.objects.select_related("run"), id), _user(username)
        decision = actions_for(user, hook)
        if not decision.may_answer:
            raise CommandError(decision.reason)
        answer: Any
        if payload is None:
            comment = options["comment"].strip()
            if options["reject"] and not comment:
                raise CommandError("To reject, say why: --comment '…'.")
            answer = verdict(hook, user, approved=options["approve"], comment=comment)
        else:
            try:
                answer = json.loads(payload)
            except (ValueError, RecursionError) as error:
                raise CommandError(f"--payload is not JSON: {error}.") from error
        resume_hook(hook.token, answer, by=user, channel="command")
        self.stdout.write(f"Answered: {_line(hook)}")

    # --- runs ---

    def runs_list(self, *, status: str | None, workflow: str | None, limit: int, **_: Any) -> None:
        runs = Run.objects.defer("arguments", "result", "error").order_by("-pk")
        if status:
            runs = runs.filter(status=status)
        for run in _of(runs, workflow, "workflow")[:limit]:
            self.stdout.write(
                f"{run.pk}  {run.status:<9}  {run.created_at:%Y-%m-%d %H:%M %Z}  {run.workflow}"
            )

    def runs_show(self, *, id: str, **_: Any) -> None:
        run = _get(Run.objects.select_related("started_by"), id)
        self._table(
            run=run.workflow,
            id=str(run.public_id),
            status=run.status,
            started=run.created_at,
            by=str(run.started_by or ""),
            due=run.due_at,
            finished=run.finished_at,
            turns=run.turn,
        )
        for name in ("arguments", "result", "error"):
            self._record(run, name)
        for event in run.events.defer("data"):
            self.stdout.write(f"  {event.created_at:%Y-%m-%d %H:%M:%S}  {event}")

    def runs_cancel(self, *, id: str, username: str, reason: str, **_: Any) -> None:
        run = cancel_run(_get(Run.objects, id), by=_allowed(username, "cancel_run"), reason=reason)
        self.stdout.write(f"Cancelled: {run}")

    def runs_retry(self, *, id: str, username: str, reason: str, **_: Any) -> None:
        run = retry_run(_get(Run.objects, id), by=_allowed(username, "retry_run"), reason=reason)
        self.stdout.write(f"Retried: {run}")

    # --- output ---

    def _table(self, **rows: Any) -> None:
        for name, value in rows.items():
            if value not in (None, ""):
                self.stdout.write(f"{name + ':':<13} {codec.printable(str(value))}")

    def _record(self, row: Any, name: str) -> None:
        try:
            value = getattr(row, name)
        except SerializationError as error:
            self._table(**{name: error})
        else:
            self._table(**{name: None if value is None else repr(codec.printable(value))})


def _line(hook: Hook) -> str:
    return str(codec.printable(str(hook)))


def _of(rows: Any, workflow: str | None, field: str) -> Any:
    if workflow is None:
        return rows
    return rows.filter(Q(**{field: workflow}) | Q(**{f"{field}__endswith": f".{workflow}"}))


def _get(rows: Any, id: str) -> Any:
    """By number or by public id."""
    try:
        wanted = {"pk": int(id)} if id.isdecimal() else {"public_id": UUID(id)}
    except ValueError:
        raise CommandError(f"{id!r} is neither a number nor a public id.") from None
    row = rows.filter(**wanted).first()
    if row is None:
        raise CommandError(f"There is no {rows.model._meta.verbose_name} {id}.")
    return row


def _user(username: str) -> Any:
    user_model = get_user_model()
    try:
        return user_model._default_manager.get_by_natural_key(username)
    except user_model.DoesNotExist:
        raise CommandError(f"There is no user {username!r}.") from None


def _allowed(username: str, permission: str) -> Any:
    user = _user(username)
    if not user.is_active or not has_permission(user, f"django_stephooks.{permission}", None):
        raise CommandError(
            f"{username} may not do that: it takes the permission django_stephooks.{permission}."
        )
    return user
