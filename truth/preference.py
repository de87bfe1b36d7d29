"""Runs of TRL's trainers (training.method): the trainer's own loop, with its phases told apart where it calls them.

The data are ids that nobody reads: every sequence is as long as the run says, and every token of it but the first is a token of
the completion. Triton's kernels are compiled on the device: on paper they do nothing, and allocate nothing.
"""

import contextlib
import copy
import os
import sys
import tempfile
from pathlib import Path

import torch

from training import Unsupported, attention_kernel, base_type, build_model, value, version_of


def train(recorder, run):
    """One device, or rank 0 of the engine's."""
    from recorder import paper
    if paper.is_loaded():
        from triton.runtime.jit import JITFunction
        JITFunction.run = lambda self, *arguments, **options: None
    os.environ["HF_HUB_OFFLINE"] = os.environ["CI"] = "1"
    as_launched(run)
    method = value(run, "training.method")
    make = TRAINERS.get(method)
    if make is None:
        raise Unsupported(f"method {method} of TRL")
    check_loss(run, method)
    with attention_kernel(run):
        with recorder.phase("load"):
            trainer = make(run)
            recorder.models = [trainer.model, *second_models(trainer)]
        Loop(recorder, run, trainer).play()


def check_loss(run, method):
    """Which logarithms of probabilities the installed TRL makes."""
    tiles = version_of("trl") >= (1, 15)
    loss = value(run, "training.loss", {"orpo": "fused", "cpo": "fused"}.get(method, "chunked"))
    if method in ("dpo", "kto", "grpo") and tiles != (loss == "chunked"):
        raise Unsupported("loss = \"plain\" is TRL's before 1.15, \"chunked\" of later ones")
    if method in ("orpo", "cpo") and loss == "plain":
        import trl.trainer.utils
        trl.trainer.utils.is_triton_available = lambda: False  # as it is without Triton, and was for all before 1.15


FSDP = {"ACCELERATE_USE_FSDP": "true", "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP", "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT"}
ENGINES = {
    "fsdp2": {**FSDP, "FSDP_VERSION": "2", "FSDP_RESHARD_AFTER_FORWARD": "true"},
    "fsdp1": {**FSDP, "FSDP_VERSION": "1", "FSDP_SHARDING_STRATEGY": "FULL_SHARD", "FSDP_USE_ORIG_PARAMS": "true",
              "FSDP_BACKWARD_PREFETCH": "BACKWARD_PRE"},
}


def as_launched(run):
    """As rank 0 of accelerate's processes, the others of which are never started (launched/answers.py)."""
    ranks = value(run, "cluster.devices", 1)
    if ranks == 1:
        return
    sys.path.insert(0, str(Path(__file__).resolve().parent / "launched"))
    import answers
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT="29500", TORCH_NCCL_ENABLE_MONITORING="0", **ENGINES.get(run["engine"], {}))
    if run["engine"].startswith("fsdp"):
        os.environ["ACCELERATE_MIXED_PRECISION"] = "bf16" if value(run, "training.precision") == "bf16-mixed" else "no"
    answers.answer(ranks)


def deepspeed_of(run):
    """Its configuration as the documentation of transformers has it."""
    if run["engine"] != "deepspeed":
        return None
    return {"zero_optimization": {"stage": value(run, "parallel.zero_stage", 0)}, "bf16": {"enabled": "auto"},
            "gradient_clipping": "auto", "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
            "gradient_accumulation_steps": "auto"}


def second_models(trainer):
    return [model for model in (getattr(trainer, "ref_model", None),) if model is not None]


def reference_of(run):
    return value(run, "training.reference", "adapter" if "adapter" in run else "model")


def bare(run):
    """The run's model without its adapter, in the type that its base has."""
    kind = torch.float32 if run["engine"] == "deepspeed" else torch.bfloat16 if "adapter" in run else base_type(run)
    model = build_model({key: part for key, part in run.items() if key != "adapter"}, kind)
    if value(run, "training.method") == "rm":
        model = scoring(model, run)
    return model if value(run, "cluster.devices", 1) > 1 else model.to("cuda")  # the engine takes it there


def scoring(model, run):
    """The same model with a head of one score, as AutoModelForSequenceClassification loads it."""
    from transformers import AutoModelForSequenceClassification
    from training import without_initialisation
    config = copy.deepcopy(model.config)
    config.num_labels, config.pad_token_id = 1, 0
    with without_initialisation():
        scores = AutoModelForSequenceClassification.from_config(config, dtype=model.dtype, attn_implementation=config._attn_implementation)
    scores.train()
    return scores


def policy(run):
    """What every trainer is given to train: TRL makes the adapter itself."""
    import adapters
    return {"model": bare(run), "processing_class": tokenizer(),
            "peft_config": adapters.config_of(run["adapter"], of_task(run)) if "adapter" in run else None}


def of_task(run):
    return "SEQ_CLS" if value(run, "training.method") == "rm" else "CAUSAL_LM"


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    words = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1, "<unk>": 2}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def arguments_of(run, config, **more):
    """What every trainer of TRL is told; nothing is written, and no step is the last that the recorder wants."""
    optimizer = {"adamw": {"foreach": "adamw_torch", "fused": "adamw_torch_fused"}}
    form = value(run, "training.optimizer_form", "foreach")
    precision = value(run, "training.precision")
    return config(
        output_dir=tempfile.mkdtemp(prefix="trl-"), report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
        per_device_train_batch_size=value(run, "training.micro_batch", 1), max_steps=100, dataloader_pin_memory=False,
        gradient_accumulation_steps=value(run, "training.gradient_accumulation", 1),
        gradient_checkpointing=value(run, "recompute.mode", "none") == "full",
        gradient_checkpointing_kwargs={"use_reentrant": bool(value(run, "recompute.reentrant", False))},
        max_grad_norm=1.0 if value(run, "training.gradient_clip", False) else 0.0,
        optim=optimizer[value(run, "training.optimizer", "adamw")][form], bf16=precision in ("bf16-autocast", "bf16-mixed"), deepspeed=deepspeed_of(run), fp16=precision == "fp16-autocast",
        **({} if value(run, "training.method") == "grpo" else {"max_length": value(run, "training.sequence_length")}), **more)


def pairs(run):
    """Pairs of completions behind a prompt of one token; what is longer than the run's sequences is cut."""
    from datasets import Dataset
    words = " a" * value(run, "training.sequence_length")
    count_of_completions(run, 2)
    return Dataset.from_list([{"prompt": "a", "chosen": words, "rejected": words}] * 8)


def count_of_completions(run, sequences):
    paper_count(sequences * value(run, "training.micro_batch", 1) * (value(run, "training.sequence_length") - 1))


def dpo_trainer(run):
    from trl import DPOConfig, DPOTrainer
    arguments = arguments_of(run, DPOConfig, precompute_ref_log_probs=reference_of(run) == "precomputed")
    return DPOTrainer(ref_model=bare(run) if reference_of(run) == "model" else None, args=arguments, train_dataset=pairs(run),
                      **policy(run))


def reward_trainer(run):
    from trl import RewardConfig, RewardTrainer
    from datasets import Dataset
    words = " a" * (value(run, "training.sequence_length") - 1)  # and its end; what is longer than a run's sequences is left out
    data = Dataset.from_list([{"chosen": words, "rejected": words}] * 8)
    return RewardTrainer(args=arguments_of(run, RewardConfig), train_dataset=data, **policy(run))


def kto_trainer(run):
    from datasets import Dataset
    from trl import KTOConfig, KTOTrainer
    words = " a" * value(run, "training.sequence_length")
    count_of_completions(run, 1)
    know_the_labels(run)
    data = Dataset.from_list([{"prompt": "a", "completion": words, "label": row % 2 == 0} for row in range(16)])
    arguments = arguments_of(run, KTOConfig, precompute_ref_log_probs=reference_of(run) == "precomputed")
    return KTOTrainer(ref_model=bare(run) if reference_of(run) == "model" else None, args=arguments, train_dataset=data,
                      **policy(run))


def know_the_labels(run):
    """Half of a batch is desirable: on paper nobody counts them."""
    from recorder import paper
    found = torch.nonzero

    def nonzero(tensor, **named):
        paper.count(max(1, value(run, "training.micro_batch", 1) // 2))
        rows = found(tensor, **named)
        count_of_completions(run, 1)
        return rows
    torch.nonzero = nonzero


def orpo_trainer(run):
    from trl.experimental.orpo import ORPOConfig, ORPOTrainer
    return ORPOTrainer(args=arguments_of(run, ORPOConfig), train_dataset=pairs(run), **policy(run))


def cpo_trainer(run):
    """loss_type = "simpo" with the weight of the likelihood that it has without, or without it."""
    from trl.experimental.cpo import CPOConfig, CPOTrainer
    weight = 1.0 if value(run, "training.likelihood_of_chosen", True) else 0.0
    arguments = arguments_of(run, CPOConfig, loss_type="simpo", cpo_alpha=weight)
    return CPOTrainer(args=arguments, train_dataset=pairs(run), **policy(run))


def grpo_trainer(run):
    """Completions are there: who generates them is another engine, and nothing of it is on this device."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer
    prompt, each = value(run, "training.prompt_length"), value(run, "training.micro_batch", 1)
    completion = value(run, "training.sequence_length") - prompt
    asks = value(run, "training.reference", "none") != "none"
    arguments = arguments_of(run, GRPOConfig, num_generations=each, max_completion_length=completion, beta=0.04 if asks else 0.0)
    data = Dataset.from_list([{"prompt": " ".join(["a"] * prompt)}] * 64)
    model, ids = policy(run), [[1] * completion]
    paper_count(each * completion)
    import trl.trainer.grpo_trainer as of_trl
    of_trl.create_model_from_path = lambda *named, **how: bare(run)  # of a path that nobody has: the reference
    trainer = GRPOTrainer(reward_funcs=lambda completions, **more: [0.5] * len(completions), args=arguments, train_dataset=data, **model)
    trainer._generate_single_turn = lambda prompts, *more, **named: (ids * len(prompts), None)
    return trainer


def paper_count(elements):
    from recorder import paper
    paper.count(elements)


TRAINERS = {"grpo": grpo_trainer, "dpo": dpo_trainer, "rm": reward_trainer, "kto": kto_trainer, "orpo": orpo_trainer, "cpo": cpo_trainer}


class Loop:
    """The trainer's own loop; each phase begins where the one before ends."""

    def __init__(self, recorder, run, trainer):
        self.recorder, self.trainer = recorder, trainer
        self.open = contextlib.ExitStack()
        self.accumulation = value(run, "training.gradient_accumulation", 1)
        self.micro = 0
        self.steps, self.learns = None, False
        self.steps_apart = run["engine"] != "deepspeed"
        self.learns_from_its_own = value(run, "training.method") == "grpo"  # what is generated is scored before the first forward

    def enter(self, phase):
        self.open.close()
        self.open = contextlib.ExitStack()
        if phase:
            self.open.enter_context(self.recorder.phase(phase))

    def play(self):
        from transformers import TrainerCallback
        trainer, loop = self.trainer, self
        step, backward = trainer.training_step, trainer.accelerator.backward

        class Borders(TrainerCallback):
            def on_step_begin(self, arguments, state, control, **words):
                loop.enter(None)
                if loop.steps is None:
                    loop.steps = loop.recorder.steps(loop.recorder.models, [words["optimizer"].optimizer])
                    loop.watch_engine()
                if next(loop.steps, None) is None:
                    raise Finished

            def on_step_end(self, arguments, state, control, **words):
                loop.enter(None)

        def of_micro_batch(model, inputs, *words, **named):
            loop.learns = False
            loop.enter("forward")
            loss = step(model, inputs, *words, **named)
            loop.micro += 1
            if loop.steps_apart:
                loop.enter("optimizer" if loop.micro % loop.accumulation == 0 else None)
            return loss

        def going_back(*words, **named):
            loop.enter("backward")
            backward(*words, **named)

        trainer.training_step, trainer.accelerator.backward = of_micro_batch, going_back
        self.watch_scoring()
        trainer.add_callback(Borders())
        try:
            trainer.train()
        except Finished:
            pass


    def watch_engine(self):
        """DeepSpeed's engine steps within accelerate's backward."""
        wrapped = getattr(self.trainer.accelerator, "deepspeed_engine_wrapped", None)
        if wrapped is None:
            return
        step, loop = wrapped.engine.step, self

        def stepping(*words, **named):
            loop.enter("optimizer")
            return step(*words, **named)
        wrapped.engine.step = stepping

    def watch_scoring(self):
        """What runs without gradients while the trainer makes its loss, and the rest of the loss behind it."""
        trainer, loop = self.trainer, self
        for model in second_models(trainer) or [trainer.model]:
            def begins(module, words, loop=loop):
                if not torch.is_grad_enabled() and loop.steps is not None and (loop.learns or loop.learns_from_its_own):
                    loop.enter("scoring")
            model.register_forward_pre_hook(begins, prepend=True)

        def learns(module, words, loop=loop):
            if not torch.is_grad_enabled():
                return
            loop.learns = True  # KTO's trained model has scored mismatched pairs before
            if loop.learns_from_its_own:
                loop.enter("forward")
        trainer.model.register_forward_pre_hook(learns, prepend=True)


class Finished(Exception):
    """The recorder has seen all of its steps."""
