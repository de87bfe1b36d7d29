#include <fmt/format.h>

#include <algorithm>
#include <locale>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/calibrated.h"
#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/export_run.h"
#include "cli/outlet.h"
#include "cli/output_file.h"
#include "cli/picture_files.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "cli/share_work.h"
#include "cli/used_stacks.h"
#include "cli/written_paths.h"
#include "document/edit_distance.h"
#include "picture/answers.h"
#include "plan/axis.h"
#include "plan/curve.h"
#include "plan/extremes.h"
#include "plan/plan.h"
#include "plan/recipe_changes.h"
#include "report/plan_curve.h"
#include "report/plan_extremes.h"
#include "report/plan_json.h"
#include "report/plan_table.h"
#include "report/prediction_json.h"
#include "report/published_table.h"
#include "report/run_file_text.h"
#include "report/time_table.h"
#include "world/world.h"

namespace steelyard {
namespace {

// Then the best so far is said, and that it is no more than that.
constexpr double kUsualSeconds = 30;

std::optional<double> amount_in(const std::string& text) {
  std::istringstream words(text);
  words.imbue(std::locale::classic());
  double number = 0;
  if (!(words >> number) || !words.eof() || number < 0) return std::nullopt;
  return number;
}

double seconds_since(double start) { return world().seconds() - start; }

void print_plan(const Invocation& invocation, const std::string& text) {
  answer(invocation.style.ascii ? plain_characters(text) : text);
}

std::optional<Wanted> wanted_of(const Invocation& invocation) {
  if (const std::string* least = invocation.value("minimize")) {
    if (*least == "devices") return Wanted::kFewestDevices;
    if (*least == "cost") return Wanted::kLeastCost;
  }
  if (const std::string* most = invocation.value("maximize")) {
    if (*most == "sequence") return Wanted::kLongestSequence;
    if (*most == "micro-batch") return Wanted::kLargestMicroBatch;
    if (*most == "parameters") return Wanted::kMostParameters;
    return Wanted::kLargestBatch;
  }
  return std::nullopt;
}

// Devices that are asked about when nobody says which.
const std::vector<std::string> kUsualDevices = {"rtx-4090",      "l40s",     "a100-sxm-40gb",
                                                "h100-sxm-80gb", "h200-sxm", "b200"};

int extreme(const Invocation& invocation, Wanted wanted, const Value& document,
            const SearchHelp& help) {
  const double start = world().seconds();
  std::optional<double> price;
  if (const std::string* said = invocation.value("price")) {
    price = amount_in(*said);
    if (!price)
      return refuse(invocation,
                    {command_line_problem("E005", fmt::format("--price {}: not an amount", *said),
                                          "--price 2.5 is what a device costs for an hour")},
                    "nothing planned");
  }
  const bool says_device = document.at(key_of(KeyId::kDevice).path) != nullptr ||
                           document.at(key_of(KeyId::kMachine).path) != nullptr;
  const bool many = !says_device && wanted == Wanted::kFewestDevices;
  const auto answered =
      extreme_of(wanted, document, many ? kUsualDevices : std::vector<std::string>(), help);
  if (!answered) return refuse(invocation, answered.error(), "nothing planned");
  if (invocation.json)
    answer(document_text(json_of(*answered, price)));
  else
    print_plan(invocation, extremes_text(*answered, price, seconds_since(start), invocation.style));
  if (world().stopped()) return kInterrupted;
  return answered->answers.empty() ? kFinding : kDone;
}

// "tensor=4,pipeline=2": keys by any of their names, laid over the run.
tl::expected<Value, Diagnostics> with_words(const Value& document, const std::string& words) {
  Value asked = document;
  Diagnostics problems;
  for (std::size_t from = 0; from <= words.size();) {
    const std::size_t end = std::min(words.find(',', from), words.size());
    const std::string part = words.substr(from, end - from);
    from = end + 1;
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const Key* key = find_key_by_path(name);
    if (key == nullptr || equals == std::string::npos) {
      std::vector<std::string> names;
      for (const Key& known : run_file_keys())
        if (std::find(names.begin(), names.end(), known.name) == names.end())
          names.emplace_back(known.name);
      problems.push_back(command_line_problem(
          "E104", fmt::format("--why {}: \"{}\" is no key = value", words, part),
          did_you_mean("key", nearest_names(name, names))));
      continue;
    }
    lay_over(asked, {edit_of(key->path, part.substr(equals + 1), "--why")});
  }
  if (!problems.empty()) return tl::unexpected(std::move(problems));
  return asked;
}

// Where readers refuse every layout: with what they say of most.
Diagnostics refusals_of(const SearchResult& result) {
  constexpr std::size_t kMost = 3;
  Diagnostics problems;
  for (const Refusal& refusal : result.refusals)
    if (problems.size() < kMost)
      problems.push_back(command_line_problem(
          refusal.code, refusal.words,
          fmt::format("so is said of {} of the {} layouts that divide the devices",
                      print_count(refusal.layouts), print_count(result.counts.layouts))));
  return problems;
}

int answer_why(const Invocation& invocation, const Value& document, const PlanAnswer& whole,
               const SearchHelp& help) {
  std::vector<WhyAnswer> answers;
  for (const std::string& words : invocation.flags.find("why")->second) {
    const auto asked = with_words(document, words);
    if (!asked) return refuse(invocation, asked.error(), "nothing planned");
    auto reasons = why(*asked, words, whole, help);
    if (!reasons) return refuse(invocation, reasons.error(), "nothing planned");
    answers.push_back(std::move(*reasons));
  }
  if (invocation.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const WhyAnswer& reasons : answers) list.push_back(json_of(reasons));
    answer(document_text({{"schema", "steelyard.plan_why/1"}, {"answers", std::move(list)}}));
  } else {
    print_plan(invocation, why_text(answers, whole, invocation.style));
  }
  const bool all = std::all_of(answers.begin(), answers.end(),
                               [](const WhyAnswer& one) { return one.fastest.has_value(); });
  return all ? kDone : kFinding;
}

// plan --over cluster.devices=8..64
int answer_curve(const Invocation& invocation, const Value& document, const SearchHelp& help) {
  const auto wrong = [&](const std::string& what) {
    return refuse(invocation,
                  {command_line_problem("E005", what, "--over cluster.devices=8..64 doubles")},
                  "nothing planned");
  };
  const std::vector<std::string>& said = invocation.flags.find("over")->second;
  Place place;
  place.source = "--over";
  const auto axis = read_axis(said.front(), place);
  if (!axis) return refuse(invocation, {axis.error()}, "nothing planned");
  const Key* key = find_key_by_path(axis->key);
  if (said.size() > 1 || key == nullptr || key != &key_of(KeyId::kDevices))
    return wrong("a plan goes over cluster.devices");
  std::vector<std::int64_t> devices;
  for (const Value& value : axis->values) {
    if (!value.is_integer() || value.as_integer() < 1)
      return wrong("cluster.devices is a whole number");
    devices.push_back(value.as_integer());
  }
  if (invocation.has("minimize") || invocation.has("export"))
    return wrong("--over with --minimize or --export");
  const auto curve = curve_of(document, devices, wanted_of(invocation), help);
  if (!curve) return refuse(invocation, curve.error(), "nothing planned");
  if (invocation.json)
    answer(document_text(json_of(*curve)));
  else
    print_plan(invocation, curve_text(*curve, invocation.style));
  if (world().stopped()) return kInterrupted;
  const bool any = std::any_of(curve->points.begin(), curve->points.end(),
                               [](const CurvePoint& point) { return point.row.has_value(); });
  return any ? kDone : kFinding;
}

// What --allow says, unless the run says it.
tl::expected<std::vector<RecipeChange>, Diagnostics> allowed_by(const Invocation& invocation,
                                                                const Value& document) {
  std::vector<RecipeChange> allowed;
  const auto said = invocation.flags.find("allow");
  if (said == invocation.flags.end()) return allowed;
  for (const std::string& word : said->second)
    for (const AllowedChange& known : recipe_changes()) {
      if (known.word != word) continue;
      for (const auto& [path, value] : known.change.keys)
        if (document.at(path) != nullptr)
          return tl::unexpected(Diagnostics{
              command_line_problem("E003", fmt::format("--allow {}: the run says {}", word, path),
                                   "what is said stays as it is said: leave one of them out")});
      allowed.push_back(known.change);
    }
  return allowed;
}

// The fastest layout that this engine's files can say.
int export_best(const Invocation& invocation, const PlanAnswer& answered, const RunInput& input,
                const std::string& target) {
  Diagnostics problems;
  for (const PlanRow& row : answered.rows) {
    auto exported = exported_run(invocation, row.run, input.folder, input.name, target);
    if (!exported) {
      if (problems.empty()) problems = std::move(exported.error());
      continue;
    }
    remark(fmt::format("layout: {}, {} a step\n", words_of(row.layout, " · "),
                       print_seconds(row.time.step)));
    return give_exported(invocation, target, *exported);
  }
  if (!problems.empty()) return refuse(invocation, problems, "nothing exported");
  remark("nothing fits, nothing exported: plan without --export says what would\n");
  return kFinding;
}

// All published layouts, or those that are named.
int answer_published(const Invocation& invocation) {
  SearchHelp help = serial_help();
  help.share = [threads = threads_of(invocation)](std::size_t count,
                                                  const std::function<void(std::size_t)>& work) {
    share_work(count, work, threads);
  };
  std::vector<AgainstPublished> answers;
  bool suspicious = false;
  for (const PublishedRecipe& recipe : published_recipes()) {
    const auto& words = invocation.words;
    if (!words.empty() && std::find(words.begin(), words.end(), recipe.name) == words.end())
      continue;
    auto answered = against_published(recipe, help);
    if (!answered) return refuse(invocation, answered.error(), "nothing compared");
    suspicious = suspicious || answered->suspicious;
    answers.push_back(std::move(*answered));
  }
  if (answers.empty()) {
    std::string names;
    for (const PublishedRecipe& recipe : published_recipes())
      names += (names.empty() ? "" : ", ") + recipe.name;
    return refuse_words(invocation, "--published knows " + names);
  }
  answer(invocation.json ? document_text(published_json(answers))
                         : published_text(answers, invocation.style));
  return suspicious ? kFinding : kDone;
}

}  // namespace

int plan_command(const Invocation& invocation) {
  const auto calibrated = calibrated_rates(invocation);
  if (!calibrated) return refuse(invocation, calibrated.error(), "nothing planned");
  for (const char* other : {"published", "over", "minimize", "maximize", "why", "export"})
    if (invocation.has(other))
      if (const auto status = refuse_pictures(invocation, fmt::format("plan --{}", other)))
        return *status;
  if (invocation.has("published")) return answer_published(invocation);
  if (invocation.words.size() != 1)
    return refuse_words(invocation, "plan takes one run file or model");
  const auto input = read_run(invocation.words.front(), invocation);
  if (!input) return refuse(invocation, input.error(), "nothing planned");
  warn(invocation, warnings_of_import(*input));
  Value document = input->document;
  use_canonical_keys(document);
  const auto used = used_stacks(invocation, true);
  if (!used) return refuse(invocation, used.error(), "nothing planned");
  lay_over(document, edits_of(used->keys));
  const std::string* target = invocation.value("export");
  if (target != nullptr) {
    if (!is_export_target(*target))
      return refuse(invocation, {unknown_target(*target)}, "nothing planned");
    if (wanted_of(invocation) || invocation.has("why"))
      return refuse_words(
          invocation, "--export writes the fastest layout: without --minimize, --maximize, --why");
    settle_and_say(document, *target);
    for (const std::string_view key : divisions_without_words(*target))
      if (document.at(key) == nullptr) {
        set_path(document, key, Value::integer(1), Place{});
        remark(fmt::format("taken: {} = 1, which is what {} can say\n", key, *target));
      }
  }

  double longest = kUsualSeconds;
  if (const std::string* said = invocation.value("seconds")) {
    const auto amount = amount_in(*said);
    if (!amount)
      return refuse(invocation,
                    {command_line_problem("E005", fmt::format("--seconds {}: not a time", *said),
                                          "--seconds 60 searches for a minute at most")},
                    "nothing planned");
    longest = *amount;
  }
  SearchHelp help;
  help.read = [&](const Value& run) { return job_of(run, input->folder); };
  help.share = [threads = threads_of(invocation)](std::size_t count,
                                                  const std::function<void(std::size_t)>& work) {
    share_work(count, work, threads);
  };
  help.stacks = used->stacks;
  help.must_launch = target != nullptr;
  help.cannot_launch = [&](const Value& run, const std::string& files) {
    return export_fault(run, input->folder,
                        target != nullptr && *target != "slurm" ? *target : files);
  };
  World& here = world();
  here.listen_for_stop();
  const double start = here.seconds();
  help.go_on = [&here, start, longest](const SearchProgress& at) {
    const double elapsed = here.seconds() - start;
    return here.go_on({at.done, at.all, at.best_seconds, elapsed, longest}) && elapsed < longest;
  };
  help.expired = [&here, start, longest] {
    return here.stopped() || here.seconds() - start >= longest;
  };

  if (invocation.has("over")) return answer_curve(invocation, document, help);
  if (const auto wanted = wanted_of(invocation))
    return extreme(invocation, *wanted, document, help);
  auto allowed = allowed_by(invocation, document);
  if (!allowed) return refuse(invocation, allowed.error(), "nothing planned");
  const auto question = question_of(document, help, std::move(*allowed));
  if (!question) return refuse(invocation, question.error(), "nothing planned");
  PlanWish wish;
  wish.search.front = invocation.has("pareto");
  wish.explain = !invocation.has("why") && target == nullptr;
  const PlanAnswer answered = plan(*question, wish, help);
  const double seconds = seconds_since(start);
  if (!answered.space.empty() && answered.allows_nothing())
    return refuse(invocation, refusals_of(answered.result), "nothing planned");
  if (invocation.has("why")) return answer_why(invocation, document, answered, help);
  if (target != nullptr) return export_best(invocation, answered, *input, *target);
  if (const std::string* file = invocation.value("write");
      file != nullptr && !answered.rows.empty()) {
    Value run = answered.rows.front().run;
    lay_over(run, paths_for_file(run, input->folder, *file));
    const std::string text = run_file_text(run);
    if (*file == "-") {
      answer_file(text);
      return kDone;
    }
    if (const auto problem = write_file(*file, text))
      return refuse(invocation, {*problem}, "nothing written");
  }
  const auto drawn = write_pictures(
      invocation, answered.rows.empty() ? kFinding : kDone,
      [&](const Frame& frame) { return plan_svg(answered, frame); },
      [&](const std::string& svg) {
        Report report =
            report_of_text(invocation,
                           plan_text(*question, answered, seconds, arguments_of(invocation), false,
                                     report_text_style(invocation)),
                           svg, document_text(json_of(*question, answered)));
        if (!answered.rows.empty())
          report.run = portable_run(answered.rows.front().run, input->folder);
        return report;
      });
  if (drawn) return *drawn;
  if (invocation.json)
    answer(document_text(json_of(*question, answered)));
  else
    print_plan(invocation, plan_text(*question, answered, seconds, arguments_of(invocation),
                                     invocation.has("verbose"), invocation.style));
  if (world().stopped()) return kInterrupted;
  return answered.rows.empty() ? kFinding : kDone;
}

}  // namespace steelyard
