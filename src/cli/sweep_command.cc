#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/calibrated.h"
#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/picture_files.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "document/edit_distance.h"
#include "job/keys.h"
#include "picture/answers.h"
#include "plan/largest_model.h"
#include "report/prediction_json.h"
#include "report/sweep_table.h"

namespace steelyard {
namespace {

Diagnostic unknown_key(const std::string& name) {
  Diagnostic problem =
      command_line_problem("E104", fmt::format("unknown key \"{}\" in --over", name));
  std::vector<std::string> names;
  for (const Key& key : run_file_keys()) names.push_back(key.path);
  problem.help = did_you_mean("key", nearest_names(name, names));
  if (problem.help.empty()) problem.help = "steelyard list keys names them all";
  return problem;
}

// The axes of every --over, their keys by their full names; all problems at once.
tl::expected<std::vector<SweepAxis>, Diagnostics> axes_of(const Invocation& invocation) {
  std::vector<SweepAxis> axes;
  Diagnostics problems;
  const auto said = invocation.flags.find("over");
  if (said == invocation.flags.end())
    return tl::unexpected(Diagnostics{command_line_problem(
        "E003", "sweep over what", "--over training.sequence_length=2048..131072")});
  for (const std::string& words : said->second) {
    Place place;
    place.source = "--over";
    tl::expected<SweepAxis, Diagnostic> axis = read_axis(words, place);
    if (!axis) {
      problems.push_back(axis.error());
      continue;
    }
    if (const Key* key = find_key_by_path(axis->key)) {
      axis->key = key->path;
      axes.push_back(std::move(*axis));
    } else {
      problems.push_back(unknown_key(axis->key));
    }
  }
  if (problems.empty() && !combinations_of(axes))
    problems.push_back(command_line_problem(
        "E005", fmt::format("these make more than {} combinations", kMostValues),
        "fewer values, or one sweep after the other"));
  if (!problems.empty()) return tl::unexpected(std::move(problems));
  return axes;
}

void print(const Invocation& invocation, const std::string& text) {
  answer(invocation.style.ascii ? plain_characters(text) : text);
}

int largest_command(const Invocation& invocation, const std::vector<SweepAxis>& axes,
                    const Value& document, const Weigh& weigh, const Weigh& quick) {
  if (axes.size() != 1 || axes.front().key != key_of(KeyId::kDevices).path)
    return refuse(invocation,
                  {command_line_problem("E003", "--largest parameters goes over cluster.devices",
                                        "--over cluster.devices=1..64")},
                  "nothing weighed");
  std::vector<std::int64_t> devices;
  for (const Value& value : axes.front().values) {
    if (!value.is_integer())
      return refuse(invocation, {command_line_problem("E005", "cluster.devices is a whole number")},
                    "nothing weighed");
    devices.push_back(value.as_integer());
  }
  const LargestModelAnswer found = largest_models(document, devices, weigh, quick);
  if (!found.problems.empty()) return refuse(invocation, found.problems, "nothing weighed");
  const auto drawn = write_pictures(
      invocation, kDone, [&](const Frame& frame) { return largest_models_svg(found, frame); },
      [&](const std::string& svg) {
        Report report =
            report_of_text(invocation, largest_models_text(found, report_text_style(invocation)),
                           svg, document_text(json_of(found)));
        report.line = "the largest model that fits, by the number of devices";
        return report;
      });
  if (drawn) return *drawn;
  if (invocation.json) {
    answer(document_text(json_of(found)));
  } else {
    print(invocation, largest_models_text(found, invocation.style));
  }
  return kDone;
}

}  // namespace

int sweep_command(const Invocation& invocation) {
  const auto calibrated = calibrated_rates(invocation);
  if (!calibrated) return refuse(invocation, calibrated.error(), "nothing weighed");
  if (invocation.words.size() != 1)
    return refuse_words(invocation, "sweep takes one run file or model");
  const auto axes = axes_of(invocation);
  if (!axes) return refuse(invocation, axes.error(), "nothing weighed");
  const auto input = read_run(invocation.words.front(), invocation);
  if (!input) return refuse(invocation, input.error(), "nothing weighed");
  warn(invocation, warnings_of_import(*input));
  Value document = input->document;
  lay_over(document, edits_of(invocation.keys));
  const bool largest = invocation.has("largest");
  const Weigh weigh = [&](const Value& run) { return weigh_document(run, input->folder, predict); };
  const Weigh quick = [&](const Value& run) {
    return weigh_document(run, input->folder, estimate);
  };
  if (largest) return largest_command(invocation, *axes, document, weigh, quick);

  const std::vector<SweepPoint> points = sweep(document, *axes, weigh);
  // When no point can be weighed, the run itself is wrong: its problems say more than a table of dashes.
  const bool any = std::any_of(points.begin(), points.end(), [](const SweepPoint& point) {
    return point.weighed.prediction.has_value();
  });
  if (!any && !points.empty())
    return refuse(invocation, points.front().weighed.problems, "nothing weighed");
  const auto drawn = write_pictures(
      invocation, kDone, [&](const Frame& frame) { return sweep_svg(*axes, points, frame); },
      [&](const std::string& svg) {
        Report report =
            report_of_text(invocation, sweep_text(*axes, points, report_text_style(invocation)),
                           svg, document_text(json_of(*axes, points)));
        report.line = fmt::format("{} runs over {}", points.size(), axes->front().key);
        return report;
      });
  if (drawn) return *drawn;
  if (invocation.json) {
    answer(document_text(json_of(*axes, points)));
  } else {
    print(invocation, sweep_text(*axes, points, invocation.style));
  }
  return kDone;
}

}  // namespace steelyard
