#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "plan/plan.h"
#include "report/plan_table.h"
#include "report/prediction_json.h"
#include "report/run_file_text.h"
#include "report/time_table.h"

namespace steelyard {
namespace {

constexpr int kInterrupted = 130;
std::atomic<bool> stopped{false};
extern "C" void stop_the_search(int) { stopped = true; }

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// As many threads as the machine has, started once; the work is handed out in small pieces.
class Workers {
 public:
  explicit Workers(std::size_t count) : count_(std::max<std::size_t>(1, count)) {}
  void share(std::size_t count, const std::function<void(std::size_t)>& work) const {
    std::atomic<std::size_t> next{0};
    const auto run = [&] {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    };
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < std::min(count_, count); ++i) threads.emplace_back(run);
    run();
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::size_t count_;
};

// One line on a terminal, from half a second on.
class ProgressLine {
 public:
  explicit ProgressLine(bool terminal) : terminal_(terminal), start_(Clock::now()) {}
  ~ProgressLine() {
    if (shown_) remark("\r\033[K");
  }
  bool operator()(const SearchProgress& progress) {
    const double elapsed = seconds_since(start_);
    if (terminal_ && elapsed > 0.5 && elapsed - last_ > 0.1) {
      last_ = elapsed;
      shown_ = true;
      const double rest = progress.done == 0
                              ? 0
                              : elapsed * static_cast<double>(progress.all - progress.done) /
                                    static_cast<double>(progress.done);
      remark(fmt::format("\r\033[Kweighed {} of at most {} layouts · {} · at most {:.1f} s left",
                         print_count(progress.done), print_count(progress.all),
                         progress.best_seconds > 0
                             ? "best " + print_seconds(Seconds(progress.best_seconds))
                             : std::string("none fits yet"),
                         rest));
    }
    return !stopped;
  }

 private:
  bool terminal_, shown_ = false;
  double last_ = 0;
  Clock::time_point start_;
};

}  // namespace

int plan_command(const Invocation& invocation) {
  if (invocation.words.size() != 1)
    return refuse_words(invocation, "plan takes one run file or model");
  const auto input = read_run(invocation.words.front());
  if (!input) return refuse(invocation, input.error(), "nothing planned");
  Value document = input->document;
  use_canonical_keys(document);
  const std::vector<KeyEdit> said = edits_of(invocation.keys);
  lay_over(document, said);

  const Workers workers(std::thread::hardware_concurrency());
  const auto progress = std::make_shared<ProgressLine>(::isatty(STDERR_FILENO) == 1);
  SearchHelp help;
  help.read = [&](const Value& run) { return job_of(run, input->folder); };
  help.share = [&](std::size_t count, const std::function<void(std::size_t)>& work) {
    workers.share(count, work);
  };
  help.go_on = [&](const SearchProgress& at) { return (*progress)(at); };
  std::signal(SIGINT, stop_the_search);

  const Clock::time_point start = Clock::now();
  const auto question = question_of(document, help);
  if (!question) return refuse(invocation, question.error(), "nothing planned");
  PlanWish wish;
  wish.search.front = invocation.has("pareto");
  const PlanAnswer answered = plan(*question, wish, help);
  const double seconds = seconds_since(start);
  if (const std::string* file = invocation.value("write");
      file != nullptr && !answered.rows.empty()) {
    const std::string text = run_file_text(answered.rows.front().run);
    if (*file == "-") {
      answer(text);
      return kDone;
    }
    if (!write_file(*file, text))
      return refuse(invocation,
                    {command_line_problem("E100", fmt::format("cannot write {}", *file))},
                    "nothing written");
  }
  if (invocation.json) {
    answer(document_text(json_of(*question, answered)));
  } else {
    const std::string text =
        plan_text(*question, answered, seconds, arguments_of(invocation), invocation.style);
    answer(invocation.style.ascii ? plain_characters(text) : text);
  }
  if (answered.result.interrupted) return kInterrupted;
  return answered.rows.empty() ? kFinding : kDone;
}

}  // namespace steelyard
