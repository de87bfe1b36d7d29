#include "predict/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "document/edit_distance.h"
#include "engine/stage_program.h"
#include "job/pipeline_shape.h"
#include "predict/entry_name.h"
#include "predict/runtime.h"
#include "quantity/print.h"

namespace steelyard {

namespace {

std::string formula_of(const Formula& formula) {
  const std::int64_t bits = bits_of(formula.type);
  const std::string width = bits >= 8 ? fmt::format("{} B", bits / 8) : fmt::format("{} bit", bits);
  const std::string elements = formula.elements.text();
  const bool is_sum =
      elements.find(" + ") != std::string::npos || elements.find(" - ") != std::string::npos;
  return is_sum ? fmt::format("{} · ({})", width, elements)
                : fmt::format("{} · {}", width, elements);
}

// The usual layer, or the first beside those whose rule is no attention.
const Layer& layer_that_attends(const Architecture& model) {
  for (const Layer& layer : model.kinds)
    if (!layer.encodes && !std::holds_alternative<GatedDelta>(layer.attention)) return layer;
  return usual_layer(model);
}

// What the letters mean for this job.
std::vector<Symbol> alphabet(const Job& job) {
  const Architecture& model = *job.model;
  std::vector<Symbol> letters = {
      {"b", "micro_batch", job.training.micro_batch},
      {"s", "sequence_length", job.training.sequence_length},
      {"u", "target_sequence_length", job.training.target_sequence_length},
      {"i", "images_per_sequence", job.training.images_per_sequence},
      {"h", "hidden width", model.hidden},
      {"V", "vocabulary rows", padded_vocabulary(job)},
      {"P", "position rows",
       model.embedding_parameters.size() > 1 ? model.embedding_parameters[1].shape.front()
                                             : model.maximum_positions},
      {"w", "embedding width", model.embedding_width},
      {"t", "tensor ranks", job.parallel.tensor},
      {"c", "context ranks", job.parallel.context},
      {"W", "ranks that share a shard",
       job.parallel.data * job.parallel.context / job.parallel.replicate},
      {"N", "data-parallel ranks", job.parallel.data * job.parallel.context},
      {"e", "ranks that share the experts", job.parallel.expert},
      {"et", "ranks that share an expert", job.parallel.expert_tensor},
      {"We", "ranks that share a shard of experts",
       expert_data_ranks(job) / job.parallel.replicate},
      {"Ne", "ranks that hold the same experts", expert_data_ranks(job)},
      {"ci", "context ranks of one all-to-all", job.parallel.context_inner}};
  if (divides_vocabulary(job)) letters.push_back({"p", "stages", job.parallel.pipeline});
  if (follows_vision(model)) {
    const VisionPart& vision = *model.encoder_part->vision;
    letters.push_back({"p", "tokens of an image within the tower", vision.tokens});
    if (vision.contrast)
      letters.push_back({"j", "width of what is compared", vision.contrast->width});
    else
      letters.push_back({"q", "tokens of an image that the decoder reads", vision.features});
    letters.push_back({"z", "hidden width of the tower", vision.hidden});
  }
  if (model.kinds.empty()) return letters;
  const Layer& layer = layer_that_attends(model);
  if (const auto* attention = std::get_if<GroupedAttention>(&layer.attention)) {
    letters.push_back({"n", "attention heads", attention->heads});
    letters.push_back({"m", "key/value heads", attention->key_value_heads});
    letters.push_back({"d", "head width", attention->head_width});
    letters.push_back({"a", "query width, n·d", attention->heads * attention->head_width});
    letters.push_back(
        {"k", "key/value width, m·d", attention->key_value_heads * attention->head_width});
  } else if (const auto* latent = std::get_if<LatentAttention>(&layer.attention)) {
    letters.push_back({"n", "attention heads", latent->heads});
    letters.push_back({"rq", "query latent", latent->query_rank});
    letters.push_back({"rk", "key/value latent", latent->key_value_rank});
    letters.push_back({"dn", "head width without rotary", latent->plain_width});
    letters.push_back({"dr", "rotary head width", latent->rotary_width});
    letters.push_back({"dv", "value head width", latent->value_width});
    letters.push_back({"d", "rotary width", latent->rotary_width});
  }
  for (const Layer& kind : model.kinds)
    if (const auto* delta = std::get_if<GatedDelta>(&kind.attention)) {
      letters.push_back({"nv", "heads of values", delta->heads});
      letters.push_back({"nk", "heads of keys", delta->key_heads});
      letters.push_back({"dk", "width of a key's head", delta->key_width});
      letters.push_back({"dv", "width of a value's head", delta->value_width});
      letters.push_back({"w", "tokens that the convolution sees", delta->kernel});
      letters.push_back({"chunk", "tokens of a chunk", 64});
      break;
    }
  for (const Layer& kind : model.kinds) {
    if (const auto* mlp = std::get_if<DenseMlp>(&kind.mlp))
      letters.push_back({"f", "feed-forward width", mlp->width});
    if (const auto* mlp = std::get_if<ExpertMlp>(&kind.mlp)) {
      letters.push_back({"E", "experts", mlp->experts});
      letters.push_back({"K", "experts for each token", mlp->experts_per_token});
      letters.push_back({"M", "width of one expert", mlp->width});
      if (mlp->shared) letters.push_back({"f", "shared expert width", mlp->shared->width});
    }
  }
  return letters;
}

std::set<std::string> words_in(const std::string& formula) {
  std::set<std::string> words;
  std::string word;
  for (char letter : formula + " ") {
    if (std::isalpha(static_cast<unsigned char>(letter))) {
      word += letter;
    } else if (!word.empty()) {
      words.insert(word);
      word.clear();
    }
  }
  return words;
}

std::vector<Symbol> legend_of(const Job& job, const Derivation& derivation) {
  std::set<std::string> used;
  for (const DerivationLine& line : derivation.lines) used.merge(words_in(line.formula));
  for (const Derivation::PerToken& layer : derivation.per_token) {
    used.insert({"b", "s"});
    used.merge(words_in(layer.formula));
  }
  std::vector<Symbol> legend;
  for (const Symbol& symbol : alphabet(job)) {
    if (used.count(symbol.letter) == 0) continue;
    used.erase(symbol.letter);
    legend.push_back(symbol);
  }
  return legend;
}

Traced bytes_of(const Formula& formula) {
  return Traced(bits_of(formula.type) / 8) * formula.elements;
}

// Where every width is a multiple of the hidden one, as in GPT, the sum is short enough to be compared with published ones.
void write_in_hidden(const Job& job, const Traced& sum, Derivation::PerToken& layer) {
  Traced shorter = sum;
  std::set<std::string> used = words_in(layer.formula);
  std::string multiples;
  for (const Symbol& symbol : alphabet(job)) {
    const bool is_width = symbol.letter == "a" || symbol.letter == "k" || symbol.letter == "f";
    if (!is_width || used.erase(symbol.letter) == 0) continue;
    if (symbol.value % job.model->hidden != 0) return;
    const std::int64_t times = symbol.value / job.model->hidden;
    shorter = shorter.written_with(symbol.letter, times, "h");
    multiples += fmt::format("{}{} = {}h", multiples.empty() ? "" : ", ", symbol.letter,
                             times == 1 ? "" : std::to_string(times));
  }
  if (multiples.empty()) return;
  layer.in_hidden = shorter.without({"b", "s"});
  layer.multiples = multiples;
}

// What one layer keeps for each token, term by term.
std::vector<Derivation::PerToken> per_token(const Job& job, StagePrograms<Traced>& stages) {
  std::vector<Derivation::PerToken> answer;
  const bool whole = job.recompute.mode == RecomputeMode::kFull;
  for (std::size_t kind = 0; kind < job.model->kinds.size(); ++kind) {
    Derivation::PerToken layer;
    layer.owner =
        job.model->kinds.size() == 1 ? "layers.*" : fmt::format("layers of kind {}", kind);
    Traced sum;
    for (SlotId slot : stages.kept_of_kind(kind, whole)) {
      const Formula& formula = stages.book().formulas[static_cast<std::size_t>(slot)];
      const Slot& what = stages.program().slot_at(slot);
      const Traced bytes = bytes_of(formula);
      const std::string each = bytes.without({"b", "s"});
      if (each.empty()) continue;  // a few bytes for each call, not for each token
      sum += bytes;
      layer.terms.emplace_back(fmt::format("{} {}", what.owner, what.name), each);
    }
    layer.formula = sum.without({"b", "s"});
    const std::int64_t tokens = job.training.micro_batch * job.training.sequence_length;
    layer.bytes = sum.value() / tokens;
    write_in_hidden(job, sum, layer);
    answer.push_back(std::move(layer));
  }
  return answer;
}

const char* kScoresNote =
    "Published estimates for a layer with dropout and unfused attention, L·s·b·h·(34 + 5·a·s/h) "
    "with a heads, are sometimes printed as 5·a/h, without s. "
    "The term comes from the score matrices, s x s for every head and sequence (softmax 2, dropout "
    "mask 1, dropped copy 2 bytes): "
    "5·a·s·s·b bytes, which is s·b·h times 5·a·s/h, so s belongs there. Flash attention removes "
    "it.";

// Slack is no tensor: it is what the allocator has reserved and nobody holds.
Derivation slack_of(const RankPrediction& rank) {
  Derivation derivation;
  derivation.subject = "slack";
  derivation.total = rank.reserved - rank.allocated;
  derivation.notes.push_back(fmt::format("reserved {} - allocated {}, at the peak of {}",
                                         print_exact(rank.reserved), print_exact(rank.allocated),
                                         name_of(rank.phase)));
  if (const Rule* rule = find_rule("allocator.segments")) {
    derivation.notes.push_back(rule->sentence);
    derivation.notes.push_back("source: " + rule->source);
  }
  return derivation;
}

// Nor is what the device holds outside of the allocator.
Derivation runtime_of(const Job& job) {
  const RuntimeBytes runtime = runtime_bytes(job);
  Derivation derivation;
  derivation.subject = "runtime";
  derivation.total = runtime.expected;
  derivation.notes.push_back(fmt::format("{}; {} at least, {} at most", runtime.derivation,
                                         print_exact(runtime.low), print_exact(runtime.high)));
  derivation.notes.push_back("source: " + runtime.source);
  return derivation;
}

// As `weigh` shows them in one row.
Derivation slack_and_runtime_of(const Job& job, const RankPrediction& rank) {
  Derivation both = slack_of(rank);
  const Derivation runtime = runtime_of(job);
  both.subject = "slack + runtime";
  both.notes.insert(
      both.notes.begin(),
      fmt::format("slack {} + runtime {}", print_exact(both.total), print_exact(runtime.total)));
  both.total += runtime.total;
  both.notes.insert(both.notes.end(), runtime.notes.begin(), runtime.notes.end());
  return both;
}

}  // namespace

Explained explain(const Job& job, std::string_view selection) {
  const Prediction prediction = predict(job);
  std::size_t rank = 0;
  for (std::size_t i = 0; i < prediction.ranks.size(); ++i)
    if (prediction.ranks[i].rank == prediction.peak.rank) rank = i;

  if (selection == "slack") return {slack_of(prediction.ranks[rank]), std::nullopt};
  if (selection == "runtime") return {runtime_of(job), std::nullopt};
  if (selection == "slack + runtime")
    return {slack_and_runtime_of(job, prediction.ranks[rank]), std::nullopt};

  Phase phase = prediction.ranks[rank].phase;
  std::optional<Pile> pile;
  // `weigh` prints "master weights"; in JSON they are master_weights.
  std::string key(selection);
  std::replace(key.begin(), key.end(), ' ', '_');
  for (std::size_t i = 0; i < kPileCount; ++i)
    if (name_of(static_cast<Pile>(i)) == key) pile = static_cast<Pile>(i);
  bool whole = selection.empty() || selection == "peak";
  for (std::size_t i = 0; i < kPhaseCount; ++i)
    if (name_of(static_cast<Phase>(i)) == selection) {
      phase = static_cast<Phase>(i);
      whole = true;
    }
  // A pile that is empty at the peak is shown where it is largest.
  if (pile) {
    Bytes largest{};
    for (const PhasePrediction& candidate : prediction.ranks[rank].phases)
      if (candidate.phase == phase) largest = candidate.piles[*pile];
    for (const PhasePrediction& candidate : prediction.ranks[rank].phases)
      if (largest == Bytes{} && candidate.piles[*pile] > largest) {
        largest = candidate.piles[*pile];
        phase = candidate.phase;
      }
  }

  StagePrograms<Traced> stages(job);
  const StageProgram built = stages.build(static_cast<std::int64_t>(rank));
  const PeakMoment moment = find_peak(stages.program(), built.root, phase);
  Derivation derivation;
  derivation.subject = std::string(selection.empty() ? std::string_view("peak") : selection);
  std::set<std::string> names;
  for (std::size_t index = 0; index < moment.alive.size(); ++index) {
    if (moment.alive[index] == 0) continue;
    const Slot& slot = stages.program().slot_at(static_cast<SlotId>(index));
    const std::string name = entry_name(slot);
    const std::string entry = fmt::format("{}/{}", slot.owner, name);
    names.insert({std::string(slot.owner), name, entry, std::string(slot.rule)});
    // A pile is the pile alone: owners may be called like one, as the bucket in which "gradients" travel is communication.
    const bool chosen = pile ? slot.pile == *pile
                             : whole || selection == slot.owner || selection == name ||
                                   selection == entry || selection == slot.rule;
    if (!chosen) continue;
    const Rule* rule = find_rule(slot.rule);
    DerivationLine line;
    line.pile = slot.pile;
    line.owner = slot.owner;
    line.name = name;
    line.formula = formula_of(stages.book().formulas[index]);
    line.reason = rule ? rule->sentence : "";
    line.rule = slot.rule;
    line.each = slot.bytes;
    line.count = moment.alive[index];
    line.total = slot.bytes * Checked(moment.alive[index]);
    derivation.total += line.total;
    derivation.lines.push_back(std::move(line));
  }
  if (derivation.lines.empty() && !pile && !whole) {
    for (std::size_t i = 0; i < kPileCount; ++i)
      names.insert(std::string(name_of(static_cast<Pile>(i))));
    for (std::size_t i = 0; i < kPhaseCount; ++i)
      names.insert(std::string(name_of(static_cast<Phase>(i))));
    names.insert({"slack", "runtime"});
    Diagnostic problem;
    problem.code = "E410";
    problem.message = fmt::format("nothing called \"{}\" is alive at the peak", selection);
    problem.label = "a pile, a phase, an owner, an entry or a rule";
    const std::vector<std::string> known(names.begin(), names.end());
    std::vector<std::string_view> views(known.begin(), known.end());
    const auto near = nearest_names(selection, views);
    if (!near.empty()) problem.help = fmt::format("the nearest is \"{}\"", near.front());
    return {std::nullopt, problem};
  }
  std::stable_sort(
      derivation.lines.begin(), derivation.lines.end(),
      [](const DerivationLine& a, const DerivationLine& b) { return a.total > b.total; });
  if (pile == Pile::kActivations) {
    derivation.per_token = per_token(job, stages);
    derivation.notes.emplace_back(kScoresNote);
  }
  derivation.legend = legend_of(job, derivation);
  return {std::move(derivation), std::nullopt};
}

}  // namespace steelyard
