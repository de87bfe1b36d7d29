// GPT-2 and the shapes of GPT-3: learned positions, fused projection, matrices stored [in, out]
// (Conv1D).
#include <utility>

#include "model/decoder.h"
#include "model/families/families.h"

namespace steelyard {

Architecture read_gpt2(Config& config) {
  const DecoderShape shape = read_decoder_shape(config, {.rotary_fraction = 0, .tied = true});
  const Checked positions = config.size("max_position_embeddings");
  const Checked width = config.find_size("intermediate_size").value_or(Checked(4) * shape.hidden);

  Layer layer;
  const Norm before_attention =
      add_norm(layer.parameters, "ln_1", NormKind::kLayerNorm, shape.hidden);
  layer.attention = add_fused_attention(layer.parameters, shape.heads,
                                        {.fused = "attn.c_attn",
                                         .output = "attn.c_proj",
                                         .bias = true,
                                         .output_bias = true,
                                         .transposed = true,
                                         .dropout = config.fraction_or("attn_pdrop", 0.1)});
  const Norm before_mlp = add_norm(layer.parameters, "ln_2", NormKind::kLayerNorm, shape.hidden);
  layer.mlp =
      add_plain_mlp(layer.parameters, "mlp.c_fc", "mlp.c_proj", shape.hidden, width,
                    {.bias = true,
                     .activation = config.activation_or("hidden_act", Activation::kGeluPython),
                     .transposed = true});
  layer.norms = {before_attention, before_mlp};
  layer.residual_dropout = config.fraction_or("resid_pdrop", 0.1);

  Architecture model = begin_decoder(shape, {.embedding = "transformer.wte.weight",
                                             .layers = "transformer.h.",
                                             .final_norm = "transformer.ln_f",
                                             .final_norm_kind = NormKind::kLayerNorm});
  model.learned_positions = true;
  add_learned_positions(model, "transformer.wpe.weight", positions);
  model.embedding_dropout = config.fraction_or("embd_pdrop", 0.1);
  set_layers(model, std::move(layer));
  return model;
}

}  // namespace steelyard
