// Where a number comes from: the formula with its letters, its numbers, its rule and the rule's source.
//
//   activations / layers.0 / mlp                                     771,751,936 B
//     gate         2 B · b·s·f                                       234,881,024   op.linear.output-kept
//   b micro_batch 1 · s sequence_length 8192 · f 14336
//   rule op.silu.saved-input: ... source: ...
//
// The formulas are printed by the same code that computes the bytes, run once more on numbers that remember how they
// were made (quantity/traced.h); they cannot drift from predict().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "document/diagnostic.h"
#include "job/job.h"
#include "predict/prediction.h"

namespace steelyard {

// A modelling rule: the numbered sentence that a byte rests on. Kept in data/rules.json.
struct Rule {
  std::string id;  // "op.linear.saved-input"
  std::string sentence;
  std::string source;  // public document
};
const std::vector<Rule>& rules();
const Rule* find_rule(std::string_view id);

struct Symbol {
  std::string letter;   // "s"
  std::string meaning;  // "sequence_length"
  std::int64_t value = 0;
};

struct DerivationLine {
  Pile pile = Pile::kActivations;
  std::string owner;    // "layers.0", "embedding", "loss", "optimizer"
  std::string name;     // "mlp.gate_proj output"
  std::string formula;  // "2 B · b·s·f / t"
  std::string reason;   // why it is held: "silu needs its input"
  std::string rule;
  Bytes each{};            // one of them, as allocated
  std::int64_t count = 1;  // how many are alive (layers x micro-batches in flight)
  Bytes total{};
};

struct Derivation {
  std::string subject;  // "activations"
  std::vector<Symbol> legend;
  std::vector<DerivationLine> lines;  // largest first
  Bytes total{};
  // Saved for backward of one layer, for one token (activations only).
  struct PerToken {
    std::string owner;    // "layers.*" of one kind
    std::string formula;  // "20h + 4k + 8f + 4n + 8"
    std::string
        in_hidden;  // "34h + 5s·n + 16", where the other widths are multiples of h; else empty
    std::string multiples;  // "k = h, f = 4h"
    std::int64_t bytes = 0;
    std::vector<std::pair<std::string, std::string>> terms;  // name -> its share ("gate", "2f")
  };
  std::vector<PerToken> per_token;
  std::vector<std::string> notes;  // e.g. the correction of the published 5ash formula
};

// `selection`: "" (the peak), a pile, "slack", "runtime", a phase, an owner, an entry name or a rule; unknown: nearest names in
// the diagnostic.
struct Explained {
  std::optional<Derivation> derivation;
  std::optional<Diagnostic> problem;
};
Explained explain(const Job& job, std::string_view selection);

}  // namespace steelyard
