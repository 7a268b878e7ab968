"""Stacks: the same numbers as the layers one after another, in every mode, in a program whose size does not grow."""

from __future__ import annotations

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError, UnsupportedError
from wholestep.nn.keys import keys_from

MODES = [
    "all",
    "inputs",
    "sqrt",
    2,
    3,
    5,
    9,
    "contractions",
    "everything",
    ["h"],
    lambda name, type, params: name == "tanh",
]


class Block(nn.Module):
    """A residual block with everything that a stack may meet: an undecayed gain, dropout, a named value."""

    undecayed = ("gain",)

    def __init__(self, width, key):
        first, second = keys_from(key, 2)
        self.up, self.down = nn.Linear(width, 2 * width, key=first), nn.Linear(2 * width, width, key=second)
        self.gain, self.dropout = np.full(width, 0.5, np.float32), nn.Dropout(0.2)

    def __call__(self, x, scale=1.0, *, key=None):
        h = ws.capture("h", np.tanh(self.up(x) * scale))
        return x + self.gain * self.dropout(self.down(h), key=key)


class Normed(nn.Module):
    """A layer with buffers, frozen numbers and a tie."""

    def __init__(self, key):
        self.parts = {"dense": nn.Linear(4, 4, key=key, bias=False)}
        self.norm, self.again = nn.BatchNorm(4), nn.tied(self.parts["dense"])
        self.shift = nn.frozen(np.linspace(-1, 1, 4, dtype=np.float32))

    def __call__(self, x):
        return np.tanh(self.norm(self.again(x)) + self.shift)


def block(key):
    return Block(4, key)


def rows(seed=0, shape=(3, 4)):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def same(stack, layers):
    """Assert that the arrays of a stack, or of its gradient, are those of these layers, to the bit."""
    split = [nn.split(layer) for layer in layers]
    for part, arrays in enumerate(nn.split(stack)):
        assert list(arrays) == list(split[0][part])
        for path, x in arrays.items():
            np.testing.assert_array_equal(x, np.stack([s[part][path] for s in split]), err_msg=path)


def test_layers_begin_as_those_that_are_built_alone():
    layers = [block(key) for key in keys_from(7, 5)]
    same(nn.Stack(block, 5, key=7), layers)
    same(nn.Stack(lambda k: block(k), 5, key=7), layers)  # the key by position
    same(nn.Stack.from_layers(layers), layers)
    same(ws.jit(lambda: nn.Stack(block, 5, key=7))(), layers)  # under jit one layer is traced for all


@pytest.mark.parametrize("keep", MODES, ids=lambda keep: "policy" if callable(keep) else str(keep))
def test_every_mode_gives_the_bits_of_a_loop(keep):
    stack = nn.Stack(block, 5, key=1, keep=keep)
    plain = nn.Sequential(*stack.to_layers())
    x, key = rows(), ws.random.key(3)

    def loss(model, x):
        return np.mean(model(x, key=key) ** 2)

    value, gradient = ws.value_and_grad(loss, argnums=(0, 1))(stack, x)
    expected, (layers, dx) = ws.value_and_grad(loss, argnums=(0, 1))(plain, x)
    assert value == expected and stack(x, key=key).tobytes() == plain(x, key=key).tobytes()
    same(gradient[0], layers.layers)
    np.testing.assert_array_equal(gradient[1], dx)


def trained(loss, model, batch, steps=5):
    step = ws.compile(loss, model, optimizer=ws.optim.adam(1e-2), batch=batch, key=5)
    losses = [step(batch).loss for _ in range(steps)]
    return losses, step.params


def test_compiled_training_gives_the_bits_of_a_loop_in_every_mode():
    layers = [block(key) for key in keys_from(2, 5)]
    batch = {"x": rows(1, (8, 4)), "y": rows(2, (8, 4))}

    def by_hand(model, batch, *, key):
        h = batch["x"]
        for layer, k in zip(model, keys_from(key, 5), strict=True):
            h = layer(h, key=k)
        return np.mean((h - batch["y"]) ** 2)

    def stacked(model, batch, *, key):
        return np.mean((model(batch["x"], key=key) - batch["y"]) ** 2)

    losses, params = trained(by_hand, layers, batch)
    for keep in ("all", "inputs", "sqrt", 3, "contractions"):
        found, arrays = trained(stacked, nn.Stack.from_layers(layers, keep=keep), batch)
        assert found == losses, keep
        for path, x in arrays.items():
            expected = np.stack([params[f"[{i}].{path}"] for i in range(5)])
            np.testing.assert_array_equal(x, expected, err_msg=f"{keep}: {path}")


def test_other_arguments_go_to_every_layer():
    stack = nn.Stack(block, 3, key=0)
    plain = nn.Sequential(*stack.eval().to_layers())
    x = rows()
    for layer in plain:
        x = layer(x, np.float32(0.5))
    np.testing.assert_array_equal(stack.eval()(rows(), np.float32(0.5)), x)
    np.testing.assert_array_equal(stack.eval()(rows(), scale=np.float32(0.5)), x)
    assert stack.eval()[0].training is False and stack.eval()[0].dropout.training is False and stack[0].training


@pytest.mark.parametrize("keep", ["all", "inputs", 2])
def test_buffers_are_those_of_the_layers(keep):
    stack = nn.Stack(Normed, 3, key=4, keep=keep)
    plain = nn.Sequential(*stack.to_layers())
    assert list(nn.buffers(stack)) == list(nn.buffers(plain[0]))
    batch = rows(3, (6, 4))
    loss = lambda model, x: np.mean(model(x) ** 2)  # noqa: E731
    stepped, expected = (ws.compile(loss, m, optimizer=ws.optim.sgd(0.1), batch=batch) for m in (stack, plain))
    assert [stepped(batch).loss for _ in range(3)] == [expected(batch).loss for _ in range(3)]
    for path, x in {**stepped.params, **stepped.buffers}.items():
        found = {**expected.params, **expected.buffers}
        np.testing.assert_array_equal(x, np.stack([found[f"layers[{i}].{path}"] for i in range(3)]), err_msg=path)
    stack(batch), plain(batch)  # outside of a step they change in place
    same(stack, plain)
    before = nn.buffers(stack)["norm.mean"]
    assert before.any()
    stack.eval()(batch)
    assert nn.buffers(stack)["norm.mean"] is before


def test_layers_are_views_and_copies():
    stack = nn.Stack(block, 3, key=0)
    assert len(stack) == 3 and len(list(stack)) == 3 and isinstance(stack[0], Block)
    stack[-1].gain[...] = 9
    assert (stack.gain[2] == 9).all() and not (stack.gain[:2] == 9).any()
    stack.to_layers()[0].gain[...] = 9
    assert not (stack.gain[0] == 9).any()
    for index in (3, -4):
        with pytest.raises(IndexError):
            stack[index]
    other = stack.keeping("inputs")
    assert other.gain is stack.gain and ws.grad(lambda m: np.sum(m(rows(), key=0)))(other).gain.shape == (3, 4)


def test_a_stack_is_a_module_like_others():
    model = nn.Module()
    model.blocks = nn.Stack(block, 3, key=0)
    assert next(iter(nn.named_parameters(model))) == "blocks.up.weight"
    assert {path for path, decayed in nn.decay_flags(model).items() if not decayed} == {
        f"blocks.{path}" for path, decayed in nn.decay_flags(model.blocks[0]).items() if not decayed
    }
    assert nn.decay_flags(model)["blocks.gain"] is False
    lines = str(nn.summary(model.blocks, (2, 4))).splitlines()
    assert "3 x Block" in lines[1] and "f32[2, 4]" in lines[1]
    flops = [nn.summary(nn.Stack(block, n, key=0), (2, 4)).flops for n in (1, 2, 3)]
    assert flops[2] - flops[1] == flops[1] - flops[0] > 0
    frozen = nn.frozen(model.blocks)
    assert not nn.named_parameters(frozen) and frozen(rows(), key=0).shape == (3, 4)
    assert repr(nn.Stack(lambda key: nn.Linear(2, 2, key=key), 3, key=0)).startswith("3 x Linear(weight=float32[3, 2")


def test_a_stack_of_stacks_and_of_layers_without_keys():
    inner = lambda key: nn.Stack(block, 2, key=key, keep="inputs")  # noqa: E731
    outer = nn.Stack(inner, 3, key=0, keep="inputs")
    assert outer.up.weight.shape == (3, 2, 4, 8) and len(outer[0]) == 2 and isinstance(outer[0][1], Block)
    x = y = rows()
    for layer in outer.eval().to_layers():
        for each in layer:
            y = each(y)
    np.testing.assert_array_equal(outer.eval()(x), y)
    norms = nn.Stack(lambda: nn.LayerNorm(4), 2)
    assert norms.gain.shape == (2, 4) and norms(x).shape == x.shape


def test_shapes_of_any_number_of_layers_take_no_memory():
    made = ws.eval_shape(lambda: nn.Stack(Normed, 100_000, key=0).train())
    assert made.parts["dense"].weight.shape == (100_000, 4, 4)
    blocks = ws.eval_shape(lambda: nn.Stack(lambda key: nn.TransformerBlock(4096, 32, key=key), 96, key=0))
    assert blocks.feed_forward.up.weight.shape == (96, 4096, 4 * 4096)


def test_memory_falls_from_mode_to_mode():
    model = ws.eval_shape(lambda: nn.Stack(lambda key: nn.TransformerBlock(16, 2, key=key), 16, key=0))
    batch = ws.ShapeDtype((8, 32, 16), "float32")
    arena = {
        keep: ws.estimate(lambda model, x: np.mean(model(x) ** 2), model.keeping(keep), batch=batch,
                          optimizer=ws.optim.adam(1e-3)).arena
        for keep in ("all", "contractions", "inputs", "sqrt")
    }  # fmt: skip
    least = 16 * 8 * 32 * 16 * 4  # the inputs of the layers
    assert arena["all"] > 1.2 * arena["contractions"] and arena["contractions"] > 2 * arena["inputs"]
    assert arena["inputs"] >= arena["sqrt"] + 2 * least // 5


def test_the_program_is_as_large_for_any_number_of_layers():
    batch = rows(1, (8, 4))
    sizes = []
    for n in (4, 40):
        stack = nn.Stack(block, n, key=0, keep="inputs")
        step = ws.compile(
            lambda m, x, *, key: np.mean(m(x, key=key) ** 2), stack, optimizer=ws.optim.adam(1e-2), batch=batch
        )
        sizes.append((len(step.kernels), len(step.graph.nodes), sum(1 for _ in step.plan.launches())))
    assert sizes[0] == sizes[1]


def test_checkpoints_fit_every_mode(tmp_path):
    batch = rows()
    steps = [
        ws.compile(lambda m, x: np.mean(m.eval()(x) ** 2), nn.Stack(block, 3, key=i, keep=keep), batch=batch)
        for i, keep in enumerate(["all", "inputs"])
    ]
    steps[0].save(tmp_path / "stack.safetensors")
    steps[1].load(tmp_path / "stack.safetensors")
    assert steps[0](batch).loss == steps[1](batch).loss


class Counting(nn.Module):
    """A layer that changes a field which is no buffer."""

    def __init__(self):
        self.scale, self.seen = np.ones(4, np.float32), []

    def __call__(self, x):
        self.seen.append(1)
        return x * self.scale


def narrowed(x):
    return x.astype(np.float32)


def refused(error, pattern, make):
    with pytest.raises(error, match=pattern):
        make()


def test_what_cannot_be_stacked_is_refused():
    linear = lambda m, n: lambda key: nn.Linear(m, n, key=key)  # noqa: E731
    refused(ShapeError, r"Linear turns f32\[3, 4\] into f32\[3, 5\]", lambda: nn.Stack(linear(4, 5), 2, key=0)(rows()))
    lower = nn.Stack(lambda: nn.Lambda(narrowed), 2)
    refused(DtypeError, r"turns f64\[3, 4\] into f32", lambda: lower(np.ones((3, 4))))
    one = nn.Linear(4, 4, key=0)
    refused(ParameterError, "Linear is no function that makes a layer", lambda: nn.Stack(one, 2))
    refused(ParameterError, "n is 0", lambda: nn.Stack(block, 0, key=0))
    refused(ParameterError, "no layers", lambda: nn.Stack.from_layers([]))
    refused(ParameterError, "layer 0 is a function", lambda: nn.Stack(lambda: np.tanh, 2))
    refused(TreeError, "layer 1 shares the parameter weight", lambda: nn.Stack(lambda: one, 2))
    refused(
        TreeError,
        "layer 2 shares the parameter weight",
        lambda: nn.Stack.from_layers([nn.Linear(4, 4, key=1), one, one]),
    )
    sizes = iter([4, 5])
    refused(TreeError, r"layer 0 has parameter weight f32\[4, 4\], and layer 1 parameter weight f32\[5, 5\]",
            lambda: nn.Stack(lambda: nn.Linear(size := next(sizes), size, key=0), 2))  # fmt: skip
    chances = iter([0.1, 0.2])
    refused(TreeError, "layer 1 has another structure", lambda: nn.Stack(lambda: nn.Dropout(next(chances)), 2))
    for keep in (0, -1, True, "some", None, 1.5, []):
        refused(ParameterError, "keep is", lambda keep=keep: nn.Stack(block, 2, key=0, keep=keep))
    refused(UnsupportedError, "Counting changes its fields", lambda: nn.Stack(Counting, 2)(rows()))
    refused(ParameterError, "names no value 'k'", lambda: nn.Stack(block, 2, key=0, keep=["k"])(rows(), key=0))


def decoder(key):
    return nn.TransformerBlock(8, 2, key=key, causal=True, rope=10000.0)


@pytest.mark.parametrize("keep", ["all", "inputs", 2, "contractions"])
def test_a_cache_is_that_of_the_layers(keep):
    stack = nn.Stack(decoder, 3, key=0, keep=keep).eval()
    x, layers = rows(1, (2, 6, 8)), stack.to_layers()
    cache, caches = stack.init_cache(2, 6), [layer.init_cache(2, 6) for layer in layers]
    for at in (slice(0, 3), slice(3, 4), slice(4, 6)):
        y, cache = stack(x[:, at], cache=cache, position=at.start)
        z = x[:, at]
        for i, layer in enumerate(layers):
            z, caches[i] = layer(z, cache=caches[i], position=at.start)
        np.testing.assert_allclose(y, z, atol=1e-6)
        for name, held in cache.items():
            np.testing.assert_allclose(held, np.stack([c[name] for c in caches]), atol=1e-6)
    np.testing.assert_allclose(y, stack(x)[:, 4:], atol=1e-5)


def test_a_stack_decodes_in_one_program():
    """The cache of all layers is the carry of a loop over positions; that of nested stacks has two more axes."""
    stack = nn.Stack(lambda key: nn.Stack(decoder, 2, key=key), 3, key=0).eval()
    x = rows(1, (2, 6, 8))

    def decoded(x, cache):
        def step(carry, now):
            cache, i = carry
            y, cache = stack(now[:, None], cache=cache, position=i)
            return (cache, i + 1), y[:, 0]

        return ws.scan(step, (cache, 0), x.swapaxes(0, 1))[1].swapaxes(0, 1)

    cache = stack.init_cache(2, 6)
    assert cache["k"].shape == (3, 2, 2, 2, 6, 4)
    np.testing.assert_allclose(ws.jit(decoded)(x, cache), stack(x), atol=1e-5)


class Forgetting(nn.Module):
    """A layer whose cache is no cache."""

    def __init__(self, how):
        self.how, self.w = how, np.ones(3)

    def init_cache(self):
        return {"sum": np.zeros(3)}

    def __call__(self, x, *, cache):
        return {"none": x * self.w, "other": (x * self.w, {"sum": cache["sum"][:2]})}[self.how]


def test_what_is_no_cache_is_refused():
    for how, match in (("none", r"returns no pair \(y, cache\)"), ("other", r"cache of f64\[3\] into one of f64\[2\]")):
        stack = nn.Stack(lambda how=how: Forgetting(how), 2)
        with pytest.raises(TreeError, match=match):
            stack(np.ones(3), cache=stack.init_cache())
    with pytest.raises(UnsupportedError, match="Linear has no init_cache"):
        nn.Stack(lambda key: nn.Linear(2, 2, key=key), 2, key=0).init_cache(1)


@pytest.mark.parametrize("checkpointed", [True, False])
def test_what_is_kept_inside_an_unrolled_training_changes_nothing(checkpointed):
    """The loss after training, its gradient by the rate, and the trained arrays, in every mode."""
    batches = {"x": rows(1, (3, 8, 4)), "y": rows(2, (3, 8, 4))}
    first = {name: x[0] for name, x in batches.items()}

    def loss(model, batch):
        return np.mean((model(batch["x"]) - batch["y"]) ** 2)

    def outer(rate, model):
        after, *_ = ws.unroll(loss, ws.optim.sgd(0.1, momentum=0.9), 3, checkpoint=checkpointed)(
            model, None, batches, {"lr": rate}
        )
        return loss(after, first), nn.split(after)[0]

    found = {}
    for keep in MODES:
        model = nn.Stack(block, 4, key=0, keep=keep).eval()
        found[str(keep)] = ws.jit(ws.value_and_grad(outer, has_aux=True))(np.array(0.05), model)
    (value, trained_to), slope = found.pop("all")
    for keep, ((other, arrays), rise) in found.items():
        assert other == value, keep
        for path, x in arrays.items():
            np.testing.assert_array_equal(x, trained_to[path], err_msg=f"{keep}: {path}")
        np.testing.assert_allclose(rise, slope, rtol=1e-4, err_msg=keep)
