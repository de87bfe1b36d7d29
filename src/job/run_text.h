// For tests of the readers: run files of a few lines, and what is said about wrong ones.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "document/read.h"
#include "job/read.h"

namespace steelyard {

inline ReadJob job_of(const std::string& text, const JobContext& context = {}) {
  const auto document = read_document(text, "run.toml");
  EXPECT_TRUE(document) << text;
  return read_job(*document, context);
}

// A run that is right, in which each case below changes or adds keys.
inline std::string run_with(const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> keys = {{"model", "\"llama-3.1-8b\""},
                                             {"cluster.device", "\"h100-sxm-80gb\""},
                                             {"cluster.devices", "8"}};
  for (const auto& [key, value] : changes) keys[key] = value;
  std::string text;
  for (const auto& [key, value] : keys)
    if (!value.empty()) text.append(key).append(" = ").append(value).append("\n");
  return text;
}

struct Wrong {
  std::map<std::string, std::string> changes;
  const char* code;
  const char* message;  // how it starts
  const char* help;     // part of it
};

inline void expect_said(const std::vector<Wrong>& runs) {
  for (const Wrong& wrong : runs) {
    const std::string text = run_with(wrong.changes);
    SCOPED_TRACE(text);
    const auto job = job_of(text);
    ASSERT_FALSE(job);
    const auto found =
        std::find_if(job.error().begin(), job.error().end(), [&](const Diagnostic& problem) {
          return problem.code == wrong.code && problem.message.starts_with(wrong.message);
        });
    ASSERT_NE(found, job.error().end()) << job.error()[0].code << " " << job.error()[0].message;
    EXPECT_NE(found->help.find(wrong.help), std::string::npos) << found->help;
    EXPECT_EQ(found->place.source, "run.toml");
    EXPECT_FALSE(found->label.empty());
    for (const Diagnostic& problem : job.error())
      EXPECT_EQ(problem.message.find("invalid"), std::string::npos);
  }
}

}  // namespace steelyard
