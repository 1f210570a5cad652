"""Reasons say what was measured, and nothing where there is nothing to say."""

import pytest

from recombine.audits.evidence import Evidence
from recombine.audits.reasons import reasons


def named(**numbers):
    return {reason.name: reason for reason in reasons(Evidence(5, **numbers))}


@pytest.mark.parametrize(("share", "told"), [(0.6, True), (0.5, False), (0.49, False)])
def test_a_factor_is_overused_only_if_outputs_depend_on_it_more_than_targets(share, told):
    found = named(shortcut="color", shortcut_share=share, shortcut_truth=0.5)
    assert ("shortcut" in found) == told
    if told:
        assert "overuses most is color: 50%" in found["shortcut"].sentence


def test_what_was_not_measured_has_no_reason_and_measurements_name_their_paper():
    found = named(r2_seen=0.9, slope=0.5, straight=0.8)
    assert set(found) == {"r2_seen", "slope"}
    assert (found["r2_seen"].source, found["slope"].source) == ("", "lippl2025")
