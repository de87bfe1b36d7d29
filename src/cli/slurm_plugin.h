// A job_submit.lua for slurmctld: it hands the script to `steelyard gate` and refuses what surely does not fit.
#pragma once

#include <string>

namespace steelyard {

std::string slurm_plugin();

}  // namespace steelyard
