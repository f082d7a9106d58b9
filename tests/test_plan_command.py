"""`llmc plan`, and a bundle that follows its plan."""

import json

import pytest

import llmc.runtime
from llmc.pipelines.sharding.search.device import Device, Link
from llmc.tools.llmc import main

pytestmark = pytest.mark.usefixtures("imported_once")

PROMPT = "the cat in the hat"


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    path = tmp_path_factory.mktemp("device") / "device.json"
    path.write_text(Device(10**9, 1e9, {"f32": 1e10}, (Link(8, 1e-7, 1e10),)).to_json())
    return path


def test_a_bundle_follows_its_plan_and_sends_what_it_predicts(
    tiny_folder, tiny_bundle, device, tmp_path, capfd
):
    plan, folder = tmp_path / "plan.json", tmp_path / "bundle"
    words = ["plan", tiny_folder, "--grid", "tp=2", "--device", device, "--json", "-o", plan]
    words += ["--pin", "*.o_proj.weight=0"]
    assert main([str(word) for word in words]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert facts["weights"]["model.layers.*.self_attn.o_proj.weight"].startswith("dim 0")
    assert facts["plan"] == json.loads(plan.read_text())
    assert main(["compile", str(tiny_folder), "--plan", str(plan), "-o", str(folder)]) == 0
    model = llmc.runtime.load(folder, local=True, threads=1)
    alone = llmc.runtime.load(tiny_bundle).generate(PROMPT, max_new_tokens=20)
    assert model.generate(PROMPT, max_new_tokens=20).token_ids == alone.token_ids
    ids = model.encode(PROMPT)
    model.engine.reset(1, 100)
    model.engine.prefill(ids, 0)
    before = model.communicator.moved
    model.engine.decode([5], len(ids), [0])
    assert model.communicator.moved - before == facts["moved_bytes"][0] > 0


def test_the_plan_and_others_beside_it_are_printed(tiny_folder, device, capfd):
    assert main(["plan", str(tiny_folder), "--grid", "4", "--device", str(device)]) == 0
    text = capfd.readouterr().out
    for part in (
        "grid  ",
        "q_proj.weight",
        "step ms ",
        "this plan ",
        "best tp=4",
        "best dp=4",
    ):
        assert part in text


MEMORY = "llmc.frontend.bench.host_device.usable_memory"


def test_this_machine_is_measured_and_its_file_gives_the_same_plan(
    tiny_folder, tmp_path, capfd, monkeypatch
):
    monkeypatch.setattr(MEMORY, lambda: 1 << 30)

    def planned(device, *words):
        words = ("--grid", "2", "--json", *words)
        assert main(["plan", str(tiny_folder), "--device", str(device), *map(str, words)]) == 0
        return json.loads(capfd.readouterr().out)

    path = tmp_path / "host.json"
    measured = planned("host", "--save-device", path)
    assert planned(path) == measured
    assert measured["device"]["memory_bytes"] == 1 << 30
    (link,) = measured["device"]["links"]
    assert link["ranks"] == 2
    assert {*link["operations"]} == {"all_reduce", "all_gather"}


def test_a_machine_of_unknown_memory_is_refused(tiny_folder, capfd, monkeypatch):
    monkeypatch.setattr(MEMORY, lambda: None)
    assert main(["plan", str(tiny_folder), "--device", "host", "--grid", "2"]) == 2
    assert "--device" in capfd.readouterr().err.splitlines()[-1]


def test_a_plan_is_costed_again(tiny_folder, device, tmp_path, capfd):
    words = ["plan", str(tiny_folder), "--device", str(device), "--json"]
    path = str(tmp_path / "plan.json")
    pin = ["--grid", "tp=2", "--pin", "*.o_proj.weight=0", "-o", path]
    facts = []
    for more in (pin, ["--plan", path]):
        assert main([*words, *more]) == 0
        facts.append(json.loads(capfd.readouterr().out))
    assert facts[0] == facts[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "give the number of ranks or their grid"),
        (["--grid", "tp=16"], "has no link for 16 ranks"),
        (["--grid", "2", "--pin", "q_proj"], "must be PATTERN=DIM"),
        (["--grid", "pp=3"], "2 layers"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words, says, tiny_folder, device, capfd):
    assert main(["plan", str(tiny_folder), "--device", str(device), *words]) == 2
    error = capfd.readouterr().err.splitlines()[-1]
    assert says in error


@pytest.mark.parametrize(
    ("weight", "says"),
    [
        ({"dim": 0, "axis": "tp"}, "match"),
        ({"match": "*", "dim": -1, "axis": "tp"}, "dim"),
        ({"match": "*", "dim": 0, "axis": "tp", "ranges": [[0, 1, 2]]}, "ranges[0]"),
        ({"match": "*q_proj*", "dim": 0, "axis": "tp", "ranges": [[-5, 10], [10, 64]]}, "q_proj"),
        ({"match": "*q_proj*", "dim": 0, "axis": "tp", "ranges": [[0, 10], [20, 64]]}, "q_proj"),
        (None, "is no plan"),
    ],
)
def test_a_plan_file_is_checked(weight, says, tiny_folder, tmp_path, capfd):
    path = tmp_path / "plan.json"
    deep = "[" * 100_000
    path.write_text(json.dumps({"grid": "tp=2", "weights": [weight]}) if weight else deep)
    output = tmp_path / "bundle"
    assert main(["compile", str(tiny_folder), "--plan", str(path), "-o", str(output)]) == 2
    assert says in capfd.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("grid", "says"), [("0", "at least 1 rank"), ("sp=2", "along the axes pp, dp, ep and tp")]
)
def test_a_grid_is_checked_before_the_device_is_looked_for(grid, says, tiny_folder, capfd):
    assert main(["plan", str(tiny_folder), "--device", "missing.json", "--grid", grid]) == 2
    assert says in capfd.readouterr().err.splitlines()[-1]
