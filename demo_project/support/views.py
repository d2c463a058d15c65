"""The chat page, for readers without an account."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from django_stephooks.streaming import stream_url

from .chat import Refused, say
from .forms import MessageForm
from .models import Conversation

SUGGESTION = "My paper did not come this morning. May I have another one?"


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def conversation(request: HttpRequest, pk: UUID | None = None) -> HttpResponse:
    """A conversation, or a new one, which there is when something has been said."""
    found = Conversation() if pk is None else get_object_or_404(Conversation, pk=pk)
    form = MessageForm(request.POST or None, initial={} if pk else {"message": SUGGESTION})
    if request.method == "POST" and form.is_valid():
        if pk is None:
            found.save()
        try:
            say(found, form.cleaned_data["message"])
        except Refused as refused:
            form.add_error("message", str(refused))
        else:
            return redirect(found)
    exchanges = list(found.exchanges.select_related("run")) if pk else []
    last = exchanges[-1] if exchanges else None
    is_open = last is not None and last.is_open
    return render(
        request,
        "support/chat.html",
        {
            "conversation": found,
            "exchanges": exchanges,
            "form": form,
            "stream": stream_url(last.run) if is_open else "",
            # The credit for what is being answered may not be taken yet.
            "questions_left": found.credits - (is_open and not last.is_charged),
        },
        status=400 if form.errors else 200,
    )
