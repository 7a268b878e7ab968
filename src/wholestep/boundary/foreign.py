"""Names and parameters of PyTorch, Keras, JAX, Optax and autograd, and what they are called here: tables."""

from __future__ import annotations

from typing import NamedTuple


class Ours(NamedTuple):
    """The answer to a foreign name: ours or NumPy's, and a remark where they are not mere other names."""

    names: str
    """Separated by commas; `step.`, `model.` and `x.` stand for a compiled step, a module and a traced array."""
    remark: str = ""


def renamed(place: str, remark: str = "", **foreign: str) -> dict[str, Ours]:
    """For each of our names in a namespace, the foreign ones that mean the same."""
    return {name: Ours(f"{place}.{ours}", remark) for ours, names in foreign.items() for name in names.split()}


def all_of(names: str, ours: str, remark: str = "") -> dict[str, Ours]:
    """Several foreign names with one answer."""
    return dict.fromkeys(names.split(), Ours(ours, remark))


FUNCTION = "activations are functions, and stand in a Sequential as they are"
LOSS = "losses are functions of predictions and targets"

TOP: dict[str, Ours] = {
    **renamed(
        "ws",
        ShapeDtype="ShapeDtypeStruct",
        jit="function",
        hvp="hessian_vector_product",
        trace="make_jaxpr",
        jvp="make_jvp",
        vjp="make_vjp",
        grad="multigrad multigrad_dict",
        numpy="np jnp",
        optim="optimizers optimizer",
        checkpoint="remat rematerialize",
        gradcheck="test_util check_grads",
        Loader="DataLoader Dataset TensorDataset DataFrame",
    ),
    **all_of("lax", "ws.scan, ws.cond, ws.while_loop"),
    **all_of("PRNGKey manual_seed", "ws.random.key"),
    **all_of("tensor Tensor FloatTensor LongTensor constant", "np.array", "arrays are NumPy's"),
    **all_of("from_numpy as_tensor convert_to_tensor device_put", "np.asarray", "arrays are NumPy's, in main memory"),
    **all_of("Variable Parameter", "ws.nn.Module", "an array in a field of a module is a parameter"),
    **all_of("Model", "ws.nn.Module", "a subclass assigns its parts in __init__ and defines __call__"),
    **all_of("layers losses activations functional", "ws.nn", "layers, losses and activations stand in ws.nn"),
    **all_of("Input", "ws.ShapeDtype", "no input layer is needed; ws.compile(..., batch=) takes an example"),
    "no_grad": Ours("ws.stop_gradient", "nothing is recorded outside of ws.grad, so a call needs no block around it"),
    "inference_mode": Ours("ws.stop_gradient", "nothing is recorded outside of ws.grad"),
    "autograd": Ours("ws.grad"),
    "backward": Ours("ws.grad, ws.compile", "gradients are those of a function: ws.grad(loss)(params, batch)"),
    "GradientTape": Ours("ws.value_and_grad", "gradients are those of a function: ws.value_and_grad(loss)(params)"),
    "callbacks": Ours("ws.fit", "fit(callbacks=[...]) takes objects with on_step, on_epoch, on_end"),
    **all_of("cuda device", "ws.compile", "device= is 'cpu', 'cuda', 'opencl' or 'webgpu', and arrays need no moving"),
    "devices": Ours(
        "ws.compile", "device= is 'cpu', 'cuda', 'opencl', 'webgpu', 'jax', 'torch', 'tensorflow' or 'reference'"
    ),
    "disable_jit": Ours("ws.compile, ws.jit", "device='reference' runs a program node by node in NumPy"),
    "pmap": Ours("ws.vmap", "a program runs on one machine, on all its cores"),
    "save": Ours("ws.nn.save, step.save", "a model, or all of a step"),
    "load": Ours("ws.nn.load, step.load", "a model, or all of a step"),
    "utils": Ours("ws.Loader, ws.optim.clip_by_global_norm"),
    "data": Ours("ws.Loader"),
    "metrics": Ours("ws.nn.metrics"),
    "seed": Ours("ws.random.key", "random numbers come from keys: ws.random.key(0)"),
    "set_random_seed": Ours("ws.random.key", "random numbers come from keys: ws.compile(..., key=0)"),
    "clip_grad_norm_": Ours("ws.optim.clip_by_global_norm", "chain it before the optimizer with ws.optim.chain"),
}

NN: dict[str, Ours] = {
    **renamed(
        "ws.nn",
        FUNCTION,
        relu="ReLU",
        relu6="ReLU6",
        gelu="GELU",
        silu="SiLU Swish swish",
        elu="ELU",
        selu="SELU",
        celu="CELU",
        leaky_relu="LeakyReLU",
        prelu="PReLU",
        sigmoid="Sigmoid",
        tanh="Tanh",
        softmax="Softmax",
        log_softmax="LogSoftmax",
        softplus="Softplus",
        mish="Mish",
        hardtanh="Hardtanh",
        log_sigmoid="LogSigmoid logsigmoid",
        sparsemax="Sparsemax",
    ),
    **renamed(
        "ws.nn",
        LOSS,
        cross_entropy="CrossEntropyLoss SparseCategoricalCrossentropy CategoricalCrossentropy softmax_cross_entropy"
        " sparse_categorical_crossentropy",
        mse="MSELoss MeanSquaredError mse_loss",
        mae="L1Loss l1_loss MeanAbsoluteError",
        bce="BCELoss BinaryCrossentropy binary_cross_entropy",
        bce_with_logits="BCEWithLogitsLoss binary_cross_entropy_with_logits",
        nll_loss="NLLLoss",
        kl_div="KLDivLoss",
        huber="HuberLoss Huber huber_loss",
        smooth_l1="SmoothL1Loss smooth_l1_loss",
        ctc_loss="CTCLoss",
        triplet="TripletMarginLoss",
        cosine_loss="CosineEmbeddingLoss",
        gaussian_nll="GaussianNLLLoss",
        poisson_nll="PoissonNLLLoss",
        margin_ranking="MarginRankingLoss margin_ranking_loss",
        hinge_embedding="HingeEmbeddingLoss hinge_embedding_loss",
        soft_margin="SoftMarginLoss soft_margin_loss",
        multilabel_soft_margin="MultiLabelSoftMarginLoss multilabel_soft_margin_loss",
        nt_xent="ntxent info_nce",
        dice="DiceLoss dice_loss",
    ),
    **renamed(
        "ws.nn",
        Linear="Dense",
        Conv2d="Conv Conv2D",
        Conv1d="Conv1D",
        Conv3d="Conv3D",
        ConvTranspose2d="Conv2DTranspose",
        BatchNorm="BatchNorm1d BatchNorm2d BatchNorm3d BatchNormalization",
        LayerNorm="LayerNormalization",
        InstanceNorm="InstanceNorm2d",
        MultiHeadAttention="MultiheadAttention SelfAttention",
        TransformerBlock="TransformerEncoderLayer",
        TransformerDecoderBlock="TransformerDecoderLayer",
        WeightNorm="weight_norm",
        SpectralNorm="spectral_norm SpectralNormalization",
        l2_normalize="UnitNormalization",
        pairwise_distances="cdist pdist PairwiseDistance",
        unfold="Unfold im2col",
        fold="Fold col2im",
        ChannelDropout="Dropout2d SpatialDropout2D",
        MaxPool2d="MaxPooling2D",
        MaxPool1d="MaxPooling1D",
        AvgPool2d="AveragePooling2D",
        AdaptiveAvgPool="AdaptiveAvgPool2d",
        AdaptiveMaxPool="AdaptiveMaxPool2d",
        global_avg_pool="GlobalAveragePooling2D",
        global_max_pool="GlobalMaxPooling2D",
        Embedding="Embed",
        Upsample="UpSampling2D",
        cosine_similarity="CosineSimilarity",
        pixel_shuffle="PixelShuffle",
    ),
    **all_of("functional F", "ws.nn", "layers and functions stand side by side in ws.nn"),
    **all_of("ModuleList ModuleDict ParameterList", "ws.nn.Module", "lists and dictionaries of modules are fields"),
    "Parameter": Ours("ws.nn.Module", "an array in a field of a module is a parameter"),
    "Input": Ours("ws.ShapeDtype", "no input layer is needed; ws.compile(..., batch=) takes an example"),
    "Model": Ours("ws.nn.Module", "a subclass assigns its parts in __init__ and defines __call__"),
    "compact": Ours("ws.nn.Module", "a subclass makes its parts in __init__"),
    "DataParallel": Ours("ws.compile", "a program runs on one machine, on all its cores"),
    "utils": Ours("ws.optim.clip_by_global_norm", "chain it before the optimizer with ws.optim.chain"),
    "clip_grad_norm_": Ours("ws.optim.clip_by_global_norm", "chain it before the optimizer with ws.optim.chain"),
}

OPTIM: dict[str, Ours] = {
    **renamed(
        "ws.optim",
        sgd="SGD",
        adamw="AdamW",
        rmsprop="RMSprop RMSProp",
        lbfgs="LBFGS",
        nadam="NAdam",
        radam="RAdam",
        step_decay="StepLR",
        multi_step="MultiStepLR",
        exponential="ExponentialLR ExponentialDecay exponential_decay",
        cosine="CosineAnnealingLR CosineDecay cosine_decay_schedule",
        cosine_restarts="CosineAnnealingWarmRestarts",
        one_cycle="OneCycleLR",
        cyclic="CyclicLR",
        plateau="ReduceLROnPlateau reduce_on_plateau",
        linear="linear_schedule",
        constant="constant_schedule",
        piecewise="piecewise_constant_schedule",
        polynomial="polynomial_schedule",
        join="join_schedules",
        groups="multi_transform masked",
        accumulate="MultiSteps",
        clip_by_value="clip clip_grad_value_",
        clip_by_global_norm="clip_grad_norm_",
        ema="swa_utils",
        adabelief="AdaBelief",
        lars="LARS",
        novograd="NovoGrad",
        rprop="RProp",
        sam="SAM",
        adaptive_clip="adaptive_grad_clip",
    ),
    "warmup_cosine_decay_schedule": Ours("ws.optim.warmup, ws.optim.cosine", "warmup(cosine(1e-3, 1000), 100)"),
    "lr_scheduler": Ours(
        "ws.optim.cosine, ws.optim.warmup", "a schedule takes the place of lr: adam(cosine(1e-3, 1000))"
    ),
    "LambdaLR": Ours("ws.optim.piecewise", "lr may be any function of the number of updates"),
    "apply_updates": Ours("ws.optim.sgd", "update(grads, state, params) returns the new parameters and the new state"),
    "inject_hyperparams": Ours("step.set", "every number of an optimizer can be set: step.set(lr=...)"),
    "zero_grad": Ours("ws.compile", "gradients do not accumulate, so there is nothing to set to zero"),
}

RANDOM: dict[str, Ours] = {
    **all_of("PRNGKey seed manual_seed default_rng RandomState Generator", "ws.random.key", "numbers come from keys"),
    **all_of("randn standard_normal gaussian", "ws.random.normal", "normal(key, shape)"),
    **all_of("rand random random_sample", "ws.random.uniform", "uniform(key, shape)"),
    **all_of("shuffle permute", "ws.random.permutation", "permutation(key, x)"),
    **all_of("integers random_integers", "ws.random.randint", "randint(key, shape, minval, maxval)"),
}

MODULE: dict[str, Ours] = {
    **all_of("parameters trainable_weights weights variables get_weights", "ws.nn.named_parameters"),
    **all_of("state_dict named_buffers", "ws.nn.split", "params, buffers = nn.split(model)"),
    **all_of("load_state_dict set_weights", "ws.nn.join", "nn.join(model, params, buffers) is a filled copy"),
    **all_of("zero_grad", "ws.compile", "gradients do not accumulate, so there is nothing to set to zero"),
    **all_of("cuda to cpu", "ws.compile", "ws.compile(device=) says where, and modules need no moving"),
    **all_of("half float double bfloat16", "ws.compile, ws.autocast", "say precision= to compile, or dtype= to layers"),
    **all_of("requires_grad_ requires_grad freeze", "ws.nn.frozen", "model = nn.frozen(model) is never trained"),
    **all_of("compile", "ws.compile", "step = ws.compile(loss, model, optimizer=..., batch=...)"),
    **all_of("fit", "ws.fit", "ws.fit(step, data), where step = ws.compile(loss, model, ...)"),
    **all_of("predict predict_on_batch", "step.predict", "step.predict(x) is model(x) with trained parameters"),
    **all_of("evaluate", "ws.mean_over", "fit(..., validation=data) measures it each epoch"),
    **all_of("summary", "ws.nn.summary", "nn.summary(model, inputs)"),
    **all_of("save save_weights", "ws.nn.save", "nn.save(step.model, path), where a step has trained it"),
    **all_of("load load_weights", "ws.nn.load", "model = nn.load(model, path) is a filled copy"),
    **all_of("register_buffer", "ws.nn.buffer", "self.name = nn.buffer(array)"),
    **all_of("register_parameter add_module", "ws.nn.Module", "assign the array or the module to a field"),
    **all_of("apply init bind", "ws.nn.Module", "a module holds its parameters: model(x) is the call"),
    **all_of("modules named_modules children", "ws.nn.summary", "the parts are the fields of the module"),
    **all_of("backward", "ws.grad, ws.compile", "gradients are those of a function: ws.grad(loss)(model, batch)"),
}

STEP: dict[str, Ours] = {
    **all_of("backward zero_grad", "ws.compile", "step(batch) runs forward pass, backward pass and update in one call"),
    **all_of("step train_step train_on_batch update", "ws.compile", "the step itself is called: result = step(batch)"),
    **all_of("fit train", "ws.fit", "ws.fit(step, data, epochs=10)"),
    **all_of(
        "evaluate eval test",
        "ws.mean_over, step.attach",
        "fit(..., validation=data) measures it each epoch",
    ),
    **all_of("predict_on_batch predict_step", "step.predict"),
    **all_of("parameters named_parameters weights get_weights trainable_weights", "step.params"),
    **all_of("state_dict", "step.state", "step.save(path) writes it to a file"),
    **all_of("load_state_dict set_weights", "step.load_state", "step.load(path) reads a file"),
    **all_of("save_weights", "step.save"),
    **all_of("load_weights restore", "step.load"),
    **all_of("lr learning_rate set_lr", "step.hyper, step.set", "step.set(lr=...)"),
    **all_of("param_groups", "step.hyper, ws.optim.groups"),
    **all_of("opt_state optimizer", "step.state", "step.state['optimizer']"),
    **all_of("summary", "step.explain, ws.nn.summary"),
    **all_of("to cuda cpu", "ws.compile", "ws.compile(device=) says where, and nothing needs moving"),
}

ARRAY: dict[str, Ours] = {
    **all_of("backward", "ws.grad", "gradients are those of a function: ws.grad(loss)(params, batch)"),
    **all_of("grad requires_grad requires_grad_", "ws.grad", "gradients are what ws.grad(loss)(params) returns"),
    **all_of("detach", "ws.stop_gradient", "ws.stop_gradient(x)"),
    **all_of("numpy", "ws.capture", "it has no value yet; return it, or mark it with ws.capture"),
    **all_of("cpu cuda", "ws.compile", "device= is 'cpu', 'cuda', 'opencl' or 'webgpu', and arrays need no moving"),
    **all_of("to double float half long int bool", "x.astype", "x.astype(np.float32)"),
    **all_of("permute", "x.transpose", "x.transpose(0, 2, 1)"),
    **all_of("unsqueeze", "np.expand_dims", "x[:, None], or np.expand_dims(x, axis)"),
    **all_of("expand expand_as", "np.broadcast_to"),
    **all_of("clone", "x.copy"),
    **all_of("contiguous", "x.copy", "arrays need no call for that"),
    **all_of("masked_fill", "np.where", "np.where(mask, value, x)"),
    **all_of("norm", "np.linalg.norm"),
    **all_of("relu sigmoid softmax log_softmax", "ws.nn", "ws.nn.relu(x), ws.nn.softmax(x)"),
    **all_of("at", "x.copy", "assign: x = x.copy(); x[i] = y, or x[i] += y"),
    **all_of("cat", "np.concatenate"),
    **all_of("t", "x.T"),
    **all_of("mm bmm", "np.matmul", "x @ y"),
    **all_of("block_until_ready", "ws.block_until_ready"),
    **all_of("add sub mul div", "np.add", "x + y, x - y, x * y, x / y"),
    **all_of("values iloc loc", "np.asarray", "a column of a table becomes an array outside of the traced function"),
}

MODELS = {
    **all_of("resnet18 resnet34 resnet50 ResNet18 ResNet50", "ws.nn.models.ResNet", "by the blocks of each stage"),
    **all_of("vit_b_16 VisionTransformer", "ws.nn.models.ViT"),
    **all_of("convnext_tiny", "ws.nn.models.ConvNeXt"),
    **all_of("mobilenet_v3_small", "ws.nn.models.MobileNetV3"),
    **all_of("GPT2LMHeadModel GPT2Model", "ws.nn.models.GPT2"),
    **all_of("LlamaForCausalLM LlamaModel", "ws.nn.models.Llama"),
    **all_of("BertModel", "ws.nn.models.BERT"),
    **all_of("DistilBertModel", "ws.nn.models.DistilBERT"),
    **all_of("from_pretrained AutoModel load", "ws.nn.models.load_folder"),
    **all_of("save_pretrained save", "ws.nn.models.save_folder"),
}
NAMES: dict[str, dict[str, Ours]] = {
    "ws.nn.models": MODELS,
    "ws": TOP,
    "ws.nn": NN,
    "ws.optim": OPTIM,
    "ws.random": RANDOM,
    "model": MODULE,
    "step": STEP,
    "x": ARRAY,
}
"""For each place where a name is looked up, the foreign ones and what to write there."""

KEYWORDS: dict[str, tuple[str, ...]] = {
    foreign: tuple(ours.split())
    for ours, names in {
        "keep slope": "alpha",
        "argnums": "argnum wrt",
        "b1 b2": "betas",
        "b1": "beta1 beta_1",
        "b2": "beta2 beta_2",
        "keep": "rho",
        "keep factor": "decay_rate",
        "factor": "gamma",
        "lr": "learning_rate",
        "every lr": "step_size",
        "peak value start": "init_value",
        "peak": "max_lr",
        "low": "base_lr",
        "rise": "pct_start",
        "steps": "T_max T_0 total_steps decay_steps transition_steps n_steps num_steps",
        "eps": "epsilon",
        "weight_decay": "wd",
        "inputs": "in_features in_channels input_size",
        "inputs count": "input_dim",
        "outputs": "out_features out_channels filters",
        "outputs channels size": "features",
        "outputs width": "units output_dim",
        "width": "hidden_size embedding_dim embed_dim d_model",
        "layers": "num_layers",
        "size": "kernel_size pool_size normalized_shape output_size",
        "stride": "strides",
        "dilation": "dilation_rate",
        "count": "num_embeddings max_new_tokens",
        "stop": "eos_token_id",
        "pad": "pad_token_id",
        "prompt": "input_ids",
        "heads": "num_heads nhead n_heads",
        "channels": "num_features num_channels",
        "groups": "num_groups",
        "slope": "negative_slope",
        "scale": "scale_factor",
        "bias": "use_bias",
        "affine bias": "elementwise_affine",
        "p": "rate",
        "class_weights weights": "weight",
        "weights": "sample_weight",
        "predictions": "pred",
        "predictions logits": "y_pred",
        "targets labels": "y_true target",
        "targets": "labels",
        "classes": "num_classes",
        "axis": "dim",
        "keepdims": "keepdim",
        "loss": "loss_fn criterion",
        "params": "model",
        "optimizer": "opt optim",
        "batch": "example example_inputs",
        "epochs": "n_epochs num_epochs max_epochs",
        "data": "train_data x dataset",
        "validation": "validation_data val_data",
        "progress": "verbose",
        "prefetch": "num_workers",
        "key": "rng seed random_state generator",
        "shape": "size",
        "minval": "low",
        "maxval": "high",
    }.items()
    for foreign in names.split()
}
"""For each parameter of another library, what it may be called here; the first that a function has is meant."""

GIVEN: dict[str, str] = {
    "key": "it draws random numbers: key=0, and another number for each layer",
    "batch": "batch= is an example of what the step will be called with, such as the first batch of the data",
    "params": "params is the model, or a tree of arrays, that is trained",
    "loss": "the loss is a function: def loss(model, batch): return ...",
    "data": "data is a Loader, or a tree of arrays with rows",
    "optimizer": "such as ws.optim.adam(1e-3)",
}
"""The hint for a missing argument."""
