"""A steelyard run file as an ordinary PyTorch training script: what a user would write for it, and nothing else."""

import contextlib
import copy
import importlib.metadata
from fnmatch import fnmatchcase

import torch

FLOAT8_RECIPES = {"fp8-tensorwise": "tensorwise", "fp8-rowwise": "rowwise"}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Unsupported(Exception):
    pass


def value(run, path, otherwise=None):
    for key in path.split("."):
        if not isinstance(run, dict) or key not in run:
            return otherwise
        run = run[key]
    return run


def parameter_type(run):
    precision = value(run, "training.precision", "bf16-mixed")
    types = {"fp32": torch.float32, "tf32": torch.float32, "bf16-autocast": torch.float32,
             "fp16-autocast": torch.float32, "bf16-pure": torch.bfloat16}
    if precision in types:
        return types[precision]
    if value(run, "engine") in ("fsdp1", "fsdp2") and precision in ("bf16-mixed", "bf16-mixed-fp32-gradients", *FLOAT8_RECIPES):
        return torch.float32
    raise Unsupported(f"precision {precision} is not plain PyTorch with engine {value(run, 'engine')}")


def config_of(run):
    from transformers import AutoConfig
    table = copy.deepcopy(run["model"])
    kind = table.pop("model_type")
    for key in ("architectures", "torch_dtype", "dtype"):
        table.pop(key, None)
    config = AutoConfig.for_model(kind, **table)
    config.use_cache = config.get_text_config().use_cache = False
    dropout = value(run, "training.dropout")
    if dropout is not None:
        for key in ("attention_dropout", "attn_pdrop", "resid_pdrop", "embd_pdrop", "hidden_dropout_prob",
                    "attention_probs_dropout_prob", "hidden_dropout", "dropout_rate"):
            if hasattr(config, key):
                setattr(config, key, float(dropout))
    return config


@contextlib.contextmanager
def without_initialisation():
    """Weights keep what their memory held: on paper nobody reads them, on a device only their size matters."""
    import torch.nn.init as init
    names = [n for n in dir(init) if n.endswith("_") and not n.startswith("_") and callable(getattr(init, n))]
    saved = {n: getattr(init, n) for n in names}
    for name in names:
        setattr(init, name, lambda tensor, *a, **k: tensor)
    from transformers import PreTrainedModel
    whole = PreTrainedModel.init_weights
    PreTrainedModel.init_weights = lambda self, *a, **k: self.tie_weights()
    try:
        yield
    finally:
        PreTrainedModel.init_weights = whole
        for name, function in saved.items():
            setattr(init, name, function)


def attention_kernel(run):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    name = value(run, "training.attention", "flash")
    if name == "eager":
        return contextlib.nullcontext()
    # "efficient" is what is left without flash: PyTorch itself falls to the math kernel where it must, as with grouped heads.
    return sdpa_kernel({"flash": [SDPBackend.FLASH_ATTENTION], "cudnn": [SDPBackend.CUDNN_ATTENTION],
                        "efficient": [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]}[name])


def is_masked(config):
    return "MaskedLM" in " ".join(config.architectures or []) or config.model_type == "bert"


def sees(config):
    """A tower of vision: it is given pixels, and says which class they are."""
    return hasattr(tower_of(config), "patch_size") and not reads_images(config) and not contrasts(config)


def tower_of(config):
    """Its own config, where the model's names two towers."""
    return getattr(config, "vision_config", config)


def contrasts(config):
    """A tower of vision and one of text: the loss is of all pairs of a batch."""
    return config.model_type in ("clip", "siglip") and not getattr(config, "classifies", False)


def reads_images(config):
    """A decoder behind a tower of vision: patches stand among its words."""
    return hasattr(config, "vision_config") and hasattr(config, "text_config") and config.model_type not in ("clip", "siglip")


def patches_of(config):
    """Tokens of one image that the decoder is given."""
    tower = config.vision_config
    whole = config.vision_feature_select_strategy == "full"
    return (tower.image_size // tower.patch_size) ** 2 + (1 if whole else 0)


def follows_delta_rule(config):
    """Layers of the gated delta rule, whose kernel is flash-linear-attention's."""
    return "linear_attention" in (getattr(config.get_text_config(), "layer_types", None) or [])


def translates(config):
    """An encoder and a decoder: two lengths, and the labels are the decoder's."""
    return bool(getattr(config, "is_encoder_decoder", False))


def narrow_type(run):
    """What products are computed in."""
    return torch.float16 if value(run, "training.precision") == "fp16-autocast" else torch.bfloat16


def base_type(run):
    """Of what is frozen and not quantised: with adapters under autocast the checkpoint's own 16 bits."""
    adapter = run.get("adapter")
    divided = value(run, "engine") in ("fsdp1", "fsdp2") and value(run, "training.precision") != "fp32"
    if adapter is None or not (divided or value(run, "training.precision", "").endswith("-autocast")):
        return parameter_type(run)
    return DTYPES.get(adapter.get("base"), narrow_type(run))


def version_of(package, numbers=2):
    """The first two numbers: (4, 44)."""
    return tuple(int(number) for number in importlib.metadata.version(package).split(".")[:numbers])


def check_version(run):
    """A run that names the version of a package is recorded with that one alone, the others with the newest."""
    for package in ("transformers", "liger-kernel"):
        wanted = run.get("environment", {}).get(package)
        if wanted is None:
            continue
        wanted = tuple(int(number) for number in wanted.split("."))
        installed = version_of(package, len(wanted))
        if installed != wanted:
            raise Unsupported(f"needs {package} {wanted}: here is {installed}")


def build_model(run, kind=None):
    from transformers import (AutoModel, AutoModelForCausalLM, AutoModelForImageClassification, AutoModelForImageTextToText,
                              AutoModelForMaskedLM, AutoModelForSeq2SeqLM)
    config = config_of(run)
    eager = value(run, "training.attention", "flash") == "eager"
    head = (AutoModel if contrasts(config) else AutoModelForImageClassification if sees(config) else
            AutoModelForImageTextToText if reads_images(config) else AutoModelForSeq2SeqLM if translates(config) else
            AutoModelForMaskedLM if is_masked(config) else AutoModelForCausalLM)
    if config.model_type in ("clip_vision_model", "siglip_vision_model"):  # classified as a part of a model of two towers
        from transformers import AutoConfig
        config = AutoConfig.for_model(config.model_type.split("_")[0], vision_config=config.to_dict(), num_labels=config.num_labels)
        config.classifies = True
    check_version(run)
    if follows_delta_rule(config):
        import fla  # noqa: F401  transformers takes its kernel where it is there
        quiet_triton()
    named = "dtype" if version_of("transformers") >= (4, 56) else "torch_dtype"
    with without_initialisation():
        model = head.from_config(config, **{named: kind or base_type(run)}, attn_implementation="eager" if eager else "sdpa")
        if translates(config) and not run["model"].get("tie_word_embeddings", True):
            # T5Config ties whatever the file says; a checkpoint that has both tensors is loaded as it is, and they stay two.
            model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    if run.get("adapter") is not None:
        from adapters import adapt
        model = adapt(run["adapter"], model, narrow_type(run))
    for name, parameter in model.named_parameters():
        if any(fnmatchcase(name, pattern) for pattern in value(run, "training.frozen", [])):
            parameter.requires_grad_(False)
    take_liger(run, model)
    model.train()
    return model


def quiet_triton():
    """Triton's kernels are compiled on the device: on paper they do nothing, and allocate nothing."""
    from recorder import paper
    if not paper.is_loaded():
        return
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction
    for kind in (JITFunction, Autotuner, Heuristics):
        kind.run = lambda self, *arguments, **options: None


def take_liger(run, model):
    """Its kernels in place of the model's own. They are compiled on the device: on paper they do nothing, and allocate nothing."""
    if value(run, "training.kernels") != "liger":
        return
    quiet_triton()
    from liger_kernel.transformers import _apply_liger_kernel_to_instance
    loss = value(run, "training.loss", "plain")
    _apply_liger_kernel_to_instance(model, fused_linear_cross_entropy=loss == "fused-linear", cross_entropy=loss == "fused")


def chosen_operators():
    """torchtitan's selective "op": the outputs of attention and of every other product stay (activation_checkpoint.py)."""
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    kept = {torch.ops.aten._scaled_dot_product_flash_attention.default,
            torch.ops.aten._scaled_dot_product_efficient_attention.default}
    products = {False: 0, True: 0}

    def policy(context, function, *_, **__):
        if function == torch.ops.aten.mm.default:
            products[context.is_recompute] += 1
            stays = products[context.is_recompute] % 2 == 1
        else:
            stays = function in kept
        return CheckpointPolicy.MUST_SAVE if stays else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def recompute(run, model):
    mode = value(run, "recompute.mode", "none")
    if mode == "none":
        return
    if mode not in ("full", "every", "block", "operators"):
        raise Unsupported(f"recompute.mode {mode} is not a switch of transformers")
    reentrant = bool(value(run, "recompute.reentrant", False))
    how = {"use_reentrant": reentrant}
    if mode == "operators":
        how["context_fn"] = chosen_operators
    model.gradient_checkpointing_enable(how)
    if reentrant:
        model.enable_input_require_grads()
    for index, layer in enumerate(layers_of(model)):
        if mode == "every":
            layer.gradient_checkpointing = index % value(run, "recompute.every") == 0
        elif mode == "block":
            layer.gradient_checkpointing = index < value(run, "recompute.layers")


def build_optimizer(run, parameters):
    name = value(run, "training.optimizer", "adamw")
    form = value(run, "training.optimizer_form", "foreach")
    how = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}[form]
    parameters = [p for p in parameters if p.requires_grad]
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.1, **how)
    if name == "adam":
        return torch.optim.Adam(parameters, lr=1e-4, **how)
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-4, **how)
    if name == "momentum":
        return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9, **how)
    if name == "adafactor":
        from transformers.optimization import Adafactor
        return Adafactor(parameters, lr=1e-4, scale_parameter=False, relative_step=False)
    if name == "adamw-8bit":
        from bitsandbytes.optim import AdamW8bit
        return AdamW8bit(parameters, lr=1e-4, weight_decay=0.1)
    if name == "muon":
        raise Unsupported("muon: torch.optim.Muon takes matrices only")
    raise Unsupported(f"optimizer {name}")


def multiply_in_8_bits(run, model):
    """torchao's 8-bit linear layers in place of the layers' own, the head apart, as torchtitan puts them there."""
    recipe = FLOAT8_RECIPES.get(value(run, "training.precision"))
    if recipe is None:
        return
    from recorder import paper
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    if paper.is_loaded():
        torch.exp2 = torch.exp  # PyTorch compiles this kernel when it is first run; the other one allocates the same
    convert_to_float8_training(model, config=Float8LinearConfig.from_recipe_name(recipe),
                               module_filter_fn=lambda module, name: name != "lm_head")


def keep_embeddings_wide(model):
    """As transformers' Trainer with bitsandbytes: states of embeddings have 32 bits."""
    from bitsandbytes.optim import GlobalOptimManager
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            GlobalOptimManager.get_instance().register_module_override(module, "weight", {"optim_bits": 32})


def autocast(run):
    if value(run, "training.precision", "").endswith("-autocast"):
        return torch.autocast("cuda", narrow_type(run))
    return contextlib.nullcontext()


def activations_on_the_host(run):
    if value(run, "offload.activations", "none") == "cpu":
        return torch.autograd.graph.save_on_cpu(pin_memory=value(run, "offload.pinned", True))
    return contextlib.nullcontext()


def shown(run, config, sequences):
    """The images of the sequences, whose tokens come first in each. On paper the mask of them finds as many elements as there are."""
    from recorder import paper
    torch.backends.cudnn.enabled = False
    tower, images = config.vision_config, sequences * value(run, "training.images_per_sequence", 1)
    paper.count(images * patches_of(config) * config.text_config.hidden_size)
    return [torch.zeros(images, tower.num_channels, tower.image_size, tower.image_size, device="cuda")]


def batch(run, config):
    b, s = value(run, "training.micro_batch", 1), value(run, "training.sequence_length")
    if config is not None and sees(config):
        torch.backends.cudnn.enabled = False  # not there on paper: the patches go through PyTorch's own convolution
        tower = tower_of(config)
        pixels = torch.zeros(b, tower.num_channels, tower.image_size, tower.image_size, device="cuda")
        return pixels, torch.zeros(b, dtype=torch.int64, device="cuda")
    ids = torch.zeros(b, s, dtype=torch.int64, device="cuda")
    if config is not None and contrasts(config):
        torch.backends.cudnn.enabled = False
        tower = config.vision_config
        return ids, torch.zeros(b, tower.num_channels, tower.image_size, tower.image_size, device="cuda")
    if config is not None and reads_images(config):
        return (ids, *shown(run, config, b)), ids.clone()
    if config is not None and translates(config):
        config.decoder_start_token_id = 0  # as in generation_config.json of every T5
        target = value(run, "training.target_sequence_length")
        return ids, torch.zeros(b, target, dtype=torch.int64, device="cuda")
    return ids, ids.clone()


def loss_of(model, ids, labels):
    """As transformers' Trainer: the output object, and with it the logits, is gone when the loss is there."""
    config = getattr(model, "module", model).config
    if contrasts(config):
        return model(input_ids=ids, pixel_values=labels, return_loss=True).loss
    if sees(config):
        return model(pixel_values=ids, labels=labels).loss
    if isinstance(ids, tuple):
        return model(input_ids=ids[0], pixel_values=ids[1], labels=labels).loss
    return model(input_ids=ids, labels=labels).loss


def train_single(recorder, run):
    """One device, no engine."""
    torch.backends.cuda.matmul.allow_tf32 = value(run, "training.precision") == "tf32"
    with recorder.phase("load"):
        model = build_model(run).to("cuda")
        recorder.models = [model]
    recompute(run, model)
    if "8bit" in value(run, "training.optimizer", ""):
        keep_embeddings_wide(model)
    if value(run, "training.optimizer_in_backward", False):
        return train(recorder, run, model, step_in_backward(run, model))
    train(recorder, run, model, build_optimizer(run, model.parameters()))


def step_in_backward(run, model):
    """An optimizer for each parameter, stepped and emptied by a hook as soon as its gradient is there: torch's tutorial on it."""
    optimizers = {p: build_optimizer(run, [p]) for p in model.parameters() if p.requires_grad}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in optimizers:
        parameter.register_post_accumulate_grad_hook(step)

    class Together:
        """Nothing is left for the loop to do."""
        @property
        def state(self):
            return {p: state for each in optimizers.values() for p, state in each.state.items()}

        @property
        def param_groups(self):
            return [group for each in optimizers.values() for group in each.param_groups]

        def step(self):
            pass

        def zero_grad(self):
            pass

    return Together()


def train(recorder, run, model, optimizer, no_sync=None, loss=None, clip=None, around=None):
    """`no_sync(last)`: the context of a micro-batch. `clip(norm)`: an engine's own clipping. `around(stack, ids, labels)` enters
    what stays open from forward to the end of backward."""
    accumulation = value(run, "training.gradient_accumulation", 1)
    norm = value(run, "training.gradient_clip", False)
    loss = loss or loss_of
    scaler = torch.amp.GradScaler("cuda", enabled=value(run, "training.precision") == "fp16-autocast")
    config = getattr(model, "module", model).config
    with attention_kernel(run):
        for _ in recorder.steps(model, optimizer):
            for micro in range(accumulation):
                last = micro == accumulation - 1
                stack = contextlib.ExitStack()
                with recorder.phase("forward"):
                    ids, labels = batch(run, config)
                    recorder.inputs = [*ids, labels] if isinstance(ids, tuple) else [ids, labels]
                    if around:
                        around(stack, ids, labels)
                    context = no_sync(last) if no_sync else contextlib.nullcontext()
                    with context:
                        with autocast(run), activations_on_the_host(run):
                            value_of_loss = loss(model, ids, labels)
                        if accumulation > 1:
                            value_of_loss = value_of_loss / accumulation
                with recorder.phase("backward"):
                    with no_sync(last) if no_sync else contextlib.nullcontext():
                        scaler.scale(value_of_loss).backward()
                    stack.close()
                    recorder.inputs = []
                    del value_of_loss, ids, labels
            with recorder.phase("optimizer"):
                if norm:
                    scaler.unscale_(optimizer)
                if clip:
                    clip(float(norm))
                elif norm:
                    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], float(norm))
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()


def layers_of(model):
    stacks = [owner.block for owner in model.modules() if isinstance(getattr(owner, "block", None), torch.nn.ModuleList)]
    if stacks:  # an encoder's and a decoder's
        return [layer for stack in stacks for layer in stack]
    for owner in model.modules():
        for first, second in (("vision_tower", "language_model"), ("vision_model", "text_model")):
            if hasattr(owner, first) and hasattr(owner, second):
                return [*layers_of(getattr(owner, first)), *layers_of(getattr(owner, second))]
    for owner in model.modules():
        for name in ("layers", "h", "layer"):
            layers = getattr(owner, name, None)
            if isinstance(layers, torch.nn.ModuleList):
                return list(layers)
    raise Unsupported("no list of layers in this model")


def packages_of(run):
    """Whose versions a record names beside PyTorch's."""
    own = {"deepspeed": run["engine"] == "deepspeed", "megatron-core": run["engine"] == "megatron",
           "bitsandbytes": "8bit" in value(run, "training.optimizer", ""),
           "liger-kernel": value(run, "training.kernels") == "liger",
           "flash-linear-attention": "linear_num_key_heads" in run["model"]}
    if run.get("implementation") == "torchtune":
        return ("torchtune", "torchao", *(name for name, used in own.items() if used))
    if value(run, "training.method", "pretrain") not in ("pretrain", "sft"):
        own["trl"] = True
    return ("transformers", "accelerate", "peft", *(name for name, used in own.items() if used))


def train_one(recorder, run, rank=0):
    if value(run, "training.method", "pretrain") not in ("pretrain", "sft"):
        import preference
        return preference.train(recorder, run)
    if run.get("implementation") == "torchtune":
        import torchtune_recipe
        return torchtune_recipe.train(recorder, run)
    if run["engine"] == "deepspeed":
        import zero
        return zero.train(recorder, run)
    if run["engine"] == "megatron":
        import megatron_core
        return megatron_core.train(recorder, run, rank)
    if run["engine"] == "scaling":
        import scaling_engine
        return scaling_engine.train(recorder, run, rank)
    if run["engine"] == "nanotron":
        import nanotron_engine
        return nanotron_engine.train(recorder, run, rank)
    if value(run, "parallel.pipeline", 1) > 1:
        import pipeline_parallel
        return pipeline_parallel.train_pipeline(recorder, run, rank)
    if value(run, "parallel.tensor", 1) > 1:
        import tensor_parallel
        return tensor_parallel.train_tensor(recorder, run)
    if value(run, "cluster.devices", 1) == 1:
        return train_single(recorder, run)
    import data_parallel
    return data_parallel.train_engine(recorder, run)
