"""The budget of a model that is several graphs for torch.compile, by a planted clock: python torch_budget.py PACKAGE [TEST ...]

PACKAGE is the folder with the built package `rewright`. Needs tools/requirements-peers.txt.
"""

import sys
import unittest
from unittest import mock

sys.path.insert(0, sys.argv.pop(1))

import onnx  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402

import rewright  # noqa: E402
from rewright import torch_backend  # noqa: E402
from rewright.torch_backend import account  # noqa: E402


class Broken(nn.Module):
    """Five graphs, each of its own sizes."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4 + i, 5 + i) for i in range(5))

    def forward(self, x):  # not as a loop: dynamo leaves loops with breaks to torch
        a, b, c, d, e = self.layers
        x = a(x).relu()
        torch._dynamo.graph_break()
        x = b(x).relu()
        torch._dynamo.graph_break()
        x = c(x).relu()
        torch._dynamo.graph_break()
        x = d(x).relu()
        torch._dynamo.graph_break()
        return e(x).relu()


class Around(nn.Module):
    """A function with breaks within another that goes on after it."""

    def __init__(self):
        super().__init__()
        self.inner, self.last = Broken(), nn.Linear(9, 10)

    def forward(self, x):
        return self.last(self.inner(x) + 1)


class Number(nn.Module):
    """Ends in something that is no graph."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 6)

    def forward(self, x):
        x = self.first(x).relu()
        torch._dynamo.graph_break()
        return self.second(x).sum().item()


def error(results, expected):
    results, expected = map(torch.as_tensor, (results, expected))
    return float((results - expected).detach().abs().max() / (expected.detach().abs().max() + 1e-12))


def counted(what):
    return counters["rewright"][what]


class Planted:
    """A clock that only searches move, by what they are given, and torch, by `each` a graph."""

    def __init__(self, each=0, budget="10s"):
        self.now, self.given, self.each, self.budget = 0.0, [], each, budget
        torch._dynamo.reset()
        counters.clear()

    def _search(self, model, budget, **options):
        self.given.append(round(float(budget.rstrip("s")), 3))
        self.now += self.given[-1]
        return mock.Mock(serialize=lambda: model)

    def _backend(self, graph, inputs):
        self.now += self.each
        return torch_backend.compile(graph, inputs, options={"budget": self.budget})

    def compiled(self, module):
        return torch.compile(module, backend=self._backend)

    def __enter__(self):
        self.patches = [
            mock.patch("rewright.optimize", self._search),
            mock.patch.object(account, "clock", lambda: self.now),
            mock.patch.object(account, "_seconds_compiling", lambda: self.each),  # of the first graph, torch's own clock
        ]
        for patch in self.patches:
            patch.start()
        return self

    def __exit__(self, *_):
        for patch in self.patches:
            patch.stop()


def given(module, each=0, budget="10s", calls=1):
    """What the searches were given in each call."""
    x, lists = torch.randn(2, 4), []
    with Planted(each, budget) as planted, torch.no_grad():
        run = planted.compiled(module)
        for _ in range(calls):
            before = len(planted.given)
            assert error(run(x), module(x)) < 1e-5
            lists.append(planted.given[before:])
    assert counted("parts") == counted("graphs") > 0
    return lists if calls > 1 else lists[0]


class Budget(unittest.TestCase):
    def test_graphs_share_what_torch_leaves(self):
        for each, expected in (
            (0, [2, 2, 2, 2, 2]),
            (1, [1, 1, 1, 1, 1]),
            (1.8, [0.5, 0.5]),  # too little for all: some have enough
            (2.1, [0.5, 0.5]),  # nothing is left: a tenth of the budget
            (9, [0.5, 0.5]),
        ):
            with self.subTest(each):
                self.assertEqual(given(Broken().eval(), each), expected)

    def test_another_model_has_time_of_its_own(self):
        x = torch.randn(2, 4)
        with Planted() as planted, torch.no_grad():
            planted.compiled(Broken().eval())(x)
            planted.compiled(Broken().eval())(x)
        self.assertEqual(planted.given, 10 * [2])

    def test_no_more_than_two_seconds_beyond_a_large_budget(self):
        self.assertEqual(given(nn.Linear(4, 5), 31, "30s"), [2])
        self.assertEqual(given(nn.Linear(4, 5), 101, "100s"), [])  # which is no time for a search of this budget

    def test_one_graph_has_all_that_torch_leaves(self):
        self.assertEqual(given(nn.Linear(4, 5), 3), [7])

    def test_the_end_is_known_though_functions_are_within_functions(self):
        first, second = given(Around().eval(), calls=2)
        self.assertEqual((len(first), second), (6, []))
        self.assertAlmostEqual(sum(first), 10, 1)

    def test_graphs_without_a_last_one_are_searched_when_they_run_again(self):
        self.assertEqual(given(Number().eval(), calls=3), [[], [5, 5], []])

    def test_passes_forward_and_backward_share(self):
        module, x = Broken(), torch.randn(2, 4, requires_grad=True)
        with Planted() as planted:
            run = planted.compiled(module)
            y = run(x)
            self.assertEqual(planted.given, [])
            y.square().mean().backward()
            self.assertEqual(planted.given, 10 * [1])
            run(x).sum().backward()
        self.assertEqual(len(planted.given), 10)
        self.assertEqual((counted("parts"), counted("parts that differed")), (10, 0))

    def test_a_search_that_fails_leaves_the_graph_as_it_is(self):
        module, x = Broken().eval(), torch.randn(2, 4)
        with Planted() as planted, torch.no_grad():
            run = planted.compiled(module)
            failed = mock.patch("rewright.optimize", side_effect=rewright.UnsupportedError("planted"))
            with failed, self.assertLogs("rewright.torch_backend", "WARNING") as logged:
                run(x)
            self.assertLess(error(run(x), module(x)), 1e-5)
        self.assertEqual(sum("planted" in line for line in logged.output), 5)
        self.assertEqual((counted("parts"), counted("parts in torch")), (5, 0))

    def test_what_a_search_finds_is_compared_with_torch(self):
        def other(model, **options):
            found = onnx.load_from_string(model)
            next(node for node in found.graph.node if node.op_type == "Relu").op_type = "Sigmoid"
            return mock.Mock(serialize=found.SerializeToString)

        module, x = Broken().eval(), torch.randn(2, 4)
        with Planted() as planted, torch.no_grad():
            run = planted.compiled(module)
            with mock.patch("rewright.optimize", other), self.assertLogs("rewright.torch_backend", "ERROR"):
                for _ in range(2):
                    self.assertLess(error(run(x), module(x)), 1e-5)
        self.assertEqual(counted("parts that differed"), 5)


if __name__ == "__main__":
    unittest.main()
