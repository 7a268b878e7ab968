"""The promises of every device about a program and its instances."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.compiler.devices import compile_for_device


def graph_of(f, *args):
    return ws.jit(f).lower(*args)


def swap(a, b, x):
    return b, a + x, a * b


def test_a_program_writes_no_input_and_gives_fresh_arrays(device):
    program = compile_for_device(graph_of(lambda x: (x, x.T, x[0]), np.ones((2, 2))), (), device)
    x = np.arange(4.0).reshape(2, 2)
    outs = program([x])
    for out in outs:
        out[...] = 7.0
    np.testing.assert_array_equal(x, np.arange(4.0).reshape(2, 2))
    np.testing.assert_array_equal(program([x])[1], x.T)


def test_an_instance_writes_its_state_after_reading_all_of_it(device):
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    program = compile_for_device(graph_of(swap, a, b, 1.0), [(0, 0), (1, 1)], device)
    run = program.instance([a, b])
    (product,) = run([np.array(1.0)])
    np.testing.assert_array_equal(product, [3.0, 8.0])
    np.testing.assert_array_equal(a, [3.0, 4.0])
    np.testing.assert_array_equal(b, [2.0, 3.0])


def test_instances_of_several_programs_share_state(device):
    a = np.zeros(2)
    add = compile_for_device(graph_of(lambda a, x: a + x, a, 1.0), [(0, 0)], device).instance([a])
    double = compile_for_device(graph_of(lambda a: (2 * a, np.sum(a)), a), [(0, 0)], device).instance([a])
    add([np.array(1.0)])
    (total,) = double([])
    assert total == 2.0
    np.testing.assert_array_equal(a, [2.0, 2.0])


def test_state_that_passes_through_stays(device):
    a = np.arange(3.0)
    run = compile_for_device(graph_of(lambda a, x: (a, x + a), a, 1.0), [(0, 0)], device).instance([a])
    np.testing.assert_array_equal(run([np.array(1.0)])[0], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(a, np.arange(3.0))


def test_an_error_leaves_the_state_as_it_was(device):
    def steps(total, table, rows):
        return ws.scan(lambda c, i: (c + table[i], c), total, rows)

    total = np.zeros(())
    graph = graph_of(steps, total, np.arange(3.0), np.zeros(4, np.int64))
    run = compile_for_device(graph, [(0, 0)], device).instance([total])
    run([np.arange(3.0), np.array([0, 1, 2, 2])])
    assert total == 5.0
    with pytest.raises(ws.errors.BoundsError):
        run([np.arange(3.0), np.array([0, 1, 2, 3])])
    assert total == 5.0
    run([np.arange(3.0), np.array([0, 1, 2, 2])])
    assert (total, run.trips) == (10.0, 4)


def test_a_program_without_a_loop_makes_no_trips(device):
    a = np.zeros(2)
    run = compile_for_device(graph_of(lambda a: a + 1, a), [(0, 0)], device).instance([a])
    run.stop()
    run([])
    assert run.trips == 0
    np.testing.assert_array_equal(a, np.ones(2))
