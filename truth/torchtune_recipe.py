"""A run file as torchtune's recipes train it on one device (recipes/{full,lora}_finetune_single_device.py of 0.6): its own model code,
its checkpoints around layers, its losses, its optimizers in backward."""

import torch
from training import Unsupported, attention_kernel, build_optimizer, value, without_initialisation

TARGETS = {"q_proj": "q_proj", "k_proj": "k_proj", "v_proj": "v_proj", "o_proj": "output_proj"}
OF_MLP = {"gate_proj", "up_proj", "down_proj"}


def build_model(run):
    from torchtune.models.llama3_2._component_builders import llama3_2, lora_llama3_2
    from torchtune.training import set_default_dtype
    config, adapter = run["model"], run.get("adapter")
    if config["model_type"] != "llama" or value(run, "training.precision") != "bf16-pure":
        raise Unsupported("torchtune is recorded with Llama in bf16")
    sizes = {"vocab_size": config["vocab_size"], "num_layers": config["num_hidden_layers"],
             "num_heads": config["num_attention_heads"], "num_kv_heads": config["num_key_value_heads"],
             "embed_dim": config["hidden_size"], "max_seq_len": config["max_position_embeddings"],
             "intermediate_dim": config["intermediate_size"],
             "tie_word_embeddings": config.get("tie_word_embeddings", False)}
    with set_default_dtype(torch.bfloat16), without_initialisation():
        if adapter is None:
            return llama3_2(**sizes)
        wanted = adapter.get("target_modules", [*TARGETS, *OF_MLP])
        rank = adapter.get("rank", 8)
        model = lora_llama3_2([TARGETS[name] for name in wanted if name in TARGETS],
                              apply_lora_to_mlp=OF_MLP <= set(wanted), **sizes, lora_rank=rank, lora_alpha=2 * rank,
                              lora_dropout=float(adapter.get("dropout", 0.0)), quantize_base=adapter.get("base") == "nf4")
    from torchtune.modules.peft import get_adapter_params, set_trainable_params
    set_trainable_params(model, get_adapter_params(model))
    return model


def loss_function(run, model):
    from torchtune.modules.loss import CEWithChunkedOutputLoss
    if value(run, "training.loss", "plain") == "plain":
        return torch.nn.CrossEntropyLoss()
    loss = CEWithChunkedOutputLoss(num_output_chunks=value(run, "training.loss_chunks", 8))
    model.set_num_output_chunks(loss.num_output_chunks)
    return loss


def train(recorder, run):
    from torchtune import training
    from torchtune.modules import TransformerSelfAttentionLayer
    with recorder.phase("load"):
        model = build_model(run).to("cuda")
        recorder.models = [model]
    model.train()
    if value(run, "recompute.mode", "none") == "full":
        training.set_activation_checkpointing(model, auto_wrap_policy={TransformerSelfAttentionLayer})
    loss_fn = loss_function(run, model)
    offloads = training.get_act_offloading_ctx_manager(model, value(run, "offload.activations", "none") == "cpu")
    in_backward = value(run, "training.optimizer_in_backward", False)
    if in_backward:
        each = {p: build_optimizer(run, [p]) for p in model.parameters() if p.requires_grad}
        training.register_optim_in_bwd_hooks(model=model, optim_dict=each)
        optimizer = list(each.values())
    else:
        optimizer = build_optimizer(run, model.parameters())
    accumulation, length = value(run, "training.gradient_accumulation", 1), value(run, "training.sequence_length")
    sequences, norm = value(run, "training.micro_batch", 1), value(run, "training.gradient_clip", False)
    ignored = torch.full((sequences, 1), -100, device="cuda")

    def loss_step(batch):
        labels = batch.pop("labels")
        with offloads:
            logits = model(**batch)
        labels = torch.hstack((labels[..., 1:], ignored[: labels.shape[0]]))
        if not isinstance(logits, list):
            labels = labels.reshape(-1)
            logits = logits.reshape(-1, logits.size(-1))
        loss = loss_fn(logits, labels)
        del logits
        return loss

    running_loss = num_tokens = 0
    with attention_kernel(run):
        for _ in recorder.steps(model, optimizer):
            for _ in range(accumulation):
                with recorder.phase("forward"):
                    batch = None  # the loader's next one takes the name, and goes to the device then
                    batch = {name: torch.zeros(sequences, length, dtype=torch.int64, device="cuda") for name in ("tokens", "labels")}
                    recorder.inputs = list(batch.values())
                    current_num_tokens = (batch["labels"] != -100).sum()
                    num_tokens += current_num_tokens
                    recorder.inputs = []
                    current_loss = loss_step(batch) * current_num_tokens
                    running_loss += current_loss
                with recorder.phase("backward"):
                    current_loss.backward()
            with recorder.phase("optimizer"):
                if not in_backward:
                    training.scale_grads(model, 1 / num_tokens)
                    if norm:
                        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=float(norm))
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
                running_loss = num_tokens = 0
