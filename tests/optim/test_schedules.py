"""Schedules: PyTorch's numbers where it has the schedule, exact ends and peaks, traced as eager."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import optim
from wholestep.errors import DtypeError
from wholestep.optim.hyper import hyper_of, with_hyper

COUNTS = np.arange(60)
ALL = {
    "constant": optim.constant(0.3),
    "linear": optim.linear(0.1, 0.7, 13),
    "polynomial": optim.polynomial(0.7, 13, 0.1, 2.5),
    "cosine": optim.cosine(0.7, 13, 0.1),
    "restarts": optim.cosine_restarts(0.7, 7, 0.1),
    "growing restarts": optim.cosine_restarts(0.7, 3, 0.1, 2),
    "exponential": optim.exponential(0.7, 0.5, 10),
    "step_decay": optim.step_decay(0.7, 7, 0.5),
    "multi_step": optim.multi_step(0.7, (4, 9, 30), 0.5),
    "piecewise": optim.piecewise((4, 30), (0.3, 0.2, 0.1)),
    "inverse_sqrt": optim.inverse_sqrt(0.7, 10),
    "one_cycle": optim.one_cycle(0.7, 50),
    "cyclic": optim.cyclic(0.1, 0.7, 5, 9, 0.5),
    "warmup": optim.warmup(optim.cosine(0.7, 40), 10, 0.01),
    "warmup to a number": optim.warmup(0.7, 10),
    "join": optim.join((optim.linear(0.0, 0.7, 5), 0.7, optim.exponential(0.7, 0.9)), (5, 20)),
    "scaled": optim.scaled(optim.cosine(0.7, 40), 0.5),
}


def torch_rates(torch, make, lr=0.7):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr)
    scheduler = make(torch.optim.lr_scheduler, optimizer)
    rates = []
    for _ in COUNTS:
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


PAIRS = [
    (optim.linear(0.7 * 0.2, 0.7, 13), lambda s, o: s.LinearLR(o, 0.2, 1.0, 13)),
    (optim.polynomial(0.7, 13, power=2.5), lambda s, o: s.PolynomialLR(o, 13, 2.5)),
    (optim.cosine(0.7, 59, 0.1), lambda s, o: s.CosineAnnealingLR(o, 59, 0.1)),
    (optim.cosine_restarts(0.7, 7, 0.1), lambda s, o: s.CosineAnnealingWarmRestarts(o, 7, 1, 0.1)),
    (optim.cosine_restarts(0.7, 3, 0.1, 2), lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.1)),
    (optim.cosine_restarts(0.7, 2, 0.1, 3), lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 3, 0.1)),
    (optim.exponential(0.7, 0.95), lambda s, o: s.ExponentialLR(o, 0.95)),
    (optim.step_decay(0.7, 7, 0.5), lambda s, o: s.StepLR(o, 7, 0.5)),
    (optim.multi_step(0.7, (4, 9, 30), 0.5), lambda s, o: s.MultiStepLR(o, [4, 9, 30], 0.5)),
    (optim.one_cycle(0.7, 70), lambda s, o: s.OneCycleLR(o, 0.7, 70)),
    (optim.cyclic(0.1, 0.7, 5, 9), lambda s, o: s.CyclicLR(o, 0.1, 0.7, 5, 9)),
    (optim.cyclic(0.1, 0.7, 5, factor=0.5), lambda s, o: s.CyclicLR(o, 0.1, 0.7, 5, mode="triangular2")),
    (
        optim.join((optim.linear(0.07, 0.7, 5), optim.exponential(0.7, 0.9)), (5,)),
        lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1.0, 5), s.ExponentialLR(o, 0.9)], [5]),
    ),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=[repr(p[0]) for p in PAIRS])
@pytest.mark.filterwarnings("ignore")
def test_values_are_those_of_torch(ours, theirs):
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    np.testing.assert_allclose(ours(COUNTS), torch_rates(torch, theirs), rtol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_one_count_and_many_traced_and_eager_are_the_same(name):
    schedule = ALL[name]
    many = schedule(COUNTS)
    assert many.dtype == np.float64
    np.testing.assert_allclose([schedule(int(t)) for t in COUNTS], many, rtol=1e-14)
    traced = ws.jit(lambda hyper, t: with_hyper(schedule, hyper)(t))
    np.testing.assert_allclose(traced(hyper_of(schedule), COUNTS), many, rtol=1e-14)


@pytest.mark.parametrize("name", ALL)
def test_a_schedule_prints_as_the_call_that_makes_it(name):
    schedule = ALL[name]
    assert eval(repr(schedule), vars(optim)) == schedule


@pytest.mark.parametrize("peak", [0.7, 0.1, 3e-4, 1 / 3])
def test_peaks_and_ends_are_reached_exactly(peak):
    for steps in (3, 7, 10, 49):
        assert optim.linear(0.3 * peak, peak, steps)(steps) == peak
        assert optim.cosine(peak, steps, 0.01 * peak)(0) == peak
        assert optim.cosine(peak, steps, 0.01 * peak)(steps) == 0.01 * peak
        assert optim.warmup(optim.cosine(peak, 100), steps)(steps) == peak
        assert optim.warmup(peak, steps, 0.1 * peak)(0) == 0.1 * peak
        assert optim.one_cycle(peak, steps)(COUNTS).max() == peak
        assert optim.one_cycle(peak, steps)(steps - 1) == optim.one_cycle(peak, steps).end
        assert optim.cyclic(0.1 * peak, peak, steps)(COUNTS).max() == peak
        assert optim.cosine_restarts(peak, steps, growth=1.5)(0) == peak


def test_restarts_begin_where_they_should_for_large_counts():
    schedule = optim.cosine_restarts(1.0, 3, growth=2)
    begins = 3 * (2 ** np.arange(1, 30) - 1)
    assert (schedule(begins) == 1.0).all()
    assert (schedule(begins - 1) < 0.5).all()


def test_the_first_update_has_the_value_at_zero_and_no_number_compiles_anew():
    schedule = optim.warmup(optim.cosine(1.0, 10), 4)
    step = ws.compile(lambda w, x: np.sum(w * x), np.zeros(1), optimizer=optim.sgd(schedule), batch=np.ones(1))
    seen = [0.0]
    for _ in range(20):
        step(np.ones(1))
        seen.append(float(step.params[0]))
    np.testing.assert_allclose(-np.diff(seen), schedule(np.arange(20)), atol=1e-12)
    step.set(peak=0.0)
    step(np.ones(1))
    assert step.params[0] == seen[-1]
    step.set(**{"then.steps": 1000.0, "end": 0.5, "peak": 0.5})
    step(np.ones(1))
    np.testing.assert_allclose(step.params[0], seen[-1] - 0.5)
    assert step.traces == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.linear(0.1, 0.2, 0), "linear: steps is 0; it must be more than 0"),
        (lambda: optim.cosine(-1.0, 10), "cosine: peak is -1; it must be 0 or more"),
        (lambda: optim.cosine(float("nan"), 10), "cosine: peak is nan"),
        (lambda: optim.cosine_restarts(1.0, 10, growth=0.5), "cosine_restarts: growth is 0.5; it must be more than 1"),
        (lambda: optim.multi_step(1.0, (5, 5)), "multi_step: the milestones are 5, 5"),
        (lambda: optim.piecewise((1, 2), (0.1, 0.2)), "piecewise: 2 boundaries and 2 values"),
        (lambda: optim.join((0.1, 0.2), ()), "join: 2 schedules and 0 boundaries"),
        (lambda: optim.join((0.1, 0.2, 0.3), (4, 2)), "join: the boundaries are 4, 2"),
        (lambda: optim.one_cycle(1.0, 10, rise=1.0), "one_cycle: rise is 1"),
        (lambda: optim.warmup(-0.1, 10), "warmup: then is -0.1"),
    ],
)
def test_wrong_numbers_are_refused(make, message):
    with pytest.raises(ws.errors.ParameterError, match=f"^{message}"):
        make()


@pytest.mark.parametrize(
    "make", [lambda: optim.warmup("slow", 10), lambda: optim.join(("slow",), ()), lambda: optim.constant(True)]
)
def test_what_is_no_number_is_refused(make):
    with pytest.raises(ws.errors.DtypeError, match="not a number"):
        make()


@pytest.mark.parametrize(
    ("schedule", "changes", "message"),
    [
        (optim.multi_step(0.1, (3, 5)), {"milestones[0]": 6.0}, "multi_step: the milestones are 6, 5"),
        (optim.join((0.1, 0.2, 0.3), (2, 4)), {"boundaries[1]": 1.0}, "join: the boundaries are 2, 1"),
        (
            optim.join((0.1, optim.piecewise((1, 2), (0.1, 0.2, 0.3))), (3,)),
            {"schedules[1].boundaries[1]": 1.0},
            "piecewise: the boundaries are 1, 1",
        ),
    ],
)
def test_numbers_that_are_set_must_fit_together(schedule, changes, message):
    step = ws.compile(lambda p, x: np.sum(p * x), np.zeros(1), optimizer=optim.sgd(schedule), batch=np.ones(1))
    before = step.hyper
    with pytest.raises(ws.errors.ParameterError, match=f"^{message}"):
        step.set(**changes)
    assert step.hyper == before


def test_milestones_move_together():
    optimizer = optim.sgd(optim.multi_step(0.1, (3, 5)))
    step = ws.compile(lambda p, x: np.sum(p * x), np.zeros(1), optimizer=optimizer, batch=np.ones(1))
    step.set(**{"milestones[0]": 6.0, "milestones[1]": 9.0})
    assert step.hyper["milestones[0]"] == 6.0


def test_a_schedule_made_by_its_class_is_checked_where_it_is_used():
    with pytest.raises(ws.errors.ParameterError, match="the milestones are 5, 3"):
        optim.sgd(optim.MultiStep(0.1, (5.0, 3.0), 0.5))


@pytest.mark.parametrize("boundaries", [3, 0.1, None])
def test_a_number_is_no_list_of_boundaries(boundaries):
    with pytest.raises(DtypeError, match=r"piecewise: boundaries is an? .*, not a list"):
        ws.optim.piecewise(boundaries, [0.1, 0.01])
