"""torch.compile(..., backend="rewright") with torch's own results as the judge: python torch_backend.py PACKAGE [TEST ...]

PACKAGE is the folder with the built package `rewright`. Networks have random weights and small inputs. Needs tools/requirements-peers.txt.
"""

import copy
import logging
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from torch_testing import ENTRY_POINTS, PACKAGE, compiled, counted, counters, error

import timm  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
import transformers  # noqa: E402
from torch import nn  # noqa: E402

import rewright  # noqa: E402
from rewright.torch_backend import account, part, session  # noqa: E402

TORCHVISION = {
    "resnet18": 64,
    "squeezenet1_1": 64,
    "mobilenet_v3_small": 64,
    "efficientnet_b0": 64,
    "shufflenet_v2_x0_5": 64,
    "mnasnet0_5": 64,
    "regnet_y_400mf": 64,
    "densenet121": 32,
    "convnext_tiny": 32,
    "swin_t": 64,
}
TIMM = {
    "resnet10t": 64,
    "mobileone_s0": 64,
    "repvit_m0_9": 64,
    "ghostnet_100": 64,
    "edgenext_xx_small": 64,
    "poolformer_s12": 64,
    "fastvit_t8": 64,
    "gernet_s": 64,
    "lcnet_050": 64,
    "convnext_atto": 64,
}
LOG = logging.getLogger("rewright.torch_backend")


def network(name):
    torch.manual_seed(1)
    if name in TIMM:
        return timm.create_model(name, pretrained=False).eval()
    return getattr(torchvision.models, name)(weights=None).eval()


class Networks(unittest.TestCase):
    """Batch norms get statistics, so that they are no identity."""

    def judge(self, module, *inputs, dynamic=None):
        with torch.no_grad():
            expected = module(*inputs)
            run = compiled(module, dynamic)
            first, second = run(*inputs), run(*inputs)
        self.assertLess(error(first, expected), 1e-4)
        self.assertLess(error(second, expected), 1e-4)
        self.assertEqual(counted("parts that differed"), 0)
        self.assertEqual(counted("parts in torch"), 0)
        self.assertEqual(counted("graphs whole"), counted("graphs"))

    def test_a_transformer(self):
        for options in ({}, {"norm_first": True, "activation": "gelu"}):
            layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, **options)
            encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
            self.judge(encoder, torch.randn(2, 7, 32))
            self.judge(encoder, torch.randn(2, 7, 32), dynamic=True)

    def test_bert(self):
        config = transformers.BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=99)
        model = transformers.BertModel(config).eval()
        self.judge(lambda tokens: model(tokens).last_hidden_state, torch.randint(0, 99, (2, 9)))


def add_network(name, size):
    def test(self):
        module = network(name)
        for part in module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.running_mean.normal_(0, 0.1)
                part.running_var.uniform_(0.7, 1.3)
        self.judge(module, torch.randn(2, 3, size, size))

    setattr(Networks, f"test_{name}", test)


# By default one network of each kind: plain convolutions, inverted residuals, shuffled channels, windows of attention, merged branches.
FEW = ("resnet18", "efficientnet_b0", "shufflenet_v2_x0_5", "swin_t", "mobileone_s0", "fastvit_t8")
for _name, _size in (TORCHVISION | TIMM).items():
    if _name in FEW or "REWRIGHT_THOROUGH" in os.environ:
        add_network(_name, _size)


class Sizes(unittest.TestCase):
    def test_a_batch_of_any_size_needs_no_further_graph(self):
        module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)).eval()
        run = compiled(module, dynamic=True)
        with torch.no_grad():
            for batch in (2, 3, 7):
                x = torch.randn(batch, 3, 8, 8)
                self.assertLess(error(run(x), module(x)), 1e-5)
        self.assertEqual(counted("graphs"), 1)
        self.assertEqual(counted("parts in torch"), 0)

    def test_computed_sizes(self):
        def program(x, by):
            y = nn.functional.pad(x, (0, by)).reshape(x.shape[0] * x.shape[1], -1)
            return y + x.shape[0], x.shape[1] * 2, y.mean(0).expand(x.shape[2], -1)

        run = compiled(program, dynamic=True)
        for sizes, by in (((2, 3, 4), 3), ((5, 6, 7), 9)):
            x = torch.randn(sizes)
            for got, want in zip(run(x, by), program(x, by)):
                self.assertTrue(torch.allclose(got, want) if isinstance(want, torch.Tensor) else got == want)

    def assert_compiles_as_often_as_torch(self, module, arguments, trained=False):
        """arguments: of calls with different sizes. Of whose results gradients are taken, if it is trained."""

        def run_all(run):
            results = []
            for inputs in arguments:
                result = run(*inputs)
                if trained:
                    module.zero_grad()
                    result.square().sum().backward()
                    result = torch.cat([parameter.grad.flatten() for parameter in module.parameters()])
                results.append(result.detach())
            return results

        with torch.set_grad_enabled(trained):
            expected = run_all(module)
            torch._dynamo.reset()
            counters.clear()
            run_all(torch.compile(module, backend="aot_eager", dynamic=True))
            needed = counters["stats"]["unique_graphs"]
            found = run_all(compiled(module, dynamic=True))
        for got, want in zip(found, expected):
            self.assertLess(error(got, want), 1e-4)
        self.assertEqual(counters["stats"]["unique_graphs"], needed)
        self.assertEqual(counted("graphs"), needed * (2 if trained else 1))
        self.assertEqual([counted(what) for what in ("parts in torch", "parts that differed", "graphs in torch")], [0, 0, 0])

    def test_sizes_that_change_compile_as_often_as_torch_itself(self):
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
        encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
        lengths = [(torch.randn(batch, length, 32),) for batch, length in ((2, 7), (3, 12), (5, 3), (2, 40), (4, 7))]
        self.assert_compiles_as_often_as_torch(encoder, lengths)
        images = [(torch.randn(batch, 3, height, width),) for batch, height, width in ((2, 16, 20), (3, 24, 16), (5, 12, 40), (4, 30, 22))]
        for mode, factor in (("nearest", 2.0), ("nearest", None), ("bilinear", 1.7), ("bicubic", None)):
            with self.subTest(mode=mode, factor=factor):

                class Resampling(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.down, self.up = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 2, 3, padding=1)

                    def forward(self, x, mode=mode, factor=factor):
                        to = {"scale_factor": factor} if factor else {"size": x.shape[2:]}
                        return self.up(nn.functional.interpolate(self.down(x).relu(), mode=mode, **to))

                self.assert_compiles_as_often_as_torch(Resampling().eval(), images)

    def test_training_with_batches_of_other_sizes_compiles_as_often_as_torch_itself(self):
        batches = (8, 8, 5, 8, 3)
        dense = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 2))
        self.assert_compiles_as_often_as_torch(dense, [(torch.randn(batch, 6),) for batch in batches], trained=True)
        images = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.SiLU(), nn.Conv2d(4, 4, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
        self.assert_compiles_as_often_as_torch(images, [(torch.randn(batch, 3, 12, 16),) for batch in batches], trained=True)


class Memory(unittest.TestCase):
    """The owner and the layout of results' memory."""

    def test_arguments_that_are_changed(self):
        def program(x, y):
            x.add_(1)
            z = x * 2
            y[0] = z.sum()
            return z, x, y.t(), x.view(-1)

        run = compiled(program)
        for _ in range(2):
            x, y = torch.randn(3, 4), torch.randn(4, 3)
            x2, y2 = x.clone(), y.clone()
            got, want = run(x, y), program(x2, y2)
            for a, b in zip((*got, x, y), (*want, x2, y2)):
                self.assertTrue(torch.allclose(a, b))
                self.assertEqual(a.stride(), b.stride())
            self.assertIs(got[1], x)
            self.assertEqual(got[3].data_ptr(), x.data_ptr())
        self.assertGreater(counted("parts"), 0)

    def test_buffers_that_are_changed(self):
        module = nn.BatchNorm1d(4)
        twin = copy.deepcopy(module)
        run = compiled(module)
        with torch.no_grad():
            for _ in range(3):
                x = torch.randn(8, 4)
                self.assertLess(error(run(x), twin(x)), 1e-5)
        self.assertLess(error(module.running_var, twin.running_var), 1e-5)
        self.assertEqual(module.num_batches_tracked, twin.num_batches_tracked)

    def test_channels_last_and_transposed_arguments(self):
        def program(x, y):
            return x * 2, x.permute(0, 2, 3, 1) + 1, y.t() @ y, y.t() + 1

        run = compiled(program)
        x, y = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.randn(6, 3).t()
        for got, want in zip(run(x, y), program(x, y)):
            self.assertTrue(torch.allclose(got, want))
            self.assertEqual(got.stride(), want.stride())

    def test_arguments_in_any_order_are_read_where_they_are(self):
        run = compiled(lambda x, y, z: (x.relu(), y.t() @ y, z + 1))
        x, y, z = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.randn(6, 3).t(), torch.randn(4, 5)
        run(x, y, z)
        seen = []
        inner = session.Session.run

        def spy(self, tensors):
            seen.extend(tensor.data_ptr() for tensor in tensors)
            return inner(self, tensors)

        with mock.patch.object(session.Session, "run", spy):
            run(x, y, z)
        self.assertEqual(sorted(seen), sorted(tensor.data_ptr() for tensor in (x, y, z)))

    def test_results_live_on(self):
        run = compiled(lambda x: x + 1)
        first = run(torch.zeros(1000))
        run(torch.ones(1000))
        self.assertEqual(first.sum(), 1000)

    def test_types(self):
        def program(x, i, flag):
            return x.double() + i, i // 2, flag & (x > 0), x.bfloat16() * 2, torch.where(flag, i, 0)

        inputs = torch.randn(5), torch.arange(5), torch.tensor([True, False, True, True, False])
        for got, want in zip(compiled(program)(*inputs), program(*inputs)):
            self.assertEqual(got.dtype, want.dtype)
            self.assertTrue(torch.equal(got, want))


class Parameters(unittest.TestCase):
    def setUp(self):
        self.module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
        self.x = torch.randn(3, 4)

    @torch.no_grad()
    def assert_same(self, run):
        self.assertLess(error(run(self.x), self.module(self.x)), 1e-5)

    @torch.no_grad()
    def test_that_change_are_seen(self):
        weight = self.module[0].weight
        changes = {
            "through torch": lambda: weight.add_(1),
            "past torch": lambda: weight.data.add_(1),
            "other memory": lambda: setattr(weight, "data", torch.randn(8, 4)),
            "all": lambda: self.module.load_state_dict({k: torch.randn_like(v) for k, v in self.module.state_dict().items()}),
            "another tensor": lambda: setattr(self.module[0], "weight", nn.Parameter(torch.randn(8, 4))),
        }
        for name, change in changes.items():
            with self.subTest(name):
                run = compiled(self.module)
                for _ in range(3):
                    self.assert_same(run)
                    change()
                    self.assert_same(run)
                self.assertEqual(counted("parts in torch") + counted("parts that differed"), 0)

    def test_are_inputs_if_asked(self):
        run = compiled(self.module, freeze=False)
        self.assert_same(run)
        with torch.no_grad():
            self.module[0].weight.add_(1)
        self.assert_same(run)
        self.assertEqual(counted("parts"), 1)

    def test_of_equal_blocks_are_told_apart(self):
        blocks = [nn.Linear(4, 4) for _ in range(3)]
        run = compiled(lambda block, x: block(x))
        for _ in range(2):
            for block in blocks:
                with torch.no_grad():
                    self.assertLess(error(run(block, self.x), block(self.x)), 1e-5)


class Translation(unittest.TestCase):
    def models(self, module, *inputs, dynamic=None):
        """Records the models of sessions, while results are torch's."""
        import onnx

        models = []
        made = rewright.InferenceSession

        def seen(model, *arguments, **named):
            models.append(onnx.load_from_string(model))
            return made(model, *arguments, **named)

        with mock.patch("rewright.InferenceSession", seen), torch.no_grad():
            self.assertLess(error(compiled(module, dynamic)(*inputs), module(*inputs)), 1e-5)
        return models

    def test_has_no_outputs_that_nothing_reads(self):
        (model,) = self.models(nn.Sequential(nn.MaxPool2d(2), nn.ReLU()).eval(), torch.randn(1, 2, 8, 8))
        self.assertEqual([(node.op_type, len(node.output)) for node in model.graph.node], [("MaxPool", 1), ("Relu", 1)])

    def test_takes_parts_of_a_tensor_as_slices(self):
        def parts(x):
            a, b, c = x.split([3, 2, 5], -1)
            d, e, f = x.chunk(3, 1)
            first, second = x.unbind(0)
            return torch.cat([v.flatten() for v in (b, c.sin(), a, f, d.cos(), e, second, first.exp(), x[:, 2], x.select(1, -1), x[-2])])

        for dynamic in (False, True):
            (model,) = self.models(parts, torch.randn(2, 8, 10), dynamic=dynamic)
            operators = {node.op_type for node in model.graph.node}
            self.assertIn("Slice", operators)
            self.assertFalse([name for name in operators if "Sequence" in name or name.startswith(("aten_", "Gather"))], operators)


    def test_resamplings_are_whole(self):
        forms = [("nearest", 3), ("nearest", 4), ("bilinear", 4), ("bicubic", 4)]
        for mode, rank in forms:
            for by in ({"scale_factor": 2.0}, {"size": [7] * (rank - 2)}, {"scale_factor": 1.7}):
                for corners in (None,) if mode == "nearest" else (False, True):
                    with self.subTest(mode=mode, rank=rank, by=by, corners=corners):

                        def program(x, mode=mode, by=by, corners=corners):
                            return nn.functional.interpolate(x, mode=mode, align_corners=corners, **by).relu()

                        (model,) = self.models(program, torch.randn([1, 2, 5, 6][:rank]))
                        operators = {node.op_type for node in model.graph.node}
                        self.assertEqual(counted("parts that differed"), 0)
                        if by.get("scale_factor") != 1.7 or corners:
                            self.assertIn("Resize", operators)

    def test_views_for_both_sides_are_not_copied(self):
        module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        x = torch.randn(3, 4)
        results = []
        run = rewright.InferenceSession.run

        def seen(session, names, inputs):
            results.append(run(session, names, inputs))
            return results[-1]

        with mock.patch("rewright.InferenceSession.run", seen):
            compiled(module)(x)
        weights = {tuple(sizes) for layer in (module[0], module[2]) for sizes in (layer.weight.shape, layer.weight.T.shape)}
        self.assertFalse(weights & {array.shape for arrays in results for array in arrays})


class StaysWithTorch(unittest.TestCase):
    def test_runs_torch_s_own_operators(self):
        def program(x):
            y = nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
            return nn.functional.gelu(nn.functional.layer_norm(y, y.shape[-1:]))

        def refused(*arguments, **named):
            raise rewright.UnsupportedError("no session")

        x = torch.randn(1, 2, 4, 4)
        with mock.patch("rewright.InferenceSession", refused), torch.no_grad(), self.assertLogs(LOG, "WARNING"):
            run = compiled(program)
            run(x)
        with torch.no_grad(), torch.profiler.profile() as profile:
            self.assertTrue(torch.equal(run(x), program(x)))
        called = [event.name for event in profile.events()]
        for name in ("upsample_bilinear2d", "native_layer_norm", "gelu"):
            self.assertEqual(called.count(f"aten::{name}"), 2, name)

    def test_an_operator_that_onnx_lacks(self):
        def program(x):
            return torch.linalg.qr(x.softmax(-1) + torch.eye(4)).R.abs() * 2 + torch.sin(x)

        run = compiled(program)
        x = torch.randn(4, 4)
        with self.assertLogs(LOG, "INFO") as logged:
            self.assertTrue(torch.allclose(run(x), program(x), atol=1e-5))
        self.assertIn("aten.linalg_qr.default", "\n".join(logged.output))
        self.assertEqual(counted("parts"), 2)

    def test_what_depends_on_contents(self):
        def program(x):
            return torch.nonzero(x.relu() > 0.1) * 2, x.exp()

        x = torch.randn(5, 5)
        for got, want in zip(compiled(program)(x), program(x)):
            self.assertTrue(torch.allclose(got, want))

    def test_random_numbers(self):
        def program(x):
            return torch.rand_like(x) + x.exp(), torch.randn(3)

        run = compiled(program)
        torch.manual_seed(5)
        got = run(torch.zeros(3))
        torch.manual_seed(5)
        for a, b in zip(got, program(torch.zeros(3))):
            self.assertTrue(torch.allclose(a, b))

    def test_what_a_session_cannot_run(self):
        made = rewright.InferenceSession

        def picky(model, *arguments, **named):
            import onnx

            for node in onnx.load_from_string(model).graph.node:
                if node.op_type == "Erf":
                    raise rewright.UnsupportedError("no kernel", where=f'node "{node.name}"')
            return made(model, *arguments, **named)

        module = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4), nn.ReLU()).eval()
        x = torch.randn(2, 4)
        with mock.patch("rewright.InferenceSession", picky), torch.no_grad(), self.assertLogs(LOG, "WARNING") as logged:
            run = compiled(module)
            for _ in range(2):
                self.assertLess(error(run(x), module(x)), 1e-5)
        self.assertRegex(logged.output[0], "part 1: .* stays with torch: UnsupportedError: .*no kernel")
        self.assertGreaterEqual(counted("parts"), 2)

    def test_a_graph_without_sessions_is_torchs_own(self):
        module, x = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.SiLU()), torch.randn(2, 3, 9, 9)
        same = copy.deepcopy(module)
        run = compiled(module)
        with mock.patch("rewright.InferenceSession", side_effect=rewright.UnsupportedError("planted")), self.assertLogs(LOG, "WARNING"):
            run(x).sum().backward()
        same(x).sum().backward()
        with mock.patch.object(part.Part, "forward", side_effect=AssertionError("a part was called")):
            for network in (run, same):
                network.zero_grad()
                network(x).square().sum().backward()
        for a, b in zip([*module.parameters(), *module.buffers()], [*same.parameters(), *same.buffers()], strict=True):
            self.assertTrue(torch.equal(a, b))
            if a.requires_grad:
                self.assertLess(error(a.grad, b.grad), 1e-5)

    def test_what_differs(self):
        from rewright.torch_backend.session import Session

        run_session = Session.run
        module = nn.Linear(4, 4).eval()
        x = torch.randn(2, 4)
        with mock.patch.object(Session, "run", lambda self, tensors: [1.01 * y for y in run_session(self, tensors)]):
            run = compiled(module)
            with torch.no_grad(), self.assertLogs(LOG, "ERROR"):
                for _ in range(2):
                    self.assertTrue(torch.allclose(run(x), module(x)))
            self.assertEqual(counted("parts that differed"), 1)
            with torch.no_grad():  # the judge is asked only once, and not at all if the user says so
                self.assertFalse(torch.allclose(compiled(module, check=False)(x), module(x), rtol=1e-3))

    def test_errors_of_the_program_are_torch_s(self):
        run = compiled(lambda x, y: x @ y)
        with self.assertRaisesRegex(RuntimeError, "(?i)size|shape"):
            run(torch.randn(2, 3), torch.randn(4, 5))


class Use(unittest.TestCase):
    def test_importing_rewright_imports_no_torch(self):
        command = "import sys, rewright; assert 'torch' not in sys.modules"
        subprocess.run([sys.executable, "-c", command], check=True, env={**os.environ, "PYTHONPATH": PACKAGE})

    def test_is_listed(self):
        self.assertIn("rewright", torch._dynamo.list_backends())

    def test_options_that_do_not_exist(self):
        for options in ({"budgett": "1s"}, {"check": "maybe"}, {"device": "toaster"}):
            with self.subTest(options), self.assertRaisesRegex(Exception, next(iter(options))):
                compiled(nn.Linear(2, 2), **{"budget": "1s", **options})(torch.randn(1, 2))

    def test_searches_once(self):
        module = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU()).eval()
        x = torch.randn(1, 3, 16, 16)
        # A clock that stands still: however long torch takes, there is time for a search.
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(account, "clock", lambda: 0.0), torch.no_grad():
            for again in (False, True):
                with mock.patch("rewright.optimize", side_effect=rewright.optimize) as optimize:
                    run = compiled(module, budget="1s", cache=folder)
                    self.assertLess(error(run(x), module(x)), 1e-4)
                    self.assertEqual(optimize.call_count, 0 if again else 1)
                    self.assertEqual(counted("parts"), 1)
                del run
                torch._dynamo.reset()
            self.assertEqual([name.endswith(".onnx") for name in os.listdir(folder)], [True])

    def test_equal_graphs_are_searched_once(self):
        class Twice(nn.Module):
            def forward(self, x):
                x = (x * 2 + 1).relu()
                torch._dynamo.graph_break()
                x = (x * 2 + 1).relu()
                torch._dynamo.graph_break()
                return (x * 2 + 1).relu()

        with mock.patch("rewright.optimize", side_effect=rewright.optimize) as optimize, torch.no_grad():
            x = torch.randn(3, 4)
            self.assertLess(error(compiled(Twice(), budget="3s")(x), Twice()(x)), 1e-6)
        self.assertEqual(optimize.call_count, 1)

    def test_searches_with_open_sizes(self):
        module = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
        run = compiled(module, dynamic=True, budget="1s")
        with torch.no_grad():
            for batch in (3, 5):
                x = torch.randn(batch, 8)
                self.assertLess(error(run(x), module(x)), 1e-5)
        self.assertEqual(counted("parts"), 1)

    def test_torch_s_own_switch_shows_what_stays(self):
        program = "import torch; torch.compile(lambda x: torch.linalg.qr(x).R.exp(), backend='rewright', options={'budget': None})(torch.eye(3))"
        path = os.pathsep.join([ENTRY_POINTS.name, PACKAGE])
        environment = {**os.environ, "PYTHONPATH": path, "TORCH_LOGS": "+rewright.torch_backend"}
        done = subprocess.run([sys.executable, "-c", program], check=True, env=environment, capture_output=True, text=True)
        self.assertIn("aten.linalg_qr.default", done.stderr)


if __name__ == "__main__":
    torch.manual_seed(0)
    unittest.main(verbosity=2)
