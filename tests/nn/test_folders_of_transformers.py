"""Folders of images in the layout of transformers: outputs, training, names, and mismatches."""

import json

import numpy as np
import pytest
from tests.nn.test_published_models import IMAGES, MODELS, filled, near, same_training

from wholestep import nn
from wholestep.errors import CheckpointError, ModelError, ParameterError
from wholestep.train.checkpoint.read import open_checkpoint

LAYOUT = {"layout": "transformers", "key": 0}
VIT = {"size": 32, "patch": 8, "width": 16, "heads": 2, "depth": 2, "hidden": 24, "eps": 1e-12, **LAYOUT}
OURS = {
    "ViTForImageClassification": lambda: MODELS.ViT(classes=5, **VIT),
    "ViTModel": lambda: MODELS.ViT(classes=0, pooler=12, **VIT),
    "ViTModel without a pooler": lambda: MODELS.ViT(classes=0, **VIT),
    "ResNetForImageClassification": lambda: MODELS.ResNet((2, 1), width=8, classes=5, **LAYOUT),
    "ResNetForImageClassification of bottlenecks": lambda: MODELS.ResNet(
        (1, 2), width=8, bottleneck=True, classes=2, **LAYOUT
    ),
    "ResNetModel": lambda: MODELS.ResNet((2, 1), width=8, classes=0, **LAYOUT),
}


def theirs(kind):
    """Their model of the same sizes, with random weights and statistics that are not small."""
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    t = pytest.importorskip("transformers", reason="transformers is an outside oracle; not installed")
    torch.manual_seed(0)
    if kind.startswith("ViT"):
        sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
        config = t.ViTConfig(**sizes, image_size=32, patch_size=8, num_labels=5, pooler_output_size=12)
    else:
        sizes = {"depths": [1, 2], "hidden_sizes": [32, 64]} if "bottlenecks" in kind else {"depths": [2, 1]}
        sizes = {"hidden_sizes": [8, 16], "num_labels": 2 if "bottlenecks" in kind else 5, **sizes}
        layer = "bottleneck" if "bottlenecks" in kind else "basic"
        config = t.ResNetConfig(embedding_size=8, layer_type=layer, **sizes)
    word = kind.partition(" ")[0]
    options = {"add_pooling_layer": False} if kind.endswith("without a pooler") else {}
    net = getattr(t, word)(config, **options).eval()
    for name, x in net.state_dict().items():
        if name.endswith("running_var"):
            x.uniform_(0.5, 1.5)
        elif x.dtype == torch.float32:
            x.copy_(torch.randn_like(x) * 0.2 + (x.ndim == 1) * x)
    return torch, net, options


def what_is_called(kind, net):
    """A function of their model with the results of a call of ours."""
    if "Classification" in kind:
        return lambda x: net(x).logits
    if kind.endswith("without a pooler"):
        return lambda x: net(x).last_hidden_state[:, 0]
    return lambda x: net(x).pooler_output.flatten(1)


@pytest.mark.parametrize("kind", OURS)
def test_folders_of_images_go_to_transformers_and_back(kind, tmp_path):
    torch, net, options = theirs(kind)
    net.save_pretrained(tmp_path / "theirs")
    call, x = what_is_called(kind, net), torch.tensor(IMAGES)
    model = MODELS.load_folder(tmp_path / "theirs").eval()
    near(model(IMAGES), call(x))
    if kind.startswith("ViTModel"):
        near(model.encoded(IMAGES), net(x).last_hidden_state)
    MODELS.save_folder(model, tmp_path / "ours")
    again, told = type(net).from_pretrained(tmp_path / "ours", output_loading_info=True, **options)
    assert not any(told.values())
    assert torch.equal(what_is_called(kind, again.eval())(x), call(x))
    if not kind.endswith("without a pooler"):  # the mean of the squares of a norm's results hardly moves
        same_training(torch, net, call, model, IMAGES, 1e-4 if "ResNet" in kind else 1e-2)


BLOCK = """attention.attention.query attention.attention.key attention.attention.value attention.output.dense
intermediate.dense output.dense layernorm_before layernorm_after""".split()
NAMES = {
    "ViTForImageClassification": {
        "vit.embeddings.cls_token",
        "vit.embeddings.position_embeddings",
        *[f"vit.embeddings.patch_embeddings.projection.{x}" for x in ("weight", "bias")],
        *[f"vit.encoder.layer.{i}.{part}.{x}" for i in range(2) for part in BLOCK for x in ("weight", "bias")],
        *[f"{part}.{x}" for part in ("vit.layernorm", "classifier") for x in ("weight", "bias")],
    },
    "ResNetModel": {
        f"{place}.{name}"
        for place in (
            "embedder.embedder",
            *[f"encoder.stages.0.layers.{i}.layer.{j}" for i in range(2) for j in range(2)],
            *[f"encoder.stages.1.layers.0.{part}" for part in ("layer.0", "layer.1", "shortcut")],
        )
        for name in (
            "convolution.weight",
            *[f"normalization.{x}" for x in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")],
        )
    },
}
"""The names that transformers 5.24 writes."""


@pytest.mark.parametrize("kind", OURS)
def test_a_folder_in_the_layout_of_transformers_holds_the_model(kind, tmp_path):
    model = filled(OURS[kind]())
    MODELS.save_folder(model, tmp_path)
    with open_checkpoint(tmp_path / "model.safetensors") as contents:
        names = set(contents.types)
    assert names == NAMES.get(kind, names)
    about = json.loads((tmp_path / "config.json").read_text())
    assert about["architectures"] == [kind.partition(" ")[0]]
    again = MODELS.load_folder(tmp_path)
    assert again.layout == "transformers"
    for x, y in zip(nn.split(again), nn.split(model), strict=True):
        assert {path: a.tobytes() for path, a in x.items()} == {path: a.tobytes() for path, a in y.items()}
    near_ours = again.eval()(IMAGES) - model.eval()(IMAGES)
    assert not near_ours.any()


def test_what_does_not_fit_is_listed_by_the_names_of_the_folder(tmp_path):
    model = OURS["ViTForImageClassification"]()
    MODELS.save_folder(model, tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(about | {"num_hidden_layers": 3, "num_labels": 6}))
    with pytest.raises(CheckpointError) as found:
        MODELS.load_folder(tmp_path)
    message = str(found.value)
    assert "load_folder: missing vit.encoder.layer.2.layernorm_before.weight" in message
    assert "classifier.weight becomes f32[16, 5], and head.weight is f32[16, 6]" in message
    (tmp_path / "config.json").write_text(json.dumps(about | {"num_hidden_layers": 1}))
    with pytest.raises(CheckpointError, match=r"unexpected vit\.encoder\.layer\.1\.") as found:
        MODELS.load_folder(tmp_path)
    assert "missing" not in str(found.value)
    (tmp_path / "config.json").write_text(json.dumps(about | {"intermediate_size": 25}))
    with pytest.raises(CheckpointError, match=r"vit\.encoder\.layer\.0\.intermediate\.dense\.weight becomes"):
        MODELS.load_folder(tmp_path)


CANNOT = {
    "ViTForImageClassification": {"qkv_bias": False, "image_size": [32, 16], "attention_probs_dropout_prob": 0.5},
    "ViTModel": {"pooler_act": "relu", "hidden_act": "quick_gelu"},
    "ResNetModel": {
        "downsample_in_first_stage": True,
        "downsample_in_bottleneck": True,
        "hidden_sizes": [8, 24],
        "hidden_act": "gelu",
        "layer_type": "other",
    },
}


@pytest.mark.parametrize(("kind", "part"), [(kind, part) for kind, parts in CANNOT.items() for part in parts])
def test_parts_that_are_not_built_are_refused(kind, part, tmp_path):
    MODELS.save_folder(OURS[kind](), tmp_path)
    about = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(about | {part: CANNOT[kind][part]}))
    words = {"image_size": "32 by 16 points", "hidden_act": "hidden_act|'quick_gelu' is not known"}
    with pytest.raises(ModelError, match=words.get(part, part)):
        MODELS.load_folder(tmp_path)


def test_what_a_library_has_no_words_for_is_not_written(tmp_path):
    for options in ({"eps": 1e-12}, {"activation": "relu"}, {"pooler": 8}):
        with pytest.raises(ModelError, match=f"not built here with this {next(iter(options))}"):
            MODELS.save_folder(MODELS.ViT(**{**VIT, "eps": 1e-6, "layout": "timm", **options}), tmp_path)
    with pytest.raises(ModelError, match="pooler in front of its head"):
        MODELS.save_folder(MODELS.ViT(classes=5, pooler=8, **VIT), tmp_path)
    for model in (MODELS.ViT, MODELS.ResNet):
        with pytest.raises(ParameterError, match=r"layout is 'keras'(.|\n)*'timm', 'transformers' are known"):
            model(layout="keras", key=0)
    assert not list(tmp_path.iterdir())


def test_dropout_of_transformers_leaves_out_what_is_between_dense_layers(tmp_path):
    model = MODELS.ViT(classes=5, dropout=0.5, **VIT)
    MODELS.save_folder(model, tmp_path)
    again = MODELS.load_folder(tmp_path)
    for block in again.blocks:
        assert (block.feed_forward.dropout.p, block.dropout.p, block.attention.dropout) == (0.0, 0.5, 0.5)


def test_a_bert_without_a_pooler_is_read(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    t = pytest.importorskip("transformers", reason="transformers is an outside oracle; not installed")
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    net = t.BertForMaskedLM(t.BertConfig(**sizes, intermediate_size=24, max_position_embeddings=32)).eval()
    net.save_pretrained(tmp_path / "theirs")
    model, ids = MODELS.load_folder(tmp_path / "theirs").eval(), np.arange(8)[None]
    near(model(ids), net.bert(torch.tensor(ids)).last_hidden_state)
    with pytest.raises(ModelError, match="no pooler"):
        model.pooled(model(ids))
    MODELS.save_folder(model, tmp_path / "ours")
    again = t.BertModel.from_pretrained(tmp_path / "ours", add_pooling_layer=False).eval()
    near(model(ids), again(torch.tensor(ids)).last_hidden_state)
