// Which machine the devices stand in: its way out to others, its host, how many devices it has.
//
//   machine = "aws-p4de"                   one of data/machines
//   machine = "our-pod.json"               a file of the same form
//   machine = { network = "400 Gb/s" }     a table of the same words
//   network = "800 Gb/s"                   beside any of them: what one machine sends, each way
//
// What a file or table leaves out is the device's usual machine's, and so is all of it where none is given: then the
// machine is an assumption, and a step's band spans the known machines that are built with the device (predict/time.cc).
#pragma once

#include <string>

#include "job/draft.h"
#include "job/model_choice.h"

namespace steelyard {

// Nothing is written where the machine cannot be read; of a device without a usual machine only its devices are.
void choose_machine(Draft& draft, const ReadFile& read_file, const std::string& folder,
                    Diagnostics& problems);

// The device of a run that names only its machine: the first it is built with. Null: it names none.
const Device* device_of_machine(const Settings& settings, const ReadFile& read_file,
                                const std::string& folder);

}  // namespace steelyard
