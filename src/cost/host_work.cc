#include "cost/host_work.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "data/embedded.h"
#include "data/fact.h"
#include "job/keys.h"

namespace steelyard {
namespace {

struct OfEngine {
  Engine engine{};
  std::array<bool, 4> stages{};          // of ZeRO
  bool one_rank = true, several = true;  // of tensors: nanotron's layers are other code there
  HostWork work;
};

struct Known {
  std::vector<OfEngine> engines;
  double replay = 0, check = 0;
};

Engine read_engine(const Fact& fact) {
  const auto& names = key_of(KeyId::kEngine).names;
  const auto known = std::find(names.begin(), names.end(), fact.text());
  if (known == names.end()) fact.fail("is no engine");
  return static_cast<Engine>(known - names.begin());
}

Known read_known() {
  constexpr std::string_view kPath = "host_work.json";
  const auto text = embedded_text(kPath);
  if (!text) throw DataError("host_work.json is not among the data files");
  const FactFile file(kPath, *text);
  const Fact root = file.root();
  const double one = root["operator"]["microseconds"].number();
  const auto hooks = [&](const Fact& engine, const char* key) {
    if (!engine.has(key)) return HostWork::Hooks{};
    const Fact fact = engine[key];
    return HostWork::Hooks{fact.number_or("unit_microseconds", 0) / one,
                           fact.number_or("layer_microseconds", 0) / one,
                           fact.number_or("tensor_microseconds", 0) / one,
                           fact.number_or("module_microseconds", 0) / one};
  };
  Known known{{}, root["graph"]["operators"].number(), root["check"]["operators_a_rank"].number()};
  for (const Fact& fact : root["hooks"].items()) {
    OfEngine& engine = known.engines.emplace_back();
    engine.engine = read_engine(fact["engine"]);
    for (const Fact& stage : fact["zero_stages"].items())
      engine.stages.at(static_cast<std::size_t>(stage.integer())) = true;
    if (fact.has("tensor_ranks")) {
      engine.one_rank = fact["tensor_ranks"].text() == "one";
      engine.several = fact["tensor_ranks"].text() == "several";
      if (!engine.one_rank && !engine.several) fact["tensor_ranks"].fail("is one or several");
    }
    engine.work = {hooks(fact, "forward"), hooks(fact, "backward"), hooks(fact, "again")};
    if (fact.has("gather"))
      engine.work.gather = fact["gather"]["tensor_rank_microseconds"].number() / one;
  }
  return known;
}

// One rank alone divides nothing, and only ZeRO wraps it all the same. Megatron's and nanotron's are
// their own layers.
bool has_hooks(const Job& job) {
  return job.engine == Engine::kDeepSpeed || job.engine == Engine::kMegatron ||
         job.engine == Engine::kNanotron || job.parallel.data * job.parallel.context > 1;
}

}  // namespace

HostWork host_work_of(const Job& job) {
  static const Known known = read_known();
  HostWork work;
  if (has_hooks(job))
    for (const OfEngine& one : known.engines)
      if (one.engine == job.engine &&
          one.stages[static_cast<std::size_t>(job.parallel.zero_stage)] &&
          (job.parallel.tensor > 1 ? one.several : one.one_rank))
        work = one.work;
  work.replay = known.replay;
  work.check = job.checks_collectives ? known.check : 0;
  return work;
}

double operator_seconds(const Device& device, const Machine& machine, Outlook outlook) {
  return host_launch_at(achieved_rates(device), outlook).value() * machine.host_operator;
}

}  // namespace steelyard
