"""`nn.generate`: the tokens of the whole forward pass, drawn as NumPy draws, and errors before it runs."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import BoundsError, DtypeError, ParameterError, ShapeError
from wholestep.nn import generation

COUNT = 11


class Model(nn.Module):
    def __init__(self, dtype=np.float32, dropout=0.0):
        first, second, last = ws.random.split(ws.random.key(3), 3)
        self.embedding = nn.Embedding(COUNT, 8, key=first, dtype=dtype)
        options = {"causal": True, "rope": 100.0, "dropout": dropout, "dtype": dtype}
        self.blocks = [nn.TransformerBlock(8, 2, key=k, **options) for k in ws.random.split(second, 2)]
        self.head = nn.Linear(8, COUNT, key=last, dtype=dtype)

    def __call__(self, tokens, cache=None, position=0):
        x, new = self.embedding(tokens), []
        for block, held in zip(self.blocks, cache or [None, None], strict=True):
            made = block(x, cache=held, position=position)
            x, held = made if cache else (made, None)
            new.append(held)
        return (4 * self.head(x), new) if cache else 4 * self.head(x)

    def init_cache(self, batch, length, dtype=np.float32):
        return [block.init_cache(batch, length, dtype) for block in self.blocks]


MODEL, KEY = Model(), ws.random.key(0)
PROMPT = np.array([[1, 2, 3], [4, 0, 6]])


def uncached(model, prompt, count, choose=None):
    """Generation without a cache: one forward pass over the whole sequence for each token."""
    rows = np.array(prompt)
    for _ in range(count):
        scores = np.asarray(model(rows), np.float64)[:, -1]
        new = scores.argmax(-1) if choose is None else choose(scores, rows.shape[1])
        rows = np.concatenate([rows, np.asarray(new, rows.dtype)[:, None]], axis=1)
    return rows


def test_the_highest_score_is_that_of_the_whole_forward_pass():
    wanted = uncached(MODEL, PROMPT, 12)
    found = nn.generate(MODEL, PROMPT, 12)
    assert found.tolist() == wanted.tolist() and found.dtype == PROMPT.dtype
    alone = nn.generate(MODEL, PROMPT[0].astype(np.uint8), 12)
    assert alone.tolist() == wanted[0].tolist() and alone.dtype == np.uint8


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.6}, {"top_k": 5, "top_p": 0.7}]
)
def test_a_key_draws_the_tokens_of_an_uncompiled_loop(options):
    key = ws.random.key(7)

    def choose(scores, place):
        kept = numpy_choice(scores / options.get("temperature", 1.0), options.get("top_k"), options.get("top_p"))
        return ws.random.categorical(ws.random.fold_in(key, place), kept.astype(np.float32))

    found = nn.generate(MODEL, PROMPT, 9, key=key, **options)
    assert found.tolist() == uncached(MODEL, PROMPT, 9, choose).tolist()
    assert found.tolist() == nn.generate(MODEL, PROMPT, 9, key=key, **options).tolist()
    assert found.tolist() != nn.generate(MODEL, PROMPT, 9, key=ws.random.key(8), **options).tolist()


LONG = 90
"""A number of tokens with which the used part of a cache passes several of the lengths that a program has code for."""


@pytest.mark.parametrize("options", [{}, {"temperature": 0.7, "top_k": 6, "top_p": 0.95}])
def test_long_texts_are_those_of_the_whole_forward_pass(options):
    """Each token is chosen from the scores of all tokens before it, which one pass without a cache gives."""
    key = ws.random.key(7) if options else None
    found = nn.generate(MODEL, PROMPT, LONG, key=key, **options)
    scores = np.asarray(MODEL(found), np.float64)
    for place in range(PROMPT.shape[1], found.shape[1]):
        now = scores[:, place - 1]
        if options:
            kept = numpy_choice(now / options["temperature"], options["top_k"], options["top_p"])
            wanted = ws.random.categorical(ws.random.fold_in(key, place), kept.astype(np.float32))
        else:
            wanted = now.argmax(-1)
        assert found[:, place].tolist() == wanted.tolist(), place


def test_an_attached_function_takes_growing_texts_without_another_trace():
    step = ws.compile(
        lambda m, b: nn.cross_entropy(m(b[:, :-1]), b[:, 1:]), MODEL, optimizer=ws.optim.sgd(0.01), batch=PROMPT
    )
    write = step.attach(lambda model, b: nn.generate(model, b["text"], 4, lengths=b["lengths"]))
    after = step.attach(lambda model, b: model(b["token"], cache=b["cache"], position=b["position"]))
    text, cache = PROMPT[:1], MODEL.init_cache(1, 80)
    for place in range(text.shape[1]):
        scores, cache = after({"token": text[:, place : place + 1], "cache": cache, "position": place})
    for _ in range(70):
        padded = np.pad(text, ((0, 0), (0, 76 - text.shape[1])))
        new = write({"text": padded, "lengths": np.array([text.shape[1]])})[:, : text.shape[1] + 1]
        assert new[0, -1] == np.argmax(scores[0, -1])
        scores, cache = after({"token": new[:, -1:], "cache": cache, "position": text.shape[1]})
        text = new
    assert text.tolist() == nn.generate(MODEL, PROMPT[:1], 70).tolist()
    assert len(write.entries) == len(after.entries) == 1


def numpy_choice(scores, top_k, top_p):
    """The scores with -inf for tokens outside of `top_k` and `top_p`, row by row."""
    kept = np.array(scores, np.float64)
    for row in kept:
        if top_k is not None:
            row[row < np.sort(row)[::-1][:top_k][-1]] = -np.inf
        if top_p is not None:
            order = np.argsort(-row)
            shares = np.exp(row[order] - row.max())
            total = np.cumsum(shares / shares.sum())
            row[order[np.searchsorted(total, top_p) + 1 :]] = -np.inf
    return kept


@pytest.mark.parametrize(
    ("top_k", "top_p"), [(1, None), (4, None), (50, None), (None, 1e-6), (None, 0.3), (None, 0.9), (6, 0.5)]
)
def test_what_is_likeliest_is_what_numpy_says(top_k, top_p):
    scores = np.random.default_rng(0).normal(size=(20, 33)) * 3
    np.testing.assert_array_equal(generation.likeliest(scores, top_k, top_p), numpy_choice(scores, top_k, top_p))


def test_ties_with_the_last_of_the_highest_stay():
    assert generation.likeliest(np.array([[1.0, 2.0, 2.0, 0.0]]), 1, None).tolist() == [[-np.inf, 2.0, 2.0, -np.inf]]


def test_draws_follow_the_probabilities():
    found = nn.generate(
        lambda t, cache, position: (np.log([[[0.5, 0.3, 0.2]]]) + 0 * t[..., None], cache),
        [0],
        3000,
        key=ws.random.key(1),
        init_cache=lambda batch, length, dtype: np.zeros(1),
    )
    np.testing.assert_allclose(np.bincount(found[1:]) / 3000, [0.5, 0.3, 0.2], atol=0.03)


def test_a_row_ends_with_a_stop_token():
    whole = uncached(MODEL, PROMPT, 10)
    stop = int(whole[0, 6])
    found = nn.generate(MODEL, PROMPT, 10, stop=stop, pad=9)
    for row, wanted in zip(found, whole, strict=True):
        at = [i for i in range(3, 13) if wanted[i] == stop]
        end = at[0] + 1 if at else 13
        assert row[:end].tolist() == wanted[:end].tolist() and (row[end:] == 9).all()
    assert (nn.generate(MODEL, PROMPT[:1], 10, stop=[stop])[0, 7:] == stop).all()
    assert nn.generate(MODEL, np.array([[stop, 2, stop]]), 4, stop=stop).shape == (1, 7)  # in a prompt it ends nothing


def test_prompts_of_different_lengths_are_each_as_if_alone():
    prompts = [[1, 2, 3], [4, 5, 6, 7, 8], [9]]
    found = nn.generate(MODEL, prompts, 6, pad=10)
    for row, prompt in zip(found, prompts, strict=True):
        wanted = uncached(MODEL, [prompt], 6)[0].tolist()
        assert row.tolist() == wanted + [10] * (len(row) - len(wanted))


def test_one_program_serves_prompts_of_every_length():
    write = ws.jit(lambda model, ids, lengths: nn.generate(model, ids, 5, lengths=lengths))
    for prompt in ([1, 2], [3, 4, 5, 6], [7]):
        padded = np.array([prompt + [0] * (6 - len(prompt))])
        found = write(MODEL, padded, np.array([len(prompt)]))[0]
        assert found[: len(prompt) + 5].tolist() == uncached(MODEL, [prompt], 5)[0].tolist()
    assert write.traces == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_caches_of_other_precisions(dtype):
    kind = ws.numpy.dtype(dtype) if dtype != "bfloat16" else ws.dtypes.from_short("bf16")
    found = nn.generate(MODEL, PROMPT, 8, dtype=kind)
    scores = np.asarray(MODEL(found))
    picked = np.take_along_axis(scores[:, 2:-1], found[:, 3:, None], -1)[..., 0]
    assert np.all(scores[:, 2:-1].max(-1) - picked < (1e-6 if dtype == "float64" else 0.2))


def test_a_model_of_half_precision():
    model = Model(np.float16)
    assert nn.generate(model, PROMPT, 5, dtype=np.float16).shape == (2, 8)


def test_modules_run_in_evaluation_mode_and_stay_as_they_are():
    model = Model(dropout=0.5)
    assert nn.generate(model, PROMPT, 4).tolist() == uncached(model.eval(), PROMPT, 4).tolist()
    assert model.training


def test_it_is_part_of_the_programs_that_call_it():
    wanted = nn.generate(MODEL, PROMPT, 5)
    assert ws.jit(lambda model, p: nn.generate(model, p, 5))(MODEL, PROMPT).tolist() == wanted.tolist()
    step = ws.compile(
        lambda m, b: nn.cross_entropy(m(b[:, :-1]), b[:, 1:]), MODEL, optimizer=ws.optim.sgd(0.01), batch=PROMPT
    )
    write = step.attach(lambda model, p: nn.generate(model, p, 5))
    assert write(PROMPT).tolist() == wanted.tolist()
    for _ in range(20):
        step(PROMPT)
    assert write(PROMPT).tolist() == uncached(step.model.eval(), PROMPT, 5).tolist() != wanted.tolist()


def test_another_call_of_a_model_traces_nothing():
    model = Model()
    first = nn.generate(model, PROMPT, 4)
    (program,) = generation.PROGRAMS[model].values()
    model.head.bias[...] = np.arange(COUNT) * 10.0
    second = nn.generate(model, PROMPT, 4)
    assert program.traces == 1 and (second[:, 3:] == COUNT - 1).all() and not (first[:, 3:] == COUNT - 1).all()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: nn.generate(MODEL, PROMPT, 6, length=8), BoundsError, "need 9 places, and the cache has 8"),
        (lambda: nn.generate(MODEL, PROMPT, 0), ParameterError, "count is 0"),
        (lambda: nn.generate(MODEL, PROMPT, 2, top_k=3), ParameterError, "there is no key"),
        (lambda: nn.generate(MODEL, PROMPT, 2, key=KEY, top_k=0), ParameterError, "top_k is 0"),
        (lambda: nn.generate(MODEL, PROMPT, 2, key=KEY, top_p=0.0), ParameterError, "top_p is 0"),
        (lambda: nn.generate(MODEL, PROMPT, 2, key=KEY, temperature=0.0), ParameterError, "temperature is 0"),
        (lambda: nn.generate(MODEL, PROMPT.astype(float), 2), DtypeError, "not integer"),
        (lambda: nn.generate(MODEL, PROMPT[:, :0], 2), ShapeError, "not empty"),
        (lambda: nn.generate(MODEL, [[1], []], 2), ShapeError, "a prompt is empty"),
        (lambda: nn.generate(MODEL, PROMPT, 2, lengths=[3, 4]), ShapeError, "from 1 to 3"),
        (lambda: nn.generate(MODEL, PROMPT, 2, lengths=[3]), ShapeError, "lengths are"),
        (lambda: nn.generate(nn.Linear(3, 3, key=0), PROMPT, 2), ParameterError, "Linear has no init_cache"),
        (lambda: nn.generate(MODEL, PROMPT, 2, max_new_tokens=3), TypeError, "count"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()
