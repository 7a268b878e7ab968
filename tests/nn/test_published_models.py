"""Published architectures and those of transformers and torchvision: outputs, training, generation, and folders."""

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


@pytest.mark.parametrize("kind", ["GPT2", "Llama", "tied Llama"])
def test_greedy_text_is_that_of_transformers_token_for_token(kind):
    torch, net = theirs(kind)
    for name, p in net.named_parameters():
        # With small weights in blocks, the embedding table would repeat the last token.
        p.data = torch.randn_like(p) * (0.1 if "wte" in name or "embed" in name else 1.0) + (p.ndim == 1) * p.data
    ids = torch.tensor(IDS)
    ones = torch.ones_like(ids)
    written = net.generate(ids, attention_mask=ones, max_new_tokens=24, do_sample=False, pad_token_id=0).numpy()
    assert min(len(set(row)) for row in written[:, 6:].tolist()) > 4
    assert np.array_equal(nn.generate(nn.from_torch(TEXT[kind], net).eval(), IDS, 24), written)


ADAMW = {"weight_decay": 0.1, "eps": 1e-4}
"""With a smaller `eps`, derivatives that are 0 but for rounding (biases of keys) make steps of rounding errors."""
TARGET = RNG.normal(size=(2, 6, 16)).astype(np.float32)


def text_losses(kind, torch, net):
    """Losses of a text model, ours and theirs: of next tokens, or for encoders of a target for every row."""
    ids, there = torch.tensor(IDS), torch.nn.functional
    if kind not in ("BERT", "DistilBERT"):
        return (
            lambda model, batch: nn.cross_entropy(model(batch[:, :-1]).reshape(-1, 50), batch[:, 1:].reshape(-1)),
            lambda: there.cross_entropy(net(ids[:, :-1]).logits.reshape(-1, 50), ids[:, 1:].reshape(-1)),
        )

    def ours(model, batch):
        hidden = model(batch, mask=MASK)
        rows = model.pooled(hidden) if kind == "BERT" else hidden[:, 0]
        return np.mean((hidden - TARGET) ** 2) + np.mean((rows - 0.5) ** 2)

    def theirs():
        out = net(ids, attention_mask=torch.tensor(MASK))
        rows = out.pooler_output if kind == "BERT" else out.last_hidden_state[:, 0]
        return ((out.last_hidden_state - torch.tensor(TARGET)) ** 2).mean() + ((rows - 0.5) ** 2).mean()

    return ours, theirs


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize("kind", TEXT)
def test_ten_steps_of_training_are_those_of_transformers(kind):
    torch, net = theirs(kind)
    loss, call = text_losses(kind, torch, net)
    step = ws.compile(loss, nn.from_torch(TEXT[kind], net), optimizer=ws.optim.adamw(1e-2, **ADAMW), batch=IDS)
    there = torch.optim.AdamW(net.parameters(), 1e-2, **ADAMW)
    losses = []
    for _ in range(10):
        there.zero_grad()
        value = call()
        value.backward()
        there.step()
        losses.append((float(step(IDS).loss), value.item()))
    ours, other = np.transpose(losses)
    assert np.abs(ours - other).max() < 1e-4 and ours[-1] < ours[0] - 0.01
    weights = net.state_dict()
    for name, x in nn.to_torch(step.model).items():
        assert np.abs(x - weights[name].numpy()).max() < 1e-4, name


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


def test_the_row_of_what_fills_up_a_text_stays():
    ids = np.array([[3, 0, 2, 0]])
    for kind, options in {"BERT": {}, "DistilBERT": {}, "Llama": {"hidden": 24, "padding": 0}}.items():
        model = getattr(MODELS, kind)(50, 32, 16, 2, 1, key=0, **options)
        gradient = ws.grad(lambda model: np.sum(np.sin(model(ids))))(model).tokens.weight
        assert not model.tokens.weight[0].any() and not gradient[0].any()
        assert gradient[2].any() and gradient[3].any()


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
    """The model with a fixed pattern in every parameter, without random numbers."""
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
        with pytest.raises(CheckpointError, match=r"blocks\[0\]\.attention\.qkv is an Int8Linear(.|\n)*dense\(\)"):
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
