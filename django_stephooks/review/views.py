"""The page behind a personal link: what is asked, and the two buttons that answer it.

GET, HEAD and OPTIONS change nothing: mail scanners open every link. What a POST must prove is told
in `forgery`. Whatever became of a link, its page is a kind one with 404, 410 or 403.
"""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.db import connections
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.http.request import QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt

from django_stephooks.codec import printable
from django_stephooks.conf import app_settings
from django_stephooks.exceptions import (
    HookChangedError,
    HookError,
    InvalidTokenError,
    LinkRevokedError,
    NotAllowedError,
    StepHooksError,
)
from django_stephooks.links import URL_NAME, Link
from django_stephooks.models import Hook
from django_stephooks.services.digest import digest_of
from django_stephooks.services.hooks import resume_hook
from django_stephooks.services.links import Addressee, addressee_of, open_link
from django_stephooks.services.rules import approval, not_allowed, refusal

from .answers import kindly
from .context import read_context
from .forgery import is_from_elsewhere, make_stamp, read_stamp
from .forms import answer_form
from .throttle import wait_for
from .values import read

logger = logging.getLogger("django_stephooks.review")

METHODS = ("GET", "HEAD", "OPTIONS", "POST")


@csrf_exempt
def review(request: HttpRequest, text: str) -> HttpResponse:
    """Show the question that a link leads to, and take its answer."""
    try:
        response = _respond(request, text)
    except Exception:  # whatever it is, such as a database that is away
        # Django would log it together with the address, and a link belongs in no log.
        logger.exception("The page of a link could not be shown.")
        _undo_the_request()
        response = _message(
            request,
            503,
            _("This does not work right now"),
            _("Open the link again in a while. It will say whether your answer has arrived."),
        )
    headers = {
        "Cache-Control": "no-store",
        "Referrer-Policy": "same-origin",
        "X-Robots-Tag": "noindex, nofollow",
        "X-Frame-Options": "DENY",
        "Content-Security-Policy": _content_policy(),
    }
    for name, value in headers.items():
        response.headers.setdefault(name, value)
    # Django logs the path of every error, likewise.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def _undo_the_request() -> None:
    """What Django does for an exception that leaves a view, under ATOMIC_REQUESTS."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block and connection.settings_dict["ATOMIC_REQUESTS"]:
            connection.set_rollback(True)


def _content_policy() -> str:
    parts = urlsplit(settings.STATIC_URL or "")
    own = f"'self' {parts.scheme or 'https'}://{parts.netloc}" if parts.netloc else "'self'"
    return (
        f"default-src {own}; img-src {own} data:; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    )


def _respond(request: HttpRequest, text: str) -> HttpResponse:
    if request.method not in METHODS:
        return HttpResponseNotAllowed(METHODS)
    if request.method == "OPTIONS":
        return HttpResponse(headers={"Allow": ", ".join(METHODS)})
    try:
        data = _posted(request)
    except RequestDataTooBig:
        return _message(
            request,
            413,
            _("That was too much"),
            _("What you sent is longer than this page takes. Nothing was stored: go back and shorten it."),
        )
    except (BadRequest, MultiPartParserError, SuspiciousOperation, UnreadablePostError):
        return _message(
            request, 400, _("That did not arrive whole"), _("Nothing was stored: go back and send it again.")
        )
    try:
        hook, link = open_link(text)
    except InvalidTokenError as error:
        return _too_often(request, "") or _no_link(request, error)
    return _too_often(request, link.token) or Visit(request, hook, link).respond(data)


def _posted(request: HttpRequest) -> QueryDict | None:
    """The form that was sent, read before anything else; RequestDataTooBig if it is too long to be one."""
    if request.method != "POST":
        return None
    # Each byte of a payload may take three in a form.
    cap = 3 * app_settings.MAX_PAYLOAD_BYTES + 16 * 1024
    length = str(request.META.get("CONTENT_LENGTH") or "")
    if not length.isdecimal():
        raise BadRequest("A form says how long it is.")
    if int(length) > cap:
        raise RequestDataTooBig("The form is too long.")
    return request.POST


def _too_often(request: HttpRequest, what: str) -> HttpResponse | None:
    if seconds := wait_for(request, what):
        response = _message(
            request,
            429,
            _("Too often"),
            _("This link was opened too often in a short time. Wait a little, then try again."),
        )
        response["Retry-After"] = str(seconds)
        return response
    return None


def _no_link(request: HttpRequest, error: InvalidTokenError) -> HttpResponse:
    if isinstance(error, LinkRevokedError):
        return _message(
            request,
            error.status_code,
            _("This link does not work any more"),
            _("It was revoked. If a newer message was sent to you, open the link in that one."),
        )
    return _message(
        request,
        error.status_code,
        _("This link does not work"),
        _(
            "Perhaps a part of it was lost on its way. Open it from the message again, or copy the whole "
            "address from there. If that does not help, ask for a new link."
        ),
    )


def _message(request: HttpRequest, status: int, title: str, text: str, **context: Any) -> HttpResponse:
    context = {"title": title, "text": text, **context}
    return render(request, "django_stephooks/link/message.html", context, status=status)


class Visit:
    """One request for the page of a link that is valid."""

    def __init__(self, request: HttpRequest, hook: Hook, link: Link) -> None:
        self.request, self.hook, self.link = request, hook, link
        # The link as it was sent, whatever a mail program made of it.
        self.url = reverse(URL_NAME, args=[link.token])
        # Not asked otherwise: without a session there is no cookie.
        self.user: Any = request.user if app_settings.LINK_REQUIRES_LOGIN else None

    def respond(self, data: QueryDict | None) -> HttpResponse:
        if self.user is not None and not self.user.is_authenticated:
            return self._ask_to_log_in(data)
        forbidden = not_allowed(self.addressee, self.hook, self.hook.run) or (
            not_allowed(self.user, self.hook, self.hook.run) if self.user is not None else None
        )
        if forbidden is not None:
            return self._forbid(forbidden)
        if data is None:
            return self.page()
        if is_from_elsewhere(self.request):
            text = _("This form was not sent from its own page.")
            return self._message(403, _("Nothing was decided"), text)
        return self.answer(data)

    @property
    def name(self) -> str:
        """Who the payload says that answered."""
        return self.user.get_username() if self.user is not None else self.link.recipient

    @cached_property
    def addressee(self) -> Addressee:
        return addressee_of(self.hook, address=self.link.recipient, user_id=self.link.user_id)

    def answer(self, data: QueryDict) -> HttpResponse:
        form = answer_form(self.hook, self.name, data)
        if refusal(self.hook, self.hook.run, timezone.now()):
            return self.page(form)
        seen = read_stamp(data.get("stamp"), self.link, self.user)
        if seen is None:
            # Nothing of it is shown: another site may have written it.
            return self.page(status=403, notice=_("Nothing was decided yet. Look at it here, and choose."))
        if not form.is_valid():
            return self.page(form, status=400)
        try:
            resume_hook(
                self.hook.token,
                form.payload(),
                by=self.addressee if self.user is None else self.user,
                channel="link",
                seen=seen,
                note={"link": self.link.recipient},
            )
        except NotAllowedError as error:
            return self._forbid(error)
        except StepHooksError as error:
            return self._not_taken(form, error)
        self._look_again()
        return self._thank()

    def _not_taken(self, form: Any, error: StepHooksError) -> HttpResponse:
        if isinstance(error, InvalidTokenError):
            return _no_link(self.request, error)
        self._look_again()
        if isinstance(error, HookChangedError):
            notice = _("What is asked has changed since you opened this page. Look at it again, and choose.")
            return self.page(form, status=error.status_code, notice=notice)
        if isinstance(error, HookError):
            return self.page(form)
        if form.refuse(error):
            return self.page(form, status=error.status_code)
        # The site's own fault, such as a payload schema that is gone.
        logger.error("Hook %s can not be answered: %s", self.hook.pk, error)
        notice = _(
            "This can not be answered right now, and nothing was stored. Please tell whoever asked you."
        )
        return self.page(form, status=503, notice=notice)

    def _look_again(self) -> None:
        """Before what became of it is shown."""
        self.hook = Hook.objects.using(self.hook._state.db).select_related("run").get(pk=self.hook.pk)

    def page(self, form: Any = None, *, status: int = 200, notice: str = "") -> HttpResponse:
        """What is asked, with the form; or, without it, what became of it (410) and what was typed."""
        hook, now = self.hook, timezone.now()
        settled = refusal(hook, hook.run, now)
        typed = form.typed() if form is not None and settled else ""
        context = {
            "title": printable(str(hook)),
            "hook": hook,
            "description": printable(hook.description),
            "context": read_context(hook),
            "started_by": hook.run.started_by,
            "now": now,
            "settled": kindly(type(settled), str(settled), hook) if settled else "",
            "notice": notice,
            "form": None if settled else form or answer_form(hook, self.name),
            "typed": printable(typed),
            "recipient": self.link.recipient,
            "url": self.url,
            "stamp": make_stamp(self.link, self.user, digest_of(hook)),
        }
        return render(
            self.request, "django_stephooks/link/page.html", context, status=410 if settled else status
        )

    def _thank(self) -> HttpResponse:
        decided = {
            True: _("You approved this."),
            False: _("You rejected this."),
            None: _("Your answer was stored."),
        }
        context = {
            "title": printable(str(self.hook)),
            "hook": self.hook,
            "decided": decided[approval(self.hook)],
            "payload": read(self.hook, "payload"),
            "recipient": self.link.recipient,
        }
        return render(self.request, "django_stephooks/link/thanks.html", context)

    def _ask_to_log_in(self, data: QueryDict | None) -> HttpResponse:
        to_login = redirect_to_login(self.url)
        if data is None:
            return to_login
        return self._message(
            403,
            _("Log in first"),
            _("Nothing was decided: you are not logged in any more."),
            url=to_login["Location"],
            url_text=_("Log in"),
            typed=printable(answer_form(self.hook, self.name, data).typed()),
        )

    def _forbid(self, error: NotAllowedError) -> HttpResponse:
        return _message(self.request, error.status_code, _("You can not answer this"), printable(str(error)))

    def _message(self, status: int, title: str, text: str, **context: Any) -> HttpResponse:
        context = {"url": self.url, "url_text": _("Open the page"), **context}
        return _message(self.request, status, title, text, **context)
