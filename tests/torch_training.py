"""Training in torch.compile(..., backend="rewright"), with torch's own steps as the judge: python torch_training.py PACKAGE [TEST ...]

PACKAGE is the folder with the built package `rewright`. Needs tools/requirements-peers.txt.
"""

import copy
import unittest

from torch_testing import compiled, counted, error

import torch  # noqa: E402
from torch import nn  # noqa: E402


class Training(unittest.TestCase):
    def judge(self, module, x, rounds=2):
        module.train()
        twin = copy.deepcopy(module)
        run = compiled(module)
        for number in range(rounds):
            losses = []
            for one, call in ((module, run), (twin, twin)):
                torch.manual_seed(number)
                given = x.clone().requires_grad_(x.is_floating_point())
                one.zero_grad()
                y = call(given)
                loss = (y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum()
                loss.backward()
                losses.append((loss.detach(), given.grad))
            self.assertAlmostEqual(float(losses[0][0]), float(losses[1][0]), places=4)
            if x.is_floating_point():
                self.assertLess(error(losses[0][1], losses[1][1]), 1e-4)
            largest = max(float(p.grad.abs().max()) for p in twin.parameters())
            for (name, ours), theirs in zip(module.named_parameters(), twin.parameters()):
                self.assertLess(float((ours.grad - theirs.grad).abs().max()), 1e-4 * largest, name)
            for ours, theirs in zip(module.buffers(), twin.buffers()):
                self.assertTrue(torch.allclose(ours, theirs, atol=1e-5))
        self.assertEqual(counted("parts that differed"), 0)
        self.assertGreater(counted("parts"), 1)

    def test_dense(self):
        self.judge(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)), torch.randn(5, 8))
        self.assertEqual(counted("graphs whole"), 2)

    def test_convolutions(self):
        layers = [nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=2)]
        self.judge(nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 4)), torch.randn(2, 3, 16, 16))
        self.assertEqual(counted("graphs whole"), 2)

    def test_gradients_of_convolutions_of_every_kind(self):
        kinds = {
            "uneven": (nn.Conv2d(3, 4, (3, 2), (3, 2), (0, 1)), (2, 3, 17, 15)),
            "grouped": (nn.Conv1d(4, 8, 3, 2, groups=4), (2, 4, 17)),
            "volume": (nn.Conv3d(2, 4, 3, 2, 1, groups=2), (2, 2, 7, 8, 9)),
            "transposed": (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2, dilation=2), (2, 4, 7, 5)),
        }
        for name, (layer, sizes) in kinds.items():
            with self.subTest(name):
                self.judge(layer, torch.randn(sizes))

    def test_embedding(self):
        self.judge(nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 4)), torch.randint(0, 10, (3, 5)))

    def test_attention(self):
        self.judge(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), torch.randn(2, 5, 16))

    def test_dropout_draws_what_torch_draws(self):
        self.judge(nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 4), nn.Dropout(0.2)), torch.randn(5, 8))
        self.assertGreater(counted("graphs in parts"), 0)

    def test_steps_of_an_optimizer(self):
        module = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
        twin = copy.deepcopy(module)
        run = compiled(module)
        for one, call in ((module, run), (twin, twin)):
            torch.manual_seed(3)
            optimizer = torch.optim.Adam(one.parameters(), 1e-2)
            for _ in range(5):
                x = torch.randn(8, 4)
                optimizer.zero_grad()
                (call(x) - x.sum(1, True)).square().mean().backward()
                optimizer.step()
        for ours, theirs in zip(module.parameters(), twin.parameters()):
            self.assertTrue(torch.allclose(ours, theirs, atol=1e-4))


if __name__ == "__main__":
    torch.manual_seed(0)
    unittest.main(verbosity=2)
