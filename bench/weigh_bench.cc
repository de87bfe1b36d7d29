// How long an answer takes, and that it does not take longer for more layers, micro-batches or ranks.
//
//   make bench                                                             all of it
//   build/release/bench/steelyard_bench --benchmark_filter=weigh           the core alone: job in, what is allocated out
//   build/release/bench/steelyard_bench --benchmark_filter=predict         with the allocator simulated: an answer
//
// Seconds depend on the machine; instructions hardly do. This counts those of 100 predictions ("Collected"), in which
// reading the runtime's constants, once, is about a hundredth:
//
//   valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='steelyard::estimate(steelyard::Job const&)'
//       build/release/bench/steelyard_bench --benchmark_filter=weigh_hundred
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cost/step_time.h"
#include "document/read.h"
#include "job/read.h"
#include "predict/prediction.h"
#include "report/prediction_json.h"

namespace {

using steelyard::Job;

struct Size {
  std::int64_t layers = 126, micro_batches = 512, data = 128;
  std::string recompute = "none";
};

// Llama 3.1 405B as it was trained: tensor 8, pipeline 16, the embedding and the loss counted as a layer each.
std::string run_file(const Size& size) {
  return fmt::format(
      R"({{"model": {{"model_type": "llama", "vocab_size": 128256, "hidden_size": 16384, "intermediate_size": 53248,)"
      R"( "num_hidden_layers": {}, "num_attention_heads": 128, "num_key_value_heads": 8,)"
      R"( "max_position_embeddings": 131072, "rope_theta": 500000.0, "rms_norm_eps": 1e-05,)"
      R"( "tie_word_embeddings": false}}, "engine": "megatron",)"
      R"( "cluster": {{"device": "h100-sxm-80gb", "devices": {}}},)"
      R"( "training": {{"sequence_length": 8192, "micro_batch": 1, "gradient_accumulation": {}}},)"
      R"( "parallel": {{"tensor": 8, "pipeline": 16, "data": {}, "zero_stage": 1,)"
      R"( "count_embedding": true, "count_loss": true}}, "recompute": {{"mode": "{}", "every": 3}}}})",
      size.layers, 8 * 16 * size.data, size.micro_batches, size.data, size.recompute);
}

Job job_of(const std::string& text) {
  steelyard::ReadJob job = steelyard::read_job(*steelyard::read_json(text, "bench"));
  if (!job) throw std::runtime_error(job.error().front().message);
  return std::move(*job);
}

void weigh_sized(benchmark::State& state, const Size& size) {
  const Job job = job_of(run_file(size));
  for (auto _ : state) benchmark::DoNotOptimize(steelyard::estimate(job));
}

void weigh_405b(benchmark::State& state) { weigh_sized(state, {}); }
// 126, 510 and 2,046 layers: with embedding and loss, multiples of 16 stages.
void weigh_layers(benchmark::State& state) {
  weigh_sized(state, {.layers = 128 * state.range(0) - 2});
}
void weigh_micro_batches(benchmark::State& state) {
  weigh_sized(state, {.micro_batches = 512 * state.range(0)});
}
void weigh_data_ranks(benchmark::State& state) {
  weigh_sized(state, {.data = 128 * state.range(0)});
}
// Every third layer computed again: the pattern crosses the stages' bounds.
void weigh_every_third(benchmark::State& state) {
  weigh_sized(state, {.layers = 128 * state.range(0) - 2, .recompute = "every"});
}
BENCHMARK(weigh_every_third)->Arg(1)->Arg(4)->Arg(16)->Unit(benchmark::kMicrosecond);
BENCHMARK(weigh_405b)->Name("weigh_hundred")->Iterations(100)->Unit(benchmark::kMicrosecond);
BENCHMARK(weigh_405b)->Unit(benchmark::kMicrosecond);
BENCHMARK(weigh_layers)->Arg(1)->Arg(4)->Arg(16)->Unit(benchmark::kMicrosecond);
BENCHMARK(weigh_micro_batches)->Arg(1)->Arg(4)->Arg(16)->Unit(benchmark::kMicrosecond);
BENCHMARK(weigh_data_ranks)->Arg(1)->Arg(4)->Arg(16)->Unit(benchmark::kMicrosecond);

// Other engines and models with one stage: what a search asks for most.
void weigh_one_stage(benchmark::State& state, const char* model, const char* engine) {
  const Job job = job_of(fmt::format(
      R"({{"model": "{}", "engine": "{}", "cluster": {{"device": "h100-sxm-80gb", "devices": 64}}}})",
      model, engine));
  for (auto _ : state) benchmark::DoNotOptimize(steelyard::estimate(job));
}
BENCHMARK_CAPTURE(weigh_one_stage, llama_fsdp2, "llama-3.1-8b", "fsdp2")
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(weigh_one_stage, llama_deepspeed, "llama-3.1-8b", "deepspeed")
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(weigh_one_stage, deepseek_v3_fsdp2, "deepseek-v3", "fsdp2")
    ->Unit(benchmark::kMicrosecond);

// The same with the allocator simulated, as `weigh` answers.
void predict_405b(benchmark::State& state) {
  const Job job = job_of(run_file({}));
  for (auto _ : state) benchmark::DoNotOptimize(steelyard::predict(job));
}
BENCHMARK(predict_405b)->Unit(benchmark::kMillisecond);
void predict_one_stage(benchmark::State& state, const char* model, const char* engine) {
  const Job job = job_of(fmt::format(
      R"({{"model": "{}", "engine": "{}", "cluster": {{"device": "h100-sxm-80gb", "devices": 64}}}})",
      model, engine));
  for (auto _ : state) benchmark::DoNotOptimize(steelyard::predict(job));
}
BENCHMARK_CAPTURE(predict_one_stage, llama_fsdp2, "llama-3.1-8b", "fsdp2")
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(predict_one_stage, llama_deepspeed, "llama-3.1-8b", "deepspeed")
    ->Unit(benchmark::kMicrosecond);

// The judge, for comparison: every event of every stage, one after the other.
void replay_405b(benchmark::State& state) {
  const Job job = job_of(run_file({}));
  for (auto _ : state) benchmark::DoNotOptimize(steelyard::estimate_by_replay(job));
}
BENCHMARK(replay_405b)->Unit(benchmark::kMillisecond);

void peak_moment_of_405b(benchmark::State& state) {
  const Job job = job_of(run_file({}));
  for (auto _ : state) benchmark::DoNotOptimize(steelyard::peak_moment(job, 0));
}
BENCHMARK(peak_moment_of_405b)->Unit(benchmark::kMicrosecond);

// From a line of text to a job: a config of one's own is read each time, a preset is known by name.
void read_line(benchmark::State& state, const std::string& text) {
  for (auto _ : state)
    benchmark::DoNotOptimize(steelyard::read_job(*steelyard::read_json(text, "bench")));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK_CAPTURE(read_line, config, run_file({}))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(
    read_line, preset,
    std::string(
        R"({"model": "llama-3.1-8b", "cluster": {"device": "h100-sxm-80gb", "devices": 8}})"))
    ->Unit(benchmark::kMicrosecond);

// The time of one layout, from nothing and from a prepared model on another device.
void time_405b(benchmark::State& state) {
  const Job job = job_of(run_file({}));
  const steelyard::Device& device = *job.cluster.device;
  const steelyard::Machine& machine = *steelyard::usual_machine(device);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        steelyard::StepClock(job).read(device, machine, steelyard::Outlook::kExpected));
}
BENCHMARK(time_405b)->Unit(benchmark::kMicrosecond);

void time_405b_prepared(benchmark::State& state) {
  const Job job = job_of(run_file({}));
  const steelyard::Device& device = *job.cluster.device;
  const steelyard::Machine& machine = *steelyard::usual_machine(device);
  const steelyard::StepClock clock(job);
  for (auto _ : state)
    benchmark::DoNotOptimize(clock.read(device, machine, steelyard::Outlook::kExpected));
}
BENCHMARK(time_405b_prepared)->Unit(benchmark::kMicrosecond);

// What `weigh --jobs --brief` does with each line: read, predict, write.
void answer_line(benchmark::State& state) {
  const std::vector<std::string> lines = {
      run_file({}),
      R"({"model": "llama-3.1-8b", "cluster": {"device": "h100-sxm-80gb", "devices": 8}})",
      R"({"model": "qwen3-30b-a3b", "engine": "deepspeed", "cluster": {"device": "a100-sxm-80gb", "devices": 64},
          "parallel": {"zero_stage": 3}, "recompute": {"mode": "full"}})",
      R"({"model": "gpt2-xl", "cluster": {"device": "rtx-4090"}, "training": {"precision": "bf16-autocast"}})"};
  std::size_t turn = 0;
  for (auto _ : state) {
    const Job job = job_of(lines[turn++ % lines.size()]);
    benchmark::DoNotOptimize(
        steelyard::line_text(steelyard::json_of(job, steelyard::predict(job), {}, true)));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(answer_line)->Unit(benchmark::kMicrosecond);

}  // namespace
