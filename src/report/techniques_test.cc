// The list of techniques is no promise: each row that says how to ask for it is a job that can be weighed.
#include "report/techniques.h"

#include <gtest/gtest.h>

#include <set>

#include "document/read.h"
#include "job/read.h"
#include "plan/recompute_choice.h"
#include "predict/explain.h"
#include "predict/prediction.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

// A run of 16 devices, changed key by key: "parallel.pipeline" = 4.
Json changed(const Json& keys) {
  Json run = {{"model", "llama-3.1-8b"},
              {"cluster", {{"device", "h100-sxm-80gb"}, {"devices", 16}}},
              {"training", {{"sequence_length", 1024}}}};
  for (const auto& [path, value] : keys.items()) {
    const std::size_t dot = path.find('.');
    if (dot == std::string::npos)
      run[path] = value;
    else
      run[path.substr(0, dot)][path.substr(dot + 1)] = value;
  }
  return run;
}

TEST(Techniques, EachIsAJob) {
  for (const Technique& technique : techniques()) {
    SCOPED_TRACE(technique.name);
    if (technique.run.is_null()) {
      EXPECT_FALSE(technique.note.empty());
      continue;
    }
    const Value run = *read_json(changed(technique.run).dump(), "job");
    const auto read = [](const Value& asked) { return read_job(asked); };
    const ReadJob job =
        asks_for_recompute_choice(run) ? with_recompute_chosen(run, read) : read(run);
    if (!job) {
      ADD_FAILURE() << job.error().front().message;
      continue;
    }
    const Prediction prediction = estimate(*job);
    EXPECT_GT(prediction.peak.allocated, Bytes{});
    EXPECT_FALSE(technique.rules.empty());
  }
}

TEST(Techniques, NameRulesThatExist) {
  for (const Technique& technique : techniques())
    for (const std::string& id : technique.rules)
      EXPECT_NE(find_rule(id), nullptr) << technique.name << ": " << id;
}

TEST(Techniques, CoverEachGroup) {
  EXPECT_GE(techniques().size(), 80U);
  std::set<std::string> groups;
  for (const Technique& technique : techniques()) groups.insert(technique.group);
  for (const char* group : {"data parallel", "model parallel", "recompute", "precision",
                            "optimizers", "adapters", "offload", "kernels"})
    EXPECT_TRUE(groups.contains(group)) << group;
}

}  // namespace
}  // namespace steelyard
