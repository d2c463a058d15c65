"""What the README shows works as it is shown."""

from __future__ import annotations

import json
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


def test_the_reference_of_settings_names_each_and_its_default():
    reference = Path(__file__).parents[2].joinpath("docs/reference/settings.md").read_text()
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (.*?) \|", reference, re.M))
    shown = {name: f"`{json.dumps(value)}`" for name, value in DEFAULTS.items()}
    shown |= {name: f"`{value!r}`" for name, value in DEFAULTS.items() if isinstance(value, bool)}
    # The longest one stands below the table.
    assert f"`API_THROTTLES` is {shown['API_THROTTLES']}" in reference
    assert rows == shown | {"API_THROTTLES": "see below"}
