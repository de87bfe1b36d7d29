// Rotary embedding as transformers writes it out: what turns q and k by their positions.
//
//   halves        x·cos + rotate_half(x)·sin           tables of the model (apply_rotary_pos_emb of modeling_llama.py)
//   half tables   each half: first·cos - second·sin     tables of the model, half as wide (modeling_gpt_oss.py)
//   pairs         as halves, tables repeated by pairs   one repeated pair for q and k (modeling_glm4.py)
//   own tables    as pairs, rows gathered by position   a repeated pair for q, another for k (modeling_gptj.py)
//   of each layer as halves, rows gathered by position  a pair for q, another for k (scaling, core/nn/rotary.py)
//
// A product with a table keeps the table, and nothing of x. Training frameworks have one kernel that keeps nothing.
#include <initializer_list>

#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr const char* kOwner = "attention";
constexpr const char* kProducts = "op.rotary.products";
}  // namespace

template <class N>
class RotaryWriter {
 public:
  RotaryWriter(Composer<N>& composer, const GroupedAttention& attention)
      : c_(composer), graph_(composer.graph), attention_(attention) {}

  void turn(ValueId& q, ValueId& k) {
    const SlotName of_query{kOwner, "q, rotated", "op.rotary.output"};
    const SlotName of_key{kOwner, "k, rotated", "op.rotary.output"};
    if (c_.style.implementation == Implementation::kScaling)
      return turn_by_layer(q, of_query, k, of_key);
    switch (attention_.rotary_form) {
      case RotaryForm::kHalves:
        return turn_both(q, of_query, k, of_key);
      case RotaryForm::kHalfTables:
        q = each_half(q, of_query);
        k = each_half(k, of_key);
        return;
      case RotaryForm::kPairs:
        repeat_tables();
        return turn_both(q, of_query, k, of_key);
      case RotaryForm::kOwnTables:
        look_up(graph_.type(k));
        repeat_tables();
        return turn_both(k, of_key, q, of_query);
    }
  }

 private:
  void turn_by_layer(ValueId& q, const SlotName& of_query, ValueId& k, const SlotName& of_key) {
    const auto gathered = [&] {
      return c_.made("gather", {}, {kOwner, "cos or sin, by token", "op.rotary.gathered-table"},
                     c_.sizes.tokens * Workbook<N>::symbol("d", attention_.rotary_width),
                     table_type());
    };
    const ValueId cosine = gathered(), sine = gathered();
    const ValueId cosine_of_key = gathered(), sine_of_key = gathered();
    cosine_ = cosine;
    sine_ = sine;
    q = turned(q, of_query);
    cosine_ = cosine_of_key;
    sine_ = sine_of_key;
    k = turned(k, of_key);
  }
  // The tables of this layer; without them, the model's.
  void repeat_tables() {
    const ElementType type = looked_up_ == kNoValue ? table_type() : graph_.type(looked_up_);
    for (ValueId* table : {&sine_, &cosine_}) {
      *table = graph_.tensor({kOwner, "cos or sin, by pairs", "op.rotary.repeated-table"},
                             table_elements(), type, false);
      Operator repeat;
      repeat.label = "repeat";
      if (looked_up_ != kNoValue) repeat.inputs = {looked_up_};
      repeat.outputs = {*table};
      graph_.add(repeat);
    }
  }

  // The whole table once more, the positions for each of its columns, and the rows that they name.
  void look_up(ElementType type) {
    const char* rule = "op.rotary.own-table";
    const N rows = Workbook<N>::symbol("P", c_.rows_of(attention_.position_table_index));
    const N width = Workbook<N>::symbol("d", attention_.rotary_width);
    const ValueId table = c_.made("repeat", {}, {kOwner, "sines and cosines", rule}, rows * width,
                                  ElementType::kFloat32);
    const ValueId positions = c_.made("repeat", {}, {kOwner, "position of each element", rule},
                                      table_elements(), ElementType::kInt64);
    looked_up_ =
        c_.made("gather", {table, positions}, {kOwner, "sines and cosines, by token", rule},
                table_elements(), ElementType::kFloat32);
    if (type != ElementType::kFloat32)
      looked_up_ = c_.made("cast", {looked_up_}, {kOwner, "sines and cosines, cast", rule},
                           table_elements(), type);
    for (ValueId local : {table, positions, looked_up_}) c_.hold_until_return(local);
  }

  ElementType table_type() const {
    return attention_.rotary_in_float32 ? ElementType::kFloat32 : c_.style.residual;
  }
  N table_elements() const {
    return c_.sizes.sequence * Workbook<N>::symbol("d", attention_.rotary_width);
  }

  // Tables come in the type of the residual stream; products promote.
  ValueId times(const char* label, ValueId x, ValueId table, const char* name) {
    if (attention_.widens_rotary_products)
      x = c_.cast(x, ElementType::kFloat32, {kOwner, "factor, fp32", kProducts});
    const ElementType of_table = table == kNoValue ? table_type() : graph_.type(table);
    const ElementType type =
        bits_of(of_table) > bits_of(graph_.type(x)) ? of_table : graph_.type(x);
    const ValueId y = graph_.tensor({kOwner, name, kProducts}, graph_.elements(x), type,
                                    graph_.needs_gradient(x));
    Operator operation;
    operation.label = label;
    operation.inputs = {x};
    operation.outputs = {y};
    if (table != kNoValue && graph_.needs_gradient(x)) {
      operation.inputs.push_back(table);
      operation.saved = {table};
    }
    operation.backward = {kGradient0};
    graph_.add(operation);
    return y;
  }

  // A part of each head may stay as it is; both are then joined again.
  ValueId turned(ValueId x, const SlotName& name) {
    return joined_with_rest(x, turned_part(x, name), name);
  }
  // Both are turned before either is joined; each with its own pair of tables, where the layer has them.
  void turn_both(ValueId& first, const SlotName& of_first, ValueId& second,
                 const SlotName& of_second) {
    const ValueId part_of_first = turned_part(first, of_first);
    if (attention_.rotary_form == RotaryForm::kOwnTables) repeat_tables();
    const ValueId part_of_second = turned_part(second, of_second);
    keep_names({first, second, part_of_first, part_of_second});
    first = joined_with_rest(first, part_of_first, of_first);
    second = joined_with_rest(second, part_of_second, of_second);
  }
  void keep_names(std::initializer_list<ValueId> values) {
    if (!attention_.joins_rotated_parts || turns_all()) return;
    for (const ValueId value : values) c_.hold_until_return(value);
  }
  bool turns_all() const { return attention_.rotary_width >= attention_.head_width; }
  N elements_turned(ValueId x) const {
    return graph_.elements(x) / Workbook<N>::symbol("d", attention_.head_width) *
           Workbook<N>::symbol("dr", attention_.rotary_width);
  }
  ValueId turned_part(ValueId x, const SlotName& name) {
    if (turns_all()) return by_halves(x, name);
    return by_halves(c_.viewed("part to turn", x, elements_turned(x)),
                     {kOwner, "part, turned", "op.rotary.output"});
  }
  ValueId joined_with_rest(ValueId x, ValueId part, const SlotName& name) {
    if (turns_all()) return part;
    const ValueId rest = c_.viewed("part that stays", x, graph_.elements(x) - elements_turned(x));
    return c_.joined({part, rest}, name, graph_.elements(x));
  }

  // x·cos + rotate_half(x)·sin
  ValueId by_halves(ValueId x, const SlotName& name) {
    const N half = graph_.elements(x) / N(2);
    const ValueId cosine = times("x·cos", x, cosine_, "x·cos");
    const ValueId first = c_.viewed("first half", x, half);
    const ValueId second = c_.viewed("second half", x, half);
    const ValueId negative = c_.pointwise("negate", second, {kOwner, "negated half", kProducts});
    const ValueId rotated =
        c_.joined({negative, first}, {kOwner, "rotated", kProducts}, graph_.elements(x));
    const ValueId sine = times("rotated·sin", rotated, sine_, "rotated·sin");
    const ValueId turned = c_.add(cosine, sine, name);
    return attention_.rotary_in_float32 ? c_.cast(turned, graph_.type(x), name) : turned;
  }

  // first·cos - second·sin beside second·cos + first·sin
  ValueId each_half(ValueId x, const SlotName& name) {
    const N half = graph_.elements(x) / N(2);
    const ValueId first = c_.viewed("first half", x, half);
    const ValueId second = c_.viewed("second half", x, half);
    const ValueId minuend = times("first·cos", first, kNoValue, "first·cos");
    const ValueId subtrahend = times("second·sin", second, kNoValue, "second·sin");
    const ValueId left = graph_.tensor({kOwner, "first half, turned", kProducts}, half,
                                       graph_.type(minuend), graph_.needs_gradient(x));
    Operator subtract;
    subtract.label = "subtract";
    subtract.inputs = {minuend, subtrahend};
    subtract.outputs = {left};
    subtract.backward = {kAlias0, kGradient1};
    graph_.add(subtract);
    const ValueId right = c_.add(times("second·cos", second, kNoValue, "second·cos"),
                                 times("first·sin", first, kNoValue, "first·sin"),
                                 {kOwner, "second half, turned", kProducts});
    return c_.joined({left, right}, name, graph_.elements(x));
  }

  Composer<N>& c_;
  Graph<N>& graph_;
  const GroupedAttention& attention_;
  ValueId looked_up_ = kNoValue, cosine_ = kNoValue, sine_ = kNoValue;
};

template <class N>
void Composer<N>::rotary(ValueId& q, ValueId& k, const GroupedAttention& attention) {
  RotaryWriter<N>(*this, attention).turn(q, k);
}

// Liger turns query and key where they lie, and their gradients too; only the tables are kept (ops/rope.py).
template <class N>
ValueId Composer<N>::rotary_in_place(ValueId x) {
  return reshaped(x, false);
}

template ValueId Composer<Checked>::rotary_in_place(ValueId);
template ValueId Composer<Traced>::rotary_in_place(ValueId);
template void Composer<Checked>::rotary(ValueId&, ValueId&, const GroupedAttention&);
template void Composer<Traced>::rotary(ValueId&, ValueId&, const GroupedAttention&);

}  // namespace steelyard
