"""A head that answers, one that comes back, and one that does not."""

from __future__ import annotations

import logging
import socket

import pytest

from surefoot import cluster_head
from surefoot.cluster_head import Head, looked_after
from surefoot.errors import RunError
from tests.patience import until


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_head, "EVERY", 0.0)


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        port: int = line.getsockname()[1]
        return port


def test_a_head_that_answers_is_not_lost() -> None:
    with socket.create_server(("127.0.0.1", 0)) as line:
        head = Head(f"127.0.0.1:{line.getsockname()[1]}", patience=0.0)
        head.check()
    assert not head.is_lost


def test_one_that_does_not_answer_is_waited_for_and_then_lost() -> None:
    address = f"127.0.0.1:{free_port()}"
    patient = Head(address, patience=3600.0)
    patient.check()
    assert not patient.is_lost
    head = Head(address, patience=0.0)
    with pytest.raises(RunError, match=f"Expected the head of the Ray cluster at {address} to answer, but it has not"):
        head.check()
    assert head.is_lost


def test_a_head_that_nobody_knows_is_not_looked_at() -> None:
    Head("", patience=0.0).check()


def test_half_of_what_ray_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "10")
    assert Head("")._patience == 5.0


def test_a_loss_is_told_while_ray_waits(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "surefoot"), looked_after(Head(f"127.0.0.1:{free_port()}", patience=0.0)):
        until(lambda: caplog.records)
    assert [record.message.partition(" at ")[0] for record in caplog.records] == [
        "Expected the head of the Ray cluster"
    ]
