"""Settings of a process that trains: memory is reused, and denormal numbers vanish."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import torch
from recombine.training.cpu import prepare_cpu

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(2**24)  # 64 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

default = faults()
prepare_cpu()
faults()
print(default, faults(), torch.get_num_threads(), torch.tensor(1e-40).mul(1.0).item())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators decide themselves")
def test_freed_memory_is_reused() -> None:
    run = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    default, prepared, threads, denormal = run.stdout.split()
    assert int(prepared) < int(default) / 10
    assert threads == "1"
    assert float(denormal) == 0
