"""What changed between two sides: which words, which rows, and what is folded."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from django_stephooks.review import diff
from django_stephooks.review.diff import compare, compare_texts
from tests.factories import HookFactory

from .pages import UNREADABLE, address, text_of


def pieces(old: str, new: str) -> list[tuple[str, str]]:
    return [(piece.kind, piece.text) for piece in compare_texts(old, new)]


def rebuilt(old: str, new: str) -> tuple[str, str]:
    """Both sides, put together from the pieces."""
    found = compare_texts(old, new)
    sides = [("ins", "del"), ("del", "ins")]
    before, after = ("".join(p.text for p in found if p.kind != left_out[0]) for left_out in sides)
    return before, after


def test_words_that_changed() -> None:
    assert pieces("It costs 10 million.", "It costs 12 million.") == [
        ("same", "It costs "),
        ("del", "10"),
        ("ins", "12"),
        ("same", " million."),
    ]


def test_neighbouring_words_change_together() -> None:
    assert pieces("We saw a red car there.", "We saw two blue cars there.")[1:3] == [
        ("del", "a red car"),
        ("ins", "two blue cars"),
    ]


def test_texts_with_nothing_in_common_stand_one_after_the_other() -> None:
    assert pieces("Yes, of course", "no") == [("del", "Yes, of course"), ("ins", "no")]


def test_unchanged_lines_are_folded_except_next_to_a_change() -> None:
    lines = [f"line {number}\n" for number in range(20)]
    found = compare_texts("".join(lines), "".join([*lines[:10], "new\n", *lines[10:]]))
    assert [piece.kind for piece in found] == ["fold", "same", "ins", "same", "fold"]
    assert found[0].summary == "8 unchanged lines"
    assert found[1].text == "line 8\nline 9\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc", "a\nc\nd\n"),
        ("word " * 3000, "word " * 2999 + "end"),
        ("line\n" * 4000, "line\n" * 3999),
        ("a\r\nb", "a\nb"),
        ("x", "x\n" * 50),
        (" a  b ", "a b"),
    ],
)
def test_no_character_is_lost(old: str, new: str) -> None:
    assert rebuilt(old, new) == (old, new)


@pytest.mark.parametrize(
    ("before", "after", "changed", "same"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, ["b"], ["a"]),
        ({"a": 1}, {"b": 1}, ["b", "a"], []),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, ["a / c"], ["a / b"]),
        ({"a": 1}, {"a": True}, ["a"], []),
        ({"a": [1, 2]}, {"a": [1, 2]}, [], ["a"]),
        ("old", "new", [""], []),
        (None, {"a": 1}, [""], []),
        ({}, {}, [], [""]),
    ],
)
def test_rows_that_changed(before: Any, after: Any, changed: list[str], same: list[str]) -> None:
    found = compare(before, after)
    assert [row.name for row in found.rows] == changed
    assert [name for name, _ in found.same] == same


def test_row_that_came_or_went_has_one_side() -> None:
    gone, come = sorted(compare({"a": 1}, {"b": 2}).rows, key=lambda row: row.name)
    assert (gone.before and gone.before.text, gone.after) == ("1", None)
    assert (come.before, come.after and come.after.text) == (None, "2")


def test_lists_of_words_are_compared_word_by_word() -> None:
    (row,) = compare({"tags": ["a", "b", "c"]}, {"tags": ["a", "c"]}).rows
    assert [piece.text for piece in row.pieces if piece.kind == "del"] == ["b\n"]


def test_endless_tables_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff, "MAX_ITEMS", 3)
    assert compare({n: n for n in range(5)}, {n: n for n in range(5)}).more == 2


# On the page


def html_of(browser: Client, **context: Any) -> str:
    return str(browser.get(address(HookFactory(context=context))).content.decode())


@pytest.mark.django_db
def test_page_marks_what_changed_for_eyes_and_ears(browser: Client) -> None:
    html = html_of(browser, before={"fee": "It costs 10."}, after={"fee": "It costs 12."}, words=100)
    assert '<del><span class="stephooks-hidden">removed: </span>10</del>' in html
    assert '<ins><span class="stephooks-hidden">added: </span>12</ins>' in html
    assert "<dt>words</dt>" in html


@pytest.mark.django_db
def test_unchanged_rows_are_folded(browser: Client) -> None:
    html = html_of(browser, before={"a": 1, "b": 2, "c": 3}, after={"a": 1, "b": 2, "c": {"d": 4}})
    summary = html.partition("unchanged rows</summary>")
    assert summary[0].endswith("2 ")
    assert "<dt>a</dt>" in summary[2]
    assert '<ins class="stephooks-side">' in html
    assert "Nothing changes." in html_of(browser, before="x", after="x")


@pytest.mark.django_db
def test_raw_context_can_be_opened_and_copied(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_stephooks.review.context.MAX_RAW", 12)
    html = html_of(browser, a="</pre><script>")
    assert '<pre id="stephooks-raw" tabindex="0">{\n  &quot;a&quot;: &quot;&lt;/</pre>' in html
    assert "Only its beginning is shown." in html
    assert 'data-stephooks-copy="stephooks-raw"' in html


@pytest.mark.django_db
def test_raw_shows_what_can_not_be_read_otherwise(browser: Client) -> None:
    text = text_of(browser.get(address(HookFactory(context=UNREADABLE))))
    assert '"c": "gone:Gone"' in text
