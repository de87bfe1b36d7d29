#include "predict/moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "job/engine_rules.h"
#include "job/recipe_choice.h"

namespace steelyard {

namespace {

std::string text(std::int64_t number) { return fmt::format("{}", number); }

bool runs_on_torch(const Job& job) {
  return job.engine == Engine::kDdp || job.engine == Engine::kFsdp1 ||
         job.engine == Engine::kFsdp2 || job.engine == Engine::kDeepSpeed;
}

bool divides_data_alone(const Job& job) {
  return job.parallel.tensor == 1 && job.parallel.pipeline == 1 && job.parallel.context == 1 &&
         job.parallel.expert == 1;
}

// As validate.cc asks: over the tensor ranks, and in two chunks for each context rank.
bool divides_sequence(const Job& job) {
  const std::int64_t chunks = job.parallel.context > 1 ? 2 * job.parallel.context.value() : 1;
  const std::int64_t tensor = job.parallel.sequence_parallel ? job.parallel.tensor.value() : 1;
  return job.training.sequence_length % (tensor * chunks) == 0;
}

// Data-parallel ranks change; the global batch stays, so accumulation changes with them.
bool set_data(Job& job, std::int64_t data, std::vector<Suggestion::Edit>& edits) {
  const std::int64_t sequences = job.training.micro_batch * data;
  if (sequences == 0 || job.training.global_batch % sequences != 0) return false;
  const std::int64_t accumulation = job.training.global_batch / sequences;
  edits.push_back({"parallel.data", text(job.parallel.data), text(data)});
  if (accumulation != job.training.gradient_accumulation)
    edits.push_back({"training.gradient_accumulation", text(job.training.gradient_accumulation),
                     text(accumulation)});
  job.parallel.data = Ranks(data);
  job.training.gradient_accumulation = accumulation;
  return true;
}

Move fused_optimizer() {
  return {"optimizer_form = fused", "nothing",
          "the step runs as one kernel without a temporary list", 0, [](Job& job, auto& edits) {
            if (job.training.optimizer_form != OptimizerForm::kForeach ||
                !job.training.optimizer.only_form.empty())
              return false;
            edits.push_back({"training.optimizer_form", "foreach", "fused"});
            job.training.optimizer_form = OptimizerForm::kFused;
            return true;
          }};
}

// Where the device and the model's code run it: the other of the two is no move then.
Move fused_attention(AttentionKernel kernel) {
  return {fmt::format("attention = {}", name_of(kernel)), "nothing",
          "a fused kernel: scores are never stored", 0, [kernel](Job& job, auto& edits) {
            if (job.training.attention == kernel || leanest_attention(job).kernel != kernel ||
                job.training.kernels == KernelLibrary::kLocal)
              return false;
            edits.push_back({"training.attention", std::string(name_of(job.training.attention)),
                             std::string(name_of(kernel))});
            job.training.attention = kernel;
            return true;
          }};
}

Move fused_loss() {
  return {"loss = fused-linear", "compute",
          "logits exist one chunk at a time; a few percent of the head's time", 1,
          [](Job& job, auto& edits) {
            if (job.training.loss != LossKernel::kPlain || !runs_on_torch(job) ||
                job.parallel.tensor > 1)
              return false;
            edits.push_back({"training.loss", "plain", "fused-linear"});
            job.training.loss = LossKernel::kFusedLinear;
            return true;
          }};
}

Move smaller_micro_batch() {
  return {
      "micro_batch = 1", "throughput",
      "smaller matrix products, more micro-steps; the global batch stays", 2,
      [](Job& job, auto& edits) {
        if (job.training.micro_batch <= 1) return false;
        const std::int64_t factor = job.training.micro_batch;
        edits.push_back({"training.micro_batch", text(factor), "1"});
        edits.push_back({"training.gradient_accumulation", text(job.training.gradient_accumulation),
                         text(job.training.gradient_accumulation * factor)});
        job.training.micro_batch = 1;
        job.training.gradient_accumulation *= factor;
        return true;
      }};
}

Move selective_recompute() {
  return {"recompute.mode = selective", "recompute", "core attention runs twice", 1,
          [](Job& job, auto& edits) {
            if (job.recompute.mode != RecomputeMode::kNone ||
                job.training.attention == AttentionKernel::kFlash)
              return false;
            edits.push_back({"recompute.mode", "none", "selective"});
            job.recompute.mode = RecomputeMode::kSelective;
            job.recompute.modules = {RecomputeModule::kCoreAttention};
            return true;
          }};
}

Move recompute_every_second() {
  return {"recompute every 2nd layer", "recompute",
          "half of the layers run forward twice: about a sixth more compute", 2,
          [](Job& job, auto& edits) {
            if (job.recompute.mode != RecomputeMode::kNone &&
                job.recompute.mode != RecomputeMode::kSelective)
              return false;
            edits.push_back({"recompute.mode", std::string(name_of(job.recompute.mode)), "every"});
            edits.push_back({"recompute.every", "-", "2"});
            job.recompute.mode = RecomputeMode::kEvery;
            job.recompute.every = Layers(2);
            return true;
          }};
}

Move full_recompute() {
  return {"recompute.mode = full", "recompute",
          "every layer runs forward twice: about a third more compute", 3,
          [](Job& job, auto& edits) {
            if (job.recompute.mode == RecomputeMode::kFull) return false;
            edits.push_back({"recompute.mode", std::string(name_of(job.recompute.mode)), "full"});
            job.recompute.mode = RecomputeMode::kFull;
            return true;
          }};
}

Move higher_zero_stage(int stage) {
  return {
      fmt::format("zero_stage = {}", stage), "communication",
      stage == 3 ? "parameters are gathered for forward and again for backward"
                 : "gradients are scattered, parameters gathered after the step",
      stage, [stage](Job& job, auto& edits) {
        const bool known =
            (job.engine == Engine::kDeepSpeed && stage <= 3) ||
            (is_fsdp(job.engine) && stage == 3) ||
            ((job.engine == Engine::kMegatron || job.engine == Engine::kNanotron) && stage == 1);
        if (!known || job.parallel.data <= 1 || job.parallel.zero_stage >= stage ||
            (job.parallel.pipeline > 1 && stage > 1))
          return false;
        edits.push_back({"parallel.zero_stage", text(job.parallel.zero_stage), text(stage)});
        job.parallel.zero_stage = stage;
        return true;
      }};
}

Move sharded_by_fsdp() {
  return {"engine = fsdp2, zero_stage = 3", "communication",
          "each layer is gathered when it runs; gradients are scattered", 3,
          [](Job& job, auto& edits) {
            if (job.engine != Engine::kDdp || job.parallel.data <= 1) return false;
            edits.push_back({"engine", "ddp", "fsdp2"});
            edits.push_back({"parallel.zero_stage", text(job.parallel.zero_stage), "3"});
            job.engine = Engine::kFsdp2;
            job.parallel.zero_stage = 3;
            return true;
          }};
}

Move more_tensor(std::int64_t factor) {
  return {fmt::format("tensor x {}", factor), "communication",
          "activations are gathered and scattered around every layer", 3,
          [factor](Job& job, auto& edits) {
            const bool able = job.engine == Engine::kMegatron || job.engine == Engine::kNanotron;
            const std::int64_t tensor = job.parallel.tensor * factor;
            if (!able || job.parallel.data % factor != 0 || tensor > job.cluster.devices_per_node)
              return false;
            for (const Layer& layer : job.model->kinds)
              if (const auto* attention = std::get_if<GroupedAttention>(&layer.attention);
                  attention &&
                  (attention->heads % tensor != 0 || attention->key_value_heads % tensor != 0))
                return false;
            edits.push_back({"parallel.tensor", text(job.parallel.tensor), text(tensor)});
            if (job.parallel.expert > 1)  // experts stay as they are cut
              edits.push_back({"parallel.expert_tensor", text(job.parallel.expert_tensor),
                               text(job.parallel.expert_tensor)});
            else
              job.parallel.expert_tensor = Ranks(tensor);
            job.parallel.tensor = Ranks(tensor);
            job.parallel.sequence_parallel = true;
            if (!divides_sequence(job) || job.parallel.context_method == ContextMethod::kUlysses ||
                job.parallel.context_method == ContextMethod::kRingAndUlysses)
              return false;
            return set_data(job, job.parallel.data / factor, edits);
          }};
}

Move eight_bit_optimizer() {
  return {"optimizer = adamw-8bit", "accuracy", "moments in 8 bits, no fp32 master copy", 7,
          [](Job& job, auto& edits) {
            const Optimizer* small = find_optimizer("adamw-8bit");
            if (!small ||
                (job.training.optimizer.name != "adamw" && job.training.optimizer.name != "adam") ||
                !runs_on_torch(job))
              return false;
            edits.push_back({"training.optimizer", job.training.optimizer.name, "adamw-8bit"});
            job.training.optimizer = *small;
            return true;
          }};
}

Move pure_sixteen_bit() {
  return {"precision = bf16-pure", "accuracy", "updates smaller than 1/256 of a weight are lost", 8,
          [](Job& job, auto& edits) {
            const Precision* pure = find_precision("bf16-pure");
            if (!pure || job.training.precision.name == "bf16-pure" || !runs_on_torch(job) ||
                is_before_ampere(job))
              return false;
            edits.push_back({"training.precision", job.training.precision.name, "bf16-pure"});
            job.training.precision = *pure;
            return true;
          }};
}

Move stateless_optimizer() {
  return {"optimizer = lomo", "accuracy",
          "plain SGD inside backward: no moments, one gradient at a time", 9,
          [](Job& job, auto& edits) {
            const Optimizer* lomo = find_optimizer("lomo");
            if (!lomo || job.engine != Engine::kDdp || job.training.optimizer.name == "lomo" ||
                job.training.gradient_accumulation > 1)
              return false;
            edits.push_back({"training.optimizer", job.training.optimizer.name, "lomo"});
            job.training.optimizer = *lomo;
            return true;
          }};
}

// ZeRO-Infinity on the host (arXiv 2104.07857), which one device can have, too; FSDP's CPUOffloadPolicy for shards.
Move states_on_the_host() {
  return {"states and parameters on the host", "offload",
          "the host steps; every layer comes from there, forward and backward", 9,
          [](Job& job, auto& edits) {
            const bool sharded =
                is_fsdp(job.engine) && job.parallel.zero_stage == 3 && job.parallel.data > 1;
            const bool partitioned = job.engine == Engine::kDdp || job.engine == Engine::kDeepSpeed;
            if ((!sharded && !partitioned) || job.implementation != Implementation::kTransformers ||
                job.trains_in_part() || job.training.optimizer.name != "adamw" ||
                !divides_data_alone(job) || job.offload.optimizer != OffloadTarget::kNone ||
                job.training.precision.autocast || !job.training.precision.master)
              return false;
            if (partitioned) {
              if (job.engine == Engine::kDdp) edits.push_back({"engine", "ddp", "deepspeed"});
              if (job.parallel.zero_stage != 3)
                edits.push_back({"parallel.zero_stage", text(job.parallel.zero_stage), "3"});
              job.engine = Engine::kDeepSpeed;
              job.parallel.zero_stage = 3;
            }
            edits.push_back({"offload.optimizer", "none", "cpu"});
            edits.push_back({"offload.parameters", "none", "cpu"});
            job.offload.optimizer = job.offload.parameters = OffloadTarget::kCpu;
            return true;
          }};
}

// Twice the devices cost as much as changing the precision of the result.
int price_of(std::int64_t devices) {
  int doublings = 0;
  while (devices > 1) {
    devices /= 2;
    ++doublings;
  }
  return 4 + 2 * doublings;
}

Move more_devices(std::int64_t devices) {
  return {
      fmt::format("{} devices, fsdp2", devices), "devices",
      "the states are shared by more devices; the global batch grows if it must", price_of(devices),
      [devices](Job& job, auto& edits) {
        if (!divides_data_alone(job) || devices <= job.cluster.devices || !runs_on_torch(job))
          return false;
        edits.push_back({"cluster.devices", text(job.cluster.devices), text(devices)});
        if (job.engine == Engine::kDdp) {
          edits.push_back({"engine", "ddp", "fsdp2"});
          job.engine = Engine::kFsdp2;
        }
        if (job.parallel.zero_stage != 3)
          edits.push_back({"parallel.zero_stage", text(job.parallel.zero_stage), "3"});
        job.parallel.zero_stage = 3;
        job.cluster.devices = Ranks(devices);
        job.parallel.data = Ranks(devices);
        const std::int64_t per_step = job.training.micro_batch * devices;
        const std::int64_t batch = std::max(job.training.global_batch, per_step);
        if (batch % per_step != 0) return false;
        if (batch != job.training.global_batch)
          edits.push_back({"training.global_batch", text(job.training.global_batch), text(batch)});
        job.training.global_batch = batch;
        job.training.gradient_accumulation = batch / per_step;
        return true;
      }};
}

Move shorter_sequence() {
  return {"half the sequence length", "the task", "the model sees half the context", 10,
          [](Job& job, auto& edits) {
            if (job.training.sequence_length < 1024 || job.training.sequence_length % 2 != 0)
              return false;
            edits.push_back({"training.sequence_length", text(job.training.sequence_length),
                             text(job.training.sequence_length / 2)});
            job.training.sequence_length = Tokens(job.training.sequence_length / 2);
            return divides_sequence(job);
          }};
}

}  // namespace

std::vector<Move> moves() {
  std::vector<Move> all = {fused_optimizer(),
                           fused_attention(AttentionKernel::kFlash),
                           fused_attention(AttentionKernel::kEfficient),
                           fused_loss(),
                           selective_recompute(),
                           smaller_micro_batch(),
                           higher_zero_stage(1),
                           higher_zero_stage(2),
                           sharded_by_fsdp(),
                           recompute_every_second(),
                           full_recompute(),
                           higher_zero_stage(3),
                           more_tensor(2),
                           more_tensor(4),
                           more_tensor(8)};
  for (std::int64_t devices : {2, 4, 8, 16, 32, 64, 128, 256}) all.push_back(more_devices(devices));
  all.push_back(states_on_the_host());
  all.push_back(eight_bit_optimizer());
  all.push_back(pure_sixteen_bit());
  all.push_back(stateless_optimizer());
  all.push_back(shorter_sequence());
  return all;
}

}  // namespace steelyard
