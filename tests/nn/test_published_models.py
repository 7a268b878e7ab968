"""Published architectures hold what transformers and torchvision make: outputs, training, generation, and folders."""

import json

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import CheckpointError, ModelError, ParameterError, ShapeError

RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 50, (2, 6))
MASK = np.array([[1] * 6, [1] * 4 + [0] * 2])
IMAGES = RNG.normal(size=(2, 3, 32, 32)).astype(np.float32)
MODELS = nn.models

WHISPER = lambda: MODELS.WhisperEncoder(5, 7, 16, 2, 2, hidden=24, key=0)  # noqa: E731
WITHIN = {"attention_heads": 2, "ffn_dim": 24}
TEXT = {
    "GPT2": lambda: MODELS.GPT2(50, 32, 16, 2, 3, key=0),
    "Llama": lambda: MODELS.Llama(50, 32, 16, 4, 3, hidden=24, kv_heads=2, key=0),
    "tied Llama": lambda: MODELS.Llama(50, 32, 16, 4, 3, hidden=24, kv_heads=2, key=0, tie=True),
    "BERT": lambda: MODELS.BERT(50, 32, 16, 2, 3, hidden=24, key=0),
    "DistilBERT": lambda: MODELS.DistilBERT(50, 32, 16, 2, 3, hidden=24, key=0),
}


def theirs(kind):
    """Their model of the same sizes, with random weights that are not small."""
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    t = pytest.importorskip("transformers", reason="transformers is an outside oracle; not installed")
    common = {"vocab_size": 50, "max_position_embeddings": 32, "hidden_size": 16, "num_hidden_layers": 3}
    common |= {"intermediate_size": 24}
    grouped = {**common, "num_attention_heads": 4, "num_key_value_heads": 2, "eos_token_id": None}
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "eos_token_id": None, "bos_token_id": None}
    sizes = {"vocab_size": 50, "max_position_embeddings": 32, "dim": 16, "n_heads": 2, "n_layers": 3, "hidden_dim": 24}
    torch.manual_seed(0)
    net = {
        "GPT2": lambda: t.GPT2LMHeadModel(
            t.GPT2Config(**still, vocab_size=50, n_positions=32, n_embd=16, n_layer=3, n_head=2)
        ),
        "Llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**grouped)),
        "tied Llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**grouped, tie_word_embeddings=True)),
        "BERT": lambda: t.BertModel(t.BertConfig(**common, num_attention_heads=2, **quiet)),
        "DistilBERT": lambda: t.DistilBertModel(t.DistilBertConfig(**sizes, dropout=0.0, attention_dropout=0.0)),
    }[kind]()
    for p in net.parameters():
        p.data = torch.randn_like(p) * 0.1 + (p.ndim == 1) * p.data
    return torch, net.eval()


def near(ours, other, bound=1e-5):
    other = other.detach().numpy()
    assert np.abs(np.asarray(ours) - other).max() <= bound * max(1.0, np.abs(other).max())


@pytest.mark.parametrize("kind", TEXT)
def test_outputs_are_those_of_transformers(kind):
    torch, net = theirs(kind)
    model = nn.from_torch(TEXT[kind], net).eval()
    ids = torch.tensor(IDS)
    if kind in ("BERT", "DistilBERT"):
        hidden, out = model(IDS, mask=MASK), net(ids, attention_mask=torch.tensor(MASK))
        near(hidden, out.last_hidden_state)
        if kind == "BERT":
            near(model.pooled(hidden), out.pooler_output)
    else:
        near(model(IDS), net(ids).logits)
        ones = torch.ones_like(ids)
        written = net.generate(ids, attention_mask=ones, max_new_tokens=8, do_sample=False, pad_token_id=0).numpy()
        assert np.array_equal(nn.generate(model, IDS, 8), written)


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize("kind", ["GPT2", "Llama"])
def test_ten_steps_of_training_are_those_of_transformers(kind):
    torch, net = theirs(kind)

    def loss(model, batch):
        return nn.cross_entropy(model(batch[:, :-1]).reshape(-1, 50), batch[:, 1:].reshape(-1))

    step = ws.compile(loss, nn.from_torch(TEXT[kind], net), optimizer=ws.optim.sgd(0.1), batch=IDS)
    there = torch.optim.SGD(net.parameters(), 0.1)
    ids, losses = torch.tensor(IDS), []
    for _ in range(10):
        there.zero_grad()
        value = torch.nn.functional.cross_entropy(net(ids[:, :-1]).logits.reshape(-1, 50), ids[:, 1:].reshape(-1))
        value.backward()
        there.step()
        losses.append((float(step(IDS).loss), value.item()))
    ours, other = np.transpose(losses)
    assert np.abs(ours - other).max() < 1e-4 and ours[-1] < ours[0] - 0.01


@pytest.mark.parametrize("kind", TEXT)
def test_folders_go_to_transformers_and_back(kind, tmp_path):
    torch, net = theirs(kind)
    net.save_pretrained(tmp_path / "theirs")
    model = MODELS.load_folder(tmp_path / "theirs")
    MODELS.save_folder(model, tmp_path / "ours")
    again = type(net).from_pretrained(tmp_path / "ours").eval()
    out, ids = again(torch.tensor(IDS)), torch.tensor(IDS)
    for x, y in zip(out[:1], net(ids)[:1], strict=True):
        near(model.eval()(IDS), y)
        assert torch.allclose(x, y, atol=1e-6)


VISION = {
    "resnet18": (lambda: MODELS.ResNet(key=0), 1e-5),
    "resnet50": (lambda: MODELS.ResNet((3, 4, 6, 3), bottleneck=True, key=0), 1e-5),
    "mobilenet_v3_small": (lambda: MODELS.MobileNetV3(key=0), 1e-5),
    "convnext_tiny": (lambda: MODELS.ConvNeXt(key=0), 1e-5),
}


@pytest.mark.parametrize("kind", VISION)
def test_images_give_what_they_give_in_torchvision(kind):
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    vision = pytest.importorskip("torchvision", reason="torchvision is an outside oracle; not installed")
    torch.manual_seed(0)
    net, (make, bound) = getattr(vision.models, kind)().eval(), VISION[kind]
    for name, x in net.state_dict().items():
        if name.endswith("running_var") or name.endswith("layer_scale"):
            x.uniform_(0.5, 1.5)
        elif name.endswith("running_mean"):
            x.normal_(std=0.1)
    near(nn.from_torch(make, net).eval()(IMAGES), net(torch.tensor(IMAGES)), bound)


def test_a_vision_transformer_gives_what_torchvisions_gives():
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    vision = pytest.importorskip("torchvision", reason="torchvision is an outside oracle; not installed")
    torch.manual_seed(0)
    net = vision.models.VisionTransformer(32, 8, 3, 4, 16, 24, num_classes=10).eval()
    torch.nn.init.normal_(net.heads.head.weight)
    sizes = {"size": 32, "patch": 8, "width": 16, "heads": 4, "depth": 3, "hidden": 24, "classes": 10}
    near(nn.from_torch(MODELS.ViT(**sizes, key=0), net).eval()(IMAGES), net(torch.tensor(IMAGES)))


def mixers():
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    timm = pytest.importorskip("timm", reason="timm is an outside oracle; not installed")
    torch.manual_seed(0)
    net = timm.create_model("mixer_s32_224", num_classes=10, img_size=64, mlp_ratio=(0.0275, 0.05)).eval()
    torch.nn.init.normal_(net.head.weight, std=0.1)
    make = lambda: MODELS.MLPMixer(size=64, patch=32, hidden=(14, 25), classes=10, key=0)  # noqa: E731
    return torch, timm, net, make


def spectrograms():
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    t = pytest.importorskip("transformers", reason="transformers is an outside oracle; not installed")
    sizes = {"num_mel_bins": 5, "max_source_positions": 7, "d_model": 16, "encoder_layers": 2, "decoder_layers": 1}
    sizes |= {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in WITHIN.items()}
    config = t.WhisperConfig(**sizes, vocab_size=60000)
    torch.manual_seed(0)
    net = t.WhisperModel(config).encoder.eval()
    for p in net.parameters():
        p.data = torch.randn_like(p) * 0.1 + (p.ndim == 1) * p.data
    return torch, t, net, WHISPER()


def same_training(torch, net, call, model, x, rate):
    """Ten steps of SGD on the mean of squares come to the same losses."""
    step = ws.compile(lambda model, x: np.mean(model(x) ** 2), model, optimizer=ws.optim.sgd(rate), batch=x)
    there = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], rate)
    losses = []
    for _ in range(10):
        there.zero_grad()
        value = (call(torch.tensor(x)) ** 2).mean()
        value.backward()
        there.step()
        losses.append((float(step(x).loss), value.item()))
    ours, other = np.transpose(losses)
    assert np.abs(ours - other).max() < 1e-4 and ours[-1] < ours[0] - 0.01


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


def test_whispers_encoder_gives_what_transformers_gives_and_trains_like_it(tmp_path):
    torch, t, net, model = spectrograms()
    x = RNG.normal(size=(2, 5, 14)).astype(np.float32)
    near(nn.from_torch(model, net)(x), net(torch.tensor(x)).last_hidden_state)
    same_training(torch, net, lambda x: net(x).last_hidden_state, nn.from_torch(model, net), x, 0.1)
    whole = t.WhisperForConditionalGeneration(net.config).eval()
    for name, own in {"encoder": net, "whole": whole}.items():
        own.save_pretrained(tmp_path / name)
        read = MODELS.load_folder(tmp_path / name)
        expected = (own if own is net else own.model.encoder)(torch.tensor(x)).last_hidden_state
        near(read(x), expected)
        MODELS.save_folder(read, tmp_path / "ours")
        near(read(x), type(net).from_pretrained(tmp_path / "ours").eval()(torch.tensor(x)).last_hidden_state)


def filled(model):
    """The model with a pattern in every parameter, which no generator of random numbers has a part in."""
    arrays = nn.split(model)[0]
    return nn.join(model, {p: np.cos(np.arange(x.size, dtype=np.float32)).reshape(x.shape) for p, x in arrays.items()})


RECORDED = {
    "GPT2": [8.51442, -7.94876, 6.70999, -4.90302],
    "Llama": [0.599888, -0.352573, 0.0754025, 0.208154],
    "tied Llama": [0.599888, -0.352573, 0.0754025, 0.208154],
    "BERT": [2.55515, 0.981716, -0.141202, 0.166903],
    "DistilBERT": [2.55536, 0.981545, -0.14124, 0.166721],
    "ResNet": [37.4299, -45.1455, -86.2144, -48.0181],
    "ConvNeXt": [2.82441, -0.386156, -3.2417, -3.11684],
    "MobileNetV3": [2.58907, -0.910274, -3.57272, -2.95042],
    "ViT": [1.51349, 1.25136, -0.161261, -1.42562],
    "MLPMixer": [2.44339, 0.762601, -1.61932, -2.51244],
}
"""The first four numbers of each, recorded where the tests above agreed with transformers 5 and torchvision 0.30."""

SMALL = {
    **TEXT,
    "ResNet": lambda: MODELS.ResNet((1, 1), classes=10, width=4, key=0),
    "ConvNeXt": lambda: MODELS.ConvNeXt((1, 1), (4, 8), classes=10, key=0),
    "MobileNetV3": lambda: MODELS.MobileNetV3([(3, 16, 16, True, False, 2)], hidden=8, classes=10, key=0),
    "MLPMixer": lambda: MODELS.MLPMixer(size=32, patch=16, width=8, depth=1, classes=10, key=0),
    "ViT": lambda: MODELS.ViT(size=32, patch=16, width=8, heads=2, depth=1, hidden=16, classes=10, key=0),
}
RAMP = (np.arange(3 * 32 * 32, dtype=np.float32) % 17 / 17).reshape(1, 3, 32, 32)


@pytest.mark.parametrize("kind", SMALL)
def test_numbers_are_those_that_were_recorded(kind):
    model = filled(SMALL[kind]()).eval()
    found = model(np.arange(6)[None] if kind in TEXT else RAMP)
    np.testing.assert_allclose(found.ravel()[:4], RECORDED[kind], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", TEXT)
def test_a_folder_holds_the_model(kind, tmp_path):
    model = filled(TEXT[kind]())
    MODELS.save_folder(model, tmp_path)
    again = MODELS.load_folder(tmp_path)
    assert type(again) is type(model)
    for path, x in nn.split(model)[0].items():
        assert np.array_equal(x, nn.split(again)[0][path]), path


@pytest.mark.parametrize("narrow", [False, True])
def test_adapted_layers_go_into_a_folder_once_they_are_merged(narrow, tmp_path):
    model = filled(TEXT["GPT2"]())
    if narrow:
        model = nn.to_int8(model)
        with pytest.raises(CheckpointError, match=r"blocks\[0\]\.attention\.qkv is a Int8Linear(.|\n)*dense\(\)"):
            MODELS.save_folder(model, tmp_path)
    for block in model.blocks:
        for part, name in ((block.attention, "qkv"), (block.attention, "out")):  # [32, 96], and a square
            adapted = nn.LoRA(getattr(part, name), 2, key=0)
            adapted.up = 0.1 * np.ones_like(adapted.up)
            setattr(part, name, adapted)
    with pytest.raises(CheckpointError, match=r"blocks\[0\]\.attention\.qkv is a LoRA(.|\n)*merged\(\)"):
        MODELS.save_folder(model, tmp_path)
    for block in model.blocks:
        for part, names in ((block.attention, ("qkv", "out")), (block.feed_forward, ("up", "down"))):
            for name in names:
                layer = getattr(part, name)
                dense = layer.dense() if isinstance(layer, nn.Int8Linear) else layer
                setattr(part, name, dense.merged() if isinstance(layer, nn.LoRA) else dense)
    MODELS.save_folder(model, tmp_path)
    again, tokens = MODELS.load_folder(tmp_path), np.array([[1, 2, 3]])
    assert np.array_equal(again.eval()(tokens), model.eval()(tokens))


def test_folders_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"give a folder with config\.json(.|\n)*snapshot_download"):
        MODELS.load_folder(tmp_path)
    config = tmp_path / "config.json"
    for text, message in {
        "{": "is no JSON",
        "[]": "is no configuration",
        '{"model_type": "t5"}': "of a model of type 't5'",
        '{"model_type": "gpt2"}': "does not say what the model needs: 'vocab_size'",
    }.items():
        config.write_text(text)
        with pytest.raises(CheckpointError, match=message):
            MODELS.load_folder(tmp_path)
    MODELS.save_folder(TEXT["Llama"](), tmp_path)
    about = json.loads(config.read_text())
    config.write_text(json.dumps(about | {"rope_scaling": {"rope_type": "llama3"}}))
    with pytest.raises(ModelError, match="not built here with this rope_scaling"):
        MODELS.load_folder(tmp_path)
    for kind, part in {"GPT2": "attn_pdrop", "BERT": "is_decoder", "DistilBERT": "attention_dropout"}.items():
        MODELS.save_folder(TEXT[kind](), tmp_path)
        config.write_text(json.dumps(json.loads(config.read_text()) | {part: 0.5}))
        with pytest.raises(ModelError, match=f"{kind}: not built here with this {part}"):
            MODELS.load_folder(tmp_path)
    MODELS.save_folder(TEXT["Llama"](), tmp_path)
    config.write_text(json.dumps(about | {"vocab_size": 51}))
    with pytest.raises(CheckpointError, match=r"of another type: model\.embed_tokens\.weight"):
        MODELS.load_folder(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    config.write_text(json.dumps(about))
    with pytest.raises(CheckpointError, match="pickles"):
        MODELS.load_folder(tmp_path)
    with pytest.raises(CheckpointError, match=r"a Linear has no published configuration"):
        MODELS.save_folder(nn.Linear(2, 2, key=0), tmp_path)


def test_wrong_inputs_are_refused():
    with pytest.raises(ShapeError, match="at most 32 places"):
        TEXT["GPT2"]()(np.zeros((1, 33), int))
    with pytest.raises(ShapeError, match=r"\[batch, time\]"):
        TEXT["BERT"]()(np.zeros(3, int))
    with pytest.raises(ShapeError, match=r"images are f32\[1, 3, 30, 30\]"):
        SMALL["ViT"]()(np.zeros((1, 3, 30, 30), np.float32))
    with pytest.raises(ParameterError, match="patches of 5 do not divide"):
        MODELS.ViT(size=32, patch=5, key=0)
    with pytest.raises(ModelError, match="activation 'swish'"):
        MODELS.GPT2(50, 32, 16, 2, 1, key=0, activation="swish")
