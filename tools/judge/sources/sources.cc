#include "sources/sources.h"

namespace steelyard {

const RowSources& row_sources() {
  static const RowSources kSources = {
      kNanotronUltrascale,
      kBigscience,
      kHagemann2023,
      kYeung2024,
      kQi2024,
      kQi2024Binary,
      kKorthikanti2022,
      kMistAceso,
      kLlmFoundry,
      kMosaicmlMpt,
      kVtrain,
      kLitgpt,
      kTorchtune,
      kTorchao,
      kTorchaoDocs,
      kMsSwiftV2,
      kLigerKernels,
      kHfBertLarge,
      kQwen1Readme,
      kPeft,
      kPeftPercentile,
      kLomo,
      kLomoKept,
      kMegatronBridge,
      kNvidiaPerformance,
      kNarayanan2021,
      kZhao2023,
      kZhao2023Fewest,
      kPytorchBlog,
      kFmsFsdp,
      kXtuner,
      kAlst,
  };
  return kSources;
}

}  // namespace steelyard
