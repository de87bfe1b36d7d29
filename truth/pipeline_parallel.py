"""torch.distributed.pipelining: its schedules, run on one rank with the stages it holds."""

import copy

import torch
from ranks import fsdp_policy, join, shard
from training import attention_kernel, build_model, build_optimizer, layers_of, recompute, value


class Stage(torch.nn.Module):
    """One pipeline stage of a Llama: the modules of transformers that torchtitan would keep of the whole model."""

    def __init__(self, model, first, last, layers):
        super().__init__()
        whole = model.model
        self.config = model.config
        self.embed_tokens = whole.embed_tokens if first else None
        self.layers = torch.nn.ModuleList(whole.layers[i] for i in layers)
        self.rotary_emb = copy.deepcopy(whole.rotary_emb)  # torchtitan's stages are copies of the whole model, cut down
        self.norm, self.lm_head = (whole.norm, model.lm_head) if last else (None, None)

    def forward(self, x):
        if self.embed_tokens is not None:
            x = self.embed_tokens(x)
        positions = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        tables = self.rotary_emb(x, positions)
        for layer in self.layers:
            x = layer(x, position_embeddings=tables, position_ids=positions, attention_mask=None)
        if self.norm is not None:
            x = self.lm_head(self.norm(x))
        return x


def schedule_of(run):
    """The class, and which of `count` stages a rank holds: loops start again at the first rank, a V comes back from the last."""
    from torch.distributed import pipelining
    from torch.distributed.pipelining import schedules
    one, loop, v = (lambda rank, ranks, count: [rank], lambda rank, ranks, count: list(range(rank, count, ranks)),
                    lambda rank, ranks, count: [rank, count - 1 - rank])
    return {
        "1f1b": (pipelining.Schedule1F1B, one),
        "gpipe": (pipelining.ScheduleGPipe, one),
        "interleaved": (pipelining.ScheduleInterleaved1F1B, loop),
        "looped-bfs": (pipelining.ScheduleLoopedBFS, loop),
        "zb-h1": (pipelining.ScheduleInterleavedZeroBubble, loop),
        "zb-v": (pipelining.ScheduleZBVZeroBubble, v),
        "dualpipe-v": (schedules.ScheduleDualPipeV, v),
    }[value(run, "parallel.schedule", "1f1b")]


def train_pipeline(recorder, run, rank):
    """torch.distributed.pipelining: one rank with its stages; what it would receive is there at once."""
    ways, ranks = value(run, "parallel.pipeline"), value(run, "cluster.devices")
    stages = ways * value(run, "parallel.virtual_pipeline", 1)
    micro_batches = value(run, "training.gradient_accumulation", ways)
    data = ranks // ways
    dist = join(ranks, rank * data)
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cuda", (ways, data), mesh_dim_names=("pipeline", "data"))
    from torch.distributed.pipelining import PipelineStage
    b, s = value(run, "training.micro_batch", 1), value(run, "training.sequence_length")
    schedule, stages_of = schedule_of(run)
    indices = stages_of(rank, ways, stages)
    with recorder.phase("load"):
        with torch.device("meta"):
            whole = build_model(run)
        recompute(run, whole)
        count = len(layers_of(whole)) // stages
        parts = [Stage(whole, i == 0, i == stages - 1, range(i * count, (i + 1) * count)).train() for i in indices]
        del whole
        for model in parts:
            if data > 1:
                from torch.distributed.fsdp import MixedPrecisionPolicy
                how = {"mesh": mesh["data"], "mp_policy": fsdp_policy(run, MixedPrecisionPolicy), "reshard_after_forward": False}
                shard(run, model, model.layers, how, model.embed_tokens, model.norm, model.lm_head)
            model.to_empty(device="cuda")
        held = parts[0] if len(parts) == 1 else torch.nn.ModuleList(parts)
        recorder.models = [held]
    config = parts[0].config
    kind = torch.bfloat16 if value(run, "training.precision").startswith("bf16") else torch.float32
    hidden = torch.empty(b, s, config.hidden_size, dtype=kind, device="meta")
    tokens = torch.empty(b, s, dtype=torch.int64, device="meta")
    logits = torch.empty(b, s, config.vocab_size, dtype=kind, device="meta")

    def loss(output, target):
        return torch.nn.functional.cross_entropy(output.float().flatten(0, 1), target.flatten(0, 1))

    local = [PipelineStage(part, index, stages, torch.device("cuda"), input_args=(tokens if index == 0 else hidden,),
                           output_args=(logits if index == stages - 1 else hidden,), group=mesh["pipeline"].get_group())
             for part, index in zip(parts, indices)]
    pipeline = schedule(local[0] if stages == ways else local, micro_batches, loss_fn=loss)
    first, last = 0 in indices, stages - 1 in indices
    optimizer = build_optimizer(run, held.parameters())
    del parts, model
    with attention_kernel(run):
        for _ in recorder.steps(held, optimizer):
            # forward and backward of the micro-batches alternate: one phase
            with recorder.phase("backward"):
                ids = torch.zeros(b * micro_batches, s, dtype=torch.int64, device="cuda")
                labels = ids.clone()
                recorder.inputs = [ids, labels]
                losses = []
                pipeline.step(*([ids] if first else []), **({"target": labels, "losses": losses} if last else {}),
                              return_outputs=False)  # as torchtitan
                recorder.inputs = []
                del ids, labels, losses
            with recorder.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
