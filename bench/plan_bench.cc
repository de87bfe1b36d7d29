// How many layouts a search answers for in a second.
//
//   build/release/bench/steelyard_bench --benchmark_filter=search     whole spaces, one worker: items are layouts
//
// Calculon's space (Isaev et al. 2023) of GPT-3 175B on 1,024 devices has 1.69 million executions, 11.7 million with
// offload; ours has other axes: 1.7 million, and 8 million with optimizer, parameters and activations on the host in every
// combination that differs for an engine. Counters: layouts of the space, which are those refused, too_large and too_slow by
// a bound, and weighed (exact bytes and seconds); bases and groups_timed: jobs whose kernels were timed for the bounds;
// peak_MB of the program so far. search_doubled: times is the search on twice the devices over the one before.
//
//   build/release/bench/steelyard_bench --benchmark_filter=layout     one layout: alone; of a form that has been drawn; exact
//                                                                     bytes of one among those that share its data ranks;
//                                                                     its step's time alone, from the times of its group
//   build/release/bench/steelyard_bench --benchmark_filter=everything a space without bounds: items are layouts weighed
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <ctime>
#include <string>

#include "document/read.h"
#include "plan/findings.h"
#include "plan/layout_reader.h"
#include "plan/question.h"
#include "plan/recipe_changes.h"
#include "predict/prepared_job.h"

namespace {

using namespace steelyard;

const std::string kGpt3 =
    R"({"model": {"model_type": "gpt2", "n_embd": 12288, "n_layer": 96, "n_head": 96, "n_positions": 2048,)"
    R"( "vocab_size": 51200}, "cluster": {"device": "a100-sxm-80gb", "devices": 1024},)"
    R"( "training": {"sequence_length": 2048, "global_batch": 3072}})";
const std::string kGpt3ByMegatron = R"({"engine": "megatron", )" + kGpt3.substr(1);
const std::string kLlama405 =
    R"({"model": "llama-3.1-405b", "cluster": {"device": "h100-sxm-80gb", "devices": 16384}})";
const std::string kLlama405OnTwice =
    R"({"model": "llama-3.1-405b", "cluster": {"device": "h100-sxm-80gb", "devices": 32768}})";
const std::string kDeepSeek =
    R"({"model": "deepseek-v3", "cluster": {"device": "h800", "devices": 2048}})";
const std::string kLlama8 =
    R"({"model": "llama-3.1-8b", "cluster": {"device": "h100-sxm-80gb", "devices": 64}})";

PlanQuestion question(const std::string& run, bool with_offload = false) {
  std::vector<RecipeChange> allowed;
  if (with_offload)
    for (const AllowedChange& known : recipe_changes())
      if (known.word == "offload") allowed.push_back(known.change);
  auto asked = question_of(*read_json(run, "bench"), serial_help(), std::move(allowed));
  if (!asked) throw std::runtime_error(asked.error().front().message);
  return std::move(*asked);
}

void enumerate_space(benchmark::State& state, const std::string& run) {
  const PlanQuestion asked = question(run);
  std::int64_t layouts = 0;
  for (auto _ : state) layouts += static_cast<std::int64_t>(space_of(asked).size());
  state.SetItemsProcessed(layouts);
}
BENCHMARK_CAPTURE(enumerate_space, gpt3_1024, kGpt3)->Unit(benchmark::kMillisecond);

void search_space(benchmark::State& state, const std::string& run, bool with_offload = false) {
  const PlanQuestion asked = question(run, with_offload);
  SearchWish wish;
  wish.best = 1;
  wish.within = 0;
  SearchCounts counts;
  for (auto _ : state)
    counts = search(asked.run, asked.target, space_of(asked), wish, serial_help()).counts;
  state.SetItemsProcessed(state.iterations() * counts.layouts);
  const auto count = [&](const char* name, std::int64_t layouts) {
    state.counters[name] = static_cast<double>(layouts);
  };
  count("layouts", counts.layouts);
  count("refused", counts.not_allowed);
  count("too_large", counts.certainly_too_large);
  count("too_slow", counts.cannot_be_faster);
  count("bases", counts.bases);
  count("groups", counts.groups);
  count("groups_timed", counts.groups_timed);
  count("weighed", counts.weighed());
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  count("peak_MB", used.ru_maxrss / 1024);
}
BENCHMARK_CAPTURE(search_space, llama8_64, kLlama8)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search_space, gpt3_1024_megatron, kGpt3ByMegatron)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search_space, gpt3_1024, kGpt3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search_space, gpt3_1024_offload, kGpt3, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search_space, llama405_16384, kLlama405)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(search_space, llama405_32768, kLlama405OnTwice)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(search_space, deepseek_2048, kDeepSeek)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

double seconds_to_search(const PlanQuestion& asked) {
  SearchWish wish;
  wish.best = 1;
  wish.within = 0;
  const std::clock_t start = std::clock();
  benchmark::DoNotOptimize(
      search(asked.run, asked.target, space_of(asked), wish, serial_help()).counts);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

void search_doubled(benchmark::State& state, const std::string& run, const std::string& twice) {
  const PlanQuestion one = question(run), other = question(twice);
  double once = 0, doubled = 0;
  for (auto _ : state) {
    once += seconds_to_search(one);
    doubled += seconds_to_search(other);
  }
  state.counters["times"] = doubled / once;
}
BENCHMARK_CAPTURE(search_doubled, llama405, kLlama405, kLlama405OnTwice)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

const std::string kOneLayout =
    R"({"model": "llama-3.1-405b", "engine": "megatron", "cluster": {"device": "h100-sxm-80gb", "devices": 16384},)"
    R"( "training": {"sequence_length": 8192, "gradient_accumulation": 64},)"
    R"( "parallel": {"tensor": 8, "pipeline": 16, "data": 128, "zero_stage": 1,)"
    R"( "count_embedding": true, "count_loss": true}})";

// A layout alone: its graphs are composed for it.
void layout_alone(benchmark::State& state) {
  const Job job = *read_job(*read_json(kOneLayout, "bench"));
  for (auto _ : state) {
    PreparedJob prepared(job);
    benchmark::DoNotOptimize(prepared.need());
    benchmark::DoNotOptimize(prepared.step());
  }
}
BENCHMARK(layout_alone)->Unit(benchmark::kMicrosecond);

// One more of a form that has been drawn.
void layout_of_a_form(benchmark::State& state) {
  const Job job = *read_job(*read_json(kOneLayout, "bench"));
  const PreparedForm form(job);
  for (auto _ : state) {
    PreparedJob prepared(job, form);
    benchmark::DoNotOptimize(prepared.need());
    benchmark::DoNotOptimize(prepared.step());
  }
}
BENCHMARK(layout_of_a_form)->Unit(benchmark::kMicrosecond);

// All orders, chunks and amounts of recomputation of one form and its data ranks: exact bytes, jobs read before.
void layouts_in_a_batch(benchmark::State& state) {
  const PlanQuestion asked = question(
      R"({"engine": "megatron", "parallel": {"tensor": 8, "context": 1, "pipeline": 16, "zero_stage": 1},)"
      R"( "training": {"micro_batch": 1, "loss": "plain"}, "recompute": {"mode": "block"}, )" +
      kLlama405.substr(1));
  const Space space = space_of(asked);
  const SearchHelp help = serial_help();
  const LayoutReader reader(asked.run, asked.target, space, help);
  std::vector<Job> jobs;
  for (std::uint32_t number = 0; number < space.size(); ++number) {
    const Layout layout = space.layout(number);
    const ReadJob job = reader.job_of(layout);
    for (std::int32_t again = layout.least_recomputed; job && again <= layout.recomputed; ++again) {
      jobs.push_back(*job);
      jobs.back().recompute.layers = Layers(again);
    }
  }
  if (jobs.empty()) return state.SkipWithError("no such layouts");
  const PreparedForm form(jobs.front());
  std::int64_t bytes = 0;
  for (auto _ : state) {
    PreparedJob prepared(jobs.front(), form);
    for (const Job& job : jobs) {
      prepared.turn_to(job);
      bytes += prepared.need().device.value().value();
    }
  }
  benchmark::DoNotOptimize(bytes);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(jobs.size()));
  state.counters["layouts"] = static_cast<double>(jobs.size());
}
BENCHMARK(layouts_in_a_batch)->Unit(benchmark::kMicrosecond);

// What a search does with layouts that no bound excludes: the run file of each read, exact bytes, exact seconds.
void search_everything(benchmark::State& state) {
  const PlanQuestion asked = question(
      R"({"engine": "megatron", "parallel": {"tensor": 8, "context": 1}, )" + kLlama405.substr(1));
  SearchWish wish;
  wish.everything = true;
  SearchCounts counts;
  for (auto _ : state)
    counts = search(asked.run, asked.target, space_of(asked), wish, serial_help()).counts;
  state.SetItemsProcessed(state.iterations() * counts.weighed());
  state.counters["weighed"] = static_cast<double>(counts.weighed());
}
BENCHMARK(search_everything)->Unit(benchmark::kMillisecond)->Iterations(1);

// The step of a layout by the units of its group, where its order has a closed form: exact.
void layout_in_its_group(benchmark::State& state) {
  const PlanQuestion asked =
      question(R"({"engine": "megatron", "parallel": {"tensor": 8, "context": 1, "pipeline": 16},)"
               R"( "training": {"micro_batch": 1}, )" +
               kLlama405.substr(1));
  const Space space = space_of(asked);
  const SearchHelp help = serial_help();
  const LayoutReader reader(asked.run, asked.target, space, help);
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t number = 0; number < space.size(); ++number)
    if (const Layout layout = space.layout(number);
        layout.zero_stage == 1 && layout.schedule == PipelineSchedule::kInterleaved)
      numbers.push_back(number);
  if (numbers.empty()) return state.SkipWithError("no such layouts");
  const auto times = reader.times_of_groups(space.forms[space.form_of(numbers.front())],
                                            {{space.layout(numbers.front()), true, false}});
  Bounds bounds(asked.target, false);
  for (auto _ : state)
    for (const std::uint32_t number : numbers)
      benchmark::DoNotOptimize(
          bounds.least_seconds(space.layout(number), *times.front(), Findings::kNever));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(numbers.size()));
}
BENCHMARK(layout_in_its_group)->Unit(benchmark::kMicrosecond);

}  // namespace
