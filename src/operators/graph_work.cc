// The kernels of a graph, in both directions, as the tapes of graph_forward.cc and graph_backward.cc run them.
#include <algorithm>
#include <string_view>

#include "operators/graph.h"

namespace steelyard {

namespace {

double of_slot(Bytes bytes) { return static_cast<double>(bytes.value().value()); }
// Of the buffer in which blocks leave parts of a sum over rows, the rule's 128th is written.
double share_used(const Slot& slot) {
  return slot.rule == std::string_view("op.linear.bias-sums") ? 1.0 / 128 : 1.0;
}

// In which the units multiply.
ElementType type_of(const Arithmetic& product, ElementType result) {
  return product.eight_bits ? ElementType::kFloat8E4M3 : result;
}

// Both factors and the result.
double product_traffic(const Arithmetic& product, ElementType type) {
  const auto rows = static_cast<double>(product.rows), inner = static_cast<double>(product.inner),
             columns = static_cast<double>(product.columns);
  return ((rows * inner + inner * columns) * bytes_each(type_of(product, type)) +
          rows * columns * bytes_each(type)) *
         static_cast<double>(product.batch);
}

// A collective's kernel, and the waits of its stream for computation's and the other way round (c10d
// ProcessGroupNCCL.cpp: syncStreams, synchronizeStream).
constexpr std::int64_t kLaunchesOfExchange = 3;

void run_exchanges(const Few<Exchange, 3>& exchanges, const Kernel& like, Kernels& kernels) {
  for (const Exchange& exchange : exchanges) {
    Kernel kernel = like;
    kernel.kind = Kernel::kExchange;
    kernel.exchange = exchange;
    kernels.push_back(kernel);
  }
}

std::int64_t queued(const Kernels& kernels) {
  std::int64_t launches = 0;
  for (const Kernel& kernel : kernels)
    launches +=
        kernel.kind == Kernel::kExchange ? kLaunchesOfExchange : kernel.launches * kernel.times;
  return launches;
}

// Of its input or of its weight; weights' rows are tokens.
Kernel gradient_product(Kernel like, bool of_weights) {
  const Arithmetic forward = like.arithmetic;
  like.of_weights = of_weights;
  if (of_weights) {
    like.arithmetic.rows = forward.inner;
    like.arithmetic.inner = forward.rows;
  } else {
    like.arithmetic.inner = forward.columns;
    like.arithmetic.columns = forward.inner;
  }
  return like;
}

// `product` has its arithmetic and the type of its result.
Kernel priced(Kernel product) {
  product.kind = Kernel::kProduct;
  product.flops = product.arithmetic.flops();
  product.bytes = product_traffic(product.arithmetic, product.type);
  product.type = type_of(product.arithmetic, product.type);
  return product;
}

bool has_weight_gradient(const Few<BackwardStep, 14>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const BackwardStep& step) {
    return step.kind == BackwardStep::kParameterGradient && step.index >= 0;
  });
}

// A loss in pieces that makes its gradients in forward.
void run_pieces(Kernel like, bool has_weight_gradient, Kernels& kernels) {
  Arithmetic& piece = like.arithmetic;
  like.times = piece.pieces;
  piece.rows = (piece.rows + piece.pieces - 1) / piece.pieces;
  kernels.push_back(priced(like));
  kernels.push_back(priced(gradient_product(like, false)));
  if (has_weight_gradient) {
    Kernel weights = gradient_product(like, true);
    weights.type = piece.piece_weight_type;
    kernels.push_back(priced(weights));
  }
  like.kind = Kernel::kTraffic;
  like.bytes = piece.piece_bytes;
  like.launches = piece.piece_launches;
  kernels.push_back(like);
}

}  // namespace

template <class N>
double Graph<N>::bytes_of_value(ValueId value) const {
  const Value& known = values_[at(value)];
  return static_cast<double>(plain(known.elements)) * bytes_each(known.type);
}

template <class N>
void Graph<N>::run_forward(int index, bool again, Kernels& kernels) const {
  const Operator& operation = operators_[at(index)];
  Kernel kernel;
  kernel.label = operation.label;
  kernel.part = operation.part;
  kernel.again = again;
  run_exchanges(operation.forward_exchanges, kernel, kernels);
  kernel.arithmetic = operation.arithmetic;
  if (!operation.outputs.empty()) kernel.type = values_[at(operation.outputs[0])].type;
  double written = 0, read = 0;
  for (ValueId output : operation.outputs)
    if (storages_[at(values_[at(output)].storage)].made_by == index)
      written += bytes_of_value(output);
  for (ValueId input : operation.inputs) read += bytes_of_value(input);
  switch (operation.arithmetic.kind) {
    case Arithmetic::kProduct:
      if (operation.arithmetic.pieces > 0) {
        kernel.type = operation.arithmetic.piece_type;  // what comes out is a loss, in fp32
        run_pieces(kernel, has_weight_gradient(operation.backward), kernels);
      } else {
        kernels.push_back(priced(kernel));
      }
      return;
    case Arithmetic::kAttention:
      kernel.kind = Kernel::kAttention;
      kernel.flops = operation.arithmetic.flops();
      kernel.bytes = read + written;
      kernels.push_back(kernel);
      return;
    case Arithmetic::kNone:
      break;
  }
  for (SlotId slot : operation.passing) {
    written += 2 * of_slot(book_.program.slot_at(slot).bytes);
    ++kernel.launches;
  }
  if (written <= 0) return;  // a view
  kernel.bytes = read + written;
  kernels.push_back(kernel);
}

template <class N>
Kernels Graph<N>::forward_kernels() const {
  Kernels kernels;
  for (int i = 0; i < size(); ++i) run_forward(i, false, kernels);
  return kernels;
}

template <class N>
void Graph<N>::run_backward(int index, GradientPolicy policy, std::vector<int>& arrivals,
                            Kernels& kernels) const {
  const Operator& operation = operators_[at(index)];
  Kernel kernel;
  kernel.label = operation.label;
  kernel.part = operation.part;
  kernel.backward = true;
  run_exchanges(operation.backward_exchanges, kernel, kernels);
  if (!operation.outputs.empty()) kernel.type = values_[at(operation.outputs[0])].type;
  kernel.arithmetic = operation.arithmetic;
  const Arithmetic& forward = operation.arithmetic;
  double read = 0, written = 0;
  int inputs = 0, launches = 0;
  const auto sum = [&](double bytes) {  // of two gradients that meet, into one of them
    Kernel adding;
    adding.label = "sum of gradients";
    adding.part = operation.part;
    adding.backward = true;
    adding.bytes = 3 * bytes;
    kernels.push_back(adding);
  };
  const auto multiply = [&](bool of_weights) {
    kernels.push_back(priced(gradient_product(kernel, of_weights)));
  };
  // Where forward has made the gradients, backward only scales them.
  const bool is_product = forward.kind == Arithmetic::kProduct && forward.pieces == 0;
  bool weight_done = false;
  for (const BackwardStep& step : operation.backward) {
    switch (step.kind) {
      case BackwardStep::kTemporary:
      case BackwardStep::kPassing:
        if ((is_product && !forward.eight_bits) || forward.kind == Arithmetic::kAttention) break;
        written += 2 * of_slot(book_.program.slot_at(step.slot).bytes) *
                   share_used(book_.program.slot_at(step.slot));
        ++launches;
        break;
      case BackwardStep::kInPlaceGradient:
      case BackwardStep::kInputGradient: {
        const ValueId input = operation.inputs[at(step.index)];
        if (!values_[at(input)].needs_gradient) break;
        if (arrivals[at(input)]++ > 0) sum(bytes_of_value(input));
        if (is_product) {
          multiply(false);
          break;
        }
        ++inputs;
        written += bytes_of_value(input);
        ++launches;
        break;
      }
      case BackwardStep::kAliasGradient: {
        const ValueId input = operation.inputs[at(step.index)];
        if (values_[at(input)].needs_gradient && arrivals[at(input)]++ > 0)
          sum(bytes_of_value(input));
        break;
      }
      case BackwardStep::kParameterGradient: {
        const GradientSlots& slots = parameters_[at(step.index)];
        const double bytes = of_slot(book_.program.slot_at(slots.kept).bytes);
        if (is_product && !weight_done) {
          multiply(true);
          weight_done = true;
          // The kernel adds into what is there: it reads that, too.
          if (policy == GradientPolicy::kFused) kernels.back().bytes += bytes;
        } else {
          // A bias: the output's gradient is read once more and added up.
          if (is_product) read += bytes_of_value(operation.outputs[0]);
          written += bytes;
          ++launches;
        }
        if (slots.computed >= 0) {
          Kernel cast = kernel;
          cast.kind = Kernel::kTraffic;
          cast.label = "gradient cast";
          cast.bytes = of_slot(book_.program.slot_at(slots.computed).bytes) + bytes;
          kernels.push_back(cast);
        }
        if (uses_at_once(policy)) sum(bytes);
        break;
      }
      case BackwardStep::kFreeOutputGradient:
      case BackwardStep::kHandedOn:
      case BackwardStep::kReturned:
      case BackwardStep::kFreeTemporaries:
        break;
    }
  }
  if (forward.kind == Arithmetic::kAttention) {
    // scores once more, then the gradients of probabilities, values, keys and queries: five products for two
    kernel.kind = Kernel::kAttention;
    kernel.flops = 2.5 * forward.flops();
    for (ValueId value : operation.saved) read += bytes_of_value(value);
    kernel.bytes =
        read + written + (operation.outputs.empty() ? 0 : bytes_of_value(operation.outputs[0]));
    kernels.push_back(kernel);
    return;
  }
  if (launches == 0) return;
  if (inputs > 0 || !is_product) {
    for (ValueId output : operation.outputs)
      if (values_[at(output)].needs_gradient) read += bytes_of_value(output);
    for (ValueId value : operation.saved) read += bytes_of_value(value);
  }
  kernel.bytes = read + written;
  kernel.launches = launches;
  kernels.push_back(kernel);
}

// Autograd keeps an operator's inputs before it launches it: where the last thing that backward needs is an input, the
// checkpoint stops in front of that kernel (torch/utils/checkpoint.py, _StopRecomputationError).
template <class N>
int Graph<N>::last_run_again(const Region& region, const Rerun& rerun) const {
  if (!region.early_stop || region.discards_output || rerun.end <= region.begin) return rerun.end;
  const int last = rerun.end - 1;
  const Operator& operation = operators_[at(last)];
  const bool makes_one = std::any_of(
      operation.saved.begin(), operation.saved.end(),
      [&](ValueId value) { return storages_[at(values_[at(value)].storage)].made_by == last; });
  return makes_one ? rerun.end : last;
}

template <class N>
Kernels Graph<N>::backward_kernels(GradientPolicy policy) const {
  Kernels kernels;
  std::vector<int> arrivals(values_.size(), 0);
  for (std::size_t value = 0; value < values_.size(); ++value)
    if (values_[value].handed_on && values_[value].needs_gradient) arrivals[value] = 1;
  for (int i = size() - 1; i >= 0; --i) {
    for (std::size_t r = 0; r < regions_.size(); ++r)
      if (reruns_[r].trigger == i && is_recorded(regions_[r]))
        for (int again = regions_[r].begin; again < last_run_again(regions_[r], reruns_[r]);
             ++again)
          if (!operators_[at(again)].stays) run_forward(again, true, kernels);
    if (operators_[at(i)].recorded) run_backward(i, policy, arrivals, kernels);
  }
  return kernels;
}

template <class N>
std::int64_t Graph<N>::forward_launches() const {
  std::int64_t launches = queued(forward_kernels());
  for (const Operator& operation : operators_) launches += operation.more_launches.forward;
  return launches;
}

template <class N>
std::int64_t Graph<N>::backward_launches(GradientPolicy policy) const {
  std::int64_t launches = queued(backward_kernels(policy));
  for (const Operator& operation : operators_)
    if (operation.recorded) launches += operation.more_launches.backward;
  return launches;
}

template class Graph<Checked>;
template class Graph<Traced>;

}  // namespace steelyard
