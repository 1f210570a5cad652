"""Every claim of the papers is found in the source."""

import pytest

from recombine.claims.claim import CLAIMS
from recombine.report.source import source_of


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_is_found_where_it_is_written(name):
    file, line = source_of(CLAIMS[name])
    family, own = name.split(".")
    assert file.parent.name == family
    written = file.read_text().splitlines()[line - 1]
    assert own in written or 'name=f"' in written
