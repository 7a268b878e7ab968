"""The graph that TensorBoard shows: names by module path, edges between existing nodes, shapes, and omitted parts."""

import numpy as np
import pytest
from tests.train.test_callbacks import records

import wholestep as ws
from wholestep import nn
from wholestep.errors import ParameterError, UnsupportedError
from wholestep.nn.model_graph import drawn_nodes
from wholestep.train.loop.loggers import TensorBoardLogger


class Block(nn.Module):
    """A part with a part, a buffer, and an operation of its own."""

    def __init__(self, key):
        self.fc, self.norm = nn.Linear(4, 4, key=key), nn.BatchNorm(4)
        self.shift = nn.buffer(np.ones(4, np.float32))

    def __call__(self, x):
        unused = np.cos(x)  # noqa: F841
        return x + np.tanh(self.norm(self.fc(x))) * self.shift


class Net(nn.Module):
    """Two parts in a list, one of them called twice, a loop, and two results."""

    def __init__(self):
        self.layers, self.head = [Block(0), Block(1)], nn.Linear(4, 2, key=3)

    def __call__(self, x):
        for layer in (*self.layers, self.layers[0]):
            x = layer(x)
        x, _ = ws.scan(lambda carry, _: (np.sin(carry), None), x, None, length=2)
        return self.head(x), x


MODEL = Net()


def by_name(nodes):
    assert len({node.name for node in nodes}) == len(nodes)
    return {node.name: node for node in nodes}


def test_nodes_are_named_by_the_part_that_made_them():
    found = by_name(drawn_nodes("graph", MODEL, ((3, 4),), {}))
    weight = found["Net/layers/1/fc/weight"]
    assert (weight.kind, weight.notes["path"]) == ("Parameter", "layers[1].fc.weight")
    product = found["Net/layers/1/fc/contract"]
    assert product.inputs[1] == "Net/layers/1/fc/weight" and str(product.types[0]) == "f32[3, 4]"
    assert found["Net/layers/0/shift"].kind == "Buffer" and "Net/layers/0/norm/mean" in found
    assert found["Net/layers/0/tanh"].kind == "tanh" == found["Net/layers/0/tanh_1"].kind
    assert "test_graph_event.py" in found["Net/layers/0/tanh"].notes["line"]
    assert not any(node.kind == "cos" for node in found.values())
    assert "sin" in found["Net/scan"].notes["program_0"]
    assert found["outputs/0"].inputs == ("Net/head/add",) and found["outputs/1"].inputs == ("Net/scan",)


def models():
    """Models of several kinds, each with the inputs of a call."""
    return {
        "parts": (MODEL, (np.ones((3, 4), np.float32),)),
        "symbolic": (MODEL, ((ws.Dim("B"), 4),)),
        "layer": (nn.Linear(3, 2, key=0), ((5, 3),)),
        "stack": (nn.Sequential(nn.Conv2d(1, 2, 3, key=0), nn.relu, nn.Dropout(0.5)), ((2, 1, 8, 8),)),
        "recurrent": (nn.GRU(3, 4, key=0), ((2, 5, 3),)),
        "attention": (nn.MultiHeadAttention(8, 2, key=0), ((2, 5, 8),)),
    }


@pytest.mark.parametrize("name", models())
def test_every_edge_begins_at_a_node_before_it(name):
    model, inputs = models()[name]
    known = {}
    for node in drawn_nodes("graph", model, inputs, {}):
        for source in node.inputs:
            origin, _, place = source.partition(":")
            assert int(place or 0) < len(known[origin].types)
        known[node.name] = node
        assert not any(node.name.startswith(f"{other}/") for other in known)
    assert any(node.kind == "Output" for node in known.values())


def test_named_arguments_are_inputs():
    nodes = drawn_nodes("graph", MODEL, (), {"x": np.ones((3, 4), np.float32)})
    assert [node.kind for node in nodes].count("Input") == 1
    assert "inputs/0" in by_name(nodes)["Net/layers/0/fc/contract"].inputs


def test_what_cannot_be_drawn_is_named():
    with pytest.raises(UnsupportedError, match=r"graph: a model is drawn by a call of it"):
        drawn_nodes("graph", MODEL, (), {})
    with pytest.raises(ParameterError, match=r"graph: a dict cannot be called"):
        drawn_nodes("graph", {"w": np.ones(3)}, ((3,),), {})


def written(folder, model, *inputs):
    """A folder with the graph of a model."""
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    logger = TensorBoardLogger(folder)
    logger.start({})
    logger.graph(model, *inputs)
    logger.finish("completed")
    return folder


def checked(graph, size):
    """Compare a graph that was read with the nodes that were drawn."""
    drawn = by_name(drawn_nodes("graph", MODEL, ((size, 4),), {}))
    found = {node.name: node for node in graph.node}
    assert found.keys() == drawn.keys()
    for name, node in found.items():
        assert tuple(node.input) == drawn[name].inputs and node.op == drawn[name].kind
        shapes = [[d.size for d in shape.dim] for shape in node.attr["_output_shapes"].list.shape]
        sizes = [[n if isinstance(n, int) else -1 for n in t.shape] for t in drawn[name].types]
        assert shapes == sizes
    assert found["Net/layers/0/fc/contract"].attr["spec"].s == b"ij,jk->ik"
    assert found["Net/head/weight"].attr["dtype"].type == 1


@pytest.mark.parametrize("size", [3, ws.Dim("B")])
def test_the_messages_hold_what_was_drawn(tmp_path, size):
    proto = [
        pytest.importorskip(f"tensorboardX.proto.{name}_pb2", reason="not installed") for name in ("event", "graph")
    ]
    (file,) = written(tmp_path, MODEL, (size, 4)).glob("events*")
    (graph,) = [e.graph_def for e in map(proto[0].Event.FromString, records(file)) if e.HasField("graph_def")]
    checked(proto[1].GraphDef.FromString(graph), size)


@pytest.mark.filterwarnings("ignore")
def test_tensorboards_own_reader_finds_the_graph(tmp_path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is an outside oracle"
    )
    checked(reader.EventAccumulator(str(written(tmp_path, MODEL, (3, 4)))).Reload().Graph(), 3)
