"""The parts of the demo, each by itself; `make demo-check` drives the whole."""

from __future__ import annotations

import email
import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from django.core.mail import EmailMessage
from pytest_django import Settings

from demo_project.browser import Browser, Page, PageError
from demo_project.children import ROOT, Child, ChildFailed
from demo_project.mailbox import EmailBackend
from demo_project.newsroom import editing, manuscripts
from demo_project.places import demo_folder, free_port
from demo_project.process_tree import children_of

MakeChild = Callable[[str], Child]


# --- house style and fact check ---


@pytest.mark.parametrize(
    ("typed", "printed"),
    [
        ('"Well?"  said he -- "speak!"', "“Well?” said he—“speak!”"),
        ("'Tis the Captain's.", "‘Tis the Captain’s."),  # noqa: RUF001
        ("--\"'Ay,' said he.\"", "—“‘Ay,’ said he.”"),  # noqa: RUF001
    ],
)
def test_house_style_replaces_typewriter_punctuation(typed: str, printed: str) -> None:
    assert editing.house_style(typed) == printed


def test_house_style_of_a_text_in_house_style_changes_nothing() -> None:
    text = editing.house_style(manuscripts.VIRGINIA.text)
    assert editing.house_style(text) == text


def test_fact_check_finds_numbers_and_names_once_each() -> None:
    assert editing.find_facts(
        "Call me Ishmael. I sailed with Mr. Starbuck for forty-two days and 3,000 miles. "
        "Then Mr. Starbuck slept twenty hours, and so did Queequeg."
    ) == {
        "words": 24,
        "numbers": ["forty-two", "3,000", "twenty"],
        "names": ["Ishmael", "Mr. Starbuck", "Queequeg"],
    }


def test_first_word_of_a_sentence_is_no_name() -> None:
    assert editing.find_facts("Implacable weather. As I said: Mud.")["names"] == []


# --- mail ---


def test_each_mail_is_a_file_of_its_own(settings: Settings, tmp_path: Path) -> None:
    settings.MAIL_DIR = tmp_path / "mail"
    sent = EmailBackend(alias="default").send_messages(
        [EmailMessage(f"Nº {number}", "Fog.", "a@example.com", ["b@example.com"]) for number in "12"]
    )
    messages = [
        email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
        for file in (tmp_path / "mail").iterdir()
        if file.suffix == ".eml"
    ]
    assert sent == 2
    assert sorted(message["subject"] for message in messages) == ["Nº 1", "Nº 2"]


# --- places ---


def test_second_demo_gets_a_passing_folder_while_the_first_one_runs(tmp_path: Path) -> None:
    wanted = tmp_path / "demo"
    with demo_folder(wanted) as first, demo_folder(wanted) as second:
        assert first == wanted
        assert second != wanted
        assert second.is_dir()
    assert first.is_dir()
    assert not second.exists()
    with demo_folder(wanted) as again:
        assert again == wanted


def test_demo_folder_that_can_not_be_made_is_replaced_by_a_passing_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with demo_folder(tmp_path / "file" / "demo") as folder:
        assert folder.is_dir()


def test_port_that_somebody_listens_on_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        found = free_port(taken)
        assert found != taken
        socket.create_server(("127.0.0.1", found)).close()


# --- the browser ---

PAGE = """
<a href="/hook/7/">  Publish
  'Fog'? </a>
<form action="/search/"><input name="q"><input type="submit" value="Search"></form>
<form id="desk" method="post">
  <input type="hidden" name="csrfmiddlewaretoken" value="t0ken">
  <input type="checkbox" name="unchecked" value="1">
  <select name="policy"><option value="a">A</option><option value="b" selected>B</option></select>
  <select name="first"><option value="c">C</option><option value="d">D</option></select>
  <textarea name="text">
Mud &amp; fog.</textarea>
</form>
<input name="comment" form="desk">
<button form="desk" name="decision" value="reject" formaction="/answer/">Reject</button>
<button form="desk" name="decision" value="approve" formaction="/answer/">Approve</button>
"""


def test_page_knows_its_links_by_what_they_say() -> None:
    page = Page("http://desk/list/", PAGE)
    assert page.link("Publish 'Fog'?") == "http://desk/hook/7/"
    with pytest.raises(PageError, match="No link on http://desk/list/ says 'Mud'"):
        page.link("Mud")


def test_form_is_filled_with_what_the_page_has_for_it() -> None:
    search, desk = Page("http://desk/", PAGE).forms
    assert search.fields == {"q": ""}
    assert desk.fields == {
        "csrfmiddlewaretoken": "t0ken",
        "policy": "b",
        "first": "c",
        "text": "Mud & fog.",
        "comment": "",
    }
    assert [(button.value, button.text) for button in desk.buttons] == [
        ("reject", "Reject"),
        ("approve", "Approve"),
    ]


@pytest.fixture
def echo_site() -> Iterator[str]:
    """A site whose front page is PAGE, that echoes what is posted, and refuses the rest."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200 if self.path == "/" else 404, PAGE)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(200, f"{self.path} {body}")

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_pressing_a_button_sends_the_form_where_the_button_says(echo_site: str) -> None:
    browser = Browser(echo_site)
    browser.open("/")
    answer = browser.fill(press=("decision", "approve"), comment="Fine").text
    assert answer.startswith("/answer/ csrfmiddlewaretoken=t0ken&")
    assert answer.endswith("&comment=Fine&decision=approve")


def test_missing_form_and_an_error_page_are_told_apart(echo_site: str) -> None:
    browser = Browser(echo_site)
    browser.open("/")
    with pytest.raises(PageError, match=r"asks for \['headline'\]"):
        browser.fill(headline="Fog")
    with pytest.raises(PageError, match="/nowhere/ answered 404"):
        browser.open("/nowhere/")


# --- children ---


@pytest.fixture
def make_child(tmp_path: Path) -> Iterator[MakeChild]:
    """Make a child that runs a piece of Python inside Django."""
    made: list[Child] = []

    def make(code: str) -> Child:
        child = Child(
            "child",
            ["shell", "--no-imports", "-c", code],
            environment={"DEMO_DIR": str(tmp_path), "DEMO_REDIS_SOCKET": ""},
            logs=tmp_path,
            show=lambda name, line: lines.append(f"{name}: {line}"),
        )
        made.append(child)
        return child

    lines: list[str] = []
    make.lines = lines  # type: ignore[attr-defined]
    yield make
    for child in made:
        child.stop()


def wait_until(came_true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not came_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_child_is_shown_line_by_line_and_logged(make_child: MakeChild) -> None:
    child = make_child("print('Fog up the river.'); print('Fog down the river.')")
    child.run(timeout=60)
    assert make_child.lines == [  # type: ignore[attr-defined]
        "child: Fog up the river.",
        "child: Fog down the river.",
    ]
    assert child.tail(1) == "    child | Fog down the river."


def test_failed_errand_is_reported_with_its_last_words(make_child: MakeChild) -> None:
    with pytest.raises(ChildFailed, match=r"child failed:\n(.*\n)*.*No ink"):
        make_child("raise SystemExit('No ink')").run(timeout=60)


def test_killed_child_is_started_again(make_child: MakeChild) -> None:
    child = make_child("import time; print('here'); time.sleep(600)")
    child.start()
    first = child.pid
    assert not child.keep_running()
    os.kill(first, signal.SIGKILL)
    wait_until(child.keep_running)
    assert child.pid != first
    assert child.ended() is None


def test_child_that_never_lives_long_is_given_up(
    make_child: MakeChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine is.
    monkeypatch.setattr("demo_project.children.SHORT_LIFE", 600)
    child = make_child("raise SystemExit('No ink')")
    child.start()

    def keep_running_until_given_up() -> None:
        while True:
            wait_until(lambda: child.ended() is not None)
            child.keep_running()

    with pytest.raises(ChildFailed, match="ends whenever it is started"):
        keep_running_until_given_up()


def test_child_that_does_not_listen_is_stopped_by_force(make_child: MakeChild) -> None:
    child = make_child(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);print('deaf'); time.sleep(600)"
    )
    child.start()
    wait_until(lambda: make_child.lines)  # type: ignore[attr-defined]
    child.ask_to_stop()
    child.stop(patience=0.1)
    assert child.ended() == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of a parent's death")
def test_killed_launcher_takes_its_children_and_their_forks_with_it(tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    # The child and its fork both keep the pipe open while they live.
    forking = f"import os, time; pipe = open({str(fifo)!r}, 'w'); os.fork(); time.sleep(600)"
    launcher = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import pathlib, sys, time; from demo_project.children import Child;"
            "folder = sys.argv[1];"
            "Child('child', ['shell', '--no-imports', '-c', sys.argv[2]],"
            " environment={'DEMO_DIR': folder}, logs=pathlib.Path(folder), show=print).start();"
            "time.sleep(600)",
            str(tmp_path),
            forking,
        ],
        cwd=ROOT,
    )
    try:
        with fifo.open() as pipe:
            wait_until(lambda: [fork for pid in children_of(launcher.pid) for fork in children_of(pid)])
            assert select.select([pipe], [], [], 0)[0] == []
            launcher.kill()
            assert select.select([pipe], [], [], 60)[0] == [pipe]
            assert pipe.read() == ""
    finally:
        launcher.kill()
        launcher.wait()


# --- the seed ---


def test_seed_reaches_every_state_a_run_can_wait_or_end_in(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "DEMO_DIR": str(tmp_path),
        "DEMO_REDIS_SOCKET": "",
        "DJANGO_SETTINGS_MODULE": "demo_project.settings",
    }

    def manage(*command: str) -> None:
        subprocess.run([sys.executable, "manage.py", *command], cwd=ROOT, env=environment, check=True)

    manage("migrate", "--no-input", "--verbosity", "0")
    manage("seed_newsroom")
    # Again, as every later start of the demo does.
    manage("seed_newsroom", "--if-empty")

    with sqlite3.connect(tmp_path / "newsroom.sqlite3") as database:
        # The mails go out by runs of their own.
        own = "SELECT status FROM django_stephooks_run WHERE workflow NOT LIKE 'stephooks.%'"
        runs = Counter(row[0] for row in database.execute(own))
        hooks = Counter(row[0] for row in database.execute("SELECT status FROM django_stephooks_hook"))
        stories = Counter(row[0] for row in database.execute("SELECT status FROM newsroom_story"))
        retrying = database.execute(
            "SELECT count(*) FROM django_stephooks_run WHERE status = 'suspended' AND due_at IS NOT NULL"
        ).fetchone()[0]
    database.close()
    assert runs == {"completed": 5, "suspended": 4, "failed": 1, "cancelled": 1}
    assert hooks == {"received": 3, "expired": 2, "pending": 3, "cancelled": 1}
    assert stories == {"published": 3, "spiked": 2, "review": 4, "draft": 2}
    assert retrying == 1
    assert len(list((tmp_path / "mail").glob("*.eml"))) == 9
