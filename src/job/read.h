// From a document to a complete job, or to everything that is wrong with it.
//
//   auto document = read_document(text, "run.toml");
//   auto job = read_job(*document, {.read_file = ..., .folder = "."});
//   if (!job) print(job.error());
//
// Pure but for `read_file`. Warnings are in the job; so is every default that was taken.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "document/diagnostic.h"
#include "document/value.h"
#include "job/job.h"
#include "job/model_choice.h"

namespace steelyard {

struct JobContext {
  ReadFile read_file;  // absent: models come from presets, tables and sizes only
  std::string folder;  // of the run file: its relative paths start here
};

using ReadJob = tl::expected<Job, Diagnostics>;

ReadJob read_job(const Value& document, const JobContext& context = {});

}  // namespace steelyard
