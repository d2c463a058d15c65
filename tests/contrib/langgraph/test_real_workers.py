"""An agent on real workers, which are killed: kill -9 while it waits, and again right after its answer."""

from __future__ import annotations

from django_stephooks.models import Run
from django_stephooks.testing import chunks
from tests.acceptance.sites import Site, answer

from . import workflows


def test_two_kills_cost_no_side_effect_no_call_of_the_model_and_no_chunk(support_site: Site):
    site = support_site
    first = site.worker()
    run = workflows.support.start(site.desk)
    site.until_status(run, Run.Status.SUSPENDED)
    assert sorted(site.notes()) == ["model 0", "refund 7 30"]
    first.kill()

    second = site.worker()
    answer(run, "They may.", name="agent")
    site.until_noted("at go")
    second.kill()
    assert sorted(site.notes()) == ["at go", "model 0", "refund 7 30"]

    site.open_gate("go")
    site.worker()
    site.sweep_from_now_on()
    site.until_status(run, Run.Status.COMPLETED)
    assert run.result == ["Where is my money?", "Let me see.", "paid 30", "They may.", "All is well."]
    assert sorted(site.notes()) == ["at go", "model 0", "model 1", "refund 7 30"]
    assert sorted(chunks(run)) == sorted(
        ["Let ", "me ", "see.", "[paid 30]", "[They may.]", "All ", "is ", "well."]
    )
