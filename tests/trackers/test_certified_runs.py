"""The theorems all along real runs: recorded often, violated never."""

from __future__ import annotations

from pathlib import Path

import pytest

from surefoot.experiment import run
from surefoot.schema import Tracking
from surefoot.studies.compare import make_spec
from surefoot.trackers import read_track


@pytest.mark.parametrize("method", ["sgd", "sam"])
def test_no_step_of_a_real_run_violates_a_theorem(tmp_path: Path, method: str) -> None:
    """Trained on embedded images; every record holds the theorems on train, on test and on the probe."""
    spec = make_spec(method, data="digits", model="mlp:width=8", epochs=2, batch_size=32)
    texts = read_track("certificate:every=5,examples=300,probe=12")
    records = [r for r in run(spec, tmp_path, tracking=Tracking(texts)).tracked() if r["tracker"] == "certificate"]
    assert len(records) >= 12
    assert len({record["step"] for record in records}) == len(records)
    assert [record["certificate/violated"] for record in records] == [0] * len(records)
    for record in records:
        for split in ("train", "test"):
            assert record[f"{split}/certificate_ece"] <= record[f"{split}/certificate_bound"]
        slacks = {key: value for key, value in record.items() if "_slack/" in key}
        assert {"certificate_slack/theorem_4_1_ii", "certificate_slack/remark_b_6"} <= set(slacks)
