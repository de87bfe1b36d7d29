// Models of other than one stack of text: what of a job is not weighed with them, as one table.
#pragma once

#include <string_view>

#include "job/job.h"
#include "job/keys.h"

namespace steelyard {

struct UnweighedModel {
  KeyId key;  // where it was asked
  bool (*asked)(const Job&);
  std::string_view what, help;
};
// The first row that the job asks for; null: it is weighed, or its model is one stack of text.
const UnweighedModel* unweighed_model(const Job& job);

}  // namespace steelyard
