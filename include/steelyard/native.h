// The machine that a call may use: its files, its cores, its clock. Not in the browser.
//
//   steelyard::Surrounding around;
//   around.machine = steelyard::this_machine();
//   steelyard::weigh(R"({"run": "job.sbatch"})", around);
#pragma once

#include <memory>

#include "steelyard/steelyard.h"

namespace steelyard {

// `threads`: of plan and of many jobs; 0: as many as there are cores. One may serve calls on several threads.
STEELYARD_API std::shared_ptr<LocalMachine> this_machine(unsigned threads = 0);

}  // namespace steelyard
