"""Networks as PyTorch users write them, small: residual, separable, attention, recurrent, with several outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Network = Callable[[Any], "tuple[Any, tuple[Any, ...]]"]
"""(torch) -> a module, and the arguments of an example."""


def resnet(torch: Any) -> tuple[Any, tuple[Any, ...]]:
    """A residual network with batch norms, one block that halves the image and one that does not."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, n: int, m: int, stride: int) -> None:
            super().__init__()
            self.way = nn.Sequential(
                nn.Conv2d(n, m, 3, stride, 1, bias=False), nn.BatchNorm2d(m), nn.ReLU(),
                nn.Conv2d(m, m, 3, 1, 1, bias=False), nn.BatchNorm2d(m),
            )  # fmt: skip
            self.short = nn.Sequential(nn.Conv2d(n, m, 1, stride, bias=False), nn.BatchNorm2d(m))

        def forward(self, x: Any) -> Any:
            return torch.relu(self.way(x) + self.short(x))

    stem = [nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)]
    return nn.Sequential(*stem, Block(8, 8, 1), Block(8, 16, 2), *head), (torch.randn(4, 3, 32, 32),)


def mobilenet(torch: Any) -> tuple[Any, tuple[Any, ...]]:
    """A network of separable convolutions, with hard activations and channels weighed by a small network."""
    nn = torch.nn

    class Separable(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, n: int) -> None:
            super().__init__()
            self.grow = nn.Sequential(nn.Conv2d(n, 2 * n, 1), nn.BatchNorm2d(2 * n), nn.Hardswish())
            self.depth = nn.Sequential(
                nn.Conv2d(2 * n, 2 * n, 5, 1, 2, groups=2 * n), nn.BatchNorm2d(2 * n), nn.ReLU6()
            )
            self.weigh = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(2 * n, 4, 1), nn.ReLU(),
                                       nn.Conv2d(4, 2 * n, 1), nn.Hardsigmoid())  # fmt: skip
            self.shrink = nn.Conv2d(2 * n, n, 1)

        def forward(self, x: Any) -> Any:
            h = self.depth(self.grow(x))
            return x + self.shrink(h * self.weigh(h))

    layers = [nn.Conv2d(3, 8, 3, 2, 1), Separable(8), Separable(8), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(32, 5)), (torch.randn(4, 3, 16, 16),)


def vision_transformer(torch: Any) -> tuple[Any, tuple[Any, ...]]:
    """A transformer over the patches of an image, with a token for the class."""
    nn = torch.nn

    class Vision(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, 16, 4, 4)
            self.token = nn.Parameter(torch.zeros(1, 1, 16))
            self.places = nn.Parameter(0.1 * torch.randn(1, 17, 16))
            layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True)
            self.layers = nn.ModuleList([layer, nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True)])
            self.head = nn.Linear(16, 5)

        def forward(self, x: Any) -> Any:
            h = self.patches(x).flatten(2).transpose(1, 2)
            h = torch.cat([self.token.expand(h.shape[0], -1, -1), h], 1) + self.places
            for layer in self.layers:
                h = layer(h)
            return self.head(h[:, 0])

    return Vision(), (torch.randn(4, 3, 16, 16),)


def bert(torch: Any) -> tuple[Any, tuple[Any, ...]]:
    """An encoder of tokens with a mask over padding, and a tied output."""
    nn = torch.nn

    class Encoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places, self.kinds = nn.Embedding(32, 16), nn.Embedding(12, 16), nn.Embedding(2, 16)
            self.norm = nn.LayerNorm(16)
            self.into, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
            self.wide = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

        def forward(self, ids: Any, mask: Any) -> Any:
            h = self.tokens(ids) + self.places(torch.arange(ids.shape[1])) + self.kinds(torch.zeros_like(ids))
            h = self.norm(h)
            q, k, v = [x.unflatten(2, (2, 8)).transpose(1, 2) for x in self.into(h).chunk(3, 2)]
            scores = q @ k.transpose(2, 3) / 8**0.5
            scores = scores.masked_fill(~mask[:, None, None, :], -1e9)
            h = h + self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
            h = h + self.wide(h)
            return torch.tanh(h) @ self.tokens.weight.T

    return Encoder(), (torch.randint(0, 32, (3, 12)), torch.arange(12)[None] < torch.tensor([[12], [7], [9]]))


def gpt(torch: Any) -> tuple[Any, tuple[Any, ...]]:
    """A decoder of tokens with causal attention."""
    nn, attention = torch.nn, torch.nn.functional.scaled_dot_product_attention

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.into, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
            self.wide = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 64), nn.GELU("tanh"), nn.Linear(64, 16))

        def forward(self, h: Any) -> Any:
            q, k, v = [x.unflatten(2, (4, 4)).transpose(1, 2) for x in self.into(self.norm(h)).split(16, 2)]
            h = h + self.out(attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
            return h + self.wide(h)

    class Decoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(32, 16), nn.Embedding(10, 16)
            self.layers, self.head = nn.Sequential(Layer(), Layer(), nn.LayerNorm(16)), nn.Linear(16, 32, bias=False)

        def forward(self, ids: Any) -> Any:
            return self.head(self.layers(self.tokens(ids) + self.places.weight[: ids.shape[1]]))

    return Decoder(), (torch.randint(0, 32, (3, 10)),)


def detector(torch: Any) -> tuple[Any, tuple[Any, ...]]:
    """A detector: features of two sizes, the small ones resized and joined, and boxes from grids."""
    nn = torch.nn

    class Detector(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.SiLU())
            self.second = nn.Sequential(nn.Conv2d(8, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.SiLU())
            self.pools, self.larger = nn.MaxPool2d(5, 1, 2), nn.Upsample(scale_factor=2)
            self.heads = nn.ModuleList([nn.Conv2d(24, 7, 1), nn.Conv2d(16, 7, 1)])

        def forward(self, x: Any) -> Any:
            large = self.first(x)
            small = self.second(large)
            small = torch.cat([small, self.pools(small)], 1)
            found = []
            for head, h in zip(self.heads, (torch.cat([large, self.larger(small)], 1), small), strict=True):
                boxes = head(h).flatten(2).transpose(1, 2)
                rows, columns = torch.meshgrid(torch.arange(h.shape[2]), torch.arange(h.shape[3]), indexing="ij")
                grid = torch.stack([columns, rows], 2).reshape(1, -1, 2).float()
                centre = (boxes[..., :2].sigmoid() + grid) / h.shape[3]
                size = boxes[..., 2:4].sigmoid() ** 2
                found.append(torch.cat([centre - size / 2, centre + size / 2, boxes[..., 4:].sigmoid()], 2))
            return torch.cat(found, 1)

    return Detector(), (torch.randn(2, 3, 16, 16),)


def recurrent(torch: Any) -> tuple[Any, tuple[Any, ...]]:
    """Two layers of an LSTM in both directions, and a GRU on top."""
    nn = torch.nn

    class Recurrent(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(32, 8)
            self.lstm = nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True)
            self.gru, self.head = nn.GRU(12, 6, batch_first=True), nn.Linear(6, 3)

        def forward(self, ids: Any) -> Any:
            return self.head(self.gru(self.lstm(self.words(ids))[0])[0][:, -1])

    return Recurrent(), (torch.randint(0, 32, (4, 9)),)


def perceptron(torch: Any) -> tuple[Any, tuple[Any, ...]]:
    """Three linear layers, the network that is quantized."""
    nn = torch.nn
    layers = [nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 5)]
    return nn.Sequential(*layers), (torch.randn(16, 12),)


NETWORKS: Mapping[str, Network] = {
    "ResNet": resnet,
    "MobileNet": mobilenet,
    "ViT": vision_transformer,
    "BERT": bert,
    "GPT-2": gpt,
    "YOLO": detector,
    "LSTM and GRU": recurrent,
    "MLP": perceptron,
}
