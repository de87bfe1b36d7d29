"""Two steps of Megatron-core's GPT on the CPU with the arguments that were exported: its parser, its checks, its parallel groups,
its layers without Transformer Engine, its optimizer and its schedules."""

import os

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # its small fusions want Triton

import cpu_as_cuda  # noqa: E402, F401
import torch  # noqa: E402
from megatron.core import parallel_state  # noqa: E402
from megatron.core.distributed import (DistributedDataParallel, DistributedDataParallelConfig,  # noqa: E402
                                       finalize_model_grads)
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.pipeline_parallel import get_forward_backward_func  # noqa: E402
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed  # noqa: E402
from megatron.training.argument_utils import core_transformer_config_from_args  # noqa: E402
from megatron.training.arguments import parse_args, validate_args  # noqa: E402

arguments = parse_args()
validate_args(arguments)
torch.distributed.init_process_group("gloo")
parallel_state.initialize_model_parallel(
    arguments.tensor_model_parallel_size, arguments.pipeline_model_parallel_size,
    context_parallel_size=arguments.context_parallel_size,
    expert_model_parallel_size=arguments.expert_model_parallel_size)
model_parallel_cuda_manual_seed(1)
config = core_transformer_config_from_args(arguments)
model = GPTModel(
    config, get_gpt_layer_local_spec(normalization=arguments.normalization),
    arguments.padded_vocab_size or arguments.vocab_size, arguments.max_position_embeddings,
    position_embedding_type=arguments.position_embedding_type,
    share_embeddings_and_output_weights=not arguments.untie_embeddings_and_output_weights,
    pre_process=parallel_state.is_pipeline_first_stage(),
    post_process=parallel_state.is_pipeline_last_stage()).to(arguments.params_dtype)
wrapped = DistributedDataParallel(
    config, DistributedDataParallelConfig(grad_reduce_in_fp32=arguments.accumulate_allreduce_grads_in_fp32,
                                          use_distributed_optimizer=arguments.use_distributed_optimizer), model)
optimizer = get_megatron_optimizer(
    OptimizerConfig(optimizer=arguments.optimizer, lr=0.01, bf16=arguments.bf16, params_dtype=arguments.params_dtype,
                    use_distributed_optimizer=arguments.use_distributed_optimizer, clip_grad=arguments.clip_grad), [wrapped])
config.grad_scale_func = optimizer.scale_loss
config.finalize_model_grads_func = finalize_model_grads
before = [parameter.detach().clone() for parameter in model.parameters()]


def forward(batches, module):
    ids = torch.randint(0, arguments.vocab_size, (arguments.micro_batch_size, arguments.seq_length))
    output = module(ids, torch.arange(arguments.seq_length).unsqueeze(0), None, labels=ids)
    return output, lambda losses: (losses.float().mean(), {})


micro_batches = arguments.global_batch_size // arguments.micro_batch_size // arguments.data_parallel_size
steps = 0
for _ in range(2):
    wrapped.zero_grad_buffer()
    optimizer.zero_grad()
    get_forward_backward_func()(
        forward_step_func=forward, data_iterator=iter(()), model=[wrapped], num_microbatches=micro_batches,
        seq_length=arguments.seq_length, micro_batch_size=arguments.micro_batch_size, forward_only=False)
    steps += bool(optimizer.step()[0])
moved = any((old != new).any() for old, new in zip(before, model.parameters()))
chained = getattr(optimizer, "chained_optimizers", [optimizer])
if torch.distributed.get_rank() == 0:
    print(f"TRAINED steps={steps} moved={moved} processes={torch.distributed.get_world_size()} "
          f"kinds={','.join(type(inner).__name__ for inner in chained)} micro_batches={micro_batches}", flush=True)
torch.distributed.destroy_process_group()
