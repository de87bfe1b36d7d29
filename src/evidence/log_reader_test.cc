#include "evidence/log_reader.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "evidence/printed.h"

namespace steelyard {
namespace {

using DeathKind = MemoryFailure::Kind;

Bytes gigs(double amount) { return *printed_bytes(amount, kGibibyte); }

constexpr std::string_view kSentence =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total "
    "capacity of 79.10 GiB of "
    "which 1.75 GiB is free. Including non-PyTorch memory, this process has 77.25 GiB memory in "
    "use. Of the allocated "
    "memory 70.00 GiB is allocated by PyTorch, and 4.50 GiB is reserved by PyTorch but "
    "unallocated.";

void expect_sentence(const Evidence& evidence) {
  ASSERT_EQ(evidence.failures.size(), 1U);
  const MemoryFailure& failure = evidence.failures.front();
  EXPECT_EQ(failure.kind, DeathKind::kDeviceAllocator);
  EXPECT_EQ(failure.tried, gigs(2.5));
  EXPECT_EQ(failure.capacity, gigs(79.1));
  EXPECT_EQ(failure.free, gigs(1.75));
  EXPECT_EQ(failure.own_process, gigs(77.25));
  EXPECT_EQ(failure.allocated, gigs(70));
  EXPECT_EQ(failure.unallocated, gigs(4.5));
  EXPECT_TRUE(failure.fatal);
}

TEST(LogReader, PrefixesSayTheRank) {
  struct Prefix {
    std::string text;
    std::optional<std::int64_t> rank;
  };
  const std::vector<Prefix> prefixes = {
      {"", {}},
      {"[rank3]: ", 3},
      {"[default5]:", 5},
      {"[7]: ", 7},
      {"[1,2]<stderr>:", 2},
      {"\x1b[36m(Trainer pid=71, ip=10.0.0.4)\x1b[0m [rank4]: ", 4},
      {"trainer-1  | [rank6]: ", 6},
      {"2026-01-01T00:00:00.5Z stderr F [rank1]: ", 1},
      {"\x1b]0;title\a[rank8]: \x1b[1;31m", 8},
      {"  5%|#         | 5/100 [00:10<03:10]\r[rank9]: ", 9},
      {"2026-01-01 10:00:00,123 - root - ERROR - [rank2]: ", 2}};
  for (const Prefix& prefix : prefixes) {
    SCOPED_TRACE(prefix.text);
    const Evidence evidence = read_log(prefix.text + std::string(kSentence) + "\n", "train.log");
    expect_sentence(evidence);
    EXPECT_EQ(evidence.failures.front().rank, prefix.rank);
    EXPECT_EQ(evidence.failures.front().place.at, "line 1");
  }
}

TEST(LogReader, LabelsOfSrunAreRanksWhereEveryLineHasOne) {
  const std::string labelled =
      " 0: starting\n11: starting\n11: " + std::string(kSentence) + "\n 0: waiting\n";
  EXPECT_EQ(read_log(labelled, "a").failures.at(0).rank, 11);
  const std::string prose = "starting\nall good\n11: " + std::string(kSentence) + "\nfour\nfive\n";
  EXPECT_FALSE(read_log(prose, "a").failures.at(0).rank);
}

TEST(LogReader, WrappedSentencesAreJoined) {
  for (const std::size_t width : {47U, 80U, 120U}) {
    SCOPED_TRACE(width);
    // Hard, within words, as a terminal copies it.
    std::string hard, boxed, soft;
    for (std::size_t at = 0; at < kSentence.size(); at += width)
      hard += std::string(kSentence.substr(at, width)) + "\n";
    // At spaces, in a drawn box.
    std::size_t column = 0;
    std::string line;
    for (std::size_t at = 0; at < kSentence.size();) {
      const std::size_t space = std::min(kSentence.find(' ', at), kSentence.size());
      const std::string word(kSentence.substr(at, space - at));
      if (column + word.size() > width && !line.empty()) {
        boxed += "\xE2\x94\x82 " + line + " \xE2\x94\x82\n";
        soft += line + "\n";
        line.clear();
        column = 0;
      }
      line += (line.empty() ? "" : " ") + word;
      column = line.size();
      at = space + 1;
    }
    boxed += "\xE2\x94\x82 " + line + " \xE2\x94\x82\n";
    soft += line + "\n";
    expect_sentence(read_log(soft, "soft"));
    expect_sentence(read_log(boxed, "boxed"));
    if (width > 60) expect_sentence(read_log(hard, "hard"));
  }
}

TEST(LogReader, ACutSentenceEndsWhereAnotherBegins) {
  const Evidence evidence = read_log(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 5 has a\ntotal "
      "capacity of 79.10 GiB of "
      "which 1.75 GiB is free.\n  File \"a.py\", line 3, in f\nOf the allocated memory 9.00 GiB is "
      "allocated by PyTorch\n",
      "a");
  ASSERT_EQ(evidence.failures.size(), 1U);
  EXPECT_EQ(evidence.failures[0].free, gigs(1.75));
  EXPECT_FALSE(evidence.failures[0].allocated);
}

TEST(LogReader, FramesStandBeforeTheirFailure) {
  const std::string log =
      "[rank1]: Traceback (most recent call last):\n"
      "[rank1]:   File \"/home/me/run/train.py\", line 88, in main\n"
      "[rank0]: Traceback (most recent call last):\n"
      "[rank1]:     optimizer.step()\n"
      "[rank0]:   File \"/home/me/run/train.py\", line 60, in loss\n"
      "[rank1]:   File \"/opt/lib/python3.11/site-packages/torch/optim/adam.py\", line 611, in "
      "_multi_tensor_adam\n"
      "[rank1]:     x = torch._foreach_sqrt(y)\n"
      "[rank1]:         ^^^^^^^^^^^^^^^^^^^^^^\n"
      "[rank1]: " +
      std::string(kSentence) + "\n";
  const Evidence evidence = read_log(log, "train.log");
  expect_sentence(evidence);
  const MemoryFailure& failure = evidence.failures.front();
  ASSERT_EQ(failure.frames.size(), 2U);
  EXPECT_EQ(failure.frames[0],
            "torch/optim/adam.py:611 _multi_tensor_adam: x = torch._foreach_sqrt(y)");
  EXPECT_EQ(failure.frames[1], "run/train.py:88 main: optimizer.step()");
  EXPECT_EQ(failure.phase, "optimizer");
}

TEST(LogReader, PhasesOfFrames) {
  const auto phase_of = [](std::string_view frames) {
    return read_log("Traceback (most recent call last):\n" + std::string(frames) +
                        std::string(kSentence) + "\n",
                    "a")
        .failures.at(0)
        .phase;
  };
  EXPECT_EQ(
      phase_of("  File \"/a/torch/nn/modules/module.py\", line 1, in _call_impl\n    return f()\n"
               "  File \"/a/model.py\", line 2, in forward\n    x = y\n"),
      "forward");
  EXPECT_EQ(phase_of("  File \"/a/site-packages/torch/_tensor.py\", line 1, in backward\n    "
                     "torch.autograd.backward(x)\n"
                     "  File \"/a/site-packages/torch/autograd/__init__.py\", line 2, in "
                     "backward\n    run()\n"),
            "backward");
  // A word of the source is no function's name.
  EXPECT_EQ(
      phase_of("  File \"/a/train.py\", line 1, in main\n    pretrain(model, forward_step)\n"), "");
  // Recomputed within backward
  EXPECT_EQ(
      phase_of(
          "  File \"/a/site-packages/torch/autograd/__init__.py\", line 2, in backward\n    run()\n"
          "  File \"/a/torch/nn/modules/module.py\", line 1, in _call_impl\n    return f()\n"
          "  File \"/a/model.py\", line 2, in forward\n    x = y\n"),
      "backward");
  EXPECT_EQ(phase_of("  File \"/a/site-packages/transformers/modeling_utils.py\", line 9, in "
                     "from_pretrained\n    m = c()\n"
                     "  File \"/a/model.py\", line 2, in __init__\n    self.w = torch.empty(4)\n"),
            "load");
  EXPECT_EQ(phase_of("  File \"/a/site-packages/torch/nn/functional.py\", line 9, in "
                     "cross_entropy\n    return x\n"),
            "loss");
  EXPECT_EQ(phase_of("  File \"/a/site-packages/torch/nn/modules/module.py\", line 9, in _apply\n  "
                     "  p = fn(p)\n"),
            "load");
}

TEST(LogReader, ARunThatGoesOnHasSurvived) {
  const std::string steps =
      "step 11 | loss 2.0 | lr: 1\nstep 12 | loss 2.0 | lr: 1\nstep 13 | loss 2.0 | lr: 1\n";
  const Evidence caught =
      read_log("step 10 | loss 2.0 | lr: 1\n" + std::string(kSentence) + "\n" + steps, "a");
  ASSERT_EQ(caught.failures.size(), 1U);
  EXPECT_FALSE(caught.failures[0].fatal);
  EXPECT_EQ(caught.failures[0].step, 10);
  // Another launch counts from the front again: the first is dead.
  const Evidence again = read_log(
      "step 10 | loss 2.0 | lr: 1\nstep 11 | loss 2.0 | lr: 1\n" + std::string(kSentence) +
          "\nstep 1 | loss 2.0 | lr: 1\nstep 2 | loss 2.0 | lr: 1\nstep 3 | loss 2.0 | lr: 1\n",
      "a");
  ASSERT_EQ(again.failures.size(), 1U);
  EXPECT_TRUE(again.failures[0].fatal);
}

TEST(LogReader, WarningsAreNoFailuresUnlessTwice) {
  const std::string warning =
      "[W922 05:15:28.1 a.cpp:1] memory allocation failed with OOM on device 2 while trying to "
      "allocate 536870912 bytes "
      "(free: 1048576, total: 85899345920).\n";
  const Evidence once = read_log(warning, "a");
  ASSERT_EQ(once.failures.size(), 1U);
  EXPECT_FALSE(once.failures[0].fatal);
  EXPECT_EQ(once.failures[0].tried, Bytes(536870912));
  EXPECT_EQ(once.failures[0].free, Bytes(1048576));
  EXPECT_EQ(once.failures[0].capacity, gigs(80));
  EXPECT_EQ(once.failures[0].device, 2);
  const Evidence twice = read_log(warning + warning, "a");
  ASSERT_EQ(twice.failures.size(), 1U);
  EXPECT_TRUE(twice.failures[0].fatal);
}

TEST(LogReader, OneLineMayHoldTwoSentences) {
  std::string other(kSentence);
  other.replace(other.find("2.50"), 4, "3.50");
  const Evidence evidence =
      read_log("[rank0]: " + std::string(kSentence) + "[rank5]: " + other + "\n", "a");
  ASSERT_EQ(evidence.failures.size(), 2U);
  EXPECT_EQ(evidence.failures[0].tried, gigs(2.5));
  EXPECT_EQ(evidence.failures[1].tried, gigs(3.5));
}

TEST(LogReader, AChainedExceptionIsOneFailure) {
  const std::string text(kSentence);
  EXPECT_EQ(
      read_log(text +
                   "\n\nDuring handling of the above exception, another exception occurred:\n\n" +
                   text + "\n",
               "a")
          .failures.size(),
      1U);
}

TEST(LogReader, AsyncAllocatorPrintsItsNumbersBelow) {
  const Evidence evidence = read_log(
      "Allocation on device 1 would exceed allowed memory. (out of memory)\n"
      "Currently allocated     : 10.00 GiB\nRequested               : 2.00 GiB\nDevice limit       "
      "     : 16.00 GiB\n"
      "Free (according to CUDA): 1.50 GiB\nPyTorch limit (set by user-supplied memory fraction)\n"
      "                        : 12.00 GiB\nnothing more\n",
      "a");
  ASSERT_EQ(evidence.failures.size(), 1U);
  const MemoryFailure& failure = evidence.failures[0];
  EXPECT_EQ(failure.device, 1);
  EXPECT_EQ(failure.allocated, gigs(10));
  EXPECT_EQ(failure.tried, gigs(2));
  EXPECT_EQ(failure.capacity, gigs(16));
  EXPECT_EQ(failure.free, gigs(1.5));
  EXPECT_EQ(failure.allowed, gigs(12));
}

TEST(LogReader, FollowsLineByLine) {
  LogReader reader("train.log");
  reader.feed("step 1 | loss 2.0 | lr: 1");
  EXPECT_TRUE(reader.so_far().failures.empty());
  reader.feed(kSentence);
  EXPECT_EQ(reader.so_far().failures.size(), 1U);
  expect_sentence(std::move(reader).finish());
}

TEST(LogReader, DamagedTextsAreRead) {
  std::string log =
      "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/a/train.py\", line 8, in "
      "f\n[rank1]:     g()\n"
      "[rank1]: " +
      std::string(kSentence) +
      "\n[Rank 7] (after 20 iterations) memory (MB) | allocated: 1.5 | max allocated: 2.5 | "
      "reserved: 3 | max "
      "reserved: 3[Rank 6] (after 20 iterations) memory (MB) | allocated: 1 | max allocated: 2\n"
      "MA 1.5 GB         Max_MA 2.5 GB         CA 3 GB         Max_CA 3 GB\n"
      "| Allocated memory      |  14324 MiB |  15000 MiB |\n# gpu   fb\n  0  "
      "123\nJobID|State|MaxRSS\n1|OUT_OF_ME+|12K\n";
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = log;
    for (int change = 0; change < 4; ++change) {
      if (damaged.empty()) break;
      const std::size_t at = random() % damaged.size();
      switch (random() % 4) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, random() % 40);
          break;
        case 2:
          damaged.insert(at, std::string(damaged.substr(random() % damaged.size(), random() % 60)));
          break;
        default:
          damaged.resize(at + 1);
      }
    }
    const Evidence evidence = read_log(damaged, "damaged");
    for (const MemoryFailure& failure : evidence.failures) EXPECT_FALSE(failure.message.empty());
  }
}

TEST(LogReader, MemoryIsBounded) {
  std::string log;
  for (int i = 0; i < 200'000; ++i)
    log += "step: " + std::to_string(i) + "  loss: 2.0  memory: 39.12GiB(49.25%)  tps: 1\n";
  log += "step: 200000  loss: 2.0  memory: 77.00GiB(97.00%)  tps: 1\n";
  for (int i = 0; i < 20'000; ++i)
    log +=
        "step: 20" + std::to_string(1000 + i) + "  loss: 2.0  memory: 39.12GiB(49.25%)  tps: 1\n";
  const Evidence evidence = read_log(log, "a");
  EXPECT_LT(evidence.readings.size(), 20'000U);
  Bytes peak(0);
  for (const MemoryReading& reading : evidence.readings)
    peak = std::max(peak, reading.max_reserved.value_or(Bytes(0)));
  EXPECT_EQ(peak, gigs(77));
}

}  // namespace
}  // namespace steelyard
