"""Files from elsewhere are read as their library reads them; damaged and hostile ones end in one error."""

import hashlib
import json
import os

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy as outside
from hypothesis import given, settings, strategies as st

import wholestep as ws
from wholestep import nn
from wholestep.errors import CheckpointError
from wholestep.train.checkpoint import safetensors_header, torch_linear, torch_name, write
from wholestep.train.checkpoint.safetensors_header import Damage

PARAMS = {"layers": [{"weight": np.zeros((3, 2), np.float32), "bias": np.zeros(2, np.float32)}]}


def compiled(params=None, buffers=None):
    params = PARAMS if params is None else params
    if buffers is None:
        return ws.compile(lambda p, x: np.sum(x), params, batch=np.ones(2), device="reference")
    return ws.compile(lambda p, b, x: (np.sum(x), b), params, buffers=buffers, batch=np.ones(2), device="reference")


def elsewhere(tmp_path, arrays, metadata=None):
    outside.save_file(arrays, tmp_path / "other.safetensors", metadata)
    return tmp_path / "other.safetensors"


WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)
BIAS = np.array([0.5, -1], np.float32)


@pytest.mark.parametrize("rename", ["table", "function"])
def test_weights_of_torch(tmp_path, rename):
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    save_file = pytest.importorskip("safetensors.torch").save_file
    layer = torch.nn.Linear(3, 2)
    save_file(
        {"0.weight": layer.weight.data, "0.bias": layer.bias.data, "extra": torch.ones(1)}, tmp_path / "a.safetensors"
    )
    table = {"0.weight": "layers[0].weight", "0.bias": "layers[0].bias", "extra": None}
    step = compiled()
    before = step.state["counters"]
    found = step.load(
        tmp_path / "a.safetensors",
        rename=table if rename == "table" else lambda name: table[name],
        convert={"*.weight": torch_linear},
    )
    x = np.ones((4, 3), np.float32)
    own = step.params["layers"][0]
    np.testing.assert_allclose(x @ own["weight"] + own["bias"], layer(torch.ones(4, 3)).detach().numpy(), rtol=1e-6)
    assert found.version is None and step.state["counters"]["step"] == before["step"]


class Network(nn.Module):
    """As torch.nn.Sequential has it."""

    def __init__(self, key):
        self.layers = [
            nn.Conv2d(2, 3, 3, key=key),
            nn.BatchNorm(3),
            nn.Linear(3, 4, key=key),
            nn.GRU(4, 5, bidirectional=True, key=key),
        ]

    def __call__(self, x):
        h = self.layers[1](self.layers[0](x)).sum(axis=(2, 3))
        return self.layers[3](self.layers[2](h)[None])[0]


def test_a_network_of_torch(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    save_file = pytest.importorskip("safetensors.torch").save_file
    made = [
        torch.nn.Conv2d(2, 3, 3),
        torch.nn.BatchNorm2d(3),
        torch.nn.Linear(3, 4),
        torch.nn.GRU(4, 5, batch_first=True, bidirectional=True),
    ]
    theirs = torch.nn.Module()
    theirs.layers = torch.nn.ModuleList(made)
    made[1].weight.data.uniform_(), made[1].running_mean.uniform_(), made[1].running_var.uniform_(0.5, 2)
    save_file(theirs.state_dict(), tmp_path / "a.safetensors")
    x = np.random.default_rng(0).normal(size=(6, 2, 5, 5)).astype(np.float32)
    step = ws.compile(lambda m, x: np.mean(m(x)), Network(0), batch=x, device="reference")

    def name(theirs):
        own = torch_name(theirs)
        return "layers[1].gain" if own == "layers[1].weight" else own

    convert = {"layers.2.weight": torch_linear, "layers.3.weight_*": torch_linear}
    step.load(tmp_path / "a.safetensors", rename=name, convert=convert)
    theirs.eval()
    h = made[1](made[0](torch.tensor(x))).sum(dim=(2, 3))
    wanted = made[3](made[2](h)[None])[0].detach().numpy()
    np.testing.assert_allclose(step.model.eval()(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.int8, np.int64, np.uint32])
def test_dtypes_from_elsewhere_are_cast_when_asked(tmp_path, kind):
    weight = np.array([[1, 2], [3, 4], [5, 6]]).astype(kind)
    file = elsewhere(tmp_path, {"layers[0].weight": weight, "layers[0].bias": BIAS})
    step = compiled()
    if kind is not np.float32:
        with pytest.raises(CheckpointError, match="cast=True"):
            step.load(file)
        assert not step.params["layers"][0]["weight"].any() and not step.params["layers"][0]["bias"].any()
    step.load(file, cast=True)
    np.testing.assert_array_equal(step.params["layers"][0]["weight"], [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("held", "own"),
    [(np.float32, np.int32), (np.complex64, np.float32), (np.bool_, np.float32), (np.int32, np.bool_)],
)
def test_some_casts_would_change_what_is_meant(tmp_path, held, own):
    step = compiled(np.zeros(1), {"table": np.zeros(2, own)})
    file = elsewhere(tmp_path, {"table": np.ones(2, held)})
    with pytest.raises(CheckpointError, match="even with cast=True"):
        step.load(file, only="buffers", cast=True)


def test_buffers_are_found_too(tmp_path):
    step = compiled({"w": np.zeros(2)}, {"mean": np.zeros(2)})
    step.load(elsewhere(tmp_path, {"w": np.ones(2), "mean": np.full(2, 2.0)}))
    np.testing.assert_array_equal(step.buffers["mean"], [2, 2])


def test_names_are_compared(tmp_path):
    step = compiled()
    file = elsewhere(tmp_path, {"layers[0].weight": WEIGHT.T, "more": BIAS, "b\x1b[2J": BIAS})
    with pytest.raises(CheckpointError) as error:
        step.load(file)
    text = str(error.value)
    assert "missing params.layers[0].bias" in text and "'b\\x1b[2J'" in text and "rename=" in text
    found = step.load(file, strict=False)
    assert found.names == ("params.layers[0].weight",) and found.missing == ("params.layers[0].bias",)
    assert set(found.unexpected) == {"more", "b\x1b[2J"}
    with pytest.raises(CheckpointError, match="no name is the same"):
        step.load(file, strict=False, rename=lambda name: "x" + name)
    with pytest.raises(CheckpointError, match="would both become"):
        step.load(file, rename=lambda name: "layers[0].bias")
    with pytest.raises(CheckpointError, match="not a string or None"):
        step.load(file, rename=lambda name: 3)


def test_a_transposed_matrix_is_recognised(tmp_path):
    with pytest.raises(CheckpointError, match="torch_linear"):
        compiled().load(elsewhere(tmp_path, {"layers[0].weight": WEIGHT, "layers[0].bias": BIAS}))
    with pytest.raises(CheckpointError, match="matrix"):
        torch_linear(np.ones(3))


def test_a_folder_of_parts_from_elsewhere(tmp_path):
    outside.save_file({"layers[0].weight": WEIGHT.T.copy()}, tmp_path / "model-1.safetensors")
    outside.save_file({"layers[0].bias": BIAS}, tmp_path / "model-2.safetensors")
    names = {"layers[0].weight": "model-1.safetensors", "layers[0].bias": "model-2.safetensors"}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 32}, "weight_map": names}))
    step = compiled()
    step.load(index)
    np.testing.assert_array_equal(step.params["layers"][0]["bias"], BIAS)
    for hostile in (
        "../other.safetensors",
        "/etc/passwd",
        "a/../model-2.safetensors",
        "model-2.safetensors\0",
        5,
        None,
    ):
        index.write_text(json.dumps({"weight_map": {**names, "layers[0].bias": hostile}}))
        with pytest.raises(CheckpointError):
            step.load(index)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_part_is_no_link(tmp_path):
    step = compiled()
    step.save(tmp_path / "a", max_shard_bytes=8)
    part = next((tmp_path / "a").glob("part-*"))
    part.rename(tmp_path / "moved")
    part.symlink_to(tmp_path / "moved")
    with pytest.raises(CheckpointError, match="cannot be read"):
        step.load(tmp_path / "a")


def test_a_part_has_one_name(tmp_path):
    step = compiled()
    step.save(tmp_path / "a", max_shard_bytes=8)
    part = next((tmp_path / "a").glob("part-*"))
    os.link(part, tmp_path / "other")
    with pytest.raises(CheckpointError, match=r"its part part-.* is a hard link"):
        step.load(tmp_path / "a")
    (tmp_path / "other").unlink()
    step.load(tmp_path / "a")


def resigned(folder, change):
    """Change the content of a manifest, and sign it with a correct checksum."""
    file = folder / "manifest.json"
    table = json.loads(file.read_text())
    del table[safetensors_header.SEAL]
    change(table)
    file.write_bytes(write.signed(table))


def test_a_manifest_says_which_checksum_each_part_has(tmp_path):
    step = compiled()
    step.save(tmp_path / "a", max_shard_bytes=8)
    resigned(tmp_path / "a", lambda table: table["parts"].update(dict.fromkeys(table["parts"])))
    with pytest.raises(CheckpointError, match="does not say which checksum each part has"):
        step.load(tmp_path / "a")


@pytest.mark.parametrize(
    "text", ['{"facts":1e999,"parts":{},"weight_map":{}}', '{"parts":{},"weight_map":{"a":-1E400}}']
)
def test_no_number_of_a_manifest_is_infinite(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(CheckpointError, match="are no JSON"):
        compiled().load(tmp_path)


PLACES = [3, [], {}, "x", {"position": 2**70}, {"position": -1}, {"position": True}, {"epoch": "1"}]
PLACES += [{"epoch": 2**63}, {"key": 2**64}, {"key": None}, {"data": 5}, {"order": []}, {"more": 1}]


@pytest.mark.parametrize("wrong", PLACES)
def test_a_position_that_makes_no_sense_is_damage(tmp_path, wrong):
    step, loader = compiled(), ws.Loader(np.ones((8, 3)), 2)
    step.save(tmp_path / "a", loader=loader, max_shard_bytes=8)

    def change(table):
        table["facts"]["data"] = {**table["facts"]["data"], **wrong} if wrong and isinstance(wrong, dict) else wrong

    resigned(tmp_path / "a", change)
    before = loader.state()
    with pytest.raises(CheckpointError, match="its position in the data: loader: restore"):
        step.load(tmp_path / "a", loader=loader)
    assert loader.state() == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
def test_a_pipe_is_no_file_and_nobody_waits_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="not a plain file"):
        compiled().load(tmp_path / "pipe")


def written(file, data):
    """Replace a file by a new one, since some file systems truncate slowly."""
    file.unlink()
    file.write_bytes(data)


@pytest.mark.parametrize("most", [None, 8], ids=["one file", "parts"])
def test_every_bit_counts(tmp_path, most):
    step = compiled()
    step.save(tmp_path / "a", max_shard_bytes=most)
    files = (
        [tmp_path / "a"] if most is None else [tmp_path / "a" / "manifest.json", next((tmp_path / "a").glob("part*"))]
    )
    for file in files:
        whole = file.read_bytes()
        for at in range(len(whole)):
            written(file, whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
            with pytest.raises(CheckpointError):
                step.load(tmp_path / "a")
        for end in range(0, len(whole), 7):
            written(file, whole[:end])
            with pytest.raises(CheckpointError):
                step.load(tmp_path / "a")
        written(file, whole)
        step.load(tmp_path / "a")


def test_what_is_wrong_is_said(tmp_path):
    step = compiled()
    file = tmp_path / "a"
    step.save(file)
    whole = file.read_bytes()
    length = int.from_bytes(whole[:8], "little")

    def said(data):
        file.write_bytes(data)
        with pytest.raises(CheckpointError) as error:
            step.load(file)
        assert str(file) in str(error.value)
        return str(error.value)

    assert "no header" in said(b"1234")
    assert "are left of the file" in said(whole[:50])
    assert "takes 16,777,217 bytes, more than" in said((2**24 + 1).to_bytes(8, "little") + bytes(2**24 + 1))
    assert "header is damaged" in said(
        whole[: 8 + length].replace(b"params.layers", b"params.lawers") + whole[8 + length :]
    )
    assert "is damaged: its checksum" in said(whole[:-1] + b"x")
    assert "its tensors take" in said(whole + b"x")
    assert "no safetensors header" in said((20).to_bytes(8, "little") + bytes(20))
    assert "in layout 7, and this one reads layout 1" in said(resealed(whole, rb"\"format\":1", rb"\"format\":7"))
    assert "not those that were saved together" in said(resealed(whole, b"params.layers", b"params.lawers"))
    assert "checksums are not complete" in said(whole.replace(b"wholestep.blocks", b"wholestep.bloecke"[:16]))


def resealed(data, old, new):
    """A file with other text in its header, and the right checksum."""
    text = data[8 : 8 + int.from_bytes(data[:8], "little")]
    digest = json.loads(text)["__metadata__"][safetensors_header.SEAL]
    blank = text.replace(old, new).replace(
        safetensors_header.stamp(digest), safetensors_header.stamp(safetensors_header.BLANK)
    )
    found = blank.replace(
        safetensors_header.stamp(safetensors_header.BLANK), safetensors_header.stamp(hashlib.sha256(blank).hexdigest())
    )
    assert found != text
    return len(found).to_bytes(8, "little") + found + data[8 + len(text) :]


TAGS = ["F32", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "X"]
SIZES = st.integers(0, 3) | st.sampled_from([2**31, 2**62, 10**18])
ENTRY = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(TAGS),
        "shape": st.lists(SIZES, max_size=3),
        "data_offsets": st.lists(st.integers(0, 12), min_size=1, max_size=3),
    }
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.text(max_size=3), ENTRY, max_size=3), st.integers(0, 12), st.sampled_from([None, 2]))
def test_a_header_is_judged_as_the_safetensors_library_judges_it(table, room, indent):
    text = json.dumps(table, indent=indent).encode()
    data = len(text).to_bytes(8, "little") + text + bytes(room)
    try:
        found = {block.name: block.type.shape for block in safetensors_header.decoded(text, room).blocks}
    except Damage:
        found = None
    try:
        with_library = {name: tuple(about["shape"]) for name, about in safetensors.deserialize(data)}
    except safetensors.SafetensorError:
        with_library = None
    if found is not None:
        assert found == with_library
    elif with_library is not None:
        assert any(entry["dtype"] == "F8_E4M3" for entry in table.values())


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        st.sampled_from([np.ones((2, 3), np.float32), np.zeros(0, np.int8), np.array(1.0), np.ones(3, np.uint16)]),
        max_size=4,
    )
)
def test_whatever_the_library_writes_is_read(arrays):
    data = outside.save(arrays, {"format": "np"})
    length = int.from_bytes(data[:8], "little")
    found = safetensors_header.decoded(data[8 : 8 + length], len(data) - 8 - length)
    assert {block.name: (block.type.shape, block.type.dtype) for block in found.blocks} == {
        name: (x.shape, x.dtype) for name, x in arrays.items()
    }
    assert not found.ours and found.metadata == {"format": "np"}


@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,0a\\ ', max_size=60).map(str.encode))
def test_any_text_is_a_header_or_refused(text):
    try:
        safetensors_header.decoded(text, 0)
    except Damage as damage:
        assert str(damage)
    else:
        assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize("at", [3, 40, -1])
def test_a_damaged_part_is_named(tmp_path, at):
    step = compiled()
    step.save(tmp_path / "a", max_shard_bytes=8)
    part = sorted((tmp_path / "a").glob("part-*"))[1]
    data = bytearray(part.read_bytes())
    data[at] ^= 1
    part.write_bytes(data)
    with pytest.raises(CheckpointError, match=f"its part {part.name}: "):
        step.load(tmp_path / "a")
