"""Layers made without a key: drawn from the path at which they stand, once, and an error until then."""

import copy
import functools
import pickle
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import CheckpointError, ParameterError, UnknownNameError
from wholestep.nn.keys import drawing_nothing

LAYERS = {
    "Linear": lambda **key: nn.Linear(3, 4, **key),
    "Bilinear": lambda **key: nn.Bilinear(3, 2, 4, **key),
    "Conv2d": lambda **key: nn.Conv2d(2, 4, 3, **key),
    "ConvTranspose1d": lambda **key: nn.ConvTranspose1d(2, 4, 3, **key),
    "Embedding": lambda **key: nn.Embedding(5, 4, padding_idx=0, **key),
    "EmbeddingBag": lambda **key: nn.EmbeddingBag(5, 4, **key),
    "GRUCell": lambda **key: nn.GRUCell(3, 4, **key),
    "RNNCell": lambda **key: nn.RNNCell(3, 4, activation="relu", **key),
    "LSTM": lambda **key: nn.LSTM(3, 4, 2, bidirectional=True, **key),
    "MLP": lambda **key: nn.MLP([3, 4, 2], **key),
    "MultiHeadAttention": lambda **key: nn.MultiHeadAttention(4, 2, **key),
    "TransformerBlock": lambda **key: nn.TransformerBlock(4, 2, **key),
    "TransformerDecoderBlock": lambda **key: nn.TransformerDecoderBlock(4, 2, **key),
    "Transformer": lambda **key: nn.Transformer(4, 2, encoder_layers=1, decoder_layers=1, **key),
    "FeedForward": lambda **key: nn.FeedForward(4, 8, **key),
    "AdaptiveLogSoftmax": lambda **key: nn.AdaptiveLogSoftmax(4, 10, [4], **key),
    "Stack": lambda **key: nn.Stack(lambda key: nn.Linear(3, 3, key=key), 3, **key),
    "LoRA": lambda **key: nn.LoRA(nn.Linear(3, 4, key=5), 2, **key),
    "SpectralNorm": lambda **key: nn.SpectralNorm(nn.Linear(3, 4, key=5), **key),
    "GPT2": lambda **key: nn.models.GPT2(7, 5, 4, 2, 1, **key),
    "BERT": lambda **key: nn.models.BERT(7, 5, 4, 2, 1, **key),
    "ConvNeXt": lambda **key: nn.models.ConvNeXt((1, 1, 1, 1), (4, 4, 4, 4), classes=3, **key),
}
"""Layers that draw, with a key or without one."""


def by_hand(key, *path):
    """The key of a path: that of the path before it, with the last name folded in."""
    return functools.reduce(ws.random.fold_in, path, ws.random.key(key))


def same(one, other):
    parts = zip((*nn.split(one),), (*nn.split(other),), strict=True)
    return all(a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a) for a, b in parts)


class Block(nn.Module):
    def __init__(self, n):
        self.dense, self.norm = nn.Linear(n, n), nn.LayerNorm(n)

    def __call__(self, x):
        return self.norm(np.tanh(self.dense(x)))


class Net(nn.Module):
    """Parts in fields, lists and dictionaries, one of them appended after the list was assigned."""

    def __init__(self, n=4, *, key=None):
        self.embedding = nn.Embedding(10, n)
        self.blocks = [Block(n)]
        self.blocks.append(Block(n))
        self.heads = {"mean": nn.Linear(n, 1), 3: (nn.Linear(n, 2), nn.relu)}

    def __call__(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.heads["mean"](x)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_without_a_key_is_the_one_with_the_key_of_its_path(name):
    model = nn.Sequential(nn.relu, LAYERS[name](), key=7)
    assert same(model.layers[1], LAYERS[name](key=by_hand(7, "layers", 1)))


def test_keys_follow_fields_lists_and_dictionaries():
    model = Net(key=0)
    assert same(model.embedding, nn.Embedding(10, 4, key=by_hand(0, "embedding")))
    for i in range(2):
        assert same(model.blocks[i].dense, nn.Linear(4, 4, key=by_hand(0, "blocks", i, "dense")))
    assert same(model.heads["mean"], nn.Linear(4, 1, key=by_hand(0, "heads", "mean")))
    assert same(model.heads[3][0], nn.Linear(4, 2, key=by_hand(0, "heads", 3, 0)))
    assert model(np.arange(3)).shape == (3, 1)


def test_the_same_seed_gives_the_same_bits_and_another_one_others():
    assert same(Net(key=3), Net(key=ws.random.key(3)))
    assert same(Net(key=3), nn.initialized(Net(), 3))
    first, second = nn.named_parameters(Net(key=3)), nn.named_parameters(Net(key=4))
    assert not any(np.array_equal(first[path], second[path]) for path in first if "norm" not in path)


def test_no_two_layers_share_their_numbers():
    model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(4)], nn.Sequential(nn.Linear(3, 3)), key=0)
    drawn = [x.tobytes() for path, x in nn.named_parameters(model).items() if path.endswith("weight")]
    assert len(drawn) == len(set(drawn)) == 5


def test_neither_order_nor_other_layers_change_what_a_layer_draws():
    class Two(nn.Module):
        def __init__(self, names, *, key):
            for name in names:
                setattr(self, name, nn.Linear(3, 3))

    ab, ba, abc = (Two(names, key=1) for names in ("ab", "ba", "xaby"))
    assert same(ab.a, ba.a)
    assert same(ab.b, ba.b)
    assert same(ab.a, abc.a)
    assert same(ab.b, abc.b)


def test_explicit_keys_draw_what_they_always_drew():
    class Mixed(nn.Module):
        def __init__(self, *, key):
            self.given = nn.Linear(3, 4, key=key)
            self.own = nn.Linear(3, 4)

    model = Mixed(key=5)
    assert same(model.given, nn.Linear(3, 4, key=5))
    assert same(model.own, nn.Linear(3, 4, key=by_hand(5, "own")))
    # The first weights of a layer of seed 0, which no version may change.
    expected = np.array([-0.19275123, -0.48175508, 0.17382145], np.float32)
    assert np.array_equal(nn.Linear(3, 2, key=0).weight.ravel()[:3], expected)


def test_the_innermost_key_counts():
    class Outer(nn.Module):
        def __init__(self, *, key):
            self.inner = Net(key=9)
            self.waiting = Net()

    model = Outer(key=0)
    assert same(model.inner, Net(key=9))
    assert same(model.waiting, Net(key=by_hand(0, "waiting")))


def test_a_constructor_that_needs_a_key_waits_and_gets_it():
    class Splitting(nn.Module):
        def __init__(self, n, *, key):
            first, second = ws.random.split(key)
            self.a, self.b = nn.Linear(n, n, key=first), nn.Linear(n, n, key=second)

        def __call__(self, x):
            return self.b(self.a(x))

    model = nn.Sequential(Splitting(3), key=2)
    assert same(model.layers[0], Splitting(3, key=by_hand(2, "layers", 0)))


def test_a_layer_can_be_read_where_it_is_assigned():
    class Tied(nn.Module):
        def __init__(self, *, key):
            self.embedding = nn.Embedding(5, 3)
            self.head = nn.tied(self.embedding.weight)

    class TiedByPath(nn.Module):
        def __init__(self):
            self.embedding = nn.Embedding(5, 3)
            self.head = nn.tied("embedding.weight")

    for model in (Tied(key=0), nn.initialized(TiedByPath(), 0)):
        assert model.head is model.embedding.weight
        assert list(nn.named_parameters(model)) == ["embedding.weight"]
    with pytest.raises(UnknownNameError, match=r"Embedding\(count=5, width=3\) was made without a key"):
        nn.Embedding(5, 3).weight  # noqa: B018 # reading it is the point


def test_a_layer_at_two_paths_is_one_drawn_for_the_first():
    class Pair(nn.Module):
        def __init__(self, part):
            self.part = part

        def __call__(self, x):
            return self.part(x)

    shared = nn.Linear(3, 3)
    model = nn.Sequential(Pair(shared), Pair(shared), key=0)
    assert model.layers[0].part is model.layers[1].part is shared
    assert same(shared, nn.Linear(3, 3, key=by_hand(0, "layers", 0, "part")))
    assert list(nn.named_parameters(model)) == ["layers[0].part.weight", "layers[0].part.bias"]


def test_a_layer_inside_another_and_beside_it_is_drawn_once():
    shared = nn.Linear(3, 3)
    model = nn.Sequential(nn.WeightNorm(shared), shared, key=0)
    assert same(shared, nn.Linear(3, 3, key=by_hand(0, "layers", 0, "layer")))
    assert np.array_equal(model.layers[0].direction, shared.weight)


def test_layers_around_layers_draw_what_they_hold_first():
    for around in (nn.WeightNorm, nn.Orthogonal, nn.SpectralNorm, functools.partial(nn.LoRA, rank=2)):
        model = nn.Sequential(around(nn.Linear(3, 4)), key=0)
        at = by_hand(0, "layers", 0)
        inner = nn.Linear(3, 4, key=ws.random.fold_in(at, "layer"))
        named = {"key": at} if around is nn.SpectralNorm or isinstance(around, functools.partial) else {}
        assert same(model.layers[0], around(inner, **named))
    assert same(nn.SpectralNorm(nn.Linear(3, 4), key=1).layer.bias, nn.Linear(3, 4, key=by_hand(1, "layer")).bias)


def test_a_stack_draws_each_of_its_layers():
    stacked = nn.Stack(lambda: Block(4), 3, key=0)
    keys = ws.random.split(ws.random.key(0), 3)
    for layer, key in zip(stacked.to_layers(), keys, strict=True):
        assert same(layer, nn.initialized(Block(4), key))


def test_dataclasses_and_subclasses():
    @dataclass(eq=False)
    class Data(nn.Module):
        first: nn.Linear = field(default_factory=lambda: nn.Linear(2, 2))

    class Wide(nn.Linear):
        def __init__(self, inputs, *, key=None):
            super().__init__(inputs, 2 * inputs, key=key)
            self.extra = nn.Linear(1, 1)

    assert same(nn.initialized(Data(), 1).first, nn.Linear(2, 2, key=by_hand(1, "first")))
    model = nn.Sequential(Wide(3), key=0)
    assert same(model.layers[0], Wide(3, key=by_hand(0, "layers", 0)))
    assert same(model.layers[0].extra, nn.Linear(1, 1, key=by_hand(0, "layers", 0, "extra")))

    class Keyless(nn.Linear):
        def __init__(self):
            super().__init__(2, 2)

    with pytest.raises(ParameterError, match=r"(?s)no key.*hint: a class that takes no key has to pass one on"):
        Keyless()


def test_trees_of_layers_and_models_that_stay_as_they_are():
    model = {"a": [nn.Linear(2, 2), nn.relu], "drawn": nn.Linear(2, 2, key=3)}
    first, second = nn.initialized(model, 0), nn.initialized(model, 1)
    assert same(first["a"][0], nn.Linear(2, 2, key=by_hand(0, "a", 0)))
    assert same(second["a"][0], nn.Linear(2, 2, key=by_hand(1, "a", 0)))
    assert first["drawn"] is not model["drawn"] and first["drawn"].weight is model["drawn"].weight
    assert repr(model["a"][0]) == "Linear(inputs=2, outputs=2), not drawn"
    # Layers that are arguments of a layer, and not drawn yet, are copied too.
    normed = nn.WeightNorm(nn.Linear(2, 2))
    assert not same(nn.initialized(normed, 0), nn.initialized(normed, 1))
    for again in (copy.deepcopy(normed), pickle.loads(pickle.dumps(normed))):
        assert same(nn.initialized(again, 0), nn.initialized(normed, 0))


USES = {
    "parameters": nn.named_parameters,
    "grad": lambda model: ws.grad(lambda m: np.sum(m(np.ones((1, 3), np.float32))))(model),
    "jit": lambda model: ws.jit(lambda m, x: m(x))(model, np.ones((1, 3), np.float32)),
    "compile": lambda model: ws.compile(
        lambda m, x: np.mean(m(x) ** 2), model, optimizer=ws.optim.sgd(0.1), batch=np.ones((1, 3), np.float32)
    ),
    "eval": lambda model: model.eval(),
    "summary": lambda model: nn.summary(model, (1, 3)),
}


@pytest.mark.parametrize("use", USES)
def test_a_model_that_is_not_drawn_says_where_and_what_to_do(use):
    model = nn.Sequential(nn.relu, nn.Linear(3, 4))  # the line to blame
    with pytest.raises(ParameterError) as caught:
        USES[use](model)
    message = str(caught.value)
    assert "layers[1] is Linear(inputs=3, outputs=4), which was made without a key and is not drawn yet" in message
    assert "# the line to blame" in message
    assert "nn.initialized(model, key=0)" in message


def test_a_call_says_it_too():
    with pytest.raises(UnknownNameError) as caught:
        nn.Sequential(nn.relu, nn.Linear(3, 4))(np.ones((1, 3), np.float32))
    assert "made without a key" in str(caught.value)
    assert caught.value.__notes__ == ["  in layers[1] (Linear) of Sequential"]
    with pytest.raises(ParameterError, match="not drawn"):
        nn.Linear(3, 4).weight = np.ones((3, 4))


def test_wrong_arguments_are_told_at_once_and_wrong_sizes_with_the_line_that_made_them():
    with pytest.raises(ws.errors.ArgumentError, match="Linear: outputs is missing"):
        nn.Linear(3)
    with pytest.raises(ws.errors.ArgumentError, match="it is inputs"):
        nn.LSTMCell(input_size=3, width=2)
    waiting = nn.Linear(3, -1)  # of a wrong size
    with pytest.raises(ParameterError, match="outputs is -1") as caught:
        nn.initialized([waiting], 0)
    assert caught.value.__notes__[-1].startswith("  in [0] (Linear), made at ")
    assert "# of a wrong size" in caught.value.__notes__[-1]
    for _ in range(2):  # it goes on waiting
        with pytest.raises(ParameterError, match="outputs is -1"):
            nn.Sequential(nn.Lambda(np.tanh), waiting, key=0)


def test_weights_are_put_in_place_without_draws(tmp_path, monkeypatch):
    trained = Net(key=1)
    nn.save(trained, tmp_path / "net.safetensors")
    weights = nn.to_torch(trained)
    monkeypatch.setattr(ws.random, "uniform", None)
    monkeypatch.setattr(ws.random, "normal", None)
    model = Net()
    assert same(nn.load(model, tmp_path / "net.safetensors"), trained)
    assert same(nn.from_torch(model, weights), trained)
    with pytest.raises(ParameterError, match="not drawn"):  # the given one stays as it is
        nn.named_parameters(model)
    del weights["heads.mean.bias"]
    with pytest.raises(CheckpointError, match=r"from_torch: heads.mean.bias are not drawn, and not in the file"):
        nn.from_torch(model, weights, strict=False)
    assert len(nn.named_parameters(nn.from_torch(trained, weights, strict=False))) == 13


def test_draws_are_left_out_in_one_thread_alone():
    found = []
    with drawing_nothing():
        other = threading.Thread(target=lambda: found.append(nn.Linear(3, 4, key=0)))
        other.start()
        other.join()
        assert not nn.Linear(3, 4, key=0).weight.any()
        assert not nn.init.orthogonal(0, (2, 2)).any()
        assert not nn.init.truncated_normal(0, (2, 2)).any()
    assert same(found[0], nn.Linear(3, 4, key=0))


def test_models_are_drawn_in_traces_and_mapped_over_keys():
    keys = ws.random.split(ws.random.key(0), 3)
    many = ws.vmap(lambda key: nn.initialized(Net(), key))(keys)
    for i in range(3):
        alone = nn.named_parameters(nn.initialized(Net(), keys[i]))
        assert all(np.array_equal(x[i], alone[path]) for path, x in nn.named_parameters(many).items())
    outside = nn.Linear(3, 2)
    mapped = ws.vmap(lambda key: nn.initialized(outside, key).weight)(keys)
    assert np.array_equal(mapped[2], nn.Linear(3, 2, key=keys[2]).weight)
    weight = ws.jit(lambda key: nn.initialized(nn.Linear(3, 2), key).weight)(keys[0])
    assert np.array_equal(weight, mapped[0])


def test_names_fold_into_keys_apart_from_numbers():
    key = ws.random.key(0)
    names = ["", "a", "b", "ab", "layers", "größe"]
    folded = [tuple(ws.random.fold_in(key, x).tolist()) for x in (*names, *range(6), 97, 98)]
    assert len(set(folded)) == len(folded)
    digest = 0xCA978112CA1BBDCA  # of SHA-256("a"), as FIPS 180 has it
    assert np.array_equal(ws.random.fold_in(key, "a"), ws.random.fold_in(key, digest))


class Pair(nn.Module):
    def __init__(self, *, key):
        self.student, self.teacher = nn.MLP([3, 4, 2]), nn.frozen(nn.MLP([3, 4, 2]))
        self.rest = [nn.frozen(nn.BatchNorm(2)), nn.frozen(nn.Linear(2, 2)), nn.Linear(2, 2)]


def test_what_waits_is_frozen_as_it_is_drawn():
    made = Pair(key=0)
    trained, kept = nn.named_parameters(made), nn.buffers(made)
    assert {path.partition(".")[0] for path in trained} == {"student", "rest[2]"}
    assert {"teacher.layers[0].weight", "teacher.layers[1].bias", "rest[1].weight", "rest[0].gain"} <= set(kept)
    at = ws.random.fold_in(ws.random.key(0), "teacher")
    np.testing.assert_array_equal(made.teacher.layers[1].weight, nn.MLP([3, 4, 2], key=at).layers[1].weight)
    plain = nn.Linear(3, 4)
    frozen = nn.frozen(plain)  # a copy: the layer itself waits to be trained
    both = nn.Sequential(plain, nn.frozen(nn.Linear(4, 2)), key=1)
    assert list(nn.named_parameters(both)) == ["layers[0].weight", "layers[0].bias"]
    assert list(nn.buffers(nn.initialized(pickle.loads(pickle.dumps(frozen)), key=1))) == ["weight", "bias"]
    around = nn.LoRA(nn.frozen(nn.Linear(3, 4)), 2, key=0)
    assert list(nn.named_parameters(around)) == ["down", "up"]
    with pytest.raises(UnknownNameError, match="not drawn yet"):
        frozen(np.ones(3))
