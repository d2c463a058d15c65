"""A storm can be repeated from its seed, and leaves nothing out."""

from __future__ import annotations

from .plan import KINDS, plan


def test_a_seed_has_one_plan() -> None:
    assert plan(7, 60) == plan(7, 60)
    assert plan(7, 60) != plan(8, 60)


def test_a_longer_storm_begins_like_a_shorter_one() -> None:
    short, long = plan(7, 60), plan(7, 600)
    assert long[: len(short) - 1] == short[:-1]


def test_a_minute_is_enough_for_every_kind() -> None:
    for seed in range(100):
        assert {fault.kind for fault in plan(seed, 60)} == set(KINDS)


def test_last_of_all_a_bell_is_lost() -> None:
    (*before, last) = plan(7, 60)
    assert last.kind == "bell lost"
    assert max(fault.at for fault in before) < 60 > last.at
