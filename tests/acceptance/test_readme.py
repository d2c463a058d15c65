"""What the README shows works as it is shown."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_stephooks import resume_hook
from django_stephooks.conf import DEFAULTS
from django_stephooks.models import Hook, Run

README = Path(__file__).parents[2].joinpath("README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.fixture
def example() -> Iterator[types.ModuleType]:
    module = types.ModuleType("readme_workflows")
    sys.modules[module.__name__] = module
    exec(compile(BLOCKS[0], "README.md", "exec"), module.__dict__)
    yield module
    del sys.modules[module.__name__]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("approved", "result"), [(True, "published"), (False, "spiked")])
def test_the_example_stops_for_its_editor_and_goes_on(example, approved, result):
    exec(compile(BLOCKS[1], "README.md", "exec"), example.__dict__)
    run = Run.objects.get()
    assert run.status == Run.Status.SUSPENDED
    hook = Hook.objects.get()
    assert hook.title == "Publish 'Harbor tunnel delayed again'?"

    resume_hook(hook.token, {"approved": approved, "comment": "", "reviewer": "dana"})

    run.refresh_from_db()
    assert (run.status, run.result) == (Run.Status.COMPLETED, result)


def test_the_example_is_short():
    assert len(BLOCKS[0].strip().splitlines()) <= 25


def test_the_table_of_settings_names_real_ones_and_their_defaults():
    rows = re.findall(r"^\| `([A-Z_]+)` \| `(.*?)` \|", README, re.M)
    assert rows
    for name, default in rows:
        assert repr(DEFAULTS[name]).replace("'", '"') == default, name
