"""Published networks of torchvision and transformers, their weights drawn, as programs here: outputs and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wholestep as ws

torch: Any = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
pytestmark = [pytest.mark.filterwarnings("ignore")]

IMAGES = """alexnet resnet18 resnext50_32x4d wide_resnet50_2 densenet121 googlenet mobilenet_v2 mobilenet_v3_small
shufflenet_v2_x1_0 squeezenet1_1 mnasnet0_5 efficientnet_b0 efficientnet_v2_s regnet_x_400mf regnet_y_400mf
convnext_tiny vit_b_32 swin_t swin_v2_t""".split()
SIZES = dict.fromkeys(IMAGES, 64) | {"vgg11": 32, "vgg11_bn": 32, "inception_v3": 96, "maxvit_t": 224}
"""The sides of images that the networks of torchvision are given, as small as each takes."""
GIVEN: dict[str, dict[str, Any]] = {
    "vit_b_32": {"image_size": 64},
    "inception_v3": {"init_weights": True, "aux_logits": False},
}
GIVEN["googlenet"] = GIVEN["inception_v3"]

TEXT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
GROUPED = TEXT | {"num_key_value_heads": 2}
PAIRED = {"vocab_size": 99, "d_model": 32, "decoder_start_token_id": 1, "pad_token_id": 0}
LAYERED = PAIRED | {f"{part}_{what}": 2 for part in ("encoder", "decoder") for what in ("layers", "attention_heads")}
HEARD = {"max_source_positions": 20, "max_target_positions": 30, "num_mel_bins": 8, "eos_token_id": 2}
IDS = torch.arange(1, 25).reshape(2, 12) * 7 % 97
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "Bert": ("Model", TEXT, {"input_ids": IDS, "attention_mask": (IDS > 9).long()}),
    "GPT2": ("LMHeadModel", {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4}, {"input_ids": IDS}),
    "Llama": ("ForCausalLM", GROUPED, {"input_ids": IDS}),
    "Mistral": ("ForCausalLM", GROUPED | {"sliding_window": 5}, {"input_ids": IDS}),
    "Mixtral": ("ForCausalLM", GROUPED | {"num_local_experts": 4}, {"input_ids": IDS}),
    "T5": (
        "ForConditionalGeneration",
        PAIRED | {"d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
        {"input_ids": IDS, "decoder_input_ids": IDS[:, :7]},
    ),
    "Whisper": (
        "ForConditionalGeneration",
        LAYERED | HEARD,
        {"input_features": torch.linspace(-1, 1, 640).reshape(2, 8, 40).sin(), "decoder_input_ids": IDS[:, :7]},
    ),
    "DistilBert": ("Model", {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4}, {"input_ids": IDS}),
    "ViT": (
        "Model",
        {**TEXT, "image_size": 32, "patch_size": 8},
        {"pixel_values": torch.linspace(-9, 9, 6144).reshape(2, 3, 32, 32).sin()},
    ),
}


class FirstResult(torch.nn.Module):  # type: ignore[misc]
    """A network of transformers with named arguments, and the first of its results."""

    def __init__(self, model: Any, names: Any) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, *given: Any) -> Any:
        return self.model(**dict(zip(self.names, given, strict=True)))[0]


def check(net: Any, *given: Any, near: float) -> None:
    """Outputs and all gradients, each to within a part of the largest."""
    arrays = [x.numpy() for x in given]
    f, params, buffers = ws.from_torch_export(net, *given)
    wanted = net(*given)
    largest = float(wanted.detach().abs().max())
    np.testing.assert_allclose(f(params, buffers, *arrays)[0], wanted.detach(), rtol=0, atol=near * largest)
    weights = np.linspace(-1, 1, wanted.numel(), dtype=str(wanted.dtype).removeprefix("torch.")).reshape(wanted.shape)
    (wanted * torch.tensor(weights)).sum().backward()
    gradients = ws.grad(lambda p: np.sum(f(p, buffers, *arrays)[0] * weights))(params)
    known = {name: p.grad.numpy() for name, p in net.named_parameters() if p.grad is not None and name in params}
    assert len(known) >= 0.9 * len(params)
    largest = max([np.abs(g).max() for g in known.values()])
    for name, g in known.items():
        np.testing.assert_allclose(gradients[name], g, rtol=0, atol=near * largest, err_msg=name)


@pytest.mark.parametrize("name", SIZES)
def test_a_network_of_torchvision_is_a_program(name: str) -> None:
    models = pytest.importorskip("torchvision.models", reason="torchvision is an outside oracle; not installed")
    torch.manual_seed(0)
    net = getattr(models, name)(weights=None, **GIVEN.get(name, {})).eval()
    for part in net.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.8, 1.2)
        elif isinstance(part, torch.nn.Linear):
            torch.nn.init.normal_(part.weight, 0, part.in_features**-0.5)
    images = torch.randn(2, 3, SIZES[name], SIZES[name], dtype=torch.float64)
    # in float32 a rectifier may choose otherwise where its operand is rounding; hardsigmoid's slope is one of float32
    check(net.double(), images, near=1e-7 if name == "mobilenet_v3_small" else 1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_a_network_of_transformers_is_a_program(name: str) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is an outside oracle; not installed")
    kind, sizes, given = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**sizes)
    config.use_cache = False
    check(FirstResult(getattr(transformers, f"{name}{kind}")(config).eval(), given), *given.values(), near=1e-5)
