// How long sequences are: the encoder's, the decoder's, those of padded samples; and how many images each shows.
#include <algorithm>

#include "job/recipe_choice.h"
#include "model/architecture.h"

namespace steelyard {
namespace {

void choose_sample_lengths(Draft& draft) {
  constexpr int kPadded = 1;
  const auto mean = draft.settings().number(KeyId::kMeanLength);
  const auto deviation = draft.settings().number(KeyId::kLengthDeviation);
  if (draft.settings().name(KeyId::kPacking).value_or(0) != kPadded) {
    for (const KeyId key :
         {KeyId::kMeanLength, KeyId::kLengthDeviation, KeyId::kLongSamples, KeyId::kSamples})
      if (draft.has(key))
        draft.refuse(key, "E227", "lengths of samples where they are not padded",
                     "packing is not padded", "training.packing = \"padded\"");
    return;
  }
  if (!mean || !deviation) {
    draft.refuse(KeyId::kPacking, "E227",
                 "padded micro-batches are as long as their samples, and how long these are is not "
                 "said",
                 "needs training.mean_length and training.length_deviation",
                 "packing = \"fixed\" weighs micro-batches of sequence_length");
    return;
  }
  draft.job().training.lengths =
      SampleLengths{*mean, *deviation, draft.settings().name(KeyId::kLongSamples).value_or(0) == 1,
                    draft.settings().count(KeyId::kSamples).value_or(0)};
  draft.assume(KeyId::kMeanLength, "log-normal",
               "how samples spread around their mean: tokens of documents do so");
}

}  // namespace

void choose_sequence(Draft& draft) {
  Job& job = draft.job();
  constexpr std::int64_t kUsual = 2048;
  const std::int64_t positions = job.model == nullptr ? 0 : job.model->maximum_positions;
  const bool sees = job.model != nullptr && job.model->image.has_value();
  const std::int64_t fallback = sees            ? positions
                                : positions > 0 ? std::min(positions, kUsual)
                                                : kUsual;
  job.training.sequence_length =
      Tokens(draft.count_or(KeyId::kSequenceLength, fallback,
                            sees                 ? "the patches of one image, and the class token"
                            : fallback == kUsual ? "a usual length; activations grow with it"
                                                 : "the model's positions"));
  if (job.model != nullptr && reads_patches(*job.model))
    job.training.images_per_sequence =
        draft.count_or(KeyId::kImages, 1, "each sequence shows one image");
  else if (draft.settings().find(KeyId::kImages) != nullptr)
    draft.refuse(KeyId::kImages, "E213", "this model sees no image beside its text",
                 "a tower of vision and a decoder do", "micro_batch counts the images of a tower");
  if (job.model != nullptr && follows_encoder(*job.model))
    job.training.target_sequence_length =
        Tokens(draft.count_or(KeyId::kTargetLength, job.training.sequence_length.value(),
                              "the decoder's sequences are as long as the encoder's"));
  else if (draft.settings().find(KeyId::kTargetLength) != nullptr)
    draft.refuse(KeyId::kTargetLength, "E213", "this model has one length",
                 "an encoder and a decoder have two", "sequence_length is its length");
  choose_sample_lengths(draft);
}

}  // namespace steelyard
