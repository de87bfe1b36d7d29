#include "cost/step_time.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "cost/optimizer_time.h"
#include "cost/stage_time.h"

namespace steelyard {

namespace {

constexpr std::array<std::string_view, kTimeTerms> kNames = {
    "compute",  "recompute", "tensor",  "context",   "expert", "data",
    "pipeline", "bubble",    "offload", "optimizer", "host"};

std::vector<double> elements_of(const ModelUnits<Checked>& units) {
  std::vector<double> elements;
  const auto add = [&](const Unit<Checked>& unit) {
    elements.push_back(static_cast<double>(plain(unit.elements)));
  };
  add(units.embedding);
  for (const Unit<Checked>& kind : units.kinds) add(kind);
  add(units.head);
  return elements;
}

// One outlook at a time: everything about a job that does not depend on it is prepared once.
class StepClock {
 public:
  StepClock(const Job& job, const Machine& machine)
      : job_(job), machine_(machine), programs_(job), elements_(elements_of(programs_.units())) {
    for (std::int64_t stage = 0; stage < job.parallel.pipeline; ++stage) {
      // Stages inside a pipeline are alike where they have as many layers.
      const bool inside = stage > 1 && stage + 1 < job.parallel.pipeline;
      if (inside && job.model->kinds.size() == 1 && layers_on(stage) == layers_on(stage - 1))
        works_.push_back(works_.back());
      else
        works_.push_back(std::make_shared<const StageWork>(programs_.work(stage)));
    }
  }

  StepTime read(Outlook outlook) const {
    const Device& device = *job_.cluster.device;
    const AchievedRates& rates = achieved_rates(device);
    const KernelClock kernels(device, outlook);
    const ExchangeClock exchanges(device, machine_, outlook);
    const DataExchange data = data_exchange_of(job_);
    const double slowdown = at(rates.overlap_slowdown, outlook);
    StepTime result;
    std::vector<StageTime> stages;
    for (std::size_t i = 0; i < works_.size(); ++i)
      stages.push_back(
          i > 0 && works_[i] == works_[i - 1]
              ? stages.back()
              : stage_time(job_, *works_[i], elements_, kernels, exchanges, data, slowdown));
    const double sent = send_seconds(exchanges);
    std::size_t slowest = 0;
    double all = 0;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      all += stages[i].seconds() + 2 * sent;
      if (stages[i].seconds() > stages[slowest].seconds()) slowest = i;
      result.model_flops += stages[i].model_flops;
      result.executed_flops += stages[i].executed_flops;
    }
    const auto micro_batches = static_cast<double>(job_.training.gradient_accumulation);
    const StageTime& worst = stages[slowest];
    TimeTerms& terms = result.terms;
    terms += worst.forward * micro_batches;
    terms += worst.backward * micro_batches;
    result.hidden = worst.hidden * micro_batches;
    if (job_.parallel.pipeline > 1) {
      terms[TimeTerm::kPipeline] += 2 * sent * micro_batches;
      // 1F1B and GPipe: one passage through the other stages; chunks of interleaved stages divide it.
      terms[TimeTerm::kBubble] +=
          (all - worst.seconds() - 2 * sent) / static_cast<double>(job_.parallel.virtual_pipeline);
    }
    end_of_step(exchanges, data, slowdown, worst, result);
    terms[TimeTerm::kOptimizer] += optimizer_seconds(job_, heaviest_stage(), device, outlook);
    result.step = Seconds(terms.total());
    const double replicas = static_cast<double>(job_.parallel.data) * micro_batches *
                            static_cast<double>(job_.parallel.tensor) *
                            static_cast<double>(job_.parallel.context);
    result.model_flops *= replicas;
    result.executed_flops *= replicas;
    const auto devices = static_cast<double>(job_.cluster.devices.value());
    const double tokens = static_cast<double>(job_.training.global_batch) *
                          static_cast<double>(job_.training.sequence_length.value());
    result.tokens_per_second_per_device = tokens / result.step.value() / devices;
    const double most =
        peak_rate(device, job_.training.precision.compute).value() * devices * result.step.value();
    result.model_flops_utilization = result.model_flops / most;
    result.hardware_flops_utilization = result.executed_flops / most;
    return result;
  }

 private:
  Layers layers_on(std::int64_t stage) const {
    const std::vector<std::int64_t> layers = programs_.stage_of(stage).layers_of_kind;
    return Layers(std::accumulate(layers.begin(), layers.end(), std::int64_t{0}));
  }
  // The hidden states of one micro-batch from one stage to the next.
  double send_seconds(const ExchangeClock& exchanges) const {
    if (job_.parallel.pipeline == 1) return 0;
    const Sizes<Checked>& sizes = programs_.sizes();
    const double bytes = static_cast<double>(plain(sizes.shard_tokens)) *
                         static_cast<double>(plain(sizes.hidden)) *
                         bytes_each(job_.training.precision.compute);
    return exchanges.send(bytes, groups_of(job_).stages_across_machines).value();
  }

  // Parameters of the stage that has most of them.
  double heaviest_stage() const {
    double most = 0;
    for (const auto& work : works_) {
      double sum = 0;
      for (const StageWork::Part& part : work->parts)
        sum += elements_[static_cast<std::size_t>(part.unit)] * static_cast<double>(part.times);
      most = std::max(most, sum);
    }
    return most;
  }

  void end_of_step(const ExchangeClock& exchanges, const DataExchange& data, double slowdown,
                   const StageTime& worst, StepTime& result) const {
    const Group group = groups_of(job_).data;
    const double elements = heaviest_stage();
    const double reduce = exchanges.time(data.reduction, elements * data.reduce, group).value();
    double exposed = reduce;
    if (data.reduces_beside_backward) {
      const double last = data.exposed_bytes > 0
                              ? exchanges.time(data.reduction, data.exposed_bytes, group).value()
                              : 0;
      const double beside = worst.backward.total();
      exposed =
          std::max(std::min(last, reduce), reduce - beside) + slowdown * std::min(reduce, beside);
      result.hidden[TimeTerm::kData] += std::min(reduce, beside);
    }
    result.terms[TimeTerm::kData] +=
        exposed + exchanges.time(ExchangeKind::kAllGather, elements * data.gather, group).value();
  }

  const Job& job_;
  const Machine& machine_;
  StagePrograms<Checked> programs_;
  std::vector<double> elements_;
  std::vector<std::shared_ptr<const StageWork>> works_;
};

}  // namespace

std::string_view name_of(TimeTerm term) { return kNames[static_cast<std::size_t>(term)]; }

double TimeTerms::total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

TimeTerms& TimeTerms::operator+=(const TimeTerms& other) {
  for (std::size_t i = 0; i < kTimeTerms; ++i) seconds[i] += other.seconds[i];
  return *this;
}

TimeTerms operator*(TimeTerms terms, double times) {
  for (double& part : terms.seconds) part *= times;
  return terms;
}

StepTime step_time(const Job& job, const Machine& machine) {
  const StepClock clock(job, machine);
  StepTime result = clock.read(Outlook::kExpected);
  result.low = clock.read(Outlook::kFast).step;
  result.high = clock.read(Outlook::kSlow).step;
  return result;
}

}  // namespace steelyard
