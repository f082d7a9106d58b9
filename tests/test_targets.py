"""Targets as data, and which module of a bundle a machine runs."""

import dataclasses
from pathlib import Path

import iree.compiler
import pytest

from llmc.frontend.build import build_bundle
from llmc.frontend.options import CompileOptions
from llmc.pipelines.targets.gpu import GPUTarget
from llmc.pipelines.targets.gpu_storage import check_storage
from llmc.pipelines.targets.parse import parse_target, split_targets
from llmc.pipelines.targets.vulkan import VulkanTarget, of_device
from llmc.runtime import load, placement
from llmc.runtime.engine import Memory
from llmc.runtime.errors import UserError
from llmc.runtime.gpus import GPU, parse_cuda, parse_vulkan
from llmc.runtime.manifest import Manifest, ModuleFacts, TargetFacts

VULKAN = """\
name: Some GPU
api: 1.3.230
type: {type}
features: bufferDeviceAddress=yes storageBuffer8BitAccess=no storageBuffer16BitAccess=yes \
shaderInt8=yes shaderFloat16=yes shaderIntegerDotProduct=no
subgroup: size=8 operations=0x000000bf minSubgroupSize=8
memory_heaps: 2
  [0] size=4294967296 flags=0x00000001
  [1] size=8589934592 flags=0x00000000
"""
CUDA = "\n- gpu-compute-capability: {0}\n- driver-max-cuda-version: 12.4\n- gpu-warp-size: 32\n"


def vulkan_gpu(type_: str = "discrete") -> GPU:
    return parse_vulkan("GPU-1", "Some GPU", VULKAN.format(type=type_))


def cuda_gpu(capability: str) -> GPU:
    return parse_cuda("GPU-2", "Other GPU", CUDA.format(capability))


def test_what_the_driver_says_of_a_vulkan_device():
    gpu = vulkan_gpu()
    assert (gpu.memory_bytes, gpu.subgroup_size, gpu.is_cpu) == (4 << 30, 8, False)
    assert {"shaderInt8", "storageBuffer16BitAccess", "subgroupShuffleArithmetic"} <= gpu.features
    assert not {"storageBuffer8BitAccess", "shaderIntegerDotProduct"} & gpu.features
    assert vulkan_gpu("cpu").is_cpu
    unknown = parse_vulkan("GPU-1", "Some GPU", "")
    assert (unknown.memory_bytes, unknown.features) == (None, frozenset())


def test_a_vulkan_device_is_compiled_for_as_it_is():
    target = VulkanTarget("host", of_device(vulkan_gpu()))
    assert target.gpu.f16
    assert target.gpu.i8
    assert target.gpu.storage_16bit
    assert not target.gpu.storage_8bit
    assert set(target.facts.features) <= vulkan_gpu().features


@pytest.mark.parametrize(
    ("text", "device", "arch", "feature"),
    [
        ("cpu:zen3", "cpu", "x86_64", "avx2"),
        ("cpu:x86-64-v4", "cpu", "x86_64", "avx512f"),
        ("cpu:armv8.2", "cpu", "aarch64", "dotprod"),
        ("cpu:neoverse-v1", "cpu", "aarch64", "i8mm"),
        ("vulkan:rdna3", "vulkan", "rdna3", "storageBuffer8BitAccess"),
        ("cuda:sm_86", "cuda", "sm_86", None),
        ("cuda:rtx4090", "cuda", "sm_89", None),
        ("cuda:sm_100", "cuda", "sm_89", None),
    ],
)
def test_facts_of_a_target(text, device, arch, feature):
    facts = parse_target(text).facts
    assert (facts.device, facts.arch) == (device, arch)
    assert feature is None or feature in facts.features


@pytest.mark.parametrize("name", ["zen5", "alderlake", "icelake-server", "sapphirerapids"])
def test_no_code_needs_features_that_it_is_not_made_with(name):
    features = set(parse_target(f"cpu:{name}").facts.features)
    for_an_os = {"sgx", "pconfig", "pku", "rdrnd", "rdseed", "shstk", "xsave"}
    for_who_asks = {"movdiri", "movdir64b", "prefetchi", "serialize", "uintr", "hreset", "kl"}
    assert not (for_an_os | for_who_asks) & features
    assert {"avx2", "fma", "bmi2", "f16c"} <= features


def test_baseline_needs_nothing():
    target = parse_target("vulkan:baseline")
    assert isinstance(target, GPUTarget)
    assert target.facts.features == ()
    assert not target.gpu.f16


@pytest.mark.parametrize(
    ("target", "storage", "kv_dtype", "advice"),
    [
        ("vulkan:baseline", "q4_0", "auto", "what --dtype q4_0 stores: give --dtype f32$"),
        ("vulkan:baseline", "as-is", "auto", "--dtype f32$"),
        ("vulkan:baseline", "bf16", "auto", "--dtype f32$"),
        ("vulkan:baseline", "f32", "f16", "what --kv-dtype f16 stores: give --kv-dtype f32$"),
        ("some", "q8_0", "auto", "--dtype f16 or bf16 or f32$"),
        ("some", "f16", "q8_0", "--kv-dtype f16 or f32$"),
    ],
)
def test_what_a_device_cannot_read_is_refused(target, storage, kv_dtype, advice):
    gpu = (
        VulkanTarget("some", of_device(vulkan_gpu())) if target == "some" else parse_target(target)
    )
    with pytest.raises(UserError, match=f"^{target} cannot read .*{advice}"):
        check_storage(target, gpu.gpu, storage, kv_dtype)


@pytest.mark.parametrize(("target", "aligned"), [("cpu:zen4", True), ("cpu:armv8.2", False)])
def test_loops_of_x86_begin_with_a_line_of_the_cache(target, aligned, tmp_path):
    sum_ = """func.func @sum(%x: tensor<7x512xf32>, %y: tensor<7xf32>) -> tensor<7xf32> {
      %sum = linalg.reduce { arith.addf } ins(%x : tensor<7x512xf32>) outs(%y : tensor<7xf32>)
             dimensions = [1]
      return %sum : tensor<7xf32>
    }"""
    dumped = f"--iree-hal-dump-executable-intermediates-to={tmp_path}"
    iree.compiler.compile_str(sum_, extra_args=[*parse_target(target).flags, dumped])
    (assembly,) = tmp_path.glob("*.s")
    assert (".p2align\t6" in assembly.read_text()) == aligned


@pytest.mark.parametrize("storage", ["f16", "as-is"])
def test_what_a_device_can_read_is_compiled(storage):
    check_storage("vulkan:rdna3", parse_target("vulkan:rdna3").gpu, storage, "q8_0")
    check_storage("vulkan:baseline", parse_target("vulkan:baseline").gpu, "f32", "auto")


def test_narrow_weights_are_refused_before_anything_is_imported(tiny_folder, tmp_path):
    options = CompileOptions(target="cpu,vulkan:baseline", dtype="q8_0")
    with pytest.raises(UserError, match="vulkan:baseline cannot read"):
        build_bundle(str(tiny_folder), options, tmp_path / "bundle")


def test_targets_are_separated_by_commas():
    assert split_targets("cpu, vulkan:rdna3,cuda") == ("cpu", "vulkan:rdna3", "cuda")


def code(device: str, arch: str, *features: str) -> ModuleFacts:
    target = TargetFacts(device, arch, arch, features)
    return ModuleFacts(target, 0, f"{arch}.vmfb", "params.irpa", {}, "i64", 1, 1, {"decode": 1})


@pytest.fixture
def place(monkeypatch, tiny_bundle):
    """The module that a machine with these GPUs runs of a bundle with these modules."""

    def placed(codes: list[ModuleFacts], *gpus: GPU, wanted: str | None = None) -> str:
        found = {kind: tuple(g for g in gpus if g.driver == kind) for kind in ("cuda", "vulkan")}
        monkeypatch.setattr(placement, "find_gpus", found.__getitem__)
        manifest = dataclasses.replace(Manifest.read(tiny_bundle), modules=tuple(codes))
        return placement.place_module(manifest, tiny_bundle, wanted).code.target.arch

    return placed


HOST = parse_target("cpu").facts.arch
ALL = [code("cpu", HOST), code("vulkan", "rdna3"), code("cuda", "sm_80"), code("cuda", "sm_89")]


def test_the_fastest_device_that_is_here_is_taken(place):
    assert place(ALL) == HOST
    assert place(ALL, vulkan_gpu("cpu")) == HOST
    assert place(ALL, vulkan_gpu()) == "rdna3"
    assert place(ALL, vulkan_gpu(), cuda_gpu("8.6")) == "sm_80"
    assert place(ALL, vulkan_gpu(), cuda_gpu("12.0")) == "sm_89"
    assert place(ALL[1:], vulkan_gpu("cpu")) == "rdna3"


def test_only_drivers_of_devices_that_there_is_code_for_are_opened(monkeypatch, tiny_bundle):
    opened: list[str] = []
    monkeypatch.setattr(placement, "find_gpus", lambda driver: opened.append(driver) or ())
    manifest = Manifest.read(tiny_bundle)
    placement.place_module(manifest, tiny_bundle, None)
    assert opened == []
    both = dataclasses.replace(manifest, modules=(code("cpu", HOST), code("vulkan", "rdna3")))
    placement.place_module(both, tiny_bundle, None)
    assert opened == ["vulkan"]


def test_the_user_may_ask_for_another_device(place):
    gpus = (vulkan_gpu(), cuda_gpu("8.9"))
    assert place(ALL, *gpus, wanted="cpu") == HOST
    assert place(ALL, *gpus, wanted="vulkan") == "rdna3"
    assert place(ALL, *gpus, wanted="cuda:0") == "sm_89"


def test_what_does_not_fit_is_told(place):
    with pytest.raises(UserError, match="none for cuda"):
        place(ALL[:2], cuda_gpu("8.0"), wanted="cuda")
    with pytest.raises(UserError, match=r"sm_80, Other GPU has compute capability 7\.5"):
        place(ALL, cuda_gpu("7.5"), wanted="cuda")
    with pytest.raises(UserError, match="lacks storageBuffer8BitAccess"):
        place([code("vulkan", "rdna3", "storageBuffer8BitAccess")], vulkan_gpu())
    with pytest.raises(UserError, match="no Vulkan device is here: install"):
        place(ALL, wanted="vulkan")
    with pytest.raises(UserError, match="lists 1 of that kind"):
        place(ALL, vulkan_gpu(), wanted="vulkan:1")


def test_memory_is_checked_before_it_is_used():
    memory = Memory(device=1000, weights=600, kv_bytes=lambda tokens: 2 * tokens)
    memory.require(2, 100)
    with pytest.raises(UserError, match="2 tokens need"):
        dataclasses.replace(memory, weights=999).require(1, 2)
    with pytest.raises(UserError, match="402 tokens need"):
        memory.require(2, 201)
    dataclasses.replace(memory, device=None).require(2, 10_000)


CROSS = "cpu:armv8.2,cuda:sm_80,vulkan:rdna3,vulkan:baseline"


@pytest.fixture(scope="module")
def elsewhere(tiny_folder, tmp_path_factory) -> Path:
    """A bundle for machines that are not here, and beside it, as `ir`, what `--dump-ir` writes."""
    folder = tmp_path_factory.mktemp("elsewhere")
    options = CompileOptions(target=CROSS, layers=1)
    build_bundle(str(tiny_folder), options, folder / "bundle", dump_ir=folder / "ir")
    return folder / "bundle"


def test_modules_for_machines_that_are_not_here(elsewhere):
    manifest = Manifest.read(elsewhere)
    manifest.verify_hashes(elsewhere)
    archs = [code.target.arch for code in manifest.modules]
    assert archs[:3] == ["aarch64", "sm_80", "rdna3"]
    # All GPUs read the same rows of weights.
    assert len({code.parameters for code in manifest.modules}) == 2
    for code in manifest.modules:
        binary = (elsewhere / code.module).read_bytes()
        mark = {"cuda": f".target {code.target.arch}".encode(), "vulkan": b"\x03\x02\x23\x07"}
        assert mark.get(code.target.device, b"\x7fELF") in binary
    if HOST != "aarch64":
        with pytest.raises(UserError, match=r"compiled for aarch64 .*, this machine is"):
            placement.place_module(manifest, elsewhere, "cpu")


def test_ir_is_dumped_target_by_target(elsewhere):
    ir = elsewhere.parent / "ir"
    files = {path.relative_to(ir) for path in ir.rglob("*.mlir")}
    assert Path("00-torch.mlir") in files
    assert {Path("cuda-sm_80/05-iree.mlir"), Path("vulkan-baseline/05-iree.mlir")} <= files


def test_an_error_passes_by_a_loaded_module(tiny_bundle, tmp_path):
    with pytest.raises(UserError, match="no bundle"):
        _first, _second = (load(folder) for folder in (tiny_bundle, tmp_path / "none"))
