"""Devices: a missing one is refused, and a run uses the chosen one."""

from dataclasses import replace

import pytest
import torch

from recombine.base.error import Refused
from recombine.claims.experiment import Result
from recombine.claims.record import identify
from recombine.claims.store import Store
from recombine.cli.main import main
from recombine.runs.run import execute
from recombine.runs.sweep import sweep
from recombine.training.device import DEVICE, check_device, devices, processor


def absent():
    return next(name for name in ("cuda", "mps", "xpu") if name not in devices())


@pytest.mark.parametrize("name", ["gpu", "", "cpu:x", "cuda:99", "meta", "[red]"])
def test_an_unknown_device_is_refused(toy, store, name):
    with pytest.raises(Refused, match=r"cannot be used on this machine \(.*\)\. Devices here: cpu"):
        check_device(name)
    with pytest.raises(Refused, match="cannot be used"):
        sweep(toy, [toy.configure()], [0], store=store, device=name)
    assert list(store.records()) == []


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "records")


@pytest.mark.parametrize("command", ["run", "sweep", "reproduce"])
def test_every_command_refuses_an_unknown_device_before_it_runs(capsys, tmp_path, command):
    words = [command, "liang2025.reading", "--device", "gpu", "--size", "smoke"]
    assert main([*words, "--records", str(tmp_path / "records")]) == 2
    assert "Device 'gpu' cannot be used" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.json"))


def test_a_run_sees_its_device_and_its_id_does_not(toy, monkeypatch):
    """Any device that is not the default will do: whether it exists is checked elsewhere."""
    monkeypatch.setattr("recombine.training.device.check_device", lambda name: None)
    monkeypatch.setattr("recombine.training.device.processor", lambda name: "a chip")
    devices = []

    def look(cfg, seeds):
        devices.append(DEVICE.get())
        return [Result({"score": 1.0})]

    ((record, _),) = execute(replace(toy, run=look), toy.configure(), [0], device=absent())
    assert devices == [absent()]
    assert DEVICE.get() == "cpu"
    assert record.id == identify(toy, toy.configure(), 0)
    assert (record.device, record.processor) == (absent(), "a chip")


def test_the_processor_is_named(toy):
    ((record, _),) = execute(toy, toy.configure(), [0])
    assert record.device == "cpu"
    assert record.processor == processor("cpu") != ""
    assert torch.ones(1).device.type == "cpu"
