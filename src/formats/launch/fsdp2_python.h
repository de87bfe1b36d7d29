// A run as the lines of Python that set it up with PyTorch's own FSDP2: mesh, precision, checkpoints, optimizer.
#pragma once

#include <string>

#include "formats/launch/mapping.h"

namespace steelyard {

std::string fsdp2_python(ConfigWriter& writing);

}  // namespace steelyard
