#include "plan/published.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/embedded.h"
#include "document/read.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

PublishedRecipe recipe_in(const EmbeddedFile& file) {
  const Json document = Json::parse(file.text);
  const Json& measured = document.at("measured");
  const Json& source = document.at("source");
  PublishedRecipe recipe;
  recipe.name = document.at("name").get<std::string>();
  recipe.title = document.at("title").get<std::string>();
  recipe.run = *read_json(document.at("run").dump(), recipe.name);
  recipe.step_seconds = measured.value("step_seconds", 0.0);
  recipe.teraflops_per_device = measured.value("teraflops_per_device", 0.0);
  recipe.device_hours_per_trillion_tokens = measured.value("device_hours_per_trillion_tokens", 0.0);
  recipe.url = source.at("url").get<std::string>();
  recipe.where = source.at("where").get<std::string>();
  recipe.notes = document.value("notes", "");
  return recipe;
}

double measured_seconds(const PublishedRecipe& recipe, const Job& job, const StepTime& time) {
  const auto devices = static_cast<double>(job.cluster.devices.value());
  if (recipe.teraflops_per_device > 0)
    return time.model_flops / (recipe.teraflops_per_device * 1e12 * devices);
  if (recipe.device_hours_per_trillion_tokens > 0) {
    const double tokens = static_cast<double>(job.training.global_batch) *
                          static_cast<double>(job.training.sequence_length.value());
    return recipe.device_hours_per_trillion_tokens * 3600 * tokens / 1e12 / devices;
  }
  return recipe.step_seconds;
}

// What a plan may choose; the engine, the batch and the precision are the task's.
Value without_their_layout(Value run) {
  remove_path(run, "parallel");
  remove_path(run, "recompute");
  remove_path(run, key_of(KeyId::kMicroBatch).path);
  return run;
}

}  // namespace

const std::vector<PublishedRecipe>& published_recipes() {
  static const std::vector<PublishedRecipe> all = [] {
    std::vector<std::pair<std::int64_t, PublishedRecipe>> read;
    for (const EmbeddedFile& file : embedded_files_in("published"))
      read.emplace_back(Json::parse(file.text).at("list_order").get<std::int64_t>(),
                        recipe_in(file));
    std::sort(read.begin(), read.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<PublishedRecipe> recipes;
    for (auto& [order, recipe] : read) recipes.push_back(std::move(recipe));
    return recipes;
  }();
  return all;
}

tl::expected<AgainstPublished, Diagnostics> against_published(const PublishedRecipe& recipe,
                                                              const SearchHelp& help) {
  AgainstPublished answer;
  answer.recipe = recipe;
  PlanRow& theirs = answer.published;
  theirs.run = recipe.run;
  ReadJob job = help.read(recipe.run);
  if (!job) return tl::unexpected(std::move(job.error()));
  theirs.prediction = predict_fullest(*job);
  if (const auto time = predict_time(*job)) theirs.time = *time;
  theirs.job = std::move(*job);
  answer.measured_seconds = measured_seconds(recipe, theirs.job, theirs.time);

  const auto question = question_of(without_their_layout(recipe.run), help);
  if (!question) return tl::unexpected(question.error());
  PlanWish wish;
  wish.search.best = 1;
  wish.search.within = 0;
  wish.explain = false;
  wish.steady = false;
  PlanAnswer planned = plan(*question, wish, help);
  if (planned.rows.empty()) return answer;
  answer.best = std::move(planned.rows.front());
  const double step = answer.best->time.step.value();
  answer.suspicious = step < answer.measured_seconds * (1 - kSuspicious);
  const auto spared = term_differences(answer.best->time, theirs.time);
  if (!spared.empty()) answer.responsible = spared.front().first;
  return answer;
}

}  // namespace steelyard
