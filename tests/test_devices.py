import os
import re
import sys
from pathlib import Path

import iree.compiler
import pytest

from llmc.runtime import devices

X86 = """\
processor\t: 0
model name\t: AMD EPYC 7B13
flags\t\t: fpu cx8 pni sse4_1 sse4_2 avx2 f16c bmi1 abm sha_ni avx512_vnni 3dnowprefetch

processor\t: 1
model name\t: AMD EPYC 7B13
flags\t\t: fpu cx8 pni sse4_1 sse4_2 avx2 f16c bmi1 abm sha_ni avx512_vnni 3dnowprefetch
"""
ARM = """\
processor\t: 0
Features\t: fp asimd aes atomics asimdhp asimddp i8mm sve
CPU implementer\t: 0x41
CPU part\t: 0xd40

processor\t: 1
Features\t: fp asimd aes atomics asimdhp asimddp
CPU implementer\t: 0x41
CPU part\t: 0xd05
"""
ADDITION = """
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = arith.addf %a, %a : tensor<4xf32>
  return %b : tensor<4xf32>
}
"""


def test_features_are_those_that_all_cpus_share():
    assert {"avx2", "sse4_1", "avx512_vnni"} < devices.parse_cpu_features(X86)
    arm = devices.parse_cpu_features(ARM)
    assert arm == {"fp", "asimd", "aes", "atomics", "asimdhp", "asimddp"}
    assert devices.parse_cpu_features("") == frozenset()


@pytest.mark.parametrize(
    ("cpuinfo", "arch", "required", "missing"),
    [
        (X86, "x86_64", ["avx2", "sse4.1", "sse4_1", "avx512vnni", "avx512_vnni"], []),
        (X86, "x86_64", ["lzcnt", "sha", "prfchw", "bmi", "crc32", "x87", "sse3"], []),
        (X86, "x86_64", ["avx2", "avx512f", "avx512vbmi2"], ["avx512f", "avx512vbmi2"]),
        (X86, "x86_64", ["neon", "bmi2"], ["neon", "bmi2"]),
        (ARM, "aarch64", ["neon", "dotprod", "fullfp16", "lse", "fp-armv8"], []),
        (ARM, "aarch64", ["sve", "i8mm", "crc"], ["sve", "i8mm", "crc"]),
        ("", "aarch64", ["sve"], []),
    ],
)
def test_missing_features_by_llvm_and_linux_names(cpuinfo, arch, required, missing):
    present = devices.parse_cpu_features(cpuinfo)
    assert devices.find_missing(required, present, arch) == tuple(missing)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/cpuinfo")
def test_features_of_this_machine_are_not_missing():
    flags = devices.host_cpu_features()
    assert flags
    assert devices.missing_features(flags) == ()
    assert devices.missing_features(["avx9000", *flags]) == ("avx9000",)


def test_vector_features_that_llvm_finds_here_are_not_missing():
    """What the compiler uses on this machine must pass the check on this machine."""
    compiled = iree.compiler.compile_str(
        ADDITION,
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host", "--compile-to=executable-targets"],
    )
    features = re.search(r'cpu_features = "([^"]*)"', compiled.decode())
    signs = {feature[1:]: feature[0] for feature in features[1].split(",")}
    vector = re.compile("sse.*|avx2?|avx512.*|fma|f16c|bmi2?|lzcnt|neon|dotprod|fullfp16|i8mm|sve")
    present = [name for name, sign in signs.items() if sign == "+" and vector.fullmatch(name)]
    assert present
    assert devices.missing_features(present) == ()
    absent = [name for name, sign in signs.items() if sign == "-" and vector.fullmatch(name)]
    assert devices.missing_features(absent) == tuple(absent)


class ControlGroups:
    """A folder in place of /proc and /sys/fs/cgroup, for a process of the groups given."""

    def __init__(self, folder: Path, groups: str) -> None:
        self.roots = (folder / "proc", folder / "cgroup")
        self.write(self.roots[0] / "self/cgroup", groups)

    def limit(self, path: str, text: str) -> None:
        self.write(self.roots[1] / path, text)

    @staticmethod
    def write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def eight_cpus(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)


@pytest.mark.usefixtures("eight_cpus")
@pytest.mark.parametrize(
    ("groups", "limits", "cpus"),
    [
        ("", {}, 8),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "350000 100000\n"}, 3),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "9000000 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "rubbish\n"}, 8),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000\n", "a/b/cpu.max": "max 100000\n"}, 2),
        ("0::/a\n", {"other/cpu.max": "200000 100000\n"}, 8),
        (
            "3:memory:/y\n2:cpu,cpuacct:/x\n0::/\n",
            {"cpu/x/cpu.cfs_quota_us": "400000\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
            4,
        ),
        (
            "2:cpu,cpuacct:/\n",
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
            8,
        ),
    ],
)
def test_cpus_are_those_of_the_control_groups(tmp_path, groups, limits, cpus):
    control_groups = ControlGroups(tmp_path, groups)
    for path, text in limits.items():
        control_groups.limit(path, text)
    assert devices.usable_cpus(*control_groups.roots) == cpus


@pytest.mark.parametrize(
    ("groups", "path", "text", "limited"),
    [
        ("0::/a/b\n", "a/memory.max", "1000000\n", True),
        ("0::/a/b\n", "a/memory.max", "max\n", False),
        ("4:memory:/x\n", "memory/x/memory.limit_in_bytes", "1000000\n", True),
        ("4:memory:/x\n", "memory/x/memory.limit_in_bytes", "9223372036854771712\n", False),
    ],
)
def test_memory_is_that_of_the_control_groups(tmp_path, groups, path, text, limited):
    control_groups = ControlGroups(tmp_path, groups)
    unlimited = devices.usable_memory(*control_groups.roots)
    assert unlimited > 100_000_000
    control_groups.limit(path, text)
    memory = devices.usable_memory(*control_groups.roots)
    assert memory == (1_000_000 if limited else unlimited)


def test_cpu_comes_first_and_is_described():
    cpu, *others = devices.list_devices()
    assert cpu.kind == "cpu"
    assert 1 <= cpu.cores <= os.cpu_count()
    assert cpu.name.strip()
    assert {device.kind for device in others} <= {"vulkan", "cuda"}


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [(X86, "AMD EPYC 7B13"), (ARM, "Arm implementer 0x41 part 0xd05"), ("", "")],
)
def test_name_of_the_cpu(cpuinfo, name):
    assert devices.parse_cpu_name(cpuinfo) == name
