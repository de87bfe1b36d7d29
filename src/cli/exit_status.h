// What the exit status says, everywhere.
#pragma once

namespace steelyard {

constexpr int kDone = 0;           // fits, or tight with a warning; same; listed
constexpr int kFinding = 1;        // does not fit; differs
constexpr int kBadInput = 2;       // the question could not be understood
constexpr int kInternal = 70;      // a defect of this program
constexpr int kInterrupted = 130;  // Ctrl-C

}  // namespace steelyard
