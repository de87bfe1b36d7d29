// What runs and in which types: engine and implementation, precision, optimizer and its form, kernels, dropout.
#pragma once

#include "job/draft.h"

namespace steelyard {

// Needs the devices: the default differs for one.
void choose_engine(Draft& draft);
// `config_states_dropout`: whether the model's config says anything of dropout. Needs engine, layout and device.
void choose_recipe(Draft& draft, bool config_states_dropout);
// Its parts, each of which needs those before it.
void choose_precision(Draft& draft);
// Whether the device multiplies as this precision says; a device of which the size alone is known does.
bool has_products_of(const Device& device, const Precision& precision);
void choose_optimizer(Draft& draft);
void choose_attention(Draft& draft);
// Of the kernels that model code, device and precision run, the one that keeps least; and why it is that one.
struct LeanestAttention {
  AttentionKernel kernel{};
  std::string_view reason;
};
LeanestAttention leanest_attention(const Job& job);
void choose_loss(Draft& draft);
void choose_kernels(Draft& draft);
void choose_types(Draft& draft);  // beside the precision, as Megatron's code can be told
void choose_compile(Draft& draft);
void choose_step(Draft& draft);

// The length of a sequence, from the model when it is not given.
void choose_sequence(Draft& draft);

}  // namespace steelyard
