// The sources whose rows we can read. A row is recognised by what it says of itself, not by the file it came in.
#pragma once

#include <vector>

#include "validate/measured_row.h"

namespace steelyard {

const RowSources& row_sources();

extern const RowSource kNanotronUltrascale;
extern const RowSource kBigscience;
extern const RowSource kHagemann2023;
extern const RowSource kYeung2024;
extern const RowSource kQi2024;
extern const RowSource kQi2024Binary;
extern const RowSource kKorthikanti2022;
extern const RowSource kMistAceso;
extern const RowSource kLlmFoundry;
extern const RowSource kMosaicmlMpt;
extern const RowSource kVtrain;
extern const RowSource kLitgpt;
extern const RowSource kTorchtune;
extern const RowSource kTorchao;
extern const RowSource kTorchaoDocs;
extern const RowSource kMsSwiftV2;
extern const RowSource kLigerKernels;
extern const RowSource kHfBertLarge;
extern const RowSource kQwen1Readme;
extern const RowSource kPeft;
extern const RowSource kPeftPercentile;
extern const RowSource kLomo;
extern const RowSource kLomoKept;
extern const RowSource kMegatronBridge;
extern const RowSource kNvidiaPerformance;
extern const RowSource kNarayanan2021;
extern const RowSource kZhao2023;
extern const RowSource kZhao2023Fewest;
extern const RowSource kPytorchBlog;
extern const RowSource kFmsFsdp;
extern const RowSource kXtuner;
extern const RowSource kAlst;

}  // namespace steelyard
