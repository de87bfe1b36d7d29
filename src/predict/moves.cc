#include "predict/moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "job/engine_rules.h"
#include "job/recipe_choice.h"

namespace steelyard {

namespace {

using Proposed = std::optional<RunEdits>;

std::string text(std::int64_t number) { return fmt::format("{}", number); }

bool runs_on_torch(const Job& job) {
  return job.engine == Engine::kDdp || job.engine == Engine::kFsdp1 ||
         job.engine == Engine::kFsdp2 || job.engine == Engine::kDeepSpeed;
}

bool divides_data_alone(const Job& job) {
  return job.parallel.tensor == 1 && job.parallel.pipeline == 1 && job.parallel.context == 1 &&
         job.parallel.expert == 1;
}

// Whether the run file has the key; what it leaves out follows from the others, or is a default.
bool is_said(const Job& job, std::string_view key) {
  return std::none_of(job.assumptions.begin(), job.assumptions.end(),
                      [&](const Assumption& assumption) { return assumption.key == key; });
}

struct Batch {
  std::int64_t micro_batch = 1, data = 1, global = 1;
};
// The keys that make it this batch, of those that do not follow from the others.
bool make_batch(const Job& job, const Batch& batch, RunEdits& edits) {
  const Training& training = job.training;
  const std::int64_t sequences = batch.micro_batch * batch.data;
  if (sequences == 0 || batch.global % sequences != 0) return false;
  if (batch.micro_batch != training.micro_batch)
    edits.push_back({"training.micro_batch", text(training.micro_batch), text(batch.micro_batch)});
  if (batch.data != job.parallel.data && is_said(job, "parallel.data"))
    edits.push_back({"parallel.data", text(job.parallel.data), text(batch.data)});
  const bool global_said = is_said(job, "training.global_batch");
  if (global_said && batch.global != training.global_batch)
    edits.push_back({"training.global_batch", text(training.global_batch), text(batch.global)});
  const std::int64_t accumulation = batch.global / sequences;
  const bool follows = global_said && !is_said(job, "training.gradient_accumulation");
  if (!follows && accumulation != training.gradient_accumulation)
    edits.push_back({"training.gradient_accumulation", text(training.gradient_accumulation),
                     text(accumulation)});
  return true;
}

Move fused_optimizer() {
  return {"optimizer_form = fused", "nothing",
          "the step runs as one kernel without a temporary list", 0,
          [](const Job& job) -> Proposed {
            if (job.training.optimizer_form != OptimizerForm::kForeach ||
                !job.training.optimizer.only_form.empty())
              return std::nullopt;
            return RunEdits{{"training.optimizer_form", "foreach", "fused"}};
          }};
}

// Where the device and the model's code run it: the other of the two is no move then.
Move fused_attention(AttentionKernel kernel) {
  return {fmt::format("attention = {}", name_of(kernel)), "nothing",
          "a fused kernel: scores are never stored", 0, [kernel](const Job& job) -> Proposed {
            if (job.training.attention == kernel || leanest_attention(job).kernel != kernel ||
                job.training.kernels == KernelLibrary::kLocal)
              return std::nullopt;
            return RunEdits{{"training.attention", std::string(name_of(job.training.attention)),
                             std::string(name_of(kernel))}};
          }};
}

Move fused_loss() {
  return {"loss = fused-linear", "compute",
          "logits exist one chunk at a time; a few percent of the head's time", 1,
          [](const Job& job) -> Proposed {
            if (job.training.loss != LossKernel::kPlain || !runs_on_torch(job) ||
                job.parallel.tensor > 1)
              return std::nullopt;
            return RunEdits{{"training.loss", "plain", "fused-linear"}};
          }};
}

Move smaller_micro_batch() {
  return {"micro_batch = 1", "throughput",
          "smaller matrix products, more micro-steps; the global batch stays", 2,
          [](const Job& job) -> Proposed {
            RunEdits edits;
            if (job.training.micro_batch <= 1 ||
                !make_batch(job, {1, job.parallel.data, job.training.global_batch}, edits))
              return std::nullopt;
            return edits;
          }};
}

Move selective_recompute() {
  return {"recompute.mode = selective", "recompute", "core attention runs twice", 1,
          [](const Job& job) -> Proposed {
            if (job.recompute.mode != RecomputeMode::kNone ||
                job.training.attention == AttentionKernel::kFlash ||
                job.training.attention == AttentionKernel::kCudnn)
              return std::nullopt;
            return RunEdits{{"recompute.mode", "none", "selective"}};
          }};
}

Move recompute_every_second() {
  return {"recompute every 2nd layer", "recompute",
          "half of the layers run forward twice: about a sixth more compute", 2,
          [](const Job& job) -> Proposed {
            if (job.recompute.mode != RecomputeMode::kNone &&
                job.recompute.mode != RecomputeMode::kSelective)
              return std::nullopt;
            return RunEdits{{"recompute.mode", std::string(name_of(job.recompute.mode)), "every"},
                            {"recompute.every", "-", "2"}};
          }};
}

Move full_recompute() {
  return {"recompute.mode = full", "recompute",
          "every layer runs forward twice: about a third more compute", 3,
          [](const Job& job) -> Proposed {
            if (job.recompute.mode == RecomputeMode::kFull) return std::nullopt;
            return RunEdits{{"recompute.mode", std::string(name_of(job.recompute.mode)), "full"}};
          }};
}

Move higher_zero_stage(int stage) {
  return {
      fmt::format("zero_stage = {}", stage), "communication",
      stage == 3 ? "parameters are gathered for forward and again for backward"
                 : "gradients are scattered, parameters gathered after the step",
      stage, [stage](const Job& job) -> Proposed {
        const bool known =
            (job.engine == Engine::kDeepSpeed && stage <= 3) ||
            (is_fsdp(job.engine) && stage == 3) ||
            ((job.engine == Engine::kMegatron || job.engine == Engine::kNanotron) && stage == 1);
        if (!known || job.parallel.data <= 1 || job.parallel.zero_stage >= stage ||
            (job.parallel.pipeline > 1 && stage > 1))
          return std::nullopt;
        return RunEdits{{"parallel.zero_stage", text(job.parallel.zero_stage), text(stage)}};
      }};
}

Move sharded_by_fsdp() {
  return {"engine = fsdp2, zero_stage = 3", "communication",
          "each layer is gathered when it runs; gradients are scattered", 3,
          [](const Job& job) -> Proposed {
            if (job.engine != Engine::kDdp || job.parallel.data <= 1) return std::nullopt;
            return RunEdits{{"engine", "ddp", "fsdp2"},
                            {"parallel.zero_stage", text(job.parallel.zero_stage), "3"}};
          }};
}

Move more_tensor(std::int64_t factor) {
  return {fmt::format("tensor x {}", factor), "communication",
          "activations are gathered and scattered around every layer", 3,
          [factor](const Job& job) -> Proposed {
            const bool able = job.engine == Engine::kMegatron || job.engine == Engine::kNanotron;
            const std::int64_t tensor = job.parallel.tensor * factor;
            if (!able || job.parallel.data % factor != 0 || tensor > job.cluster.devices_per_node)
              return std::nullopt;
            RunEdits edits = {{"parallel.tensor", text(job.parallel.tensor), text(tensor)}};
            if (job.parallel.expert > 1)  // experts stay as they are cut
              edits.push_back({"parallel.expert_tensor", text(job.parallel.expert_tensor),
                               text(job.parallel.expert_tensor)});
            if (!make_batch(job,
                            {job.training.micro_batch, job.parallel.data / factor,
                             job.training.global_batch},
                            edits))
              return std::nullopt;
            return edits;
          }};
}

Move eight_bit_optimizer() {
  return {"optimizer = adamw-8bit", "accuracy", "moments in 8 bits, no fp32 master copy", 7,
          [](const Job& job) -> Proposed {
            if ((job.training.optimizer.name != "adamw" && job.training.optimizer.name != "adam") ||
                !runs_on_torch(job))
              return std::nullopt;
            return RunEdits{{"training.optimizer", job.training.optimizer.name, "adamw-8bit"}};
          }};
}

Move pure_sixteen_bit() {
  return {"precision = bf16-pure", "accuracy", "updates smaller than 1/256 of a weight are lost", 8,
          [](const Job& job) -> Proposed {
            if (job.training.precision.name == "bf16-pure" || !runs_on_torch(job) ||
                is_before_ampere(job))
              return std::nullopt;
            return RunEdits{{"training.precision", job.training.precision.name, "bf16-pure"}};
          }};
}

Move stateless_optimizer() {
  return {"optimizer = lomo", "accuracy",
          "plain SGD inside backward: no moments, one gradient at a time", 9,
          [](const Job& job) -> Proposed {
            if (job.engine != Engine::kDdp || job.training.optimizer.name == "lomo" ||
                job.training.gradient_accumulation > 1)
              return std::nullopt;
            return RunEdits{{"training.optimizer", job.training.optimizer.name, "lomo"}};
          }};
}

// ZeRO-Infinity on the host (arXiv 2104.07857), which one device can have, too; FSDP's CPUOffloadPolicy for shards.
Move states_on_the_host() {
  return {"states and parameters on the host", "offload",
          "the host steps; every layer comes from there, forward and backward", 9,
          [](const Job& job) -> Proposed {
            const bool sharded =
                is_fsdp(job.engine) && job.parallel.zero_stage == 3 && job.parallel.data > 1;
            const bool partitioned = job.engine == Engine::kDdp || job.engine == Engine::kDeepSpeed;
            if ((!sharded && !partitioned) || job.implementation != Implementation::kTransformers ||
                job.trains_in_part() || job.training.optimizer.name != "adamw" ||
                !divides_data_alone(job) || job.offload.optimizer != OffloadTarget::kNone ||
                job.training.precision.autocast || !job.training.precision.master)
              return std::nullopt;
            RunEdits edits;
            if (partitioned) {
              if (job.engine == Engine::kDdp) edits.push_back({"engine", "ddp", "deepspeed"});
              if (job.parallel.zero_stage != 3)
                edits.push_back({"parallel.zero_stage", text(job.parallel.zero_stage), "3"});
            }
            edits.push_back({"offload.optimizer", "none", "cpu"});
            edits.push_back({"offload.parameters", "none", "cpu"});
            return edits;
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
  return {fmt::format("{} devices, fsdp2", devices), "devices",
          "the states are shared by more devices; the global batch grows if it must",
          price_of(devices), [devices](const Job& job) -> Proposed {
            if (!divides_data_alone(job) || devices <= job.cluster.devices || !runs_on_torch(job))
              return std::nullopt;
            RunEdits edits = {{"cluster.devices", text(job.cluster.devices), text(devices)}};
            if (job.engine == Engine::kDdp) edits.push_back({"engine", "ddp", "fsdp2"});
            if (job.parallel.zero_stage != 3)
              edits.push_back({"parallel.zero_stage", text(job.parallel.zero_stage), "3"});
            const std::int64_t batch =
                std::max(job.training.global_batch, job.training.micro_batch * devices);
            if (!make_batch(job, {job.training.micro_batch, devices, batch}, edits))
              return std::nullopt;
            return edits;
          }};
}

Move shorter_sequence() {
  return {"half the sequence length", "the task", "the model sees half the context", 10,
          [](const Job& job) -> Proposed {
            if (job.training.sequence_length < 1024 || job.training.sequence_length % 2 != 0)
              return std::nullopt;
            return RunEdits{{"training.sequence_length", text(job.training.sequence_length),
                             text(job.training.sequence_length / 2)}};
          }};
}

// LoRA (arXiv 2106.09685) on every linear layer, and QLoRA (arXiv 2305.14314): the same over a model of 4 bits, whose
// scales are quantised, too.
Move adapter(const char* change, const char* cost, int price, bool quantised) {
  return {
      change, "what is trained", cost, price, [quantised](const Job& job) -> Proposed {
        if (job.cluster.devices > 1 || job.trains_in_part() || !runs_on_torch(job))
          return std::nullopt;
        RunEdits edits = {{"adapter.method", "-", "lora"}, {"adapter.rank", "-", "16"}};
        if (quantised) {
          edits.push_back({"adapter.base", "-", "nf4"});
          edits.push_back({"adapter.double_quantization", "-", "true"});
          // Norms of a quantised model are fp32, and behind them such a kernel needs the casts of autocast.
          if (takes_16_bits_alone(job.training.attention) && is_said(job, "training.attention") &&
              !job.training.precision.autocast)
            edits.push_back({"training.precision", job.training.precision.name, "bf16-autocast"});
        }
        return edits;
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

std::vector<Move> adapter_moves() {
  return {
      adapter("LoRA of rank 16", "the model stays as it is; small matrices beside it are trained",
              4, false),
      adapter("QLoRA of rank 16",
              "the model stays, rounded to 4 bits; small matrices beside it are trained", 5, true)};
}

}  // namespace steelyard
