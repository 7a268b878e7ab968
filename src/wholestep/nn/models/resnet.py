"""Residual networks of convolutions: stages of blocks, each twice as wide and half as large as the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from wholestep.errors import ModelError
from wholestep.ir.graph import NDArray
from wholestep.nn.activations import relu
from wholestep.nn.containers import Sequential
from wholestep.nn.conv_layers import Conv2d
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import Linear, sized
from wholestep.nn.models.configurations import check_layout, label_count, refuse_parts
from wholestep.nn.module import Module
from wholestep.nn.norm_layers import BatchNorm
from wholestep.nn.pooling import global_avg_pool, max_pool2d

PUBLISHED: dict[str, tuple[tuple[int, ...], bool]] = {
    "resnet18": ((2, 2, 2, 2), False),
    "resnet34": ((3, 4, 6, 3), False),
    "resnet50": ((3, 4, 6, 3), True),
    "resnet101": ((3, 4, 23, 3), True),
    "resnet152": ((3, 8, 36, 3), True),
}
"""The blocks of the published depths, and whether they are bottlenecks."""
PARTS = {"conv": "convolution", "bn": "normalization"}
"""The words of torchvision and of transformers for the two parts of a layer."""


class ResidualBlock(Module):
    """Two or three convolutions, each with a batch norm, and the shortcut that their result is added to."""

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        **{f"convolutions[{i}]": f"conv{i + 1}" for i in range(3)},
        **{f"norms[{i}]": f"bn{i + 1}" for i in range(3)},
        "shortcut": "downsample",
    }

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool, *, key: Any) -> None:
        outputs = width * 4 if bottleneck else width
        sizes = [(1, 1), (3, stride), (1, 1)] if bottleneck else [(3, stride), (3, 1)]
        channels = [inputs, *[width] * (len(sizes) - 1), outputs]
        last, *keys = keys_from(key, 1 + len(sizes))
        self.convolutions = [
            Conv2d(channels[i], channels[i + 1], size, key=k, stride=s, padding=size // 2, bias=False)
            for i, ((size, s), k) in enumerate(zip(sizes, keys, strict=True))
        ]
        self.norms = [BatchNorm(n) for n in channels[1:]]
        same = stride == 1 and inputs == outputs
        projection = None if same else Conv2d(inputs, outputs, 1, key=last, stride=stride, bias=False)
        self.shortcut = None if projection is None else Sequential(projection, BatchNorm(outputs))

    def __call__(self, x: Any) -> Any:
        h = x
        for i, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            h = norm(convolution(relu(h) if i else h))
        return relu(h + (x if self.shortcut is None else self.shortcut(x)))


class ResNet(Module):
    """A residual network; with the names of torchvision's and timm's, which `nn.from_torch` reads.

    `blocks` are those of each stage: (2, 2, 2, 2) is ResNet-18 and (3, 4, 6, 3) ResNet-34, and with `bottleneck`
    ResNet-50. `width` is that of the first stage; with 0 `classes` there is no head, and a call returns the features
    before it. `load_folder` reads the folders of timm and of transformers, and `save_folder` writes those of `layout`,
    "timm" or "transformers". `key` draws the weights.

    Shapes: x floats [n, channels, height, width]; [n, classes].
    Raises: ShapeError for images with another number of channels, ParameterError for stages without blocks.
    Source: He et al., "Deep residual learning for image recognition", 2016.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.models.ResNet((1, 1), classes=10, width=4, key=0)
    >>> model(np.ones((2, 3, 32, 32), np.float32)).shape
    (2, 10)
    """

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "stem": "conv1",
        "norm": "bn1",
        **{f"stages[{i}]": f"layer{i + 1}" for i in range(4)},
        "head": "fc",
    }

    published_names: ClassVar = {
        "timm": (),
        "transformers": (
            *[(f"{ours}1.", f"resnet.embedder.embedder.{word}.") for ours, word in PARTS.items()],
            *[(f"layer{i + 1}.", f"resnet.encoder.stages.{i}.layers.") for i in range(4)],
            *[(f".{ours}{i + 1}.", f".layer.{i}.{word}.") for ours, word in PARTS.items() for i in range(3)],
            *[(f".downsample.{i}.", f".shortcut.{word}.") for i, word in enumerate(PARTS.values())],
            ("fc.", "classifier.1."),
        ),
    }
    """Parts of torchvision's names, and their counterparts in a library's folders."""

    _draws = True

    def __init__(
        self,
        blocks: Sequence[int] = (2, 2, 2, 2),
        *,
        key: Any = None,
        bottleneck: bool = False,
        classes: int = 1000,
        channels: int = 3,
        width: int = 64,
        layout: str = "timm",
    ) -> None:
        check_layout(type(self), layout)
        sized("ResNet", **{f"blocks[{i}]": count for i, count in enumerate(blocks)})
        first, last, *keys = keys_from(key, 2 + sum(blocks))
        self.stem = Conv2d(channels, width, 7, key=first, stride=2, padding=3, bias=False)
        self.norm, self.stages, inputs = BatchNorm(width), [], width
        rest = iter(keys)
        for i, count in enumerate(blocks):
            stage = []
            for j in range(count):
                stride = 2 if i and not j else 1
                stage.append(ResidualBlock(inputs, width * 2**i, stride, bottleneck, key=next(rest)))
                inputs = width * 2**i * (4 if bottleneck else 1)
            self.stages.append(Sequential(*stage))
        self.head, self.layout = Linear(inputs, classes, key=last) if classes else None, layout

    def __call__(self, x: Any) -> NDArray:
        x = max_pool2d(relu(self.norm(self.stem(x))), 3, stride=2, padding=1)
        for stage in self.stages:
            x = stage(x)
        x = global_avg_pool(x)
        return x if self.head is None else self.head(x)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, key: Any) -> ResNet:
        """The model of a configuration of timm or transformers; raises ModelError for unsupported options."""
        return cls(key=key, **(resnet_of_timm(config) if "architecture" in config else resnet_of_transformers(config)))

    def config(self) -> dict[str, Any]:
        """The configuration that the library in `layout` reads; raises ModelError for sizes that it has no name for."""
        blocks = tuple(len(stage.layers) for stage in self.stages)
        bottleneck = len(self.stages[0].layers[0].convolutions) == 3
        width, channels = self.stem.weight.shape[:2]
        classes = 0 if self.head is None else self.head.weight.shape[1]
        if self.layout == "transformers":
            return {
                **{"num_channels": channels, "embedding_size": width, "depths": blocks},
                "hidden_sizes": stage_widths(width, len(blocks), bottleneck),
                "layer_type": "bottleneck" if bottleneck else "basic",
                "hidden_act": "relu",
                **({"num_labels": classes} if classes else {}),
            }
        word = {sizes: word for word, sizes in PUBLISHED.items()}.get((blocks, bottleneck))
        if word is None or width != 64:
            raise ModelError(
                f"ResNet: timm has no name for stages of {', '.join(map(str, blocks))} blocks that begin with "
                f"{width} channels",
                hint='layout="transformers" has words for any sizes, and nn.save writes any model',
            )
        return {
            "architecture": word,
            "num_classes": classes,
            "num_features": stage_widths(width, len(blocks), bottleneck)[-1],
            "pretrained_cfg": {"input_size": [channels, 224, 224], "num_classes": classes},
            "model_args": {"in_chans": channels},
        }


def stage_widths(width: int, stages: int, bottleneck: bool) -> list[int]:
    """The channels that each stage makes."""
    return [width * 2**i * (4 if bottleneck else 1) for i in range(stages)]


def resnet_of_timm(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a residual network that a configuration of timm describes."""
    word, given = str(config["architecture"]), dict(config.get("model_args") or {})
    if word not in PUBLISHED:
        raise ModelError(f"ResNet: the architecture {word!r} is not known")
    classes = given.pop("num_classes", config.get("num_classes", 1000))
    channels = given.pop("in_chans", 3)
    pooled = given.pop("global_pool", config.get("global_pool", "avg"))
    refuse_parts("ResNet", {"global_pool": pooled != "avg", **dict.fromkeys(given, True)})
    blocks, bottleneck = PUBLISHED[word]
    return {"blocks": blocks, "bottleneck": bottleneck, "classes": classes, "channels": channels}


def resnet_of_transformers(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a residual network that a configuration of transformers describes; ResNetModel has no head."""
    blocks, width, kind = config["depths"], config["embedding_size"], config["layer_type"]
    parts = {
        "layer_type": kind not in ("basic", "bottleneck"),
        "hidden_sizes": list(config["hidden_sizes"]) != stage_widths(width, len(blocks), kind == "bottleneck"),
        "depths": len(blocks) > 4,
        "hidden_act": config.get("hidden_act", "relu") != "relu",
        **{name: config.get(name, False) for name in ("downsample_in_first_stage", "downsample_in_bottleneck")},
    }
    refuse_parts("ResNet", parts)
    return {
        "blocks": blocks,
        "bottleneck": kind == "bottleneck",
        "classes": label_count(config, "ResNetModel"),
        "channels": config.get("num_channels", 3),
        "width": width,
        "layout": "transformers",
    }
