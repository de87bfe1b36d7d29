"""Aleph Alpha's scaling: its own transformer, tensor and sequence parallelism, recomputation and optimizer, on one rank.

Nothing of it is installed by requirements.txt: check out https://github.com/Aleph-Alpha/scaling (0.2.0) and say where it lies,
`SCALING_SOURCE=.../scaling/src`. It asks for wandb and flash-attn: the first is never called, the second's kernel is PyTorch's own
copy of it, which keeps the same tensors.
"""

import os
import sys

import torch
from ranks import join
from training import Unsupported, value


class Nothing:
    """A package that is imported and never called."""

    def __init__(self, name):
        self.__name__ = self.__spec__ = name
        self.__path__ = []

    def __getattr__(self, name):
        return type(name, (), {"BICUBIC": None, "Image": None, "__init__": lambda self, *_, **__: None})


def without_loggers_and_images():
    for name in ("wandb", "wandb.errors", "tensorboard", "torch.utils.tensorboard", "PIL", "PIL.Image", "torchvision",
                 "torchvision.transforms", "torchvision.transforms.functional"):
        sys.modules.setdefault(name, Nothing(name))


def varlen_attention(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale, causal, **_):
    return torch.ops.aten._flash_attention_forward(q, k, v, cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k),
                                                   dropout_p, causal, False, scale=softmax_scale)[0]


def answer_on_paper():
    """On paper every comparison says true: no norm would be finite."""
    from scaling.core.optimizer.parameter_group import OptimizerParamGroup
    asked = OptimizerParamGroup.scale_grads_and_get_grad_norm_squared

    def norm(self, *arguments, **named):
        try:
            return asked(self, *arguments, **named)
        except RuntimeError as error:
            if "grad norm is" not in str(error):
                raise
            return 1.0

    OptimizerParamGroup.scale_grads_and_get_grad_norm_squared = norm


def config_of(run, ranks, tensor, rank):
    from scaling.transformer.context.config import TransformerConfig
    model = run["model"]
    if model["model_type"] != "llama":
        raise Unsupported(f"model_type {model['model_type']} with scaling")
    if value(run, "parallel.pipeline", 1) > 1:
        raise Unsupported("pipelines of scaling send their shapes ahead: there is nobody to send them")
    flash = value(run, "training.attention", "flash") == "flash"
    grouped = model["num_key_value_heads"] != model["num_attention_heads"]
    checkpointed = value(run, "recompute.mode", "none") == "full"
    return TransformerConfig.from_dict({
        "topology": {
            "global_rank": rank, "local_slot": 0, "world_size": ranks, "model_parallel_size": tensor, "pipe_parallel_size": 1,
            "micro_batch_size": value(run, "training.micro_batch", 1),
            "gradient_accumulation_steps": value(run, "training.gradient_accumulation", 1),
            "activation_checkpointing_type": "every_layer" if checkpointed else "disabled",
            "sequence_parallel": tensor > 1 and value(run, "parallel.sequence_parallel", True)},
        "optimizer": {"zero": value(run, "parallel.zero_stage", 0) >= 1,
                      "gradient_clipping": float(value(run, "training.gradient_clip", True))},
        "training": {"allow_missing_params_in_optimizer": True},
        "training_groups": [{"group_name": "all", "weight_decay": 0.1}],
        "transformer_architecture": {
            "vocab_size": model["vocab_size"], "hidden_size": model["hidden_size"], "num_layers": model["num_hidden_layers"],
            "num_attention_heads": model["num_attention_heads"],
            "attention_num_kv_heads": model["num_key_value_heads"] if grouped else None, "attention_qkv_in_one": not grouped,
            "attention_bias": False,
            "mlp_bias": False, "mlp_type": "swiglu", "mlp_factor": model["intermediate_size"] / model["hidden_size"],
            "norm_type": "rms", "relative_position_embedding_type": "rotary",
            "sequence_length": value(run, "training.sequence_length"), "weight_tying": bool(model.get("tie_word_embeddings")),
            "precision": "bfloat16", "masked_softmax": {"kernel": "flash_attention" if flash else "torch"},
            "dropout_embedding": 0.0, "dropout_attention_probs": 0.0, "dropout_after_attention": 0.0, "dropout_after_mlp": 0.0}})


def train(recorder, run, rank):
    source = os.environ.get("SCALING_SOURCE")
    if not source:
        raise Unsupported("SCALING_SOURCE does not say where scaling lies")
    sys.path.insert(0, source)
    without_loggers_and_images()
    ranks, tensor = value(run, "cluster.devices"), value(run, "parallel.tensor", 1)
    join(ranks, rank)
    from scaling.core import Topology
    from scaling.core.nn.attention import attention
    from scaling.core.topology.rng_tracker import CudaRNGStateTracker
    from scaling.transformer import TransformerContext, init_model, init_optimizer
    from scaling.transformer.data.text_dataset import TextDataset
    from scaling.transformer.data.text_dataset_batch import TextDatasetBatchBeforeSync
    from scaling.transformer.model.losses import create_loss_function
    from scaling.transformer.model.model import metrics_aggregation_fn
    from recorder import paper
    if paper.is_loaded():
        answer_on_paper()
    attention.flash_attn_varlen_func = varlen_attention
    config = config_of(run, ranks, tensor, rank)
    topology = Topology(config.topology)
    topology.initialize_device()
    topology._model_parallel_constant_rng = CudaRNGStateTracker(seed=1)
    for kind in ("pipe", "data", "model"):
        for members in getattr(topology, f"all_{kind}_parallel_groups"):
            if rank in members:
                setattr(topology, f"_{kind}_parallel_ranks", members)
                setattr(topology, f"_{kind}_parallel_group", torch.distributed.new_group(members, use_local_synchronization=True))
    topology.is_distributed_initialized = True
    context = TransformerContext(config=config, topology=topology)
    with recorder.phase("load"):
        model = init_model(context=context)
        optimizer = init_optimizer(context=context, model=model)
    loss = create_loss_function(context, config.training.loss_function_config)
    tokens = torch.ones(config.topology.micro_batch_size, value(run, "training.sequence_length") + 1, dtype=torch.int64)

    class Batches:
        def __next__(self):
            return TextDatasetBatchBeforeSync(tokens, reset_attention_mask=False, reset_position_ids=False)

    step = optimizer.step
    for _ in recorder.steps(model, [optimizer.optimizer]):
        phase = recorder.phase("backward")
        phase.__enter__()

        def in_its_phase():
            nonlocal phase
            phase.__exit__(None, None, None)
            phase = recorder.phase("optimizer")
            phase.__enter__()
            return step()

        optimizer.step = in_its_phase
        model.train_step(Batches(), optimizer, TextDataset.sync_batch_to_model_parallel, loss, metrics_aggregation_fn)
        phase.__exit__(None, None, None)
