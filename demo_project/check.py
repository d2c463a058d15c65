"""``python -m demo_project --check``: the demo proves itself, with nobody at the keyboard.

What people do goes over HTTP, through the forms of the pages. What came of it is read from the
database, by a Django set up in this process beside the running ones.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from .browser import Browser, PageError
from .children import ChildFailed, Show
from .embedded_redis import RedisUnavailableError
from .launcher import Demo, stopping_in_order, terminal_show
from .process_tree import children_of

if TYPE_CHECKING:
    from rq.job import Job

    from django_stephooks.models import Run

    from .newsroom.models import Story

PATIENCE = 60.0
# A slow fact check: long enough to be killed in its middle, short enough to be waited for.
SLOW_SECONDS = 4.0
STEPS_OF_A_PRINTED_STORY = ["prepare_draft", "check_facts", "editor_review", "publish"]

T = TypeVar("T")


class CheckFailed(Exception):
    """Something did not come out as it should."""


class Check:
    """The six things that must be true of a running demo, in order; each returns its line."""

    def __init__(self, demo: Demo) -> None:
        self.demo = demo
        self.author = Browser(demo.url)
        self.author.open("start/")
        self.author.log_in("author")
        self.editor = Browser(demo.url)
        self.approved: Story | None = None
        # Names of the children that are ours to kill; any other that ends is a failure.
        self.killed: list[str] = []

    @property
    def lines(self) -> tuple[Callable[[], str], ...]:
        return (
            self.a_waiting_story_leaves_the_worker_free,
            self.the_editor_approves_in_the_admin,
            self.the_approved_story_is_published,
            self.an_unanswered_story_takes_its_branch_at_the_deadline,
            self.a_story_survives_the_death_of_its_worker,
            self.the_clerk_asks_a_colleague_and_the_reader_is_answered,
        )

    def a_waiting_story_leaves_the_worker_free(self) -> str:
        story = self.approved = self._start_a_story("The check's first story")
        self._wait(lambda: self._waits(story), "the story to stop for its editor")
        at_work = set(story.log.values_list("process_id", flat=True))
        _expect(self.demo.web.pid not in at_work, "the web server did the worker's work")
        job = self._enqueue_an_ordinary_job()
        self._wait(lambda: job.get_status() == "finished", "the worker to run another job")
        worker = job.return_value()
        _expect(worker == self.demo.worker.pid, f"the job ran in {worker}, not in our worker")
        _expect(self._waits(story), "the story did not wait for its editor")
        return f"a story stopped for its editor, and worker {worker} then ran another job"

    def the_editor_approves_in_the_admin(self) -> str:
        story = self._the_approved_story()
        self.editor.open("/admin/django_stephooks/hook/")
        self.editor.log_in("editor")
        self._approve(story)
        hook = _run(story).hooks.get()
        _expect(hook.status == "received", f"the hook is {hook.status}")
        _expect(hook.payload["approved"] is True, f"the answer is {hook.payload}")
        who = hook.answered_by and hook.answered_by.get_username()
        _expect(who == "editor", f"the answer is by {who}")
        return f"the editor logged in over HTTP and approved it in the admin: {hook.payload}"

    def the_approved_story_is_published(self) -> str:
        story = self._the_approved_story()
        self._wait(lambda: self._status(story) == "completed", "the story to be published")
        self._expect_done(story, STEPS_OF_A_PRINTED_STORY)
        page = Browser(self.demo.url).open("/")
        _expect(story.headline in page.text, "the story is not on the front page")
        return "it was published: anybody can read it on the front page"

    def an_unanswered_story_takes_its_branch_at_the_deadline(self) -> str:
        story = self._start_a_story("The check's second story", review_seconds="3", policy="spike")
        self._wait(lambda: self._status(story) == "completed", "the deadline to pass")
        hook = _run(story).hooks.get()
        _expect(hook.status == "expired", f"the hook is {hook.status}")
        self._expect_done(story, ["prepare_draft", "check_facts", "editor_review", "spike"])
        late = (hook.settled_at - hook.expires_at).total_seconds()
        return f"nobody answered a second one: {late:.1f} s after its deadline it was spiked"

    def a_story_survives_the_death_of_its_worker(self) -> str:
        story = self._start_a_story("The check's third story", trouble="slow")
        self._wait(
            lambda: story.log.filter(step="check_facts", mark="began").exists(),
            "the fact check to begin",
        )
        self.killed = ["worker"]
        killed = [self.demo.worker.pid, *children_of(self.demo.worker.pid)]
        _expect(len(killed) > 1, "the worker has no work horse in the middle of a step")
        # Not by group: each work horse leads a group of its own.
        for pid in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _expect(
            not story.log.filter(step="check_facts", mark="done").exists(),
            "the step was over before the worker was killed",
        )
        self._wait(lambda: self._waits(story), "another worker to take over")
        _expect(self.demo.worker.pid != killed[0], "the worker was not replaced")
        begun = story.log.filter(step="check_facts", mark="began").count()
        _expect(begun == 2, f"the interrupted step was begun {begun} times, not twice")
        self._approve(story)
        self._wait(lambda: self._status(story) == "completed", "the story to be published")
        self._expect_done(story, STEPS_OF_A_PRINTED_STORY)
        prepared = story.log.filter(step="prepare_draft", mark="began").count()
        _expect(prepared == 1, f"a recorded step was begun {prepared} times")
        pids = " ".join(map(str, killed))
        return f"a third one survived kill -9 {pids} in mid-step, with no recorded step repeated"

    def the_clerk_asks_a_colleague_and_the_reader_is_answered(self) -> str:
        from django_stephooks.models import Run
        from django_stephooks.streaming import stream_url

        reader, question, answer = Browser(self.demo.url), "Where is the check's paper?", "Under the mat."
        reader.open("/")
        reader.follow("Ask us")
        reader.fill(message=question)
        run = Run.objects.get(workflow__endswith=".support.workflows.reply")

        def waits() -> bool:
            run.refresh_from_db()
            _expect(run.status != "failed", f"the clerk's run failed: {run.error}")
            return run.status == "suspended" and run.hooks.pending().exists()

        self._wait(waits, "the clerk to ask a colleague")
        self.editor.open("/admin/django_stephooks/hook/")
        self.editor.follow(question)
        self.editor.fill(answer=answer)
        self._wait(lambda: answer in reader.open("").text, "the colleague's answer to reach the reader")
        self._wait(lambda: Run.objects.get(pk=run.pk).status == "completed", "the clerk to finish")
        stream = Browser(self.demo.url).open(stream_url(run)).text
        _expect(stream.count(answer) == 1, f"the stream has the answer {stream.count(answer)} times")
        _expect("4 questions left" in reader.open("").text, "the question did not cost one credit")
        return "an agent asked a colleague, and the reader, not logged in, was told: one credit"

    def _the_approved_story(self) -> Story:
        _expect(self.approved is not None, "there is no first story")
        return self.approved  # type: ignore[return-value]

    def _start_a_story(self, headline: str, **answers: str) -> Story:
        from .newsroom.models import Story

        self.author.open("/")
        self.author.follow("Start a story")
        self.author.fill(headline=headline, **answers)
        return Story.objects.get(headline=headline)

    def _approve(self, story: Story) -> None:
        self.editor.open("/admin/django_stephooks/hook/")
        self.editor.follow(story.headline)
        self.editor.fill(press=("decision", "approve"), comment="Checked.")

    def _enqueue_an_ordinary_job(self) -> Job:
        import django_rq

        from .newsroom.jobs import wind_the_clock

        return django_rq.get_queue("default").enqueue(wind_the_clock)

    def _status(self, story: Story) -> str:
        status = _run(story).status
        _expect(status not in {"failed", "cancelled"}, f"the run is {status}: {_run(story).error}")
        return status

    def _waits(self, story: Story) -> bool:
        """The story's run is suspended, and its editor has been asked."""
        return self._status(story) == "suspended" and _run(story).hooks.pending().exists()

    def _expect_done(self, story: Story, steps: list[str]) -> None:
        done = list(story.log.filter(mark="done").values_list("step", flat=True))
        _expect(done == steps, f"steps done: {done}; expected: {steps}")

    def _wait(self, came_true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not came_true():
            _expect(time.monotonic() < deadline, f"waited {PATIENCE:.0f} s in vain for {what}")
            restarted = [child.name for child in self.demo.supervise()]
            _expect(not restarted or restarted == self.killed, f"ended by themselves: {restarted}")
            time.sleep(0.1)


def _expect(true: bool, otherwise: str) -> None:
    if not true:
        raise CheckFailed(otherwise)


def _run(story: Story) -> Run:
    from django_stephooks.models import Run

    return Run.objects.get(story=story)


def main(*, verbose: bool = False) -> int:
    """Check a demo of its own in a new directory; 0 only if every line is ok."""
    show: Show = terminal_show() if verbose else lambda name, line: None
    failed, demo = "opening the newsroom", None
    with tempfile.TemporaryDirectory(prefix="newsroom-check-") as folder, stopping_in_order():
        try:
            demo = Demo(Path(folder), port=0, show=show, slow=SLOW_SECONDS)
            with demo:
                _set_up_django(demo)
                check = Check(demo)
                for line in check.lines:
                    failed = line.__name__.strip("_").replace("_", " ")
                    print(f"ok     {line()}", flush=True)
            return 0
        except KeyboardInterrupt:
            print(f"FAILED {failed}: interrupted", flush=True)
        except (CheckFailed, ChildFailed, PageError, RedisUnavailableError) as error:
            print(f"FAILED {failed}: {error}", flush=True)
        except Exception:  # noqa: BLE001 -- whatever it is, the children's last words are wanted
            print(f"FAILED {failed}:\n{traceback.format_exc()}", flush=True)
        for child in demo.children if demo else ():
            print(child.tail())
        return 1


def _set_up_django(demo: Demo) -> None:
    os.environ.update(demo.environment, DJANGO_SETTINGS_MODULE="demo_project.settings")
    import django

    django.setup()
