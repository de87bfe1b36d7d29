// A stretch of a model as autograd sees it: operators, the tensors between them, what each keeps for backward.
//
//   x ──cast──> x32 ──pow──> squares ──mean──> variance ──rsqrt──> r       rsqrt keeps its output
//                └──────────────mul(x32, r)──────────────> n32 ──cast──> n ──mul(w)──> y
//                   keeps x32 and r                                      keeps n
//
// From the graph follow the tapes. Forward: an output is allocated when its operator runs and freed after its last
// use, unless an operator keeps it. Backward: operators run in reverse; each allocates the gradients of its inputs,
// then its incoming gradients go, then what it kept; gradients that meet are added in place when nobody else holds
// them (torch/csrc/autograd/engine.cpp, input_buffer.cpp). Recompute regions keep only their inputs and run again.
//
// Operators live in operators/*.cc: each states its tensors, what it saves and why (a rule), and what it needs only
// while it runs. Nothing else in the program knows operators.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ledger/few.h"
#include "ledger/workbook.h"
#include "operators/work.h"

namespace steelyard {

using ValueId = int;
constexpr ValueId kNoValue = -1;

// What happens to a parameter's gradient when it appears.
enum class GradientPolicy : std::uint8_t {
  kKeep,       // stays: the first micro-batch, or a unit whose gradients are reduced later
  kAdd,        // added into one that exists, then freed: later micro-batches
  kFused,      // written by the kernel into a buffer that exists: no tensor of its own
  kFirstStep,  // applied and freed as by kAdd, and the optimizer makes what it keeps of the tensor
};
inline constexpr std::size_t kGradientPolicies = 4;
// Whether a gradient goes as soon as it has been used.
constexpr bool uses_at_once(GradientPolicy policy) {
  return policy == GradientPolicy::kAdd || policy == GradientPolicy::kFirstStep;
}

// One step of an operator's backward, in the order in which PyTorch allocates.
struct BackwardStep {
  enum Kind : std::uint8_t {
    kTemporary,          // allocate `slot`, free it when the operator has finished
    kPassing,            // allocate `slot` and free it at once (before the next step)
    kInputGradient,      // allocate the gradient of input `index`
    kAliasGradient,      // the gradient of output 0 is the gradient of input `index`: no allocation
    kParameterGradient,  // allocate the gradient of parameter `index`
    kFreeOutputGradient,  // the incoming gradient of output `index` is dropped early
    // What it had computed again goes here: a checkpoint that is not reentrant drops each tensor as it hands it out
    // (torch/utils/checkpoint.py, unpack_hook), and sums over what was broadcast come behind the operator's own backward.
    kReturned,
    kFreeTemporaries,  // those so far go before what follows is made
    kInPlaceGradient,  // the gradient of input `index` overwrites it, where it was kept
    kHandedOn,  // what was saved as `index` goes out as what the next step makes: a gradient made in forward
  } kind = kInputGradient;
  int index = 0;
  SlotId slot = -1;
};
// The gradient of an input in a new tensor, or that of output 0 under another name.
inline constexpr BackwardStep kGradient0{BackwardStep::kInputGradient, 0, -1};
inline constexpr BackwardStep kGradient1{BackwardStep::kInputGradient, 1, -1};
inline constexpr BackwardStep kGradient2{BackwardStep::kInputGradient, 2, -1};
inline constexpr BackwardStep kAlias0{BackwardStep::kAliasGradient, 0, -1};
inline constexpr BackwardStep kAlias1{BackwardStep::kAliasGradient, 1, -1};

struct Operator {
  const char* label = "";
  Few<ValueId, 6> inputs;
  Few<ValueId, 8> outputs;
  Few<ValueId, 10> saved;
  Few<SlotId, 6>
      passing;  // forward: allocated one after the other while it runs, all freed at its end
  Few<BackwardStep, 14> backward;
  Arithmetic arithmetic;
  // With the other ranks: before the product that reads what comes, or after the one that makes what goes.
  Few<Exchange, 3> forward_exchanges, backward_exchanges;
  // Kernels that move next to nothing, in forward and in backward: they take places in the queue of launches.
  struct Launches {
    std::int8_t forward = 0, backward = 0;
  } more_launches;
  Few<SlotId, 2>
      saved_weights;  // parameters that it keeps a reference to: copied where what is saved is offloaded
  // What it saves are attributes of its node in the graph: backward reads them and lets nothing go, so they stay as long
  // as somebody has a name for the loss.
  bool saved_by_node = false;
  LayerPart part = LayerPart::kNone;  // set by Graph::add
  bool recorded = true;  // set by Graph::add; false: nothing needs its gradient, nothing is kept
  bool stays = false;    // set by Graph::keep_chosen_outputs; its region does not run it again
};

// A parameter gradient that the graph can produce.
struct GradientSlots {
  SlotId kept = -1;      // in the type it is kept in
  SlotId computed = -1;  // first computed in another type and cast (autocast); -1: same
  // One weight read by two graphs (a tied head): what the first makes waits in autograd's input buffer for what the
  // second makes, and their sum is a new tensor (torch/csrc/autograd/input_buffer.cpp).
  // Of an optimizer that steps at once: what its first step makes and keeps, and what every step needs while it runs.
  Few<SlotId, 8> states;
  SlotId stepped = -1;
  bool waits = false;   // of all but the last
  SlotId waiting = -1;  // of the second: what has waited; -1: nothing
  SlotId sum = -1;      // of both; -1: under the name of what has waited
  bool waiting_was_cast = false;
  bool is_alone = false;  // of the first: nobody else has it, and it takes the sum
};

// What the first of two graphs leaves to the second of one weight; -1: nothing.
struct WaitingGradient {
  SlotId part = -1, sum = -1;
  bool is_alone = false;
};

// A run of operators that keeps only its inputs and runs again before its backward.
struct Region {
  int begin = 0, end = 0;        // operators [begin, end)
  bool discards_output = false;  // the outputs are rebuilt too: consumers do not keep them
  bool early_stop = true;  // stops after the last tensor that is needed (non-reentrant checkpoint)
  // Runs backward within a function of its own, which has names for what it made again and for the gradients it was given
  // until that is done (CheckpointFunction of torch/utils/checkpoint.py and megatron/core/tensor_parallel/random.py).
  bool reentrant = false;
};

// Backward in two parts, as pipelines without bubbles run it: the gradient of the input first; those of the weights of
// matrix products when there is time. In between a product keeps its input and the gradient of its output (the weight
// stores of Megatron's zero-bubble fork and of DualPipe).
enum class BackwardPart : std::uint8_t { kWhole, kInput, kWeight };
struct SplitTapes {
  std::vector<Event> input, weight;
  // Events of `input` before the first matrix product, until it has run, and until the first gradient of a parameter stands
  // (0: there is none).
  std::size_t before_products = 0, first_product_ran = 0, first_gradient = 0;
};

template <class N>
class BackwardPlayer;

template <class N>
class Graph {
 public:
  explicit Graph(Workbook<N>& book) : book_(book) {}

  Workbook<N>& book() { return book_; }

  // A tensor that exists before the graph runs (`slot` is its storage, owned by whoever made it).
  // `released`: the graph drops it (a layer's input), after its last use or, when the caller holds it, at the end of
  // forward; otherwise it is only looked at.
  ValueId input(SlotId slot, const N& elements, ElementType type, bool needs_gradient,
                bool released, bool caller_holds = true);
  // A new tensor, made by the operator that will list it as output.
  ValueId tensor(const SlotName& name, const N& elements, ElementType type, bool needs_gradient);
  // A view of `base`: other shape or part, same storage.
  ValueId view(ValueId base, const N& elements);
  void add(const Operator& operation);
  // What is added from here on belongs to this module of a layer.
  void enter(LayerPart part) { part_ = part; }
  // Python still holds `value` until the operator added last has run.
  void hold(ValueId value);
  // Something outside holds `value` until the whole forward has run: autocast's cache of cast weights.
  void linger(ValueId value) { storages_[at(values_[at(value)].storage)].lingers = true; }
  // Something outside holds `value` beyond backward, and frees it: a pipeline's schedule what its stage has given.
  void outlive(ValueId value) { storages_[at(values_[at(value)].storage)].outlives = true; }
  // The model's own forward has a name for `value`, which goes when that returns.
  void name(ValueId value) { storages_[at(values_[at(value)].storage)].named = true; }
  // The same for what other graphs read too: it lies in `slot`.
  void name(ValueId value, SlotId slot) {
    Storage& storage = storages_[at(values_[at(value)].storage)];
    storage.named = true;
    storage.slot = slot;
  }
  // Others read `value`, and have made gradients of it before backward comes here: they lie in `slot`, and those of this
  // graph are added to them. What is no result is theirs to free, or somebody else's.
  void gradient_waits(ValueId value, SlotId slot) {
    values_[at(value)].gradient = slot;
    values_[at(value)].waits = true;
  }
  // A leaf that asks for a gradient, which nobody reads.
  void ask_gradient(ValueId value) { values_[at(value)].needs_gradient = true; }
  // The gradient of the result lies in a buffer of somebody else's: nothing is added to it, and it is not freed.
  void borrow_result_gradient() { borrows_result_gradient_ = true; }
  // The result leaves the graph in the storage `slot`, which is alive at the end of forward and belongs to the next graph.
  void result(ValueId value, SlotId slot);
  // Regions do not nest: an outer one swallows those inside it.
  void region(const Region& region);
  // Within the last region, outputs of attention and of every other matrix product stay, and these do not run again:
  // torch's selective checkpoints with torchtitan's choice (torchtitan/distributed/activation_checkpoint.py).
  // `early_stop`: the second run ends with the last tensor that is needed. `compiled`: that, and a chosen output that
  // backward has no use for is not kept (torch/_functorch/partitioners.py: what crosses is what backward reads).
  void keep_chosen_outputs(bool early_stop, bool compiled);
  int size() const { return static_cast<int>(operators_.size()); }

  int parameter(const GradientSlots& slots) {
    parameters_.push_back(slots);
    return static_cast<int>(parameters_.size()) - 1;
  }

  const N& elements(ValueId value) const { return values_[at(value)].elements; }
  ElementType type(ValueId value) const { return values_[at(value)].type; }
  bool needs_gradient(ValueId value) const { return values_[at(value)].needs_gradient; }
  SlotId storage_slot(ValueId value) const {
    return storages_[at(values_[at(value)].storage)].slot;
  }
  SlotId temporary(const SlotName& name, const N& elements, ElementType type) {
    return book_.slot(name, Pile::kTemporary, elements, type);
  }
  // Where gradients of the input arrive and of the result start: shared by neighbouring graphs.
  void gradient_slot(ValueId value, SlotId slot) { values_[at(value)].gradient = slot; }

  // What would be kept waits on the host instead: each operator that saves a tensor sends a copy of its own there when
  // it has run, and has it back, on the device, while it runs backward (torch.autograd.graph.save_on_cpu). A region that
  // runs again has its input back before it does.
  void offload_saved() { offloads_ = true; }
  // What came back for a node of autograd stays until the next such node has run (torchtune's OffloadActivations): what
  // this graph's last one has had is left to the next graph, and `before` is what stands when this one begins.
  void return_late(std::vector<SlotId> before) {
    returns_late_ = true;
    returned_before_ = std::move(before);
  }
  std::vector<SlotId> returned_last() const;
  // Bytes of each of those copies.
  std::vector<Bytes> host_copies() const;
  // Sorts storages into kept activations and temporaries, and works out lifetimes; call once, when the graph is complete.
  void finish();
  // `left` is freed by whoever calls.
  std::vector<Event> forward(ValueId left = kNoValue) const;
  // `incoming`: the gradient of the result is alive when it starts and gone at its end; that of the input is then alive.
  SplitTapes whole_backward(GradientPolicy policy) const;  // all of it in `input`
  std::vector<Event> backward(GradientPolicy policy) const { return whole_backward(policy).input; }
  // torch/distributed/pipelining/_backward.py: the graph itself lives on between the two parts, and with it all that
  // its operators saved; every operator with parameters keeps the gradient of its output.
  void keep_graph_between_parts() { keeps_graph_ = true; }
  // The same in two parts: `input` leaves what `weight` needs, and `weight` lets it go.
  SplitTapes split_backward(GradientPolicy policy) const;
  // What forward leaves alive beside what it keeps for backward: whoever holds it frees it.
  // `saved`: and what backward, too, would let go.
  std::vector<SlotId> lingering(bool saved = false) const;
  // What outlives backward.
  std::vector<SlotId> outliving() const;
  // What forward leaves alive because it has a name, and whether the result does.
  std::vector<SlotId> named() const;
  bool names_result() const;
  // Whether some operator keeps the value for backward.
  bool is_saved(ValueId value) const {
    return storages_[at(values_[at(value)].storage)].first_saver >= 0;
  }
  // Events of forward that come before this operator's.
  std::size_t forward_events_before(int operation) const;
  // Slots kept for backward when forward has run, in order of their making.
  std::vector<SlotId> kept() const;
  // Gradients that backward(kKeep) leaves behind.
  std::vector<SlotId> parameter_gradients() const;
  // What backward(kFirstStep) leaves behind of the optimizer.
  std::vector<SlotId> optimizer_states() const;
  // What stays while the graph does, beyond backward; each storage once.
  std::vector<SlotId> kept_by_nodes() const;
  // The one among them that another graph adds to; -1: none.
  WaitingGradient waiting_gradient() const;
  // What runs: forward, and backward with what it computes again.
  Kernels forward_kernels() const;
  Kernels backward_kernels(GradientPolicy policy) const;
  // How many places they take in the device's queue.
  std::int64_t forward_launches() const;
  std::int64_t backward_launches(GradientPolicy policy) const;

 private:
  friend class BackwardPlayer<N>;
  void make_outputs(int operation, std::vector<Event>& events) const;
  void run_forward_of(int operation, std::vector<Event>& events, int left_storage = -1) const;
  struct Value {
    int storage = -1;
    N elements{};
    ElementType type = ElementType::kFloat32;
    bool needs_gradient = false;
    SlotId gradient = -1;
    bool waits = false;      // gradients of other graphs lie in that slot
    bool handed_on = false;  // a result, whose gradient other graphs have made
  };
  struct Storage {
    SlotId slot = -1;
    int made_by = -1;   // operator; -1: existed before
    int last_use = -1;  // last operator that reads it or while Python holds it
    int first_saver =
        -1;  // kept by the first run; freed in backward after this operator. -1: nobody keeps it
    int rerun_last_use = -1;     // within the region that makes it, when that runs again
    int rerun_first_saver = -1;  // kept by the second run of its region; -1: nobody
    bool stays = false;  // from the first run of its region on, until the second has no use for it
    bool external = false;  // existed before
    bool released = true;   // ours to free
    bool held = false;      // until the end of forward
    bool lingers = false;   // beyond it
    bool outlives = false;  // and beyond backward
    bool named = false;     // by the model's forward, until that returns
    bool result = false;
  };
  struct Rerun {
    int trigger = -1;  // runs again before this operator's backward
    int end = 0;       // operators [region.begin, end) run again
  };
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  int region_at(int operation) const { return operation < 0 ? -1 : region_of_[at(operation)]; }
  // A region that autograd does not record keeps nothing and never runs again.
  bool is_recorded(const Region& region) const;
  // Made by a reentrant region for what stands behind it.
  bool is_given_by(const Region& region, const Storage& storage) const {
    return region.reentrant && storage.made_by >= region.begin && storage.made_by < region.end &&
           (storage.result || storage.last_use >= region.end);
  }
  // Whether its weights' gradients wait: matrix products, or all operators with parameters.
  bool is_deferred(const Operator& operation) const;
  void find_uses();
  void drop_unread_choices();
  void find_savers();
  void plan_reruns();
  // Stays, and the second run of its region ends before it: a run that stops early ends where the last operator would begin.
  bool stays_unread(const Storage& storage) const {
    if (!storage.stays || storage.rerun_first_saver >= 0) return false;
    const std::size_t region = static_cast<std::size_t>(region_of_[at(storage.made_by)]);
    return storage.made_by >= reruns_[region].end - (regions_[region].early_stop ? 1 : 0);
  }
  void play_again(const Region& region, const Rerun& rerun, std::vector<Event>& events) const;
  int last_run_again(const Region& region, const Rerun& rerun) const;
  void plan_copies();
  bool is_read_by(const Region& region, std::size_t storage) const;
  // What comes back while this operator runs backward and nothing saves again; nothing at all: no value.
  std::optional<std::vector<SlotId>> returned_for(int operation) const;
  bool waits_on_host(const Storage& storage) const {
    return offloads_ && storage.released && !storage.lingers && !storage.outlives;
  }
  double bytes_of_value(ValueId value) const;
  void run_forward(int index, bool again, Kernels& kernels) const;
  void run_backward(int index, GradientPolicy policy, std::vector<int>& arrivals,
                    Kernels& kernels) const;

  Workbook<N>& book_;
  std::vector<Value> values_;
  std::vector<Storage> storages_;
  std::vector<Operator> operators_;
  std::vector<GradientSlots> parameters_;
  std::vector<Region> regions_;
  LayerPart part_ = LayerPart::kNone;
  std::vector<int> region_of_;  // by operator; -1: none
  std::vector<Rerun> reruns_;   // by region
  // Copies from the host: of an operator's saved tensors, and of the inputs of a region (storages), with the operator
  // whose backward is the last to need them; -1: the second run itself.
  std::vector<Few<SlotId, 12>> copies_;
  struct RegionInput {
    int storage = -1, until = -1;
  };
  std::vector<std::vector<RegionInput>> region_inputs_;
  bool offloads_ = false, returns_late_ = false;
  std::vector<SlotId> returned_before_;
  bool borrows_result_gradient_ = false;
  bool keeps_what_is_read_ = false;  // of what regions choose
  bool keeps_graph_ = false;
};

extern template class Graph<Checked>;
extern template class Graph<Traced>;

}  // namespace steelyard
