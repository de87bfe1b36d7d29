// What must hold of any two runs that differ in one number: more ranks share no more, more recomputation keeps no
// more, a longer sequence needs no less.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "document/read.h"
#include "engine/stage_program.h"
#include "job/read.h"
#include "predict/prediction.h"
#include "random_jobs.h"

namespace steelyard {
namespace {

constexpr std::uint64_t kFirstSeed = 1'000'000;
constexpr int kJobs = 600;

// Absent where the changed run is none (a sequence longer than the model's positions ...).
std::optional<Job> job_of(const RunFile& run_file) {
  ReadJob job = read_job(*read_json(run_file.dump(), "job"));
  if (!job) return std::nullopt;
  return std::move(*job);
}

Bytes pile_between_steps(const Job& job, std::int64_t stage, Pile pile) {
  StagePrograms<Checked> stages(job);
  const StageProgram built = stages.build(stage);
  return stages.program().span(built.root).net[pile];
}

// What all layers of a stage hold when the forward of one micro-batch has run.
Bytes kept_after_forward(const Job& job) {
  StagePrograms<Checked> stages(job);
  Bytes kept{};
  std::int64_t layer = 0;
  for (const LayerGroup& group : job.model->sequence)
    for (std::int64_t time = 0; time < group.times; ++time)
      for (const LayerRun& run : group.runs)
        for (std::int64_t i = 0; i < run.count; ++i, ++layer)
          for (const SlotId slot : stages.kept_of_kind(static_cast<std::size_t>(run.kind),
                                                       stages.recomputes(layer, layer)))
            kept += stages.program().slot_at(slot).bytes;
  return kept;
}

template <class Check>
void for_random_jobs(Check check) {
  int checked = 0;
  for (int i = 0; i < kJobs && !testing::Test::HasFailure(); ++i) {
    const std::uint64_t seed = kFirstSeed + static_cast<std::uint64_t>(i);
    const RunFile run_file = random_job(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + run_file.dump());
    if (check(run_file)) ++checked;
  }
  EXPECT_GE(checked, kJobs / 40);  // or the property was hardly asked
}

// Factored, 8-bit and paged states depend on a shard's shape: one can become small enough for a preconditioner, or
// too small for 8 bits or for managed memory, and then holds more.
bool states_go_by_element(const Optimizer& optimizer) {
  return optimizer.small_below == 0 && !optimizer.paged &&
         std::all_of(optimizer.slots.begin(), optimizer.slots.end(), [](const OptimizerSlot& slot) {
           return slot.extent == SlotExtent::kParameter;
         });
}

// Megatron-FSDP fills buckets to multiples of its ranks, each by itself: there is no rule for how much more that is.
bool pads_buckets(const Job& job) { return job.parallel.megatron_fsdp; }

// DeepSpeed makes its flat tensors a multiple of twice the ranks (stage_1_and_2.py, nccl_start_alignment_factor).
Bytes padding(const Job& job) {
  if (job.engine != Engine::kDeepSpeed) return Bytes{};
  const std::int64_t ranks = job.parallel.data * job.parallel.context;
  return allocated_size(Bytes(2 * ranks * 4));
}

TEST(Properties, MoreDataRanksNeverHoldMoreState) {
  for_random_jobs([](RunFile run_file) {
    if (!states_go_by_element(job_of(run_file)->training.optimizer) ||
        pads_buckets(*job_of(run_file)))
      return false;
    RunFile parallel = run_file["parallel"];
    parallel.erase("replicate");
    parallel.erase("data");
    run_file["parallel"] = parallel;
    const auto job_with = [&](std::int64_t data) {
      run_file["cluster"]["devices"] = data * parallel.value("tensor", 1) *
                                       parallel.value("pipeline", 1) * parallel.value("context", 1);
      return job_of(run_file);
    };
    bool asked = false;
    std::optional<Job> fewer = job_with(2);
    for (std::int64_t data = 4; data <= 64; data *= 2) {
      const std::optional<Job> more = job_with(data);
      if (!fewer || !more) return asked;
      asked = true;
      for (std::int64_t stage = 0; stage < more->parallel.pipeline; ++stage)
        for (const Pile pile :
             {Pile::kParameters, Pile::kGradients, Pile::kMasterWeights, Pile::kOptimizerMoments})
          EXPECT_LE(pile_between_steps(*more, stage, pile),
                    pile_between_steps(*fewer, stage, pile) + padding(*more))
              << "data " << data << ", stage " << stage << ", " << name_of(pile);
      fewer = more;
    }
    return asked;
  });
}

TEST(Properties, MoreContextNeverKeepsMore) {
  for_random_jobs([](RunFile run_file) {
    const std::string engine = run_file["engine"];
    if (engine != "fsdp2" && engine != "deepspeed" && engine != "megatron") return false;
    RunFile parallel = run_file["parallel"];
    for (const char* key : {"context", "context_method", "context_inner", "data", "expert"})
      parallel.erase(key);
    run_file["training"]["sequence_length"] =
        32'768;  // beside which blocks of 512 bytes are nothing
    run_file["training"].erase("attention");
    std::optional<Bytes> before;
    bool asked = false;
    for (const std::int64_t context : {1, 2, 4, 8, 16}) {
      run_file["parallel"] = parallel;
      run_file["parallel"]["context"] = context;
      run_file["cluster"]["devices"] = context * parallel.value("replicate", 1) *
                                       parallel.value("tensor", 1) * parallel.value("pipeline", 1);
      const std::optional<Job> job = job_of(run_file);
      if (!job) continue;  // heads, or positions, that do not go so far
      asked = asked || before.has_value();
      const Bytes kept = kept_after_forward(*job);
      EXPECT_LE(kept, before.value_or(kept)) << "context " << context;
      before = kept;
    }
    return asked;
  });
}

TEST(Properties, ExpertShardsAreTheWholeAgain) {
  for_random_jobs([](const RunFile& run_file) {
    const std::optional<Job> job = job_of(run_file);
    Job whole = *job;
    whole.parallel.expert = Ranks(1);
    whole.parallel.expert_tensor = Ranks(1);
    const ModelUnits<Checked> parts = units_of<Checked>(*job), all = units_of<Checked>(whole);
    bool asked = false;
    for (std::size_t kind = 0; kind < parts.kinds.size(); ++kind) {
      if (all.kinds[kind].expert_elements == Checked(0)) continue;
      const auto has_bias = [](const TensorShare<Checked>& share) {
        return share.of_experts() && share.tensor->role == TensorRole::kBias;  // of the sum: whole
      };
      const auto& tensors = all.kinds[kind].tensors;
      if (std::any_of(tensors.begin(), tensors.end(), has_bias)) continue;
      asked = true;
      EXPECT_EQ(parts.kinds[kind].expert_elements * Checked(job->parallel.expert) *
                    Checked(job->parallel.expert_tensor),
                all.kinds[kind].expert_elements);
    }
    return asked;
  });
}

// Where nothing below a layer is trained, autograd keeps nothing of it, until recomputation is switched on in
// transformers: that makes the embedding's output ask for a gradient, and the layer keeps its input.
bool records_more_layers(const Job& job, const Job& before) {
  return job.model->kinds.front().input_needs_gradient &&
         !before.model->kinds.front().input_needs_gradient;
}

TEST(Properties, MoreRecomputationNeverKeepsMore) {
  for_random_jobs([](RunFile run_file) {
    std::optional<Bytes> before;
    std::optional<Job> job_before;
    for (const char* recompute : {R"({"mode": "none"})", R"({"mode": "every", "every": 4})",
                                  R"({"mode": "every", "every": 2})",
                                  R"({"mode": "every", "every": 1})", R"({"mode": "full"})"}) {
      run_file["recompute"] = RunFile::parse(recompute);
      const std::optional<Job> job = job_of(run_file);
      if (!job) continue;  // fewer layers than that
      if (job_before && records_more_layers(*job, *job_before)) before.reset();
      const Bytes kept = kept_after_forward(*job);
      EXPECT_LE(kept, before.value_or(kept)) << recompute;
      before = kept;
      job_before = job;
    }
    return before.has_value();
  });
}

TEST(Properties, EveryLayerIsFullRecomputation) {
  for_random_jobs([](RunFile run_file) {
    const auto job_with = [&](const char* recompute) {
      run_file["recompute"] = RunFile::parse(recompute);
      return job_of(run_file);
    };
    const std::optional<Job> every = job_with(R"({"mode": "every", "every": 1})");
    const std::optional<Job> full = job_with(R"({"mode": "full"})");
    if (!every || !full) return false;  // a model whose stacks are recomputed in full or not at all
    EXPECT_EQ(estimate(*every).peak.allocated, estimate(*full).peak.allocated);
    return true;
  });
}

// A window shorter than the sequence needs a mask, and with a mask the memory-efficient kernel runs where attention was
// written out without one: a longer sequence then needs less.
bool changes_kernel(const Job& job) {
  return job.training.attention == AttentionKernel::kEfficient &&
         std::any_of(job.model->kinds.begin(), job.model->kinds.end(), [](const Layer& layer) {
           const auto* attention = std::get_if<GroupedAttention>(&layer.attention);
           return attention != nullptr && attention->sliding_window.has_value();
         });
}

// The peak of every rank, as one key of [training] grows.
bool never_lowers_a_peak(RunFile run_file, const char* key,
                         const std::vector<std::int64_t>& values) {
  std::optional<Prediction> before;
  bool asked = false;
  for (const std::int64_t value : values) {
    run_file["training"][key] = value;
    const std::optional<Job> job = job_of(run_file);
    if (!job || changes_kernel(*job)) continue;
    const Prediction prediction = estimate(*job);
    for (std::size_t rank = 0; before && rank < prediction.ranks.size(); ++rank) {
      asked = true;
      EXPECT_GE(prediction.ranks[rank].allocated, before->ranks[rank].allocated) << value;
    }
    before = prediction;
  }
  return asked;
}

TEST(Properties, ALongerSequenceNeverNeedsLess) {
  for_random_jobs([](const RunFile& run_file) {
    return never_lowers_a_peak(run_file, "sequence_length",
                               {64, 256, 1'024, 4'096, 16'384, 65'536});
  });
}

TEST(Properties, ALargerMicroBatchNeverNeedsLess) {
  for_random_jobs([](const RunFile& run_file) {
    return never_lowers_a_peak(run_file, "micro_batch", {1, 2, 3, 8});
  });
}

// 1f1b holds min(micro-batches, stages - stage) of them, gpipe all. Where gradients appear with the first backward
// gpipe's forwards have the advantage that none exists yet; megatron's stand from the start.
TEST(Properties, GPipeNeverNeedsLessThanOneForwardOneBackward) {
  for_random_jobs([](RunFile run_file) {
    if (!run_file["parallel"].contains("pipeline") || run_file["engine"] != "megatron" ||
        run_file["parallel"].contains("virtual_pipeline"))
      return false;
    std::vector<Prediction> predictions;
    for (const char* schedule : {"1f1b", "gpipe"}) {
      run_file["parallel"]["schedule"] = schedule;
      predictions.push_back(estimate(*job_of(run_file)));
    }
    for (std::size_t rank = 0; rank < predictions[0].ranks.size(); ++rank)
      EXPECT_GE(predictions[1].ranks[rank].allocated, predictions[0].ranks[rank].allocated);
    return true;
  });
}

TEST(Properties, EveryRankIsCountedOnce) {
  for_random_jobs([](const RunFile& run_file) {
    const std::optional<Job> job = job_of(run_file);
    std::int64_t ranks = 0;
    for (const RankPrediction& rank : estimate(*job).ranks) ranks += rank.replicas;
    EXPECT_EQ(ranks, job->cluster.devices);
    return true;
  });
}

// The order in which a run file's keys stand, and what a key is called, change nothing.
TEST(Properties, TheOrderOfKeysIsNothing) {
  for_random_jobs([](const RunFile& run_file) {
    RunFile turned = RunFile::object();
    for (auto item = run_file.rbegin(); item != run_file.rend(); ++item) turned[item.key()] = *item;
    const Prediction a = estimate(*job_of(run_file)), b = estimate(*job_of(turned));
    EXPECT_EQ(a.peak.allocated, b.peak.allocated);
    EXPECT_EQ(a.peak.device, b.peak.device);
    return true;
  });
}

}  // namespace
}  // namespace steelyard
