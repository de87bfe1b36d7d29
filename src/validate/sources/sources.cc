#include "validate/sources/sources.h"

namespace steelyard {

const std::vector<RowSource>& row_sources() {
  static const std::vector<RowSource> kSources = {
      kNanotronUltrascale,
      kBigscience,
      kHagemann2023,
      kYeung2024,
      kQi2024,
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
      kLomo,
      kMegatronBridge,
      kNvidiaPerformance,
      kNarayanan2021,
      kZhao2023,
      kPytorchBlog,
      kFmsFsdp,
      kXtuner,
      kAlst,
  };
  return kSources;
}

const RowSource* source_of(const MeasuredRow& row) {
  for (const RowSource& source : row_sources())
    if (source.owns(row)) return &source;
  return nullptr;
}

}  // namespace steelyard
