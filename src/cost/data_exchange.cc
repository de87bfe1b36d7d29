#include "cost/data_exchange.h"

#include <algorithm>
#include <utility>

namespace steelyard {

namespace {

// fully_shard, FullyShardedDataParallel, ZeRO-3: a unit's parameters are there only while it runs. Stages of a pipeline
// gather them once a step, before its first micro-batch; what waits for the last is reduced beside that one's backward, or
// behind a pipeline.
DataExchange sharded_units(const Job& job, bool kept_until_backward) {
  const Precision& precision = job.training.precision;
  DataExchange exchange;
  exchange.gather_forward = bytes_each(precision.compute);
  exchange.gather_backward = kept_until_backward ? 0 : bytes_each(precision.compute);
  exchange.scatter_backward = bytes_each(precision.reduction);
  const bool pipelined = job.parallel.gathers_once;
  if (pipelined) exchange.gather_units = std::exchange(exchange.gather_forward, 0.0);
  // The only micro-batch is the last one, and reduces as it goes.
  const bool waits =
      !job.parallel.sync_each_micro_batch && (pipelined || job.training.gradient_accumulation > 1);
  if (waits) {
    exchange.reduction = ExchangeKind::kReduceScatter;
    exchange.reduce = std::exchange(exchange.scatter_backward, 0.0);
    exchange.reduces_beside_backward = !pipelined;
  }
  return exchange;
}

// ZeRO++ (deepspeed/runtime/zero/partition_parameters.py, all_gather_coalesced with quantize; runtime/comm/
// coalesced_collectives.py, all_to_all_quant_reduce). Scales are a byte in a thousand.
DataExchange quantised_where_asked(const Job& job, DataExchange exchange) {
  const double width = bytes_each(job.training.precision.compute);
  if (job.parallel.quantized_gather) {
    exchange.gather_forward = exchange.gather_backward = 1;
    // Codes are read and fp16 written, joined to whole parameters, and these cast.
    exchange.traffic_of_gather = (1 + 2) + (2 + 2) + (2 + width);
  }
  if (job.parallel.quantized_reduce) {
    exchange.scatter_backward = 0;
    exchange.exchange_backward = 0.5;
    // The gradient is read and its codes written, and these read to be summed.
    exchange.traffic_of_scatter = (width + 0.5) + 0.5;
  }
  return exchange;
}

DataExchange whole_gradients(ElementType type, bool beside_backward, double bucket) {
  DataExchange exchange;
  exchange.reduction = ExchangeKind::kAllReduce;
  exchange.reduce = bytes_each(type);
  exchange.reduces_beside_backward = beside_backward;
  exchange.bucket_bytes = exchange.exposed_bytes = bucket;
  return exchange;
}

// Every rank has the sum of all gradients, steps its part and hands that out.
DataExchange whole_gradients_stepped_in_parts(ElementType gradients, ElementType parameters) {
  DataExchange exchange = whole_gradients(gradients, false, 0);
  exchange.gather = bytes_each(parameters);
  return exchange;
}

DataExchange sharded_states(ElementType gradients, ElementType parameters) {
  DataExchange exchange;
  exchange.reduction = ExchangeKind::kReduceScatter;
  exchange.reduce = bytes_each(gradients);
  exchange.gather = bytes_each(parameters);
  return exchange;
}

}  // namespace

DataExchange data_exchange_of(const Job& job) {
  const Precision& precision = job.training.precision;
  const int stage = job.parallel.zero_stage;
  const bool wide_gradients = precision.parameters == ElementType::kBFloat16;
  switch (job.engine) {
    case Engine::kDdp:
      return whole_gradients(precision.gradients, true, static_cast<double>(job.buckets.ddp_bytes));
    case Engine::kFsdp1:
    case Engine::kFsdp2:
      return sharded_units(job, stage < 3);
    case Engine::kDeepSpeed:
      if (stage == 3) return quantised_where_asked(job, sharded_units(job, false));
      if (stage == 0) return whole_gradients(precision.gradients, false, 0);
      return sharded_states(precision.gradients, precision.compute);
    case Engine::kMegatron: {
      // bf16 accumulates and reduces in fp32 by default (arguments.py, accumulate_allreduce_grads_in_fp32).
      const ElementType gradients = wide_gradients ? ElementType::kFloat32 : precision.gradients;
      // Megatron-FSDP gathers and reduces layer by layer, in every micro-batch.
      if (job.parallel.megatron_fsdp && stage >= 2) {
        const double parameter = bytes_each(precision.parameters);
        DataExchange exchange;
        exchange.scatter_backward = bytes_each(job.training.gradients.value_or(gradients));
        exchange.gather_forward = exchange.gather_backward = stage == 3 ? parameter : 0;
        exchange.gather = stage == 3 ? 0 : parameter;
        exchange.gathers_beside_forward = job.overlap_gather;
        return exchange;
      }
      const bool beside = job.overlap_reduce.value_or(false);
      if (stage == 0) return whole_gradients(gradients, beside, 0);
      DataExchange exchange = sharded_states(gradients, precision.parameters);
      // Buckets of 40 million parameters, or of a million for each rank (distributed_data_parallel.py, bucket_size).
      const double bucket = std::max(40e6, 1e6 * static_cast<double>(job.parallel.data.value()));
      exchange.reduces_beside_backward = beside;
      exchange.exposed_bytes = beside ? bucket * exchange.reduce : 0;
      exchange.gathers_beside_forward = job.overlap_gather;
      exchange.exposed_gather_bytes = bucket * exchange.gather;
      return exchange;
    }
    case Engine::kScaling: {
      // Whole gradients, widened, all-reduced by every rank; then each gathers what the others have stepped
      // (scaling/core/optimizer/allreduce.py; parameter_group.py, step_sequel).
      constexpr ElementType kWide = ElementType::kFloat32;
      return stage == 0 ? whole_gradients(kWide, false, 0)
                        : whole_gradients_stepped_in_parts(kWide, precision.parameters);
    }
    case Engine::kNanotron: {
      const ElementType gradients = precision.accumulated_gradients.value_or(precision.gradients);
      // Buckets are of the gradients that autograd makes; what is reduced is the sum of all micro-batches, wider.
      const double bucket = static_cast<double>(job.buckets.ddp_bytes) * bytes_each(gradients) /
                            bytes_each(precision.gradients);
      if (stage == 0) return whole_gradients(gradients, true, bucket);
      // nanotron/trainer.py, training_step: reduce_scatter=False.
      return whole_gradients_stepped_in_parts(gradients, precision.parameters);
    }
  }
  return {};
}

}  // namespace steelyard
