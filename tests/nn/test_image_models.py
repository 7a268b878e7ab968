"""Networks for images have the outputs of torchvision's and timm's, and go into timm's folders and back."""

import json

import numpy as np
import pytest
from tests.nn.test_published_models import IMAGES, MODELS, SMALL, filled, near, same_training

from wholestep import nn
from wholestep.errors import ModelError

VISION = {
    "resnet18": (lambda: MODELS.ResNet(key=0), 1e-5),
    "resnet50": (lambda: MODELS.ResNet((3, 4, 6, 3), bottleneck=True, key=0), 1e-5),
    "mobilenet_v3_small": (lambda: MODELS.MobileNetV3(key=0), 1e-5),
    "convnext_tiny": (lambda: MODELS.ConvNeXt(key=0), 1e-5),
    "vit_b_16": (lambda: MODELS.ViT(size=32, key=0), 1e-5),
}


@pytest.mark.parametrize("kind", VISION)
def test_images_give_what_they_give_in_torchvision(kind):
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    vision = pytest.importorskip("torchvision", reason="torchvision is an outside oracle; not installed")
    torch.manual_seed(0)
    net, (make, bound) = getattr(vision.models, kind)(**({"image_size": 32} if "vit" in kind else {})), VISION[kind]
    if "mobilenet" in kind:
        # Without statistics of data, small weights in many layers would make the outputs of all images equal.
        for module in net.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.momentum = 1.0
        net.train()(torch.randn(16, 3, 64, 64))
    for name, x in net.state_dict().items():
        if name.endswith("layer_scale") or (name.endswith("running_var") and "mobilenet" not in kind):
            x.uniform_(0.5, 1.5)
        elif name.endswith("running_mean") and "mobilenet" not in kind:
            x.normal_(std=0.1)
        elif name in ("heads.head.weight", "classifier.0.weight", "classifier.3.weight"):
            x.normal_(std=0.1)
    scores = net.eval()(torch.tensor(IMAGES))
    assert (scores[0] - scores[1]).abs().max() > 0.3
    near(nn.from_torch(make, net).eval()(IMAGES), scores, bound)


def test_a_vision_transformer_with_a_layer_before_its_head_gives_what_torchvisions_gives():
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    vision = pytest.importorskip("torchvision", reason="torchvision is an outside oracle; not installed")
    torch.manual_seed(0)
    net = vision.models.VisionTransformer(32, 8, 3, 4, 16, 24, num_classes=10, representation_size=12).eval()
    torch.nn.init.normal_(net.heads.head.weight)
    sizes = {"size": 32, "patch": 8, "width": 16, "heads": 4, "depth": 3, "hidden": 24, "classes": 10, "pooler": 12}
    near(nn.from_torch(MODELS.ViT(**sizes, key=0), net).eval()(IMAGES), net(torch.tensor(IMAGES)))


def mixers():
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    timm = pytest.importorskip("timm", reason="timm is an outside oracle; not installed")
    torch.manual_seed(0)
    net = timm.create_model("mixer_s32_224", num_classes=10, img_size=64, mlp_ratio=(0.0275, 0.05)).eval()
    torch.nn.init.normal_(net.head.weight, std=0.1)
    return torch, timm, net, MODELS.MLPMixer(size=64, patch=32, hidden=(14, 25), classes=10, key=0)


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
def test_a_mixer_gives_what_timms_gives_and_trains_like_it(tmp_path):
    torch, timm, net, model = mixers()
    images = np.tile(IMAGES, (1, 1, 2, 2))
    near(nn.from_torch(model, net)(images), net(torch.tensor(images)))
    same_training(torch, net, net, nn.from_torch(model, net), images, 1e-3)
    MODELS.save_folder(nn.from_torch(model, net), tmp_path / "ours")
    again = timm.create_model(f"local-dir:{tmp_path / 'ours'}", pretrained=True).eval()
    near(MODELS.load_folder(tmp_path / "ours")(images), again(torch.tensor(images)))
    sizes = {"img_size": 64, "mlp_ratio": [0.0275, 0.05]}
    timm.models.save_for_hf(again, tmp_path / "theirs", model_args=sizes, safe_serialization=True)
    near(MODELS.load_folder(tmp_path / "theirs")(images), again(torch.tensor(images)))


SHAPES = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 4, "mlp_ratio": 1.5}


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize(
    ("kind", "sizes"), [("resnet18", {"in_chans": 3}), ("resnet50", {}), ("vit_tiny_patch16_224", SHAPES)]
)
def test_folders_of_images_go_to_timm_and_back(kind, sizes, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    timm = pytest.importorskip("timm", reason="timm is an outside oracle; not installed")
    torch.manual_seed(0)
    net = timm.create_model(kind, num_classes=10, **sizes).eval()
    for name, x in net.state_dict().items():
        if name.endswith(("running_var", "cls_token")):
            x.uniform_(0.5, 1.5)
    torch.nn.init.normal_(net.get_classifier().weight, std=0.1)
    timm.models.save_for_hf(net, tmp_path / "theirs", model_args=sizes, safe_serialization=True)
    model = MODELS.load_folder(tmp_path / "theirs").eval()
    near(model(IMAGES), net(torch.tensor(IMAGES)))
    MODELS.save_folder(model, tmp_path / "ours")
    again = timm.create_model(f"local-dir:{tmp_path / 'ours'}", pretrained=True).eval()
    near(model(IMAGES), again(torch.tensor(IMAGES)))
    if kind != "resnet50":
        same_training(torch, net, net, model, IMAGES, 1e-3)


def test_folders_of_images_hold_the_model(tmp_path):
    vit = SMALL["ViT"]()
    for i, model in enumerate([filled(vit), filled(MODELS.ResNet(classes=10, channels=1, key=0))]):
        MODELS.save_folder(model, tmp_path / str(i))
        again = MODELS.load_folder(tmp_path / str(i))
        assert [{p: x.tobytes() for p, x in part.items()} for part in nn.split(again)] == [
            {p: x.tobytes() for p, x in part.items()} for part in nn.split(model)
        ]
    with pytest.raises(ModelError, match="stages of 1, 1 blocks that begin with 4 channels"):
        MODELS.save_folder(SMALL["ResNet"](), tmp_path / "small")
    for about, message in {
        "resnet200": "the architecture 'resnet200' is not known",
        "vit_huge_patch14_224": "the architecture 'vit_huge_patch14_224' is not known",
        "vit_base_patch16_224": "not built here with this global_pool",
    }.items():
        text = json.dumps({"architecture": about, "global_pool": "map"})
        (tmp_path / "0" / "config.json").write_text(text)
        with pytest.raises(ModelError, match=message):
            MODELS.load_folder(tmp_path / "0")
    (tmp_path / "0" / "config.json").write_text('{"architecture": "vit_tiny_patch16_224", "model_args": {"x": 1}}')
    with pytest.raises(ModelError, match="not built here with this x"):
        MODELS.load_folder(tmp_path / "0")
