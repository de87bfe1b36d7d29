#include "job/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "job/pipeline_shape.h"
#include "quantity/checked.h"

namespace steelyard {
namespace {

// "1, 2, 3, 5 and 6": what divides `number`, the nearest to `wanted` first kept, at most six.
std::string divisors_of(std::int64_t number, std::int64_t wanted) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= number && d <= 65'536; ++d)
    if (number % d == 0) divisors.push_back(d);
  std::stable_sort(divisors.begin(), divisors.end(), [wanted](std::int64_t a, std::int64_t b) {
    return std::abs(a - wanted) < std::abs(b - wanted);
  });
  if (divisors.size() > 6) divisors.resize(6);
  std::sort(divisors.begin(), divisors.end());
  std::string text;
  for (std::size_t i = 0; i < divisors.size(); ++i) {
    if (i > 0) text += i + 1 == divisors.size() ? " or " : ", ";
    text += fmt::format("{}", divisors[i]);
  }
  return text;
}

std::string listed(const std::vector<Layers>& counts) {
  std::string text = "[";
  for (std::size_t i = 0; i < counts.size(); ++i)
    text += fmt::format("{}{}", i > 0 ? ", " : "", counts[i].value());
  return text + "]";
}

struct BlockCosts {
  std::int64_t layer = 0, head = 0;
};
// Attention is counted as if every query head had its own key and value, whatever the model has.
BlockCosts nanotron_costs(const Architecture& model) {
  const Checked hidden = model.hidden;
  Checked attention = hidden;
  Checked width = 0;
  if (!model.kinds.empty()) {
    const Layer& layer = model.kinds.front();
    if (const auto* grouped = std::get_if<GroupedAttention>(&layer.attention))
      attention = Checked(grouped->heads) * Checked(grouped->head_width);
    if (const auto* dense = std::get_if<DenseMlp>(&layer.mlp)) width = dense->width;
    if (const auto* experts = std::get_if<ExpertMlp>(&layer.mlp)) width = experts->width;
  }
  return {(Checked(4) * attention * hidden + Checked(3) * width * hidden).value(),
          (Checked(model.vocabulary) * hidden).value()};
}

// Layers of each stage, in equal parts to its chunks.
void share_among_chunks(Draft& draft, std::int64_t parts) {
  Parallel& parallel = draft.job().parallel;
  const std::vector<Layers> of_stage = std::move(parallel.stage_layers);
  const std::int64_t chunks = parallel.virtual_pipeline;
  parallel.stage_layers.assign(static_cast<std::size_t>(parts), Layers(0));
  for (std::int64_t stage = 0; stage < parallel.pipeline; ++stage)
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const std::int64_t layers = of_stage[static_cast<std::size_t>(stage)];
      const Part part = part_of(pipeline_order(draft.job()).placement,
                                {.ranks = parallel.pipeline, .chunks = chunks}, stage, chunk);
      parallel.stage_layers[static_cast<std::size_t>(part.index)] = Layers(layers / chunks);
      if (layers % chunks != 0 && chunk == 0)
        draft.refuse(
            KeyId::kPipelineLayout, "E213",
            fmt::format("{} layers of a stage are not shared by {} chunks", layers, chunks),
            "chunks of a stage are alike, or stated one by one",
            fmt::format("{} counts state every chunk, from the embedding on", parts));
    }
}

// torch hands tensors over where a V turns; a chunk without layers has none of its own.
void check_turn(Draft& draft) {
  const Job& job = draft.job();
  if (!runs_on_torch_pipelining(job) || pipeline_order(job).placement != Placement::kV) return;
  const std::vector<Layers>& parts = job.parallel.stage_layers;
  const std::size_t turn = parts.size() / 2;
  if (turn > 0 && (parts[turn - 1] == Layers(0) || parts[turn] == Layers(0)))
    draft.refuse(KeyId::kPipelineLayout, "E213",
                 fmt::format("a chunk without layers where {} turns", pipeline_order(job).name),
                 "the last stage's two chunks need a layer each");
}

// A layout given as a list: of stages, or of all their chunks.
bool take_layout(Draft& draft, std::int64_t layers, std::int64_t parts) {
  const Setting* setting = draft.settings().find(KeyId::kPipelineLayout);
  if (setting == nullptr) return false;
  Parallel& parallel = draft.job().parallel;
  const auto stages = static_cast<std::int64_t>(setting->counts.size());
  parallel.stage_layers = std::vector<Layers>(setting->counts.begin(), setting->counts.end());
  if (stages != parts && stages != parallel.pipeline) {
    const bool chunks = parts != parallel.pipeline;
    draft.refuse(
        KeyId::kPipelineLayout, "E213",
        chunks
            ? fmt::format("pipeline_layout has {} chunks, pipeline {} x virtual_pipeline {} = {}",
                          stages, parallel.pipeline, parallel.virtual_pipeline, parts)
            : fmt::format("pipeline_layout has {} stages, pipeline is {}", stages,
                          parallel.pipeline),
        fmt::format("needs {} counts", parts),
        chunks ? "one count for each chunk, from the embedding on"
               : fmt::format("pipeline = {} fits this list", stages));
  } else if (setting->count != layers) {
    draft.refuse(
        KeyId::kPipelineLayout, "E213",
        fmt::format("pipeline_layout sums to {}, the model has {} layers", setting->count, layers),
        fmt::format("{} {}", std::abs(setting->count - layers),
                    setting->count > layers ? "too many" : "too few"));
  } else {
    if (stages != parts) share_among_chunks(draft, parts);
    check_turn(draft);
  }
  return true;
}

// Megatron's own rules (engine-memory 2.4): equal parts, but for a stated first and last stage, or with the
// embedding and the loss counted as a layer. A stage's layers are shared by its chunks.
void choose_megatron(Draft& draft, std::int64_t layers, std::int64_t parts) {
  Parallel& parallel = draft.job().parallel;
  const std::int64_t stages = parallel.pipeline, chunks = parts / stages;
  const auto first = draft.settings().count(KeyId::kFirstStageLayers);
  const auto last = draft.settings().count(KeyId::kLastStageLayers);
  const std::int64_t embedding = draft.truth_or(KeyId::kCountEmbedding, false) ? 1 : 0;
  const std::int64_t loss = draft.truth_or(KeyId::kCountLoss, false) ? 1 : 0;
  if ((first || last) && embedding + loss > 0) {
    draft.refuse(KeyId::kCountEmbedding, "E213",
                 "first_stage_layers and count_embedding exclude each other",
                 "megatron takes one or the other");
    return;
  }
  if ((first || last) && order_of(parallel.schedule).placement == Placement::kV) {
    draft.refuse(
        first ? KeyId::kFirstStageLayers : KeyId::kLastStageLayers, "E213",
        fmt::format("the first stage of {} is the last one, too", name_of(parallel.schedule)),
        "both ends of a V stand on one stage",
        "pipeline_layout = [...] states each chunk, from the embedding on");
    return;
  }
  const std::int64_t middle_stages = stages - (first ? 1 : 0) - (last ? 1 : 0);
  const std::int64_t middle_layers =
      layers + embedding + loss - first.value_or(0) - last.value_or(0);
  const bool fits = middle_stages > 0
                        ? middle_layers >= 0 && middle_layers % (middle_stages * chunks) == 0
                        : middle_layers == 0;
  const bool ends_fit = first.value_or(0) % chunks == 0 && last.value_or(0) % chunks == 0;
  if (!fits || !ends_fit) {
    const std::string cut = chunks == 1
                                ? fmt::format("{} stages", middle_stages)
                                : fmt::format("{} stages of {} chunks", middle_stages, chunks);
    const std::string what =
        !ends_fit ? fmt::format("{} chunks do not divide the layers of an end", chunks)
        : first || last || embedding + loss > 0
            ? fmt::format("{} layers are left for {}", middle_layers, cut)
            : fmt::format("{} do not divide {} layers", cut, layers);
    draft.refuse(
        KeyId::kPipeline, "E213", what, "megatron cuts layers into equal stages",
        middle_layers > 0 && chunks == 1
            ? fmt::format(
                  "pipeline = {} divides {} layers; pipeline_layout = [...] states uneven stages",
                  divisors_of(layers, stages), layers)
        : middle_layers > 0 ? std::string("pipeline_layout = [...] states uneven chunks")
                            : std::string());
    return;
  }
  const std::int64_t each = middle_stages > 0 ? middle_layers / (middle_stages * chunks) : 0;
  parallel.stage_layers.assign(static_cast<std::size_t>(parts), Layers(each));
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto from = static_cast<std::size_t>(chunk * stages);
    if (first) parallel.stage_layers[from] = Layers(*first / chunks);
    if (last)
      parallel.stage_layers[from + static_cast<std::size_t>(stages - 1)] = Layers(*last / chunks);
  }
  parallel.stage_layers.front() -= Layers(embedding);
  parallel.stage_layers.back() -= Layers(loss);
}

}  // namespace

std::vector<Layers> nanotron_stages(std::int64_t layers, std::int64_t pipeline,
                                    std::int64_t layer_cost, std::int64_t head_cost) {
  std::vector<Layers> stages(static_cast<std::size_t>(pipeline));
  // Thresholds are total·(stage+1)/pipeline; multiplied out, so that equality is exact. The source moves on when a sum is
  // beyond its threshold; the runs of the Ultra-Scale Playbook moved on at it too (16 layers with a head of exactly four:
  // 10 and 5 layers on the first of 2 and 4 stages, by the parameters that rank 0 printed). The runs are followed.
  __extension__ using Wide = __int128;
  const Wide total = static_cast<Wide>(layer_cost) * layers + head_cost;
  Wide running = 0;
  std::int64_t stage = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    ++stages[static_cast<std::size_t>(stage)];
    running += layer_cost;
    if (stage + 1 < pipeline && running * pipeline >= total * (stage + 1)) ++stage;
  }
  return stages;
}

std::vector<Layers> torchtitan_stages(std::int64_t layers, std::int64_t pipeline) {
  if (pipeline == 1) return {Layers(layers)};
  auto stages = even_stages(layers + 2, pipeline);
  --stages.front();
  --stages.back();
  return stages;
}

// pipe_partition_uniform over the layers, the embedding before them, and the final norm and the head behind
// (scaling/core/nn/parallel_module/pipeline_partitioning.py).
std::vector<Layers> scaling_stages(std::int64_t layers, std::int64_t pipeline) {
  std::vector<Layers> stages = even_stages(layers + 3, pipeline);
  stages.front() -= Layers(1);
  std::int64_t behind = 2;
  for (auto stage = stages.rbegin(); behind > 0 && stage != stages.rend(); ++stage) {
    const std::int64_t taken = std::min(behind, stage->value());
    *stage -= Layers(taken);
    behind -= taken;
  }
  return stages;
}

std::vector<Layers> even_stages(std::int64_t layers, std::int64_t pipeline) {
  std::vector<Layers> stages(static_cast<std::size_t>(pipeline), Layers(layers / pipeline));
  for (std::int64_t i = 0; i < layers % pipeline; ++i) ++stages[static_cast<std::size_t>(i)];
  return stages;
}

std::vector<Layers> usual_stages(Engine engine, std::int64_t layers, std::int64_t parts) {
  switch (engine) {
    case Engine::kNanotron:
      return {};
    case Engine::kScaling:
      return scaling_stages(layers, parts);
    case Engine::kFsdp2:
      return torchtitan_stages(layers, parts);
    default:
      return even_stages(layers, parts);
  }
}

void choose_stages(Draft& draft) {
  Parallel& parallel = draft.job().parallel;
  const std::int64_t layers = draft.job().model->layers;
  const std::int64_t stages = parallel.pipeline;
  const Engine engine = draft.job().engine;
  // A layout may leave a stage to the embedding or the head alone.
  const bool is_stated = draft.settings().find(KeyId::kPipelineLayout) != nullptr;
  if (stages > 1 && stages > layers && engine != Engine::kNanotron && !is_stated) {
    draft.refuse(KeyId::kPipeline, "E213",
                 fmt::format("pipeline {} is more than {} layers", stages, layers),
                 "a stage needs a layer", fmt::format("pipeline = {} is the most", layers));
    return;
  }
  const std::int64_t parts =
      parts_in_line(pipeline_order(draft.job()).placement,
                    {.ranks = stages, .chunks = stages == 1 ? 1 : parallel.virtual_pipeline});
  if (take_layout(draft, layers, parts)) return;
  if (parts > layers && parts > stages) {
    draft.refuse(KeyId::kVirtualPipeline, "E213",
                 fmt::format("pipeline {} x virtual_pipeline {} = {} is more than {} layers",
                             stages, parallel.virtual_pipeline, parts, layers),
                 "a chunk needs a layer");
    return;
  }
  if (engine != Engine::kMegatron) {
    for (const KeyId id : {KeyId::kFirstStageLayers, KeyId::kLastStageLayers,
                           KeyId::kCountEmbedding, KeyId::kCountLoss})
      if (draft.has(id))
        draft.refuse(
            id, "E213",
            fmt::format("{} is megatron's, the engine is {}", key_of(id).name, name_of(engine)),
            "not a rule of this engine",
            "pipeline_layout = [...] states the stages for every engine");
  }
  if (engine == Engine::kMegatron) {
    choose_megatron(draft, layers, parts);
    return;
  }
  if (stages == 1) {
    parallel.stage_layers = {Layers(layers)};
    return;
  }
  std::string_view reason = "even; the first stages get the remainder";
  parallel.stage_layers = usual_stages(engine, layers, parts);
  if (engine == Engine::kNanotron) {
    const BlockCosts costs = nanotron_costs(*draft.job().model);
    parallel.stage_layers = nanotron_stages(layers, stages, costs.layer, costs.head);
    reason = "nanotron's split by compute cost, which counts the head";
  } else if (engine == Engine::kScaling) {
    reason = "scaling's split: embedding, final norm and head count as a layer each";
  } else if (engine == Engine::kFsdp2) {
    reason = "torchtitan's split: embedding and head count as one layer each";
  }
  if (parts <= 64) draft.assume(KeyId::kPipelineLayout, listed(parallel.stage_layers), reason);
}

}  // namespace steelyard
