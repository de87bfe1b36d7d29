// The frames of a Python traceback in a log, and what they say of the moment.
//
//     File "/opt/site-packages/torch/optim/adam.py", line 611, in _multi_tensor_adam
//       exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)
//
//   "torch/optim/adam.py:611 _multi_tensor_adam: exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace steelyard {

// `File "PATH", line N, in NAME` as "PATH:N NAME", the path without what stands before its package.
std::optional<std::string> frame_of_line(std::string_view text);

// "optimizer", "backward", "forward", "loss", "load", "checkpoint", "evaluation"; "" where no frame says it. Innermost first.
std::string phase_of_frames(const std::vector<std::string>& frames);

}  // namespace steelyard
