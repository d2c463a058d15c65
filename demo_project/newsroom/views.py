"""The newsroom's public pages, and the desk of its authors."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from . import desk
from .forms import StoryForm
from .manuscripts import DRAWER
from .models import Story


def front(request: HttpRequest) -> HttpResponse:
    """What is published; and for those who work here, what is on its way."""
    stories = Story.objects.select_related("run")
    published = stories.filter(status=Story.Status.PUBLISHED)
    others = stories.exclude(status=Story.Status.PUBLISHED).order_by("-created_at")
    if not request.user.is_authenticated:
        others = others.none()
    elif not request.user.is_staff:
        others = others.filter(author=request.user)
    return render(request, "newsroom/front.html", {"published": published, "others": others})


def story(request: HttpRequest, pk: int) -> HttpResponse:
    """One story: its text, where it is, and its log."""
    found = get_object_or_404(Story.objects.select_related("run", "author"), pk=pk)
    mine = found.author == request.user
    if found.status != Story.Status.PUBLISHED and not (mine or request.user.is_staff):
        raise Http404
    return render(
        request,
        "newsroom/story.html",
        {
            "story": found,
            "log": found.log.all() if mine or request.user.is_staff else (),
            "may_withdraw": mine and not found.is_over,
        },
    )


@login_required
def start(request: HttpRequest) -> HttpResponse:
    """Hand in a story; the form comes with a manuscript from the drawer."""
    if request.method == "POST":
        form = StoryForm(request.POST)
        if form.is_valid():
            form.instance.author = request.user
            return redirect(desk.submit(form.save(commit=False)))
    else:
        manuscript = DRAWER[Story.objects.count() % len(DRAWER)]
        form = StoryForm(
            initial={
                "headline": manuscript.headline,
                "byline": manuscript.byline,
                "submitted": manuscript.text,
            }
        )
    return render(request, "newsroom/start.html", {"form": form})


@login_required
@require_POST
def withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    """Take one's own story back while it is on its way."""
    found = get_object_or_404(Story.objects.select_related("run"), pk=pk, author=request.user)
    if found.is_over:
        messages.warning(request, "It is too late to withdraw this story.")
    else:
        desk.withdraw(found, by=request.user, reason="The author withdrew it.")
    return redirect(found)
