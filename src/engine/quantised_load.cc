// How weights of 4 and 8 bits come to the device: module by module, each matrix in 16 bits until it has been quantised there.
//
//   +q_proj in 16 bits · +its scales · +its 4 bits · -q_proj in 16 bits · +its adapter · k_proj ... · norms of the layer
//
// What is loaded rises highest at one of the last layer's matrices; what comes behind that one is not there yet.
// Source: bitsandbytes nn/modules.py, Params4bit._quantize and Int8Params._quantize; functional.py, quantize_4bit (0.50).
#include <algorithm>

#include "engine/engine.h"
#include "model/adapt.h"
#include "model/sequence.h"
#include "recipe/quantised.h"

namespace steelyard {
namespace {

// The layer's tensors as its modules have them: each matrix with its bias and its adapter, then what stands beside them. The
// layer's own norms are the last.
std::vector<std::size_t> in_order_of_modules(const Layer& layer) {
  std::vector<std::size_t> order;
  const auto add = [&](int index) {
    const auto at = static_cast<std::size_t>(index);
    if (index >= 0 && std::find(order.begin(), order.end(), at) == order.end()) order.push_back(at);
  };
  const auto module_of = [](const std::string& name) { return name.substr(0, name.find('.')); };
  Layer copy = layer;
  std::string module;
  const auto finish_module = [&] {
    for (std::size_t i = 0; i < layer.parameters.size(); ++i)
      if (!module.empty() && module_of(layer.parameters[i].name) == module)
        add(static_cast<int>(i));
  };
  for (const Linear* linear : linears_of(copy)) {
    const std::string& name = layer.parameters[static_cast<std::size_t>(linear->weight_index)].name;
    if (module_of(name) != module) {
      finish_module();
      module = module_of(name);
    }
    add(linear->weight_index);
    add(linear->bias_index);
    if (!linear->adapter) continue;
    for (const int index :
         {linear->adapter->down_index, linear->adapter->up_index, linear->adapter->magnitude_index})
      add(index);
  }
  finish_module();
  for (std::size_t i = 0; i < layer.parameters.size(); ++i) add(static_cast<int>(i));
  return order;
}

}  // namespace

// The kind of the last layer here that has a matrix in few bits; -1: none.
template <class N>
int EngineModel<N>::last_quantised_kind(const Stage<N>& stage) const {
  if (!job_.adapter || !job_.adapter->by_peft || !is_quantised(job_.adapter->linear)) return -1;
  const std::vector<int> kinds = kind_of_each_layer(*job_.model);
  for (auto kind = kinds.rbegin(); kind != kinds.rend(); ++kind) {
    if (stage.layers_of_kind[static_cast<std::size_t>(*kind)] == 0) continue;
    const std::vector<ParameterTensor>& tensors =
        job_.model->kinds[static_cast<std::size_t>(*kind)].parameters;
    if (std::any_of(tensors.begin(), tensors.end(), [](const ParameterTensor& tensor) {
          return tensor.stored && is_quantised(*tensor.stored);
        }))
      return *kind;
  }
  return -1;
}

template <class N>
void EngineModel<N>::hold_as_quantised(const std::vector<const SlotSet*>& sets,
                                       const Stage<N>& stage, Events& events) {
  const int last = last_quantised_kind(stage);
  if (last < 0) {
    for (const SlotSet* set : sets) hold(*set, stage, events);
    return;
  }
  const std::vector<std::int64_t>& count = counts(stage);
  const auto unit_of_last = static_cast<std::size_t>(last) + 1;
  Events behind;
  for (const SlotSet* set : sets)
    for (std::size_t unit = 0; unit < count.size(); ++unit) {
      const SlotId slot = set->slots[unit];
      if (slot < 0 || count[unit] == 0) continue;
      const bool of_head = unit > job_.model->kinds.size();
      const std::int64_t late = of_head ? count[unit] : unit == unit_of_last ? 1 : 0;
      if (count[unit] > late)
        events.push_back({slot, static_cast<std::int32_t>(count[unit] - late)});
      if (late > 0) behind.push_back({slot, static_cast<std::int32_t>(late)});
    }

  const Adapter& adapter = *job_.adapter;
  const Unit<N>& unit = *all_units()[unit_of_last];
  const Layer& layer = job_.model->kinds[static_cast<std::size_t>(last)];
  const std::vector<QuantisationConstants> constants =
      quantisation_constants(adapter.linear, adapter.double_quantization);
  const ElementType otherwise = job_.training.precision.parameters;
  const ElementType wide = ElementType::kFloat32;
  const auto allocated = [](const N& elements, ElementType type) {
    return allocated_size(bytes_of(Elements(Checked(plain(elements))), type));
  };
  struct Moment {
    Bytes height{};
    TensorSum loaded;
    const TensorShare<N>* matrix = nullptr;
  } highest{{}, book_.tensor_sum(), nullptr};
  TensorSum loaded = book_.tensor_sum();
  for (const std::size_t index : in_order_of_modules(layer)) {
    const auto share = std::find_if(
        unit.tensors.begin(), unit.tensors.end(),
        [&](const TensorShare<N>& one) { return one.tensor == &layer.parameters[index]; });
    if (share == unit.tensors.end()) continue;
    const ElementType type = layer.parameters[index].stored.value_or(otherwise);
    loaded.add(allocated(share->elements, type), share->copies, 0);
    if (!is_quantised(type)) continue;
    for (const QuantisationConstants& one : constants)
      loaded.add(allocated(constant_elements(one, *share), one.type), share->copies, 0);
    const Bytes height = loaded.bytes() + allocated(share->elements, ElementType::kBFloat16);
    if (height > highest.height) highest = {height, loaded, &*share};
  }
  if (highest.matrix != nullptr) {
    // Beside the matrix: what the table of the code is made of; or the blocks' largest values in 32 bits, and these less
    // their mean.
    const char* rule = "quantised.on-the-way";
    const char* owner = highest.matrix->tensor->name.c_str();
    const N bytes =
        Workbook<N>::counted("bytes of a layer", highest.loaded.bytes().value().value());
    Events moment = {
        {book_.slot_of_tensors({unit.name, "up to its last large matrix", rule}, Pile::kParameters,
                               bytes, ElementType::kInt8, highest.loaded),
         1},
        {book_.slot({owner, "weight, in 16 bits", rule}, Pile::kTemporary, highest.matrix->elements,
                    ElementType::kBFloat16),
         1}};
    if (adapter.linear == ElementType::kNormalFloat4 && !adapter.double_quantization)
      moment.push_back({book_.slot({owner, "part of the code", rule}, Pile::kTemporary,
                                   N(kValuesOfFourBits), ElementType::kFloat32),
                        2});
    if (adapter.linear == ElementType::kNormalFloat4 && adapter.double_quantization)
      moment.push_back({book_.slot({owner, "largest values of the blocks", rule}, Pile::kTemporary,
                                   ceil_divide(highest.matrix->elements, N(kQuantisedBlock)), wide),
                        2});
    events.insert(events.end(), moment.begin(), moment.end());
    for (auto event = moment.rbegin(); event != moment.rend(); ++event)
      events.push_back({event->slot, -event->count});
  }
  events.insert(events.end(), behind.begin(), behind.end());
}

template class EngineModel<Checked>;
template class EngineModel<Traced>;

}  // namespace steelyard
