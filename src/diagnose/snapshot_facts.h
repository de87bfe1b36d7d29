// What the rules of a snapshot share: the moment, who was alive then, and which topic each byte belongs to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diagnose/diagnosis.h"

namespace steelyard {

// What of the live bytes belongs to which topic; the failed request counts, too.
struct SnapshotTopics {
  std::int64_t logits = 0, scores = 0, autocast = 0, experts = 0, dequantised = 0, gathered = 0;
  std::int64_t activations = 0;  // and temporaries, all of the above but gathered
  std::int64_t states = 0;       // parameters, gradients, master weights, moments
};

struct SnapshotFacts {
  const Evidence& evidence;
  const DeviceMoment& moment;
  const Attribution& attribution;
  const DiagnosisQuestion& question;
  std::int64_t capacity = 0;
  bool failed = false;
  std::int64_t wanted = 0;   // the failed request
  std::int64_t whole = 1;    // live, and the failed request
  std::int64_t earlier = 0;  // of forward tensors, those of earlier steps
  EvidencePlace place = {};
  SnapshotTopics topics = {};

  std::int64_t pile(Pile one) const { return attribution.piles[one].value().value(); }
  bool in_pass() const {
    return attribution.part == RunPart::kForward || attribution.part == RunPart::kLossPart ||
           attribution.part == RunPart::kBackward;
  }
  Finding found(Cause cause, double certainty, std::string text,
                std::optional<std::int64_t> bytes = {}) const {
    return proven(cause, certainty, std::move(text), bytes, place);
  }
};

SnapshotTopics topics_of(const SnapshotFacts& facts);
// What fills the device in forward and backward.
void add_topic_findings(const SnapshotFacts& facts, std::vector<Finding>& findings);
// What the run should have had at this moment.
void hold_snapshot_against_run(const SnapshotFacts& facts, std::vector<Finding>& findings);

}  // namespace steelyard
