// What an operator asks of the device and of the links: what the cost model puts times on.
//
//   linear, forward           product 8192 x 4096 · 4096 x 14336, bf16
//           backward          the same size twice: for the input's gradient and for the weight's
//   silu                      traffic: 2·b·s·f bytes read, 2·b·s·f written
//   column linear, tensor 8   exchange: gather of 2·b·s·h bytes over the tensor ranks, then its product
//
// A graph derives traffic from the tensors that its operators read and write; only products, attention and exchanges are
// stated. These are plain numbers: a time is not a thing of single bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "ledger/few.h"
#include "quantity/element_type.h"
#include "quantity/quantity.h"

namespace steelyard {

// Whose kernel attention is. FlashAttention 1, its Triton form and xformers' kernel (torch's memory-efficient one) leave
// a device half idle that FlashAttention 2 does not (arXiv:2307.08691, section 1).
enum class AttentionCode : std::uint8_t { kFlash, kFirstFlash, kCudnn };

// Matrix products of one operator.
struct Arithmetic {
  enum Kind : std::uint8_t { kNone, kProduct, kAttention } kind = kNone;
  // (rows x inner) · (inner x columns), `batch` times. Attention: queries, width of a head, keys; batch: sequences x heads.
  std::int64_t rows = 0, inner = 0, columns = 0, batch = 1;
  bool causal = false;  // attention: half of the square
  AttentionCode code = AttentionCode::kFlash;
  bool eight_bits = false;  // of both factors; the result keeps its own type
  // A loss that makes its gradients in forward, piece by piece of the rows: a product for the logits, one for the input's
  // gradient and one for the weight's. 0: an ordinary product.
  std::int64_t pieces = 0;
  ElementType piece_type = ElementType::kBFloat16, piece_weight_type = ElementType::kBFloat16;
  double piece_bytes = 0;  // read and written beside the products, of one piece, by so many kernels
  int piece_launches = 0;

  bool some() const { return kind != kNone; }
  // One product, or both of attention; a multiplication and an addition count as two.
  double flops() const {
    const double pairs = static_cast<double>(rows) * static_cast<double>(columns) *
                         static_cast<double>(batch) * (causal ? 0.5 : 1.0);
    return (kind == kAttention ? 4.0 : 2.0) * pairs * static_cast<double>(inner);
  }
};

enum class ExchangeKind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSendReceive
};
// Which ranks take part.
enum class Axis : std::uint8_t { kTensor, kContext, kExpert, kData, kPipeline };

// What of its own operator an exchange runs beside; the operator waits for both.
enum class Beside : std::uint8_t { kNothing, kProduct, kInputProduct, kWeightProduct, kAttention };
constexpr std::size_t kBesides = 5;

struct Exchange {
  ExchangeKind kind = ExchangeKind::kAllReduce;
  Axis axis = Axis::kTensor;
  double bytes = 0;  // the whole payload: of all ranks where it is gathered, scattered or exchanged
  Beside beside = Beside::kNothing;
  // Sent piece by piece as the product makes them: nothing hides the last. 0: as a whole, beside all of it.
  int pieces = 0;
};

// Which module of a layer an operator belongs to; experts are what follows from where the router sends tokens.
enum class LayerPart : std::uint8_t { kNone, kAttention, kMlp, kRouter, kExperts };

// One kernel, or a few short ones of one operator.
struct Kernel {
  enum Kind : std::uint8_t { kProduct, kAttention, kTraffic, kExchange } kind = kTraffic;
  const char* label = "";
  LayerPart part = LayerPart::kNone;
  ElementType type = ElementType::kBFloat16;
  Arithmetic arithmetic;    // of kProduct and kAttention
  bool of_weights = false;  // the weight's gradient: inner is the number of tokens
  bool backward = false;
  bool again = false;  // a recomputation of forward
  double flops = 0;
  double bytes = 0;  // read and written
  int launches = 1;
  std::int64_t times = 1;  // so many alike, one after the other; the three above are of one
  Exchange exchange;
};
using Kernels = std::vector<Kernel>;

}  // namespace steelyard
